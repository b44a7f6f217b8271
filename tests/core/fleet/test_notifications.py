"""Which notifications are due: what is new, once a minute and cluster, and nothing lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scenes import an_agent
from selftest_core.fleet.attention import ARCHIVED_LABEL
from selftest_core.fleet.notifications import SECONDS_OF_A_CLUSTER, Announced, due, see
from selftest_core.fleet.view import Category, FleetView, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.fleet.notifications import Notification

QUIET = settings(
    derandomize=True, deadline=None, max_examples=200, database=None, suppress_health_check=list(HealthCheck)
)
PERMISSION, TURN = "waits for permission", "its turn ended"
NEEDS = st.lists(st.sampled_from([None, PERMISSION, TURN]), min_size=4, max_size=4)
STEPS = st.lists(st.tuples(st.floats(0.0, 90.0), NEEDS), min_size=1, max_size=25)


def a_row(number: int, need: str | None) -> Row:
    category = Category.WORKING if need is None else Category.NEEDS_YOU
    return Row(an_agent(number, f"agent-{number}"), category, "probe", need)


def a_view(*needs: str | None, expecting: frozenset[str] = frozenset()) -> FleetView:
    rows = tuple(a_row(number, need) for number, need in enumerate(needs, start=1))
    return FleetView(0.0, rows, expecting=expecting, has_local_answer=True)


def told(steps: Sequence[tuple[float, FleetView]]) -> list[tuple[float, Notification]]:
    """All that is announced while these views come, each at its time."""
    announced, made = Announced(), []
    for now, view in steps:
        announced, some = due(see(announced, view), view, now)
        made += [(now, one) for one in some]
    return made


def test_what_was_so_at_the_start_is_no_news_and_what_comes_is() -> None:
    steps = [(0.0, a_view(PERMISSION, None)), (1.0, a_view(PERMISSION, PERMISSION)), (2.0, a_view(PERMISSION, TURN))]
    assert [(now, one.names, one.reason) for now, one in told(steps)] == [
        (1.0, ("agent-2",), PERMISSION),
        (2.0, ("agent-2",), TURN),
    ]


def test_agents_that_came_and_went_are_not_kept() -> None:
    announced = see(Announced(), a_view(None, expecting=frozenset({"modal"})))
    assert announced.seen
    for number in range(20):
        announced = see(announced, FleetView(0.0, (a_row(number, TURN),), has_local_answer=True))
    assert (len(announced.needs), len(announced.open), announced.seen) == (1, 1, frozenset())


def test_what_a_provider_shows_with_its_first_answer_is_no_news() -> None:
    first = a_view(None, expecting=frozenset({"modal"}))
    assert told([(0.0, first), (5.0, a_view(None, TURN))]) == []
    assert [one.names for _, one in told([(0.0, first), (5.0, a_view(TURN, TURN))])] == [("agent-1",)]


def test_an_agent_that_is_new_and_asks_is_news() -> None:
    assert [one.line for _, one in told([(0.0, a_view(None)), (1.0, a_view(None, TURN))])] == [
        "agent-2: its turn ended"
    ]


def test_those_that_come_within_the_minute_are_announced_together_behind_it() -> None:
    needs = [(None,) * 5, (TURN, *(None,) * 4), (TURN,) * 4 + (None,), (TURN, TURN, TURN, None, TURN)]
    steps = [(float(10 * at), a_view(*some)) for at, some in enumerate(needs)]
    steps.append((10.0 + SECONDS_OF_A_CLUSTER, a_view(*needs[-1])))
    assert [(now, one.line) for now, one in told(steps)] == [
        (10.0, "agent-1: its turn ended"),
        (70.0, "agent-2, agent-3, agent-5: its turn ended"),
    ]


def test_an_archived_agent_and_one_whose_source_is_silent_are_no_news() -> None:
    before = a_view(None, None)
    archived, silent = a_row(1, TURN), a_row(2, TURN)
    archived = replace(archived, agent=replace(archived.agent, labels={ARCHIVED_LABEL: "2026-11-22"}))
    after = replace(before, rows=(archived, replace(silent, stale_since=1.0)))
    assert told([(0.0, before), (1.0, after)]) == []


def test_what_agents_wrote_is_one_harmless_line() -> None:
    view = a_view(None, "asks \x1b]9;x\x07\nor \u202e" + "y" * 1_000)
    ((_, one),) = told([(0.0, a_view(None, None)), (1.0, view)])
    assert one.line.isprintable()
    assert len(one.line) <= 200


@QUIET
@given(STEPS)
def test_a_cluster_is_announced_once_a_minute_at_most(steps: list[tuple[float, list[str | None]]]) -> None:
    now, views = 0.0, []
    for seconds, needs in steps:
        now += seconds
        views.append((now, a_view(*needs)))
    last: dict[str, float] = {}
    for at, one in told(views):
        assert at - last.get(one.cluster, -1e9) >= SECONDS_OF_A_CLUSTER
        last[one.cluster] = at


@QUIET
@given(STEPS)
def test_every_new_need_that_lasts_is_announced_and_no_other(steps: list[tuple[float, list[str | None]]]) -> None:
    now, views = 0.0, []
    for seconds, needs in steps:
        now += seconds
        views.append((now, a_view(*needs)))
    views.append((now + SECONDS_OF_A_CLUSTER + 0.001, views[-1][1]))  # everything has had its minute; sums are rounded
    heard = {(name, one.reason) for _, one in told(views) for name in one.names}
    seen = {(row.agent.name, row.attention) for _, view in views for row in view.rows if row.attention}
    assert heard <= seen
    for index, row in enumerate(views[-1][1].rows):
        needs = [view.rows[index].attention for _, view in views]
        if row.attention and any(need != row.attention for need in needs):
            assert (row.agent.name, row.attention) in heard
        if len(set(needs)) == 1:
            assert not any(name == row.agent.name for name, _ in heard)
