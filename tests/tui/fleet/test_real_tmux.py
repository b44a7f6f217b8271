"""The whole of it: the real program in a real terminal over real agents of the real mngr, driven by keys."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from selftest_recorder.e2e.session import open_session
from worlds import a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_recorder.e2e.session import Session
    from worlds import World

pytestmark = pytest.mark.real

READS = '#!/bin/sh\nstty -echo\necho ready $0\nwhile read -r line; do echo "got $line"; done\n'


@pytest.fixture(scope="module")
def agents() -> Iterator[World]:
    """Two real agents that answer each line."""
    # The screen would ask for all providers too, which are none here; that costs as much again.
    with a_world(SELFTEST_TUI_REMOTE="false") as made:
        for name in ("first", "second"):
            made.create(name, made.script(name, READS))
        yield made


@pytest.fixture
def session(agents: World) -> Iterator[Session]:
    argv = (sys.executable, "-m", "selftest_tui")
    with open_session(argv, environment=agents.environment, cwd=agents.repository, columns=130, lines=32) as made:
        yield made


def on(session: Session, name: str) -> None:
    """Filter for one agent and wait until the right pane shows it."""
    session.wait_for(name)
    session.type_text("/")
    session.wait_for("⏎ keep")
    session.type_text(name)
    session.send_keys("Enter")
    # What it shows too: an agent that was made just now has a row before it has a session.
    session.wait_until(lambda screen: shows(screen, name) and "ready /" in screen, f"{name} on the right")


def shows(screen: str, name: str) -> bool:
    return f"─ {name} ─" in screen


def fits(screen: str) -> bool:
    """True where a frame ends at the last column of the terminal as it was resized."""
    rows = [row.rstrip() for row in screen.splitlines()]
    return any(row.endswith("╮") and len(row) == 110 for row in rows) and max(map(len, rows)) <= 110


def clients(world: World) -> list[str]:
    return world.tmux("list-clients", "-F", "#{session_name}", check=False).split()


def test_filter_attach_type_detach_and_be_back(agents: World, session: Session) -> None:
    on(session, "second")
    session.wait_until(lambda text: "ready" in text and "first" not in text, "its screen, and no other agent")
    session.send_keys("Enter")
    if "ask first?" in session.wait_until(lambda text: "ask first?" in text or clients(agents) != [], "the offer"):
        session.send_keys("Enter")
    eventually(lambda: clients(agents) == ["mngr-second"], "attached to the agent")
    session.type_text("from the terminal")
    session.send_keys("Enter")
    session.wait_for("got from the terminal")
    session.send_keys("C-b", "d")
    session.wait_until(lambda text: shows(text, "second") and "/second" in text, "back at the same place")
    assert clients(agents) == []
    session.type_text("i")
    session.wait_for("TYPING")
    session.type_text("q; typed from afar")
    session.send_keys("Enter")
    session.wait_for("got q; typed from afar")
    session.send_keys("C-]")
    session.wait_until(lambda text: "TYPING" not in text, "typing has ended")
    session.type_text("q")
    assert session.wait_for_end() == 0
    states = {agent["name"]: agent["state"] for agent in agents.listing()["agents"]}
    assert states == {"first": "WAITING", "second": "WAITING"}, "nothing happened to the agents"


def test_an_agent_that_is_killed_while_attached_brings_one_back(agents: World, session: Session) -> None:
    name = "killed"
    agents.create(name, agents.script(name, READS))
    on(session, name)
    session.send_keys("Enter")
    if "ask first?" in session.wait_until(lambda text: "ask first?" in text or clients(agents) != [], "the offer"):
        session.send_keys("Enter")
    eventually(lambda: clients(agents) == ["mngr-killed"], "attached to the agent")
    session.resize(110, 30)
    agents.tmux("kill-session", "-t", "=mngr-killed")
    session.wait_until(lambda text: shows(text, name), "back in the list")
    session.type_text("e")  # what was said last: a toast may be gone before one looks
    session.wait_for("The session of killed has ended")
    session.send_keys("Escape")
    session.wait_until(lambda text: shows(text, name) and "no tmux session" in text and fits(text), "the row, stopped")
    agents.mngr("destroy", "-f", name)
    session.wait_until(lambda text: not shows(text, name), "the row goes")
