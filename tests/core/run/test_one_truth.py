"""An agent that asks for permission is said to do so by the run, the fleet and `list` alike, also of type command."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import a_plan
from selftest_core.fleet.watch.fleet_watch import observe_once
from selftest_core.fleet.watch.poll_schedule import WatchSettings
from selftest_core.run.clock import WallClock
from selftest_core.run.crew.crew import Life
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.fold import Member
from selftest_core.run.store import folder_of
from selftest_core.tools.mngr import Mngr, find_mngr
from worlds import eventually

if TYPE_CHECKING:
    from selftest_core.run.crew.crew import Seen
    from worlds import World

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def test_a_command_agent_at_a_dialog_needs_a_person_everywhere_and_one_that_waits_nowhere(world: World) -> None:
    repository = world.make_repository()
    world.load_mngr()
    environ = world.environment
    plan = replace(a_plan(1, is_real=True, repository=str(repository)), agent_command=("sleep", "100000"))
    agent_id = world.create("asks", "sleep", "100000")
    folder = folder_of(plan)
    folder.clone.mkdir(parents=True)
    crew = MngrCrew(plan, Mngr(find_mngr(environ), environ, repository), folder, WallClock())
    member = Member(plan.tests[0].agent_name, agent_id, 1, agent_id, "asks", "", "local")

    def look() -> Seen:
        return asyncio.run(crew.look([member]))[agent_id]

    def shown() -> tuple[str | None, str]:
        (row,) = observe_once(environ, WatchSettings(repository, remote=False), 60.0).rows
        return row.attention, row.agent.state.value

    eventually(lambda: look().life is Life.WORKING, "it at work")
    assert shown()[0] is None
    marks = world.agent_dir(agent_id)
    (marks / "active").touch()
    (marks / "permissions_waiting").touch()
    eventually(lambda: look().life is Life.ASKS, "the dialog")
    seen = look()
    assert (seen.detail, seen.needs_you) == ("waits for permission", True)
    assert shown()[0] == "waits for permission"
    (marks / "permissions_waiting").unlink()
    assert look().life is Life.WORKING
    assert shown()[0] is None
