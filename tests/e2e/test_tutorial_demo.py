"""The blocks of tutorial.sh about the demo and about what it leaves, run as they stand in a private world."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from core.run.rehearsals import a_plan
from selftest_core.journal import Journal
from selftest_core.run.store import make_run_folder
from selftest_recorder.e2e.expect import expect
from standins import mngr_that
from worlds import BIN, World, eventually

if TYPE_CHECKING:
    from selftest_core.run.store import RunFolder
    from selftest_recorder.e2e.end_to_end import EndToEnd

# A deadline for a hang, far beyond what a busy machine needs for a demo of one agent.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

DEMO = """
    # Scripted agents in a world of their own, on the screen: no model, no key, no network. `q` ends all of it.
    selftest-tui demo
"""
IN_BATCH = """
    # Their run as lines of JSON, until all have ended. Its status is 1, since work for a person is left by design.
    selftest-tui demo --batch > run.jsonl || test $? = 1
"""
WITH_CLAUDE = """
    # The same with the real Claude Code, on a scripted model of this machine: no key, no network. It must be installed.
    selftest-tui demo --agent claude --batch > run.jsonl || test $? = 1
"""
KEEP = """
    # Leave the demo's world, to look at it with tmux, mngr and git.
    selftest-tui demo --batch --agents 1 --keep > run.jsonl || test $? = 1
"""
LOOK = """
    # What such a demo, or one that was killed, left behind. Looking alone ends with 1 where there is something.
    selftest-tui sweep || test $? = 1
"""
LOOK_AS_JSON = """
    # The same for a program: every name of it.
    selftest-tui sweep --json > leftovers.json || test $? = 1
"""
REMOVE = """
    # Remove it without being asked.
    selftest-tui sweep --yes
"""


def leftovers(world: World) -> list[dict[str, Any]]:
    """What a sweep would remove."""
    answer = world.run(["selftest-tui", "sweep", "--batch"], check=False).stdout
    found: list[dict[str, Any]] = json.loads(answer)["leftovers"]
    return found


@pytest.fixture
def alone(world: World) -> World:
    """A world with a folder for demos of its own, so that a sweep finds nobody else's."""
    world.extra["TMPDIR"] = str(world.home)
    return world


@pytest.fixture
def begun(alone: World) -> RunFolder:
    """A run that has not ended, and whose conductor is gone: no sweep may touch it."""
    repository = alone.make_repository()
    base = alone.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    plan = a_plan(2, run="20261121-0931-7f3a", repository=str(repository), base=base)
    folder = make_run_folder(plan, alone.environment)
    with Journal(folder.journal) as journal:
        journal.append("conducting", 1.0, pid=1)
    return folder


@pytest.fixture
def without_mngr(alone: World) -> World:
    """A world whose mngr fails."""
    mngr_that(alone, "exit 9")
    return alone


def test_demo(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(DEMO)
    plain.tmux("-f", "/dev/null", "new-session", "-d", "-s", "of-the-person")
    environment = {**plain.environment, "SELFTEST_DEMO_SPEED": "20"}

    with block.pty(environment=environment, cwd=tmp_path, columns=120) as session:
        screen = session.wait_for("test_card_is_checked")
        session.send_keys("t")
        session.wait_for("blocks without a test")
        session.send_keys("C-d")
        session.wait_for("1 heading without blocks")
        session.send_keys("w")
        plan = session.wait_for("Nothing has started yet")
        session.send_keys("n")
        session.wait_for("blocks without a test")
        session.send_keys("q")
        status = session.wait_for_end()

    assert status == 0
    expect(plan).to_contain("Put a cart aside", "1 heading, one agent")
    expect(screen).not_to_contain("of-the-person")
    expect(leftovers(plain)).to_be_empty()


@pytest.mark.unhappy
def test_demo_without_a_terminal(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(DEMO)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_have_exit_code(2).stderr.to_contain("no terminal", "`selftest-tui demo --batch`")
    expect(leftovers(plain)).to_be_empty()


@pytest.mark.unhappy
def test_demo_in_batch_where_mngr_fails(e2e: EndToEnd, without_mngr: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(IN_BATCH)

    result = block.run(environment=without_mngr.environment, cwd=tmp_path)

    expect(result).to_fail().stderr.to_contain("mngr list gave no answer")
    assert json.loads((tmp_path / "run.jsonl").read_text().splitlines()[-1])["exit_status"] == 2
    expect(leftovers(without_mngr)).to_be_empty()


@pytest.mark.unhappy
def test_demo_with_claude_where_it_is_not_installed(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(WITH_CLAUDE)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "bash").symlink_to(shutil.which("bash") or "/bin/bash")

    result = block.run(environment={**plain.environment, "PATH": f"{BIN}:{programs}"}, cwd=tmp_path)

    expect(result).to_fail().stderr.to_contain("claude is not installed", "npm install")
    expect(leftovers(plain)).to_be_empty()


def test_a_kept_demo_is_found_and_swept(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    keep = e2e.write_tutorial_block(KEEP)
    look = e2e.write_tutorial_block(LOOK)
    look_as_json = e2e.write_tutorial_block(LOOK_AS_JSON)
    remove = e2e.write_tutorial_block(REMOVE)
    environment = {**plain.environment, "SELFTEST_DEMO_SPEED": "20"}

    expect(keep.run(environment=environment, cwd=tmp_path)).to_succeed()
    (kept,) = leftovers(plain)
    world = Path(kept["path"])
    assert kept["kept"] is True
    expect(world / "acme-shop/.selftest/runs").to_be_a_folder()

    expect(look.run(environment=environment, cwd=tmp_path)).to_succeed().stdout.to_contain(kept["path"])
    expect(look_as_json.run(environment=environment, cwd=tmp_path)).to_succeed()
    # How many of its processes still run changes from one look to the next.
    said = {name: value for name, value in kept.items() if name != "says"}
    expect(tmp_path / "leftovers.json").to_have_json({"leftovers": [said]})
    expect(world).to_be_a_folder()

    expect(remove.run(environment=environment, cwd=tmp_path)).to_succeed().stdout.to_contain(kept["path"])
    eventually(lambda: not world.exists(), "the end of the demo's folder")
    expect(leftovers(plain)).to_be_empty()


@pytest.mark.unhappy
def test_a_demo_that_cannot_start_is_kept_too_and_found(e2e: EndToEnd, without_mngr: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(KEEP)

    result = block.run(environment=without_mngr.environment, cwd=tmp_path)

    expect(result).to_fail().stderr.to_contain("mngr list gave no answer")
    (kept,) = leftovers(without_mngr)
    assert kept["kept"] is True
    expect(Path(kept["path"])).to_be_a_folder()


@pytest.mark.unhappy
def test_a_sweep_does_not_list_a_run_that_has_not_ended(e2e: EndToEnd, alone: World, begun: RunFolder) -> None:
    block = e2e.write_tutorial_block(LOOK)

    result = block.run(environment=alone.environment, cwd=alone.repository)

    expect(result).to_succeed().stdout.to_contain("Nothing was left behind").not_to_contain(begun.run)


@pytest.mark.unhappy
def test_a_sweep_for_programs_on_a_full_disk(e2e: EndToEnd, alone: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(LOOK_AS_JSON)
    (tmp_path / "leftovers.json").symlink_to("/dev/full")

    result = block.run(environment=alone.environment, cwd=tmp_path)

    expect(result).to_fail().stderr.to_contain("could not be written", "No space left on device")


@pytest.mark.unhappy
def test_a_sweep_removes_no_run_that_has_not_ended(e2e: EndToEnd, alone: World, begun: RunFolder) -> None:
    block = e2e.write_tutorial_block(REMOVE)

    result = block.run(environment=alone.environment, cwd=alone.repository)

    expect(result).to_succeed().stdout.to_contain("Nothing was left behind")
    expect(begun.journal).to_contain("conducting")
