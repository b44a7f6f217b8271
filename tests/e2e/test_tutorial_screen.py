"""The blocks of tutorial.sh that show a run on the screen: begun by a yes, left, found again, killed, and gone on with.

One run of two real agents on the real mngr goes through all of it. Each agent waits until it is let go, so that what is
seen meanwhile is no matter of time.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from core.run.shop import FILES, commit
from selftest_core.journal import read
from selftest_core.run.overview import own_folders
from selftest_recorder.e2e.session import open_session
from worlds import BIN, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.store import RunFolder
    from selftest_recorder.e2e.end_to_end import EndToEnd
    from worlds import World

# A deadline for a hang, far beyond what a busy machine needs for two agents.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
PATIENT = 300.0
TESTS = {"tests/test_tax.py": "def test_tax(): ...\n", "tests/test_cart.py": "def test_total(): ...\n"}
AGENT = """#!/bin/sh
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
case "$SELFTEST_TEST" in *tax*) name=tax ;; *) name=total ;; esac
echo "$name" >> "$HOME/began"
until [ -e "$HOME/go-$name" ]; do sleep 0.1; done
printf '%s' '{"changes": {}, "errored": false, "summary_markdown": "The **sum** is right.", "escalations": []}' \\
    > "$SELFTEST_OUT/draft"
mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json"
exec sleep 100000
"""


@pytest.fixture
def shop(world: World) -> World:
    """A repository of two tests, and an agent that waits until it is let go."""
    folder = world.make_repository()
    for name, text in {**FILES, **TESTS, "agent.sh": AGENT}.items():
        if name not in ("selftest-tui.toml", "tests/test_broken.py"):
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    (folder / "agent.sh").chmod(0o755)
    commit(world, "A shop")
    world.load_mngr()
    # Each screen would ask for all providers too, which are none here; that costs as much again.
    world.extra["SELFTEST_TUI_REMOTE"] = "false"
    return world


def ended(folder: RunFolder) -> list[str]:
    """The tests that have an outcome."""
    return [row.planned.node_id for row in folder.read().rows.values() if row.end is not None]


def test_a_run_on_the_screen(e2e: EndToEnd, shop: World) -> None:
    begin = e2e.write_tutorial_block("""
        # The same on the screen: the plan, a yes, then every test, live. `q` leaves and the run goes on; a plain
        # `selftest-tui` in this repository is back at it.
        selftest-tui run --max-running 1 --agent-command ./agent.sh
    """)
    go_on = e2e.write_tutorial_block("""
        # The same, and watch it on the screen.
        selftest-tui resume
    """)
    with begin.open(environment=shop.environment, cwd=shop.repository, columns=140) as session:
        session.wait_for("Nothing has started yet", PATIENT)
        assert not (shop.repository / ".selftest").exists()
        session.send_keys("y")
        session.wait_for("● running", PATIENT)
        session.wait_for("● working", PATIENT)
        (folder,) = own_folders(shop.environment, shop.repository)
        eventually(lambda: began(shop) == ["total"], "the first agent", PATIENT)
        session.send_keys("q")
        assert session.wait_for_end() == 0

    assert folder.is_conducted(), "the screen is left, the run goes on"
    (shop.home / "go-total").touch()
    eventually(lambda: ended(folder) == ["tests/test_cart.py::test_total"], "its outcome", PATIENT)
    eventually(lambda: began(shop) == ["total", "tax"], "the second agent, with nobody looking", PATIENT)

    plain = [BIN / "selftest-tui"]
    with open_session(plain, environment=shop.environment, cwd=shop.repository, columns=140) as session:
        session.wait_for(f"run {folder.run}", PATIENT)
        session.wait_for("1 unchanged", PATIENT)
        entries = read(folder.journal.read_bytes()).entries
        pid = next(entry.fields["pid"] for entry in entries if entry.event == "conducting")
        os.kill(pid, signal.SIGKILL)
        session.wait_for("no conductor", PATIENT)
        session.send_keys("q")
        assert session.wait_for_end() == 0

    with go_on.open(environment=shop.environment, cwd=shop.repository, columns=140) as session:
        session.wait_for("● running", PATIENT)
        (shop.home / "go-tax").touch()
        session.wait_for("✓ ended", PATIENT)
        session.wait_for("2 unchanged")
        session.send_keys("/")
        session.wait_for("⏎ keep")
        session.type_text("tax")
        session.send_keys("Enter", "j")
        session.wait_for("The sum is right.")
        session.send_keys("q")
        assert session.wait_for_end() == 0
    run = folder.read()
    assert [(row.attempt, str(row.end), row.says) for row in run.rows.values()] == [(1, "unchanged", "")] * 2
    assert run.conductors == 2
    assert began(shop) == ["total", "tax"], "no agent began twice"
    assert len(list((shop.host_dir / "agents").glob("*"))) == 2
    assert "mngr-" not in shop.tmux("list-sessions", check=False), "both are stopped"


def began(world: World) -> list[str]:
    """The agents that began, in order, as they wrote it down."""
    path: Path = world.home / "began"
    return path.read_text().split() if path.exists() else []
