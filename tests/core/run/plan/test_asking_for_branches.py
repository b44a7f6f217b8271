"""A branch that mngr could not ask for is fetched again; one that git could not pack is told beside the outcome."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import a_plan
from selftest_core.errors import ToolFailedError
from selftest_core.run.clock import WallClock
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.fold import RunRow
from selftest_core.run.store import RunFolder
from selftest_core.tools.mngr import Mngr, find_mngr
from standins import calls, mngr_that

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

# On another machine: what local agents leave is copied without mngr.
MEMBER = replace(RunRow(a_plan(1).tests[0]).next_member(), host_id="host-1", provider="boxes")


def crew(world: World, exec_answer: str) -> MngrCrew:
    """One whose mngr answers an `exec` with these shell lines, and has nothing to say of anything else."""
    mngr_that(world, f'if [ "$1" = exec ]; then {exec_answer}; fi')
    folder = RunFolder(world.root / "run")
    folder.clone.mkdir(parents=True)
    mngr = Mngr(find_mngr(world.environment), world.environment, world.root)
    return MngrCrew(a_plan(1, repository=str(world.root)), mngr, folder, WallClock())


async def test_where_mngr_asked_nobody_nothing_is_taken_without_its_branch(world: World, tmp_path: Path) -> None:
    with pytest.raises(ToolFailedError, match="could not be asked for its branch") as told:
        await crew(world, "echo 'Error: one file is damaged' >&2; exit 1").pull(MEMBER, tmp_path)
    assert "one file is damaged" in told.value.detail
    assert [call.split()[0] for call in calls(world)] == ["exec"]


@pytest.mark.parametrize(("is_packed", "left"), [(True, []), (False, ["bundle-failed.txt"])])
async def test_what_git_said_is_kept_where_it_failed_whatever_the_agent_is_called_by_now(
    world: World, tmp_path: Path, is_packed: bool, left: list[str]
) -> None:
    answer = json.dumps({"results": [{"agent": "renamed", "success": is_packed, "stderr": "fatal: bad object"}]})
    await crew(world, f"echo '{answer}'").pull(MEMBER, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == left
    assert all(path.read_text() == "fatal: bad object\n" for path in tmp_path.iterdir())
    assert [call.split()[0] for call in calls(world)] == ["exec", "rsync"]
