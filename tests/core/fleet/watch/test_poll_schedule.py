"""When mngr is asked, and by which lane."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from selftest_core.config import Config
from selftest_core.fleet.watch import poll_schedule
from selftest_core.fleet.watch.poll_schedule import ALL, LOCAL, Schedule, pace_of

PACE = pace_of(Config())


def played(
    schedule: Schedule, *, until: float, costs: dict[str, float], providers: tuple[str, ...] = ()
) -> list[tuple[float, str, float]]:
    """(start, lane, cost) of every list from 0 to `until` seconds, where each takes its CPU seconds and answers."""
    now = 0.0
    done: list[tuple[float, str, float]] = []
    while True:
        due = poll_schedule.next_list(schedule, now)
        now = max(now, due.at)
        if now >= until:
            return done
        schedule = poll_schedule.note_start(schedule, due.lane)
        cost = costs[due.lane]
        done.append((now, due.lane, cost))
        now += cost
        schedule = poll_schedule.note_answer(schedule, due.lane, now, cost=cost, providers={LOCAL, *providers})


def test_an_unfiltered_list_comes_first_and_answers_for_the_local_lane() -> None:
    lists = played(poll_schedule.first_schedule(PACE), until=60.0, costs={ALL: 0.1, LOCAL: 0.1})

    assert lists[0][1] == ALL
    assert [lane for _, lane, _ in lists].count(ALL) < [lane for _, lane, _ in lists].count(LOCAL)
    local_starts = [start for start, lane, _ in lists if lane == LOCAL]
    any_starts = [start for start, _, _ in lists]
    for start in local_starts:
        assert all(start - before >= PACE.local for before in any_starts if before < start)


def test_where_remote_providers_are_known_the_quick_local_list_goes_first() -> None:
    schedule = poll_schedule.first_schedule(PACE, {"boxes"})
    costs = {ALL: 0.1, LOCAL: 0.1, "boxes": 0.1}
    lists = played(schedule, until=300.0, costs=costs, providers=("boxes",))

    assert [lane for _, lane, _ in lists[:2]] == [LOCAL, ALL]
    assert {lane for _, lane, _ in lists} == {LOCAL, ALL, "boxes"}


@given(cost=st.floats(0.2, 60.0), remote=st.lists(st.sampled_from(["a", "b", "c"]), unique=True))
def test_mngr_never_takes_more_than_about_a_tenth_of_a_core(cost: float, remote: list[str]) -> None:
    costs = dict.fromkeys((ALL, LOCAL, *remote), cost)
    until = 400 * cost
    lists = played(poll_schedule.first_schedule(PACE, remote), until=until, costs=costs, providers=tuple(remote))

    # The first answers of all lanes come at once; what follows keeps to the share.
    later = [each[2] for each in lists[len(costs) :]]
    assert sum(later) <= until / poll_schedule.MNGR_SHARE
    assert later, "it never asked again"


@given(cost=st.floats(0.01, 20.0))
def test_no_lane_is_forgotten(cost: float) -> None:
    lanes = (ALL, LOCAL, "a", "b")
    lists = played(
        poll_schedule.first_schedule(PACE, {"a", "b"}),
        until=5000.0 + 1000 * cost,
        costs=dict.fromkeys(lanes, cost),
        providers=("a", "b"),
    )

    for lane in lanes:
        assert sum(name == lane for _, name, _ in lists) >= 3, lane


def answered(schedule: Schedule, lane: str, now: float, cost: float = 1.0) -> Schedule:
    return poll_schedule.note_answer(schedule, lane, now, cost=cost, providers={LOCAL} | schedule.providers)


def test_what_a_person_asks_for_starts_at_once() -> None:
    schedule = answered(poll_schedule.first_schedule(PACE), ALL, 1.0, cost=30.0)
    assert poll_schedule.next_list(schedule, 2.0).at > 2.0

    wanted = poll_schedule.request_list(schedule)

    assert poll_schedule.next_list(wanted, 2.0) == poll_schedule.Due(ALL, 2.0)
    assert poll_schedule.next_list(answered(poll_schedule.note_start(wanted, ALL), ALL, 3.0), 3.0).at > 3.0


def test_what_is_asked_for_during_a_list_is_asked_after_it() -> None:
    schedule = poll_schedule.note_start(poll_schedule.first_schedule(PACE), ALL)
    schedule = answered(poll_schedule.request_list(schedule, ALL), ALL, 1.0)

    assert poll_schedule.next_list(schedule, 1.0) == poll_schedule.Due(ALL, 1.0)


def test_a_provider_that_nobody_knows_is_asked_by_the_unfiltered_list() -> None:
    schedule = answered(poll_schedule.first_schedule(PACE), ALL, 1.0)

    assert poll_schedule.next_list(poll_schedule.request_list(schedule, "new"), 2.0) == poll_schedule.Due(ALL, 2.0)
    only_local = answered(poll_schedule.first_schedule(PACE, only_local=True), LOCAL, 1.0)
    assert poll_schedule.next_list(poll_schedule.request_list(only_local), 2.0) == poll_schedule.Due(LOCAL, 2.0)


def test_the_unfiltered_answer_says_which_remote_lanes_there_are() -> None:
    schedule = poll_schedule.note_answer(
        poll_schedule.first_schedule(PACE), ALL, 1.0, cost=1.0, providers={LOCAL, "modal"}, failing={"boxes"}
    )
    assert schedule.providers == {"modal", "boxes"}

    schedule = poll_schedule.note_answer(schedule, ALL, 50.0, cost=1.0, providers={LOCAL, "modal"})
    assert schedule.providers == {"modal"}


def test_a_failing_lane_is_asked_less_and_less_and_again_after_it_has_healed() -> None:
    schedule = poll_schedule.first_schedule(PACE, only_local=True)
    pauses = []
    now = 0.0
    for _ in range(12):
        schedule = poll_schedule.note_failure(schedule, LOCAL, now, cost=0.0)
        due = poll_schedule.next_list(schedule, now).at
        pauses.append(due - now)
        now = due
    assert pauses == sorted(pauses)
    assert pauses[0] > PACE.local
    assert pauses[-1] <= poll_schedule.LONGEST_INTERVAL

    healed = poll_schedule.note_answer(schedule, LOCAL, now, cost=0.0, providers={LOCAL})
    assert poll_schedule.next_list(healed, now).at == now + PACE.local


def test_a_provider_that_fails_in_the_unfiltered_answer_backs_off_alone() -> None:
    schedule = poll_schedule.first_schedule(PACE, {"down"})
    schedule = poll_schedule.note_answer(schedule, ALL, 1.0, cost=0.0, providers={LOCAL}, failing={"down"})

    lanes = {lane.name: lane.failures for lane in schedule.lanes}
    assert lanes == {LOCAL: 0, ALL: 0, "down": 1}


def test_after_a_change_the_lanes_hurry_for_a_while() -> None:
    schedule = poll_schedule.note_answer(
        poll_schedule.first_schedule(PACE, only_local=True), LOCAL, 10.0, cost=0.0, providers={LOCAL}
    )
    hurried = poll_schedule.note_change(schedule, 10.0)

    assert poll_schedule.next_list(hurried, 10.0).at < poll_schedule.next_list(schedule, 10.0).at
    assert poll_schedule.probe_interval(hurried, 10.0, 0.0) < poll_schedule.probe_interval(schedule, 10.0, 0.0)
    calm = replace(hurried, eager_until=0.0)
    assert poll_schedule.next_list(hurried, 10.0 + poll_schedule.EAGER_SECONDS) == poll_schedule.next_list(
        calm, 10.0 + poll_schedule.EAGER_SECONDS
    )


@given(cost=st.floats(0.0, 10.0), failures=st.integers(0, 50), eager=st.booleans())
def test_the_probe_keeps_to_its_share(cost: float, failures: int, eager: bool) -> None:
    schedule = replace(poll_schedule.first_schedule(PACE), eager_until=100.0 if eager else 0.0)
    pause = poll_schedule.probe_interval(schedule, 50.0, cost, failures)

    assert pause >= min(cost * poll_schedule.PROBE_SHARE, poll_schedule.LONGEST_PROBE_INTERVAL)
    assert 0.0 < pause <= poll_schedule.LONGEST_PROBE_INTERVAL


def test_a_deadline_grows_with_the_fleet() -> None:
    schedule = poll_schedule.first_schedule(PACE)
    # 100 agents take about 5 s and 1,000 about 50 s; an unreachable ssh host alone 31 s.
    assert poll_schedule.deadline(schedule, LOCAL, 1000) > 100.0
    assert poll_schedule.deadline(schedule, "boxes", 0) > 31.0
    assert poll_schedule.deadline(schedule, ALL, 0) > 31.0


def test_mngr_rests_where_the_probe_knows_every_agent_until_something_changes() -> None:
    costs = {ALL: 0.9, LOCAL: 0.9}
    calm = played(poll_schedule.note_quiet(poll_schedule.first_schedule(PACE), is_quiet=True), until=600.0, costs=costs)
    assert sum(cost for start, _, cost in calm if start > 60.0) <= 540.0 / poll_schedule.QUIET_SHARE
    busy = played(poll_schedule.first_schedule(PACE), until=600.0, costs=costs)
    assert len(busy) > 5 * len(calm)

    resting = poll_schedule.note_answer(
        poll_schedule.note_quiet(poll_schedule.first_schedule(PACE), is_quiet=True),
        ALL,
        10.0,
        cost=0.9,
        providers={LOCAL},
    )
    assert poll_schedule.next_list(resting, 11.0).at == 100.0
    moved = poll_schedule.note_change(resting, 30.0)
    assert poll_schedule.next_list(moved, 30.0).at < 31.0
    assert poll_schedule.next_list(poll_schedule.note_quiet(resting, is_quiet=False), 30.0).at < 31.0
