"""The blocks of tutorial.sh about a run with live agents: begun by a yes, left, found again, killed, resumed, stopped.

Each of the two real agents, on the real mngr, waits until it is let go, so that what is seen meanwhile is no matter of
time.
"""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from core.run.shop import FILES, commit, make_shop
from selftest_core.journal import read
from selftest_core.run.overview import own_folders
from selftest_recorder.e2e.expect import expect
from selftest_recorder.e2e.session import open_session
from worlds import BIN, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.store import RunFolder
    from selftest_recorder.e2e.commands import Command
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


ON_THE_SCREEN = """
    # The same on the screen: the plan, a yes, then every test, live. `q` leaves and the run goes on; a plain
    # `selftest-tui` in this repository is back at it.
    selftest-tui run --max-running 1 --agent-command ./agent.sh
"""
RESUME = """
    # Go on where a run stopped, after a crash too. One that has ended stays as it is.
    selftest-tui resume --batch > resumed.jsonl
"""
RESUME_ON_THE_SCREEN = """
    # The same, and watch it on the screen.
    selftest-tui resume
"""
STOP = """
    # End a run: its agents are emptied and stopped, the rest is not started.
    selftest-tui stop
"""


def began(world: World) -> list[str]:
    """The agents that began, in order, as they wrote it down."""
    path: Path = world.home / "began"
    return path.read_text().split() if path.exists() else []


def kill_conductor(folder: RunFolder) -> None:
    """End the conductor of a run as `kill -9` does."""
    entries = read(folder.journal.read_bytes()).entries
    os.kill(next(entry.fields["pid"] for entry in entries if entry.event == "conducting"), signal.SIGKILL)


def a_live_run(e2e: EndToEnd, shop: World) -> tuple[Command, RunFolder]:
    """Start a run of two tests, one agent at a time, and wait until the first of them works."""
    words = "selftest-tui run --batch --max-running 1 --agent-command ./agent.sh"
    conducting = e2e.start(words, environment=shop.environment, cwd=shop.repository, comment="a run")
    eventually(lambda: began(shop) == ["total"], "the first agent", PATIENT)
    (folder,) = own_folders(shop.environment, shop.repository)
    return conducting, folder


def test_a_run_on_the_screen(e2e: EndToEnd, shop: World) -> None:
    begin = e2e.write_tutorial_block(ON_THE_SCREEN)
    go_on = e2e.write_tutorial_block(RESUME_ON_THE_SCREEN)

    with begin.pty(environment=shop.environment, cwd=shop.repository, columns=140) as session:
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
        kill_conductor(folder)
        session.wait_for("no conductor", PATIENT)
        session.send_keys("q")
        assert session.wait_for_end() == 0

    with go_on.pty(environment=shop.environment, cwd=shop.repository, columns=140) as session:
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


@pytest.mark.unhappy
def test_a_run_on_the_screen_that_is_not_agreed_to(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(ON_THE_SCREEN)
    folder = make_shop(world)
    (folder / "agent.sh").write_text(AGENT)
    (folder / "agent.sh").chmod(0o755)

    with block.pty(environment=world.environment, cwd=folder, columns=140) as session:
        session.wait_for("Nothing has started yet")
        session.send_keys("q")
        status = session.wait_for_end()

    assert status == 0
    expect(folder / ".selftest").to_be_missing()
    expect(world.home / "began").to_be_missing()


@pytest.mark.unhappy
def test_a_run_is_not_resumed_on_a_screen_that_is_not_there(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(RESUME_ON_THE_SCREEN)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("There is no run in this repository", "`selftest-tui run`")


def test_a_run_whose_conductor_was_killed_is_resumed_to_its_end(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block(RESUME)
    conducting, folder = a_live_run(e2e, shop)
    kill_conductor(folder)
    expect(conducting.wait(PATIENT)).to_fail()
    assert [row.end for row in folder.read().rows.values()] == [None, None], "both tests are open"
    for name in ("total", "tax"):
        (shop.home / f"go-{name}").touch()

    result = block.run(environment=shop.environment, cwd=shop.repository)

    expect(result).to_succeed()
    summary = json.loads((shop.repository / "resumed.jsonl").read_text().splitlines()[-1])
    assert (summary["run"], summary["tests"], summary["outcomes"]["unchanged"]) == (folder.run, 2, 2)
    run = folder.read()
    assert run.conductors == 2
    assert [(row.attempt, str(row.end)) for row in run.rows.values()] == [(1, "unchanged")] * 2
    assert began(shop) == ["total", "tax"], "the agent that worked was found again, none began twice"
    assert "mngr-" not in shop.tmux("list-sessions", check=False), "both are stopped"


def test_a_run_with_a_working_agent_is_stopped(e2e: EndToEnd, shop: World) -> None:
    block = e2e.write_tutorial_block(STOP)
    conducting, folder = a_live_run(e2e, shop)
    assert "mngr-" in shop.tmux("list-sessions")

    result = block.run(environment=shop.environment, cwd=shop.repository)

    expect(result).to_succeed().stdout.to_match("1 +not started")
    assert sorted(str(row.end) for row in folder.read().rows.values()) == ["not_started", "stopped"]
    assert conducting.wait(PATIENT).exit_status != 0
    assert not folder.is_conducted()
    assert began(shop) == ["total"], "the rest is not started"
    assert [agent["state"] for agent in shop.listing()["agents"]] == ["STOPPED"]
    assert "mngr-" not in shop.tmux("list-sessions", check=False)
