"""Attaching, in a real terminal, to plain tmux sessions: out and back, with everything as it was."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import scenes
from selftest_core.actions.terminal import hand_over
from selftest_core.errors import RefusedError
from selftest_core.fleet.watch.fleet_cache import fleet_folder
from selftest_recorder.e2e.session import open_session
from selftest_tui.fleet.acting import plan_shell
from selftest_tui.fleet.answers import Answer, Answers
from standins import EMPTY, mngr_that
from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selftest_recorder.e2e.session import Session
    from worlds import World

TUI = (sys.executable, "-m", "selftest_tui")


@pytest.fixture(autouse=True)
def quick_mngr(world: World) -> None:
    """There is no agent here: a real mngr would only take its seconds."""
    mngr_that(world, f"echo '{EMPTY}'")


def a_session(world: World, name: str, command: str) -> None:
    world.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-s", name, command)


@contextlib.contextmanager
def tui(world: World, columns: int = 120, lines: int = 30) -> Iterator[Session]:
    with open_session(TUI, environment=world.environment, cwd=world.root, columns=columns, lines=lines) as session:
        yield session


def go_to_last(session: Session, name: str) -> None:
    """Put the cursor on the last line, which is this session: the frame of the right pane names it."""
    session.wait_for(name)
    session.send_keys("End")
    session.wait_until(lambda screen: named(screen, name), f"the cursor on {name}")


def named(screen: str, name: str) -> bool:
    """True where the right pane shows this session."""
    return re.search(rf"─ {re.escape(name)} ─", screen) is not None


def clients(world: World) -> str:
    return world.tmux("list-clients", "-F", "#{session_name}", check=False)


def test_out_and_back_with_the_dangerous_keys_made_to_ask(world: World) -> None:
    a_session(world, "alpha", "cat")
    a_session(world, "beta", "sh -c 'echo here is beta; exec cat'")
    world.tmux("bind-key", "-n", "C-q", "detach-client", "-E", "mngr destroy -f x")
    world.tmux("bind-key", "-n", "C-t", "detach-client", "-E", "mngr stop x")
    with tui(world) as session:
        go_to_last(session, "beta")
        session.wait_for("here is beta")
        session.send_keys("Enter")
        session.wait_for("Make Ctrl-Q and Ctrl-T ask first?")
        session.send_keys("Enter")
        eventually(lambda: clients(world).split() == ["beta"], "attached")
        session.type_text("typed while attached")
        session.send_keys("Enter")
        session.wait_until(lambda screen: screen.count("typed while attached") == 2, "what was typed, and its echo")
        bindings = world.tmux("list-keys", "-T", "root")
        assert len(re.findall(r"C-[qt]\s+confirm-before", bindings)) == 2
        session.send_keys("C-b", "d")
        session.wait_until(lambda screen: named(screen, "beta") and "alpha" in screen, "back where one was")
        assert clients(world) == ""
        session.send_keys("Enter")
        eventually(lambda: clients(world).split() == ["beta"], "attached again, and not asked again")
        session.send_keys("C-b", "d")
        session.wait_until(lambda screen: named(screen, "beta"), "back again")
        assert Answers(fleet_folder(world.environment)).of_server(str(world.socket)) is Answer.GUARD
        session.type_text("q")
        assert session.wait_for_end() == 0


def test_escape_leaves_and_no_leaves_the_keys_alone_and_attaches(world: World) -> None:
    a_session(world, "alpha", "cat")
    world.tmux("bind-key", "-n", "C-q", "detach-client", "-E", "mngr destroy -f x")
    before = world.tmux("list-keys", "-T", "root")
    with tui(world) as session:
        go_to_last(session, "alpha")
        session.send_keys("Enter")
        session.wait_for("Make Ctrl-Q and Ctrl-T ask first?")
        session.send_keys("Escape")
        session.wait_until(lambda screen: named(screen, "alpha") and "ask first?" not in screen, "the question left")
        assert clients(world) == "", "who leaves the question attaches to nothing"
        session.send_keys("Enter")
        session.wait_for("Make Ctrl-Q and Ctrl-T ask first?")
        session.type_text("n")
        eventually(lambda: clients(world).split() == ["alpha"], "attached")
        assert world.tmux("list-keys", "-T", "root") == before
        session.send_keys("C-b", "d")
        session.wait_until(lambda screen: named(screen, "alpha"), "back")


def test_a_session_that_dies_while_attached_brings_one_back(world: World) -> None:
    a_session(world, "alpha", "cat")
    a_session(world, "dies", "cat")
    with tui(world) as session:
        go_to_last(session, "dies")
        session.send_keys("Enter")
        eventually(lambda: clients(world).split() == ["dies"], "attached")
        world.tmux("kill-session", "-t", "=dies")
        session.wait_until(lambda screen: not named(screen, "dies") and named(screen, "alpha"), "the list goes on")
        session.type_text("e")  # what was said last: a toast may be gone before one looks
        session.wait_for("The session of dies has ended")
        session.send_keys("Escape")
        session.wait_until(lambda screen: "The session of dies has ended" not in screen, "the list again")
        session.type_text("q")
        assert session.wait_for_end() == 0


def test_the_layout_is_right_after_a_resize_while_attached(world: World) -> None:
    a_session(world, "alpha", "cat")
    with tui(world, 140, 40) as session:
        go_to_last(session, "alpha")
        session.send_keys("Enter")
        eventually(lambda: clients(world).split() == ["alpha"], "attached")
        session.resize(100, 24)
        eventually(lambda: world.tmux("display-message", "-p", "-t", "=alpha:", "#{window_width}").strip() == "100")
        session.send_keys("C-b", "d")

        def fits(screen: str) -> bool:
            rows = [row.rstrip() for row in screen.splitlines()]
            return len(rows) <= 24 and any(row.endswith("╮") and len(row) == 100 for row in rows)

        session.wait_until(lambda text: named(text, "alpha") and fits(text), "back, in the new size")


def test_quitting_gives_the_terminal_back_as_it_was(world: World) -> None:
    a_session(world, "alpha", "cat")
    script = world.script(
        "around",
        f"#!/bin/sh\nstty -g > before\n'{sys.executable}' -m selftest_tui\necho status $?\n"
        "stty -g > after\nexec sleep 1000\n",
    )
    with open_session((script,), environment=world.environment, cwd=world.root, columns=120, lines=30) as session:
        go_to_last(session, "alpha")
        session.send_keys("Enter")
        eventually(lambda: clients(world).split() == ["alpha"], "attached")
        session.send_keys("C-b", "d")
        session.wait_until(lambda screen: named(screen, "alpha"), "back")
        session.type_text("q")
        session.wait_for("status 0")
        after = eventually(lambda: read(world.root / "after"))
        assert after == read(world.root / "before")


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.parametrize("server", ["same", "other"])
def test_inside_tmux_a_new_window_opens_beside_the_supervisor(world: World, server: str) -> None:
    a_session(world, "zeta", "sh -c 'echo here is zeta; exec cat'")
    own = () if server == "same" else ("-L", "mine")
    program = " ".join(["exec", "env", "-u", "TERM", "TERM=screen-256color", f"'{TUI[0]}'", *TUI[1:]])
    world.tmux(*own, "-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "30", "-s", "home", program)

    def screen() -> str:
        return world.tmux(*own, "capture-pane", "-p", "-t", "=home:0")

    def windows() -> list[str]:
        return world.tmux(*own, "list-windows", "-t", "=home", "-F", "#W").split()

    eventually(lambda: "zeta" in screen(), "the list")
    world.tmux(*own, "send-keys", "-t", "=home:", "End")
    eventually(lambda: named(screen(), "zeta"), "the cursor on zeta")
    world.tmux(*own, "send-keys", "-t", "=home:", "Enter")
    eventually(lambda: "zeta" in windows(), "a second window")
    eventually(lambda: "here is zeta" in world.tmux(*own, "capture-pane", "-p", "-t", "=home:zeta"), "attached there")
    assert clients(world).split().count("zeta") == 1
    assert named(screen(), "zeta"), "the supervisor is where it was"


def test_a_shell_opens_in_the_work_dir_beside_the_supervisor(world: World) -> None:
    work = world.root / "a 'b; c"
    work.mkdir()
    a_session(world, "home", "cat")
    pane = world.tmux("display-message", "-p", "-t", "=home:", "#{pane_id}").strip()
    row = scenes.few().row("st-7f-cart-empty")
    row = replace(row, agent=replace(row.agent, work_dir=str(work)))
    plan = plan_shell(row, {**world.environment, "TMUX": f"{world.socket},1,0", "TMUX_PANE": pane})
    assert plan.kind == "window"
    hand_over(plan)
    shown = ("display-message", "-p", "-t", "=home:shell", "#{pane_current_path}")
    eventually(lambda: world.tmux(*shown, check=False).strip() == str(work), "a shell there")


def test_a_shell_on_another_host_goes_over_its_ssh_command() -> None:
    row = scenes.few().row("st-7f-pay-card")
    plan = plan_shell(replace(row, agent=replace(row.agent, work_dir="/w'd; x")), {})
    assert plan.argv[:2] == ("/bin/sh", "-c")
    command = shlex.split(plan.argv[2])
    assert command[:4] == ["ssh", "-p", "40022", "root@r432.modal.host"]
    assert command[4] == "-t"
    (there,) = command[5:]
    assert shlex.split(there)[:3] == ["exec", "sh", "-c"]
    assert shlex.split(shlex.split(there)[3])[:3] == ["cd", "--", "/w'd; x"]


def test_no_shell_where_there_is_no_way() -> None:
    row = scenes.few().row("st-7f-cart-empty")
    with pytest.raises(RefusedError):
        plan_shell(replace(row, agent=replace(row.agent, work_dir="")), {})
