"""Properties of the fold that must hold for any observations in any order, however hostile their text."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenes import BOX, LOCAL, MODAL, agent_id
from selftest_core.agents import Agent, State
from selftest_core.fleet.fold import Fleet, apply, to_remember, view
from selftest_core.fleet.observations import (
    Listed,
    ListFailed,
    ListingError,
    LocalAgent,
    Probed,
    Remembered,
    RememberedAgent,
    TmuxServer,
)
from selftest_core.schema.fleet import list_document
from selftest_core.tools.mngr_files import UnreadableAgent
from selftest_core.tools.tmux import SessionRef

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from selftest_core.fleet.observations import Observation

# No clock decides here: the same examples each time, and no deadline on a loaded machine.
QUIET = settings(
    derandomize=True, deadline=None, max_examples=50, database=None, suppress_health_check=list(HealthCheck)
)

TEXTS = st.sampled_from(
    ["plain", "", "\x1b[31m", "[/red]", "\u202e", "\ud800", "x" * 500, "a\nb", "{}", "-rf", "\U0001f469\u200d"]
)
TIMES = st.integers(0, 60).map(float)
ODD_TIMES = st.sampled_from([None, 0.0, 7.5, 30.0, float("inf"), -1e300])
IDS = st.sampled_from([agent_id(number) for number in range(1, 6)])
TYPES = st.sampled_from(["command", "claude", "strange"])
STATES = st.sampled_from(State)
HOSTS = (LOCAL, MODAL, BOX, replace(BOX, id="host-bad", state="FAILED", failure_reason="\x1b[5m"))
SESSIONS = st.sampled_from(
    [None, SessionRef("/s/default", "mngr-a"), SessionRef("/s/other", "\x1b"), SessionRef("", "")]
)
LABELS = st.sampled_from([MappingProxyType({}), MappingProxyType({"\ud800": "\ud800", "archived_at": "x"})])


@st.composite
def agents(draw: st.DrawFn) -> Agent:
    """An agent as mngr tells of it."""
    created, started, acted = draw(st.tuples(ODD_TIMES, ODD_TIMES, ODD_TIMES))
    return Agent(
        id=draw(IDS),
        name=draw(TEXTS),
        type=draw(TYPES),
        host=draw(st.sampled_from(HOSTS)),
        state=draw(STATES),
        state_word=draw(TEXTS),
        created_at=created,
        started_at=started,
        agent_activity_at=acted,
        waiting_reason=draw(st.sampled_from([None, "END_OF_TURN", "PERMISSIONS", "\x1b"])),
        labels=draw(LABELS),
    )


@st.composite
def looks_at_agents(draw: st.DrawFn) -> LocalAgent:
    """A local agent as the probe sees it."""
    return LocalAgent(
        id=draw(IDS),
        name=draw(TEXTS),
        type=draw(TYPES),
        state=draw(st.none() | STATES),
        notes=(draw(TEXTS),),
        session=draw(SESSIONS),
        other_sessions=(SessionRef("/s/third", "twice"),),
        activity_at=draw(ODD_TIMES),
        waits_for_permission=draw(st.booleans()),
        bell=draw(st.booleans()),
        title=draw(TEXTS),
        exit_status=draw(st.sampled_from([None, 0, 3])),
        labels=draw(LABELS),
    )


@st.composite
def errors_of_lists(draw: st.DrawFn) -> ListingError:
    """An error beside the agents."""
    return ListingError(
        provider=draw(PROVIDERS),
        message=draw(TEXTS),
        hint=draw(TEXTS),
        is_unreachable=draw(st.booleans()),
        host_id=draw(st.sampled_from([None, LOCAL.id, BOX.id, "who"])),
        agent_id=draw(st.sampled_from([None, agent_id(1), "what"])),
    )


PROVIDERS = st.sampled_from([None, "local", "modal", "boxes", "never heard of"])
ANY_AGENTS = st.lists(agents(), max_size=5).map(tuple)
LOCAL_AGENTS = st.lists(looks_at_agents(), max_size=4, unique_by=lambda agent: agent.id).map(tuple)
ERRORS = st.lists(errors_of_lists(), max_size=2).map(tuple)
SOME_ERRORS = st.lists(errors_of_lists(), min_size=1, max_size=2).map(tuple)
SERVERS = st.sampled_from([(), (TmuxServer("/s/default", True),), (TmuxServer("/s/other", False, error="\x1b[2J"),)])
LISTS = st.builds(
    Listed, at=TIMES, provider=PROVIDERS, agents=ANY_AGENTS, errors=ERRORS, seconds=st.sampled_from([0.0, 5.0])
)
FAILURES = st.builds(ListFailed, at=TIMES, provider=PROVIDERS, title=TEXTS, detail=TEXTS)
LOOKS = st.builds(
    Probed,
    at=TIMES,
    host_id=st.sampled_from([LOCAL.id, LOCAL.id, LOCAL.id, "another"]),
    host_name=TEXTS,
    agents=LOCAL_AGENTS,
    servers=SERVERS,
    problems=st.lists(TEXTS, max_size=2).map(tuple),
    unreadable=st.lists(st.builds(UnreadableAgent, IDS, TEXTS, TEXTS), max_size=1).map(tuple),
)
MEMORIES = st.builds(
    Remembered,
    at=TIMES,
    agents=ANY_AGENTS.map(lambda found: tuple(RememberedAgent(agent, 3.0) for agent in found)),
)
OBSERVATIONS = st.lists(LISTS | FAILURES | LOOKS | MEMORIES, max_size=6)


def folded(observations: Sequence[Observation]) -> Fleet:
    return reduce(apply, observations, Fleet())


@QUIET
@given(OBSERVATIONS)
def test_whatever_comes_is_shown_explained_printed_and_remembered(observations: list[Observation]) -> None:
    fleet = folded(observations)
    shown = view(fleet, 99.0)
    assert len(shown.by_key) == len(shown.rows)
    assert sum(shown.counts.values()) == len(shown.rows)
    for row in shown.rows:
        lines = shown.explain(row.key)
        assert [line.at for line in lines] == sorted((line.at for line in lines), reverse=True)
        assert sum(line.stands for line in lines) == 1
    document = list_document(shown)
    text = json.dumps(document.model_dump(mode="json"), ensure_ascii=False, allow_nan=False)
    assert json.loads(text.encode()) == document.model_dump(mode="json")
    assert len(document.agents) == len(shown.rows)
    assert len({problem.key for problem in shown.problems}) == len(shown.problems)
    assert {one.agent.key for one in to_remember(fleet)} == shown.by_key.keys()


def test_times_that_are_no_numbers_are_survived() -> None:
    nowhen = float("nan")
    agent = Agent(
        agent_id(1), "a", "claude", BOX, State.WAITING, "WAITING", created_at=nowhen, agent_activity_at=nowhen
    )
    other = replace(agent, id=agent_id(2), started_at=nowhen, created_at=float("inf"))
    fleet = folded(
        [
            Listed(at=1.0, provider=None, agents=(agent, other)),
            Listed(at=nowhen, provider=None, agents=(agent,)),
            Probed(at=nowhen, host_id=LOCAL.id, host_name="x", agents=(), servers=()),
            ListFailed(at=nowhen, provider="boxes", title=""),
        ]
    )
    assert len(list_document(view(fleet, nowhen)).agents) == len(fleet.rows)


@QUIET
@given(OBSERVATIONS, LISTS | FAILURES | LOOKS | MEMORIES)
def test_the_same_again_changes_no_row(observations: list[Observation], last: Observation) -> None:
    once = apply(folded(observations), last)
    twice = apply(once, last)
    assert {row.key for row in twice.rows} == {row.key for row in once.rows}
    steady = apply(twice, last)
    assert all(new is old for new, old in zip(steady.rows, twice.rows, strict=True))


@QUIET
@given(OBSERVATIONS, st.integers(0, 8))
def test_a_row_is_the_same_object_where_it_is_equal(observations: list[Observation], cut: int) -> None:
    before = folded(observations[:cut])
    for observation in observations[cut:]:
        after = apply(before, observation)
        old = {row.key: row for row in before.rows}
        for row in after.rows:
            assert row is old.get(row.key) or row != old.get(row.key)
        before = after


@QUIET
@given(st.lists(LISTS, max_size=5), st.lists(FAILURES, max_size=5), st.data())
def test_failures_lose_no_row_wherever_they_come(
    lists: list[Listed], failures: list[ListFailed], data: st.DataObject
) -> None:
    expected = {row.key for row in folded(lists).rows}
    mixed: list[Observation] = list(lists)
    for failure in failures:
        mixed.insert(data.draw(st.integers(0, len(mixed))), failure)
    assert {row.key for row in folded(mixed).rows} == expected


@QUIET
@given(ANY_AGENTS, st.lists(SOME_ERRORS, min_size=1, max_size=4))
def test_a_failing_provider_keeps_every_row(first: tuple[Agent, ...], failing: list[tuple[ListingError, ...]]) -> None:
    fleet = apply(Fleet(), Listed(at=1.0, provider=None, agents=first))
    told = {row.key: row for row in fleet.rows}
    for number, errors in enumerate(failing):
        named = tuple(replace(error, provider="boxes") for error in errors)
        others = tuple(agent for agent in first if agent.host.provider != "boxes")
        fleet = apply(fleet, Listed(at=10.0 + number, provider=None, agents=others, errors=named))
        assert {row.key for row in fleet.rows} == told.keys()
        for row in fleet.rows:
            assert (row.stale_since is not None) == (row.agent.host.provider == "boxes")


@QUIET
@given(st.lists(LISTS, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_decide_who_is_there(lists: list[Listed], random: Random) -> None:
    # Answers of distinct times, each good: whichever way round they come in, the newest word is the word.
    good = [
        replace(listed, at=float(number), seconds=0.0, errors=(), provider=None, agents=_one_each(listed.agents))
        for number, listed in enumerate(lists)
    ]
    # Every provider answers each time, so that each answer says all about all of them.
    good = [replace(listed, agents=_one_each((*listed.agents, *_ANCHORS))) for listed in good]
    shuffled = list(good)
    random.shuffle(shuffled)
    one, other = folded(good), folded(shuffled)
    assert one.rows == other.rows


_ANCHORS = tuple(
    Agent(agent_id(9), "anchor", "command", host, State.RUNNING, "RUNNING", created_at=0.0) for host in HOSTS
)


def _one_each(found: Sequence[Agent]) -> tuple[Agent, ...]:
    finite = [replace(agent, created_at=1.0, started_at=None, agent_activity_at=None) for agent in found]
    return tuple({agent.key: agent for agent in finite}.values())
