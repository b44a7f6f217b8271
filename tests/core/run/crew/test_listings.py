"""Listings are asked seldom, for each provider on its own, and again before a test ends by them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from functools import partial
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from core.run.rehearsals import a_plan
from selftest_core.errors import ToolFailedError
from selftest_core.fleet.observations import Listed
from selftest_core.fleet.sources.mngr_list import list_agents
from selftest_core.run.clock import WallClock
from selftest_core.run.crew.listings import Listings, by_id, find
from selftest_core.run.fold import RunRow
from selftest_core.tools.mngr import Mngr, find_mngr
from simulated.clock import SimulatedClock, play
from standins import EMPTY, calls, mngr_that

if TYPE_CHECKING:
    from worlds import World

MEMBER = RunRow(a_plan(1).tests[0]).next_member()
HIDDEN = json.dumps({
    "agents": [],
    "errors": [{
        "exception_type": "X", "message": "one file is damaged", "agent_id": MEMBER.agent_id,
        "is_provider_inaccessible": False,
    }],
})  # fmt: skip


class ClockByHand(WallClock):
    """A clock that the test sets, so that a busy machine makes no difference."""

    passed = 1000.0

    def elapsed(self) -> float:
        """The time that the test set."""
        return self.passed


def listings(world: World, clock: ClockByHand | None = None) -> Listings:
    mngr = Mngr(find_mngr(world.environment), world.environment, world.root)
    return Listings(partial(list_agents, mngr), clock or ClockByHand())


async def test_an_answer_serves_again_but_not_for_one_that_it_would_end(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")
    clock = ClockByHand()
    asked = listings(world, clock)
    for _ in range(3):
        answers = await asked.of({"local": ()})
        assert isinstance(answers["local"], Listed)
    assert len(calls(world)) == 1
    assert asked.begun("local") == 1000.0 > asked.begun("modal")
    clock.passed = 1001.0

    # It is not in the answer: that must not be said from an old one.
    answers = await asked.of({"local": (MEMBER,)})
    assert isinstance(answers["local"], Listed)
    assert find(by_id(answers["local"]), MEMBER) is None
    assert len(calls(world)) == 2
    assert asked.begun("local") == 1001.0
    # That it is not there was told from a new answer: until that is old, it is not asked for again.
    await asked.of({"local": (MEMBER,)})
    assert len(calls(world)) == 2
    clock.passed = 9999.0
    await asked.of({"local": ()})
    assert len(calls(world)) == 3


async def test_an_error_that_may_hide_an_agent_is_as_good_as_that_agent(world: World) -> None:
    mngr_that(world, f"echo '{HIDDEN}'; exit 1")
    asked = listings(world)
    for _ in range(2):
        answers = await asked.of({"local": (MEMBER,)})
        assert isinstance(answers["local"], Listed)
    assert len(calls(world)) == 1


async def test_a_slow_provider_delays_no_other_and_is_not_asked_twice(world: World) -> None:
    go = world.root / "go"
    mngr_that(world, f"case \"$*\" in *boxes*) while [ ! -e {go} ]; do sleep 0.05; done ;; esac; echo '{EMPTY}'")
    asked = listings(world)
    answers = await asked.of({"local": (), "boxes": ()})
    assert isinstance(answers["local"], Listed)
    assert answers["boxes"] == "mngr has not answered for boxes yet"
    go.touch()
    answers = await asked.of({"boxes": ()})
    assert isinstance(answers["boxes"], Listed)
    assert sorted(line.rpartition("=")[2] for line in calls(world)) == ["boxes", "local"]


async def test_a_failure_is_told_in_words_and_the_answer_before_it_stays(world: World) -> None:
    mngr_that(world, f"echo '{EMPTY}'")
    asked = listings(world)
    await asked.of({"local": ()})
    before = asked.newest("local")
    mngr_that(world, "echo 'Error: no such profile' >&2; exit 1")
    answers = await asked.of({"local": (MEMBER,)})
    assert "no such profile" in str(answers["local"])
    assert asked.newest("local") is before
    assert asked.newest("modal") is None


async def test_who_no_longer_waits_for_an_answer_ends_the_question(world: World) -> None:
    mngr_that(world, "sleep 1000")
    asked = listings(world)
    waiting = asyncio.ensure_future(asked.of({"local": ()}))
    while not calls(world):
        await asyncio.sleep(0.02)
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    mngr_that(world, f"echo '{EMPTY}'")
    answers = await asked.of({"local": ()})
    assert isinstance(answers["local"], Listed)


async def test_looks_that_overlap_share_one_question(world: World) -> None:
    go = world.root / "go"
    mngr_that(world, f"while [ ! -e {go} ]; do sleep 0.05; done; echo '{EMPTY}'")
    asked = listings(world)
    looks = [asyncio.ensure_future(asked.of({"local": (MEMBER,)})) for _ in range(5)]
    while not calls(world):
        await asyncio.sleep(0.02)
    looks[0].cancel()
    go.touch()
    answers = await asyncio.gather(*looks[1:])
    assert all(isinstance(answer["local"], Listed) for answer in answers)
    assert looks[0].cancelled()
    assert len(calls(world)) == 1


class PlayedMngr:
    """Providers that answer in simulated time: `plans` by provider, seconds and whether it fails, call by call."""

    def __init__(self, plans: dict[str, list[tuple[float, str]]]) -> None:
        self.plans = plans
        self.asking: dict[str, int] = {}
        self.most = 0

    async def list_agents(self, provider: str, timeout: float) -> Listed:
        seconds, how = (self.plans.get(provider) or [(1.0, "")]).pop(0) if self.plans.get(provider) else (1.0, "")
        self.asking[provider] = self.asking.get(provider, 0) + 1
        self.most = max(self.most, self.asking[provider])
        try:
            await asyncio.sleep(seconds)
        finally:
            self.asking[provider] -= 1
        if how == "tool":
            raise ToolFailedError("mngr failed")
        if how == "odd":
            raise KeyError(provider)
        return Listed(at=0.0, seconds=seconds, agents=(), errors=(), provider=provider)


PROVIDERS = ("local", "modal", "boxes")


@settings(max_examples=150, deadline=None)
@given(
    plans=st.dictionaries(
        st.sampled_from(PROVIDERS),
        st.lists(st.tuples(st.floats(0.0, 20.0), st.sampled_from(("", "tool", "odd"))), max_size=4),
    ),
    looks=st.lists(
        st.tuples(
            st.floats(0.0, 30.0),  # when it begins
            st.sets(st.sampled_from(PROVIDERS), min_size=1),
            st.one_of(st.none(), st.floats(0.0, 15.0)),  # after how long it is cancelled
        ),
        min_size=1, max_size=8,
    ),
)  # fmt: skip
def test_any_interleaving_of_looks_answers_each_of_them(
    plans: dict[str, list[tuple[float, str]]], looks: list[tuple[float, set[str], float | None]]
) -> None:
    mngr = PlayedMngr({name: list(plan) for name, plan in plans.items()})

    async def one_look(listings: Listings, begins: float, providers: set[str], patience: float | None) -> None:
        await asyncio.sleep(begins)
        try:
            async with asyncio.timeout(patience):
                answers = await listings.of(dict.fromkeys(sorted(providers), (MEMBER,)))
        except TimeoutError:
            assert patience is not None
            return
        assert answers.keys() == providers
        assert all(isinstance(answer, Listed) or answer for answer in answers.values())

    async def life() -> None:
        listings = Listings(mngr.list_agents, SimulatedClock())
        await asyncio.gather(*(one_look(listings, *look) for look in looks))

    play(life)
    assert mngr.most <= 1
    assert not any(mngr.asking.values())
