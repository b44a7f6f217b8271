"""The two crews give the same answers in the same situations: the real mngr's, and the simulated one.

What a run is rehearsed with, and killed in thousands of times, must not be kinder or stranger than what it is
conducted with. Each crew goes through one agent's situations after the other, and what it answers is written down
without what can only be its own: ids of hosts, words, times.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.run.rehearsals import a_plan
from selftest_core.errors import ToolError
from selftest_core.run.answer.answer import Answer
from selftest_core.run.clock import WallClock
from selftest_core.run.crew.crew import BUNDLE, OUTCOME, Life
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.fold import RunRow
from selftest_core.run.plan.clone import make_clone
from selftest_core.run.store import make_run_folder
from selftest_core.tools.mngr import Mngr, find_mngr
from simulated.clock import SimulatedClock, play
from simulated.crew import Role, SimulatedCrew, SimulatedWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_core.run.clock import Clock
    from selftest_core.run.crew.crew import Crew, Seen
    from selftest_core.run.fold import Member
    from selftest_core.run.plan.plan import RunPlan
    from worlds import World

# A deadline for a hang, far beyond what a busy machine needs for thirty calls of mngr.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
PATIENCE = 300.0

# The first writes its outcome slowly, behind a commit; the second has nothing to change; the third crashes.
AGENT = """#!/bin/sh
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
echo ready
while [ ! -e "@GATE@1" ]; do sleep 0.1; done
report='{"changes": {}, "errored": false, "tests_passing_after": true, "summary_markdown": "Done."}'
case "$SELFTEST_TEST" in
*test_00)
    echo fixed > README && git -c user.name=a -c user.email=a@example.org commit -qam '[FIX_IMPL] Say fixed'
    printf '{"changes"' > "$SELFTEST_OUT/outcome.json"
    while [ ! -e "@GATE@2" ]; do sleep 0.1; done
    printf '%s' "$report" > "$SELFTEST_OUT/outcome.json" ;;
*test_01) printf '%s' "$report" > "$SELFTEST_OUT/draft" && mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json" ;;
*) echo 'panic: no such table'; exit 3 ;;
esac
exec sleep 100000
"""
ROLES = (Role.WRITES_SLOWLY, Role.CHANGES_NOTHING, Role.CRASHES)
FIRST, SECOND = 200.0, 230.0
"""Seconds of simulated time in which the agents work, and after which the slow one has written all."""


class HastyClock(WallClock):
    """A clock that skips a minute in each sleep, so that no cached answer is valid."""

    ahead = 0.0

    def elapsed(self) -> float:
        """Elapsed seconds, skips included."""
        return super().elapsed() + self.ahead

    async def sleep(self, seconds: float) -> None:
        """Sleep, then skip."""
        await super().sleep(seconds)
        self.ahead += 60.0


class Stage(Protocol):
    """Where a crew works. `go`: lets the agents play up to their first act, or their second."""

    @property
    def crew(self) -> Crew:
        """The crew under test."""
        ...

    @property
    def clock(self) -> Clock:
        """Its clock."""
        ...

    async def go(self, act: int) -> None:
        """Let the agents go on."""
        ...


@dataclass
class RealStage:
    """Agents that are shell scripts wait for files."""

    crew: Crew
    clock: Clock
    gate: Path

    async def go(self, act: int) -> None:
        self.gate.with_name(f"{self.gate.name}{act}").touch()


@dataclass
class SimulatedStage:
    """Agents act when their time has come."""

    crew: SimulatedCrew
    clock: SimulatedClock

    async def go(self, act: int) -> None:
        if act == 1:
            for agent in self.crew.world.agents.values():
                agent.seconds = FIRST
        until = (FIRST + 15.0) if act == 1 else SECOND + 15.0
        await self.clock.sleep(until - self.clock.passed)


@dataclass
class Telling:
    """The answers of a crew, one line each."""

    stage: Stage
    folder: Path
    lines: list[str]

    async def look(self, members: Mapping[str, Member], until: Callable[[Mapping[str, Seen]], bool]) -> dict[str, Seen]:
        """Look until it is as wanted, and note the observation."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = await self.stage.crew.look(list(members.values()))
            seen = {name: found[member.agent_id] for name, member in members.items()}
            if until(seen) or time.monotonic() > deadline:
                break
            await self.stage.clock.sleep(0.3)
        for name, one in seen.items():
            place = "somewhere" if one.host_id and one.provider else "nowhere"
            self.lines.append(f"{name}: {one.life}, {'an' if one.outcome else 'no'} outcome, {place}")
        return seen

    async def pull(self, name: str, member: Member) -> None:
        """Fetch, and tell what came."""
        staging = self.folder / f"{len(self.lines)}"
        staging.mkdir()
        try:
            await self.stage.crew.pull(member, staging)
        except ToolError:
            self.lines.append(f"{name}: nothing can be fetched")
            return
        outcome = staging / OUTCOME
        how = "no outcome"
        if outcome.is_file():
            try:
                how = "an outcome" if isinstance(json.loads(outcome.read_text()), dict) else "something else"
            except ValueError:
                how = "a piece of an outcome"
        self.lines.append(f"{name}: fetched {how} and {'a' if (staging / BUNDLE).is_file() else 'no'} branch")

    async def screens(self, members: Mapping[str, Member]) -> None:
        """Tell whose screens there are."""
        shown = await self.stage.crew.screens(list(members.values()))
        there = [name for name, member in members.items() if shown.get(member.agent_id)]
        self.lines.append(f"screens of {', '.join(there) or 'nobody'}")

    async def stop(self, members: Mapping[str, Member]) -> None:
        """Stop, and tell who is."""
        says = await self.stage.crew.stop(list(members.values()))
        self.lines += [f"{name}: {'is not' if says[one.agent_id] else 'is'} stopped" for name, one in members.items()]

    async def refused(self, what: str, act: Callable[[], object]) -> None:
        """Note whether a call is refused."""
        try:
            answer = act()
            assert asyncio.iscoroutine(answer)
            await answer
        except ToolError:
            self.lines.append(f"{what} is refused")
        else:
            self.lines.append(f"{what} is done")


async def tell(stage: Stage, plan: RunPlan, folder: Path) -> list[str]:
    """Go through all situations."""
    folder.mkdir()
    telling = Telling(stage, folder, [])
    crew = stage.crew
    names = ("slow", "idle", "dead")
    members = {name: RunRow(test).next_member() for name, test in zip(names, plan.tests, strict=True)}
    await telling.look(members, lambda seen: True)
    await telling.screens(members)
    await telling.refused("fetching from nobody", lambda: crew.pull(members["slow"], folder))

    for name, member in members.items():
        made = await crew.create(member)
        members[name] = replace(member, host_id=made.host_id, provider=made.provider)
    await telling.refused("making one again", lambda: crew.create(members["idle"]))
    seen = await telling.look(members, lambda seen: all(one.life is Life.WORKING for one in seen.values()))
    assert all((one.host_id, one.provider) == (members[n].host_id, members[n].provider) for n, one in seen.items())
    await telling.screens(members)

    await stage.go(1)
    before = await telling.look(
        members,
        lambda seen: bool(seen["slow"].outcome and seen["idle"].outcome) and seen["dead"].life is Life.EXITED,
    )
    for name, member in members.items():
        await telling.pull(name, member)
    await telling.screens(members)

    await stage.go(2)
    slow = {"slow": members["slow"]}
    after = await telling.look(slow, lambda seen: seen["slow"].outcome not in ("", before["slow"].outcome))
    telling.lines.append("another stamp" if after["slow"].outcome != before["slow"].outcome else "the same stamp")
    await telling.pull("slow", members["slow"])

    await telling.stop(members)
    await telling.look(members, lambda seen: all(one.life is Life.STOPPED for one in seen.values()))
    await telling.screens(members)
    await telling.pull("slow", members["slow"])
    await telling.refused("telling a stopped one something", lambda: crew.send(members["idle"], "Go on."))

    answered = replace(members["slow"], attempt=2, answer=Answer("1", "Go on."), is_continued=True)
    nobody = replace(answered, agent_id=f"agent-{'f' * 32}")
    await telling.refused("starting nobody again", lambda: crew.restart(nobody))
    for _ in range(2):  # a conductor that was killed does it again
        again = await crew.restart(answered)
        assert (again.host_id, again.provider) == (answered.host_id, answered.provider)
    lives = []
    deadline = time.monotonic() + PATIENCE
    while Life.WORKING not in lives and time.monotonic() < deadline:
        lives.append((await crew.look([answered]))[answered.agent_id].life)
        await stage.clock.sleep(0.3)
    telling.lines.append(f"slow: {lives[-1]} again")
    assert set(lives) <= {Life.WORKING, Life.UNSEEN}, "the end of before is not taken for another"
    await telling.stop({"slow": answered})
    return telling.lines


EXPECTED = """
slow: absent, no outcome, nowhere
idle: absent, no outcome, nowhere
dead: absent, no outcome, nowhere
screens of nobody
fetching from nobody is refused
making one again is refused
slow: working, no outcome, somewhere
idle: working, no outcome, somewhere
dead: working, no outcome, somewhere
screens of slow, idle, dead
slow: working, an outcome, somewhere
idle: working, an outcome, somewhere
dead: exited, no outcome, somewhere
slow: fetched a piece of an outcome and a branch
idle: fetched an outcome and no branch
dead: fetched no outcome and no branch
screens of slow, idle, dead
slow: working, an outcome, somewhere
another stamp
slow: fetched an outcome and a branch
slow: is stopped
idle: is stopped
dead: is stopped
slow: stopped, an outcome, somewhere
idle: stopped, an outcome, somewhere
dead: stopped, no outcome, somewhere
screens of nobody
slow: fetched an outcome and a branch
telling a stopped one something is refused
starting nobody again is refused
slow: working again
slow: is stopped
""".strip().splitlines()


async def crowd(stage: Stage, plan: RunPlan, folder: Path) -> list[str]:
    """Ask a crew for many things at once; every look answers for all that it was asked about."""
    folder.mkdir()
    crew = stage.crew
    members = [RunRow(test).next_member() for test in plan.tests]

    async def look() -> dict[str, Seen]:
        found = dict(await crew.look(members))
        assert found.keys() >= {member.agent_id for member in members}
        return found

    async def until(wanted: Callable[[Seen], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        seen = await look()
        while not all(wanted(one) for one in seen.values()):
            assert time.monotonic() < deadline, seen
            await stage.clock.sleep(0.3)
            seen = await look()

    async def cancelled() -> None:
        task = asyncio.ensure_future(look())
        await asyncio.sleep(0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def pull(member: Member) -> bool:
        staging = folder / member.test
        staging.mkdir()
        await crew.pull(member, staging)
        return (staging / OUTCOME).is_file()

    made, *_ = await asyncio.gather(
        asyncio.gather(*(crew.create(member) for member in members)), look(), cancelled(), look(), look()
    )
    members = [replace(one, host_id=at.host_id, provider=at.provider) for one, at in zip(members, made, strict=True)]
    lines = [f"{len(made)} made"]
    await asyncio.gather(*(until(lambda one: one.life is Life.WORKING) for _ in range(3)))
    await stage.go(1)
    await stage.go(2)
    await until(lambda one: bool(one.outcome) or one.life is Life.EXITED)
    pulled, shown, *_ = await asyncio.gather(
        asyncio.gather(*(pull(member) for member in members)), crew.screens(members), look(), cancelled(), look()
    )
    lines += [f"fetched {sum(pulled)} outcomes", f"{len(shown)} screens"]
    first, rest, *_ = await asyncio.gather(crew.stop(members[:1]), crew.stop(members[1:]), look(), cancelled(), look())
    lines.append(f"{sum(not says for says in (*first.values(), *rest.values()))} stopped")
    await until(lambda one: one.life is Life.STOPPED)
    return lines


CROWDED = ["3 made", "fetched 2 outcomes", "3 screens", "3 stopped"]


def test_the_simulated_crew_answers_so(tmp_path: Path) -> None:
    plan = a_plan(3)
    clock = SimulatedClock()
    world = SimulatedWorld(7, {test.agent_name: role for test, role in zip(plan.tests, ROLES, strict=True)})

    async def life() -> list[str]:
        crew = SimulatedCrew(world, clock)
        return await tell(SimulatedStage(crew, clock), plan, tmp_path / "fetched")

    assert play(life) == EXPECTED


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 100_000))
def test_the_simulated_crew_answers_many_at_once(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    plan = a_plan(3)
    clock = SimulatedClock()
    world = SimulatedWorld(seed, {test.agent_name: role for test, role in zip(plan.tests, ROLES, strict=True)})

    async def life() -> list[str]:
        stage = SimulatedStage(SimulatedCrew(world, clock), clock)
        return await crowd(stage, plan, tmp_path_factory.mktemp("crowd") / "fetched")

    assert play(life) == CROWDED
    assert world.wrongs == []


def test_the_real_crew_answers_many_at_once(world: World, tmp_path: Path) -> None:
    stage, plan = real_stage(world)
    assert asyncio.run(crowd(stage, plan, tmp_path / "fetched")) == CROWDED


def test_and_so_does_that_of_the_real_mngr(world: World, tmp_path: Path) -> None:
    stage, plan = real_stage(world)
    assert asyncio.run(tell(stage, plan, tmp_path / "fetched")) == EXPECTED


def real_stage(world: World) -> tuple[RealStage, RunPlan]:
    """A crew of the real mngr, with agents that wait for their gates."""
    repository = world.make_repository()
    world.load_mngr()
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    gate = world.root / "gate"
    script = world.script("agent", AGENT.replace("@GATE@", str(gate)))
    plan = a_plan(3, is_real=True, repository=str(repository), base=base, agent_command=("/bin/sh", str(script)))
    environ = world.environment
    folder = make_run_folder(plan, environ)
    make_clone(repository, base, folder.clone, environ)
    clock = HastyClock()
    crew = MngrCrew(plan, Mngr(find_mngr(environ), environ, repository), folder, clock)
    return RealStage(crew, clock, gate), plan
