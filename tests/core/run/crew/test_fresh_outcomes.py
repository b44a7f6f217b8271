"""A local agent's outcome is seen before mngr answers, and an agent that writes for ever hides no other."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import a_plan
from selftest_core.run.clock import WallClock
from selftest_core.run.crew.crew import Life
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.fold import RunRow
from selftest_core.run.store import make_run_folder
from selftest_core.tools.mngr import Mngr, find_mngr
from standins import EMPTY, calls, mngr_that

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World


def a_crew(world: World) -> tuple[MngrCrew, list[Path]]:
    """A crew, and the outcome files of its two agents."""
    plan = a_plan(2, repository=str(world.make_repository()))
    environ = world.environment
    folder = make_run_folder(plan, environ)
    folder.clone.mkdir()
    crew = MngrCrew(plan, Mngr(find_mngr(environ), environ, world.repository), folder, WallClock())
    outs = [world.host_dir / "copies" / test.agent_id / ".selftest" / "out" for test in plan.tests]
    for out in outs:
        out.mkdir(parents=True)
    return crew, [out / "outcome.json" for out in outs]


MEMBERS = [replace(RunRow(test).next_member(), host_id="host-1", provider="local") for test in a_plan(2).tests]


async def test_an_outcome_is_seen_before_mngr_has_answered(world: World) -> None:
    mngr_that(world, "sleep 1000")
    crew, (first, _) = a_crew(world)
    first.write_text("{}")
    seen = await crew.look(MEMBERS)
    assert seen[MEMBERS[0].agent_id].outcome
    assert (seen[MEMBERS[0].agent_id].host_id, seen[MEMBERS[0].agent_id].life) == ("host-1", Life.WORKING)
    assert seen[MEMBERS[1].agent_id].life is Life.UNSEEN
    # What was told once is no news: now mngr is waited for.
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await crew.look(MEMBERS)


async def test_an_outcome_that_comes_while_mngr_lists_is_seen_too(world: World) -> None:
    mngr_that(world, "sleep 1000")
    crew, (first, second) = a_crew(world)
    looking = asyncio.ensure_future(crew.look(MEMBERS))
    while not calls(world):
        await asyncio.sleep(0.02)
    first.write_text("{}")
    assert (await looking)[MEMBERS[0].agent_id].outcome
    second.write_text("{}")
    seen = await crew.look(MEMBERS)
    assert seen[MEMBERS[1].agent_id].outcome
    assert len([line for line in calls(world) if "list" in line]) == 1


async def test_one_that_writes_for_ever_hides_no_other(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")
    crew, (first, _) = a_crew(world)
    says = []
    for number in range(4):
        first.write_text("{}" * (number + 1))
        says.append((await crew.look(MEMBERS))[MEMBERS[1].agent_id].detail)
    assert says[0] == says[2] == "mngr has not answered yet"
    assert "mngr has not answered yet" not in (says[1], says[3])
