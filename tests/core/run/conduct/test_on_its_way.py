"""An agent in creation, or whose shell has not read its command yet, has not ended."""

from __future__ import annotations

import json
import subprocess
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from core.run.crew.test_listings import ClockByHand
from core.run.rehearsals import a_plan
from selftest_core.run.crew.crew import Life
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.fold import RunRow
from selftest_core.run.store import RunFolder
from selftest_core.tools.mngr import Mngr, find_mngr
from standins import mngr_that

if TYPE_CHECKING:
    from selftest_core.run.fold import Member
    from worlds import World


def listing(member: Member, state: str, at: float) -> str:
    made = datetime.fromtimestamp(at, UTC).isoformat()
    host = {"id": "host-1", "name": "localhost", "provider_name": "local", "state": "RUNNING"}
    agent = {
        "id": member.agent_id, "name": member.name, "type": "command", "command": "agent", "state": state,
        "work_dir": "/nowhere", "create_time": made, "labels": {}, "plugin": {}, "host": host,
    }  # fmt: skip
    return json.dumps({"agents": [agent], "errors": []})


class Seer:
    """A crew with the states of one agent and the time that the test sets."""

    def __init__(self, world: World, made_at: float) -> None:
        self.world, self.made_at, self.clock = world, made_at, ClockByHand()
        plan = a_plan(1, is_real=True, repository=str(world.root))
        self.member = RunRow(plan.tests[0]).next_member()
        mngr_that(world, f"cat {world.root}/listing")
        mngr = Mngr(find_mngr(world.environment), world.environment, world.root)
        (world.root / "run" / "clone").mkdir(parents=True)
        self.crew = MngrCrew(plan, mngr, RunFolder(world.root / "run"), self.clock)

    async def look(self, state: str, seconds: float = 9_000.0) -> Life:
        """Look after so many seconds, with this state from mngr."""
        self.clock.passed += seconds
        (self.world.root / "listing").write_text(listing(self.member, state, self.made_at))
        return (await self.crew.look((self.member,)))[self.member.agent_id].life


@pytest.mark.parametrize("state", ["STOPPED", "DONE"])
async def test_while_it_is_being_made_and_a_while_after_it_has_not_ended_whatever_mngr_says(
    world: World, state: str
) -> None:
    seer = Seer(world, time.time())
    making = subprocess.Popen(["sh", "-c", "echo; read _", "mngr", "create", "--id", seer.member.agent_id],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    try:
        assert making.stdout is not None
        making.stdout.readline()  # it is that program now, with these words
        for _ in range(3):
            assert await seer.look(state) is Life.WORKING
    finally:
        making.communicate()
    # Its shell may take its command late, and each look in that time needs a new answer of mngr.
    assert await seer.look(state) is Life.WORKING
    assert await seer.look(state, 0.5) is Life.WORKING
    ended = {"STOPPED": Life.STOPPED, "DONE": Life.EXITED}[state]
    assert await seer.look(state, 6.0) is ended
    assert await seer.look(state, 0.5) is ended


async def test_one_that_was_seen_at_work_has_ended_as_soon_as_mngr_says_so(world: World) -> None:
    seer = Seer(world, time.time())
    assert await seer.look("RUNNING") is Life.WORKING
    assert await seer.look("DONE") is Life.EXITED


async def test_one_of_an_old_run_is_believed_at_once(world: World) -> None:
    seer = Seer(world, time.time() - 10_000.0)
    assert await seer.look("STOPPED", 0.0) is Life.STOPPED
