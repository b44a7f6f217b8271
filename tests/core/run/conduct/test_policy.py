"""The next step of a test, by what is seen of its agent: the rules alone."""

from __future__ import annotations

import pytest

from core.run.rehearsals import a_plan
from selftest_core.run.conduct.policy import Action, Advice, Policy, advise
from selftest_core.run.crew.crew import Life, Seen
from selftest_core.run.events import Phase
from selftest_core.run.fold import RunRow
from selftest_core.run.outcome.ends import End


def advice(seen: Seen, *, worked: float = 1.0, unseen: float = 0.0, is_asked_to_stop: bool = False) -> Advice:
    row = RunRow(a_plan(1).tests[0], Phase.WORKING, 1)
    return advise(
        row, seen, Policy(), worked=worked, timeout=100.0, unseen=unseen, lost_after=50.0, reminded=0.0,
        is_asked_to_stop=is_asked_to_stop,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "more", "end", "text"),
    [
        (Seen(Life.STOPPED), {}, End.STOPPED, "it was stopped by someone else"),
        (Seen(Life.STOPPED), {"worked": 100.0}, End.STOPPED, "it was stopped by someone else"),
        (Seen(Life.EXITED), {"is_asked_to_stop": True}, End.CRASH, "its program ended without an outcome"),
        (Seen(Life.WORKING), {"is_asked_to_stop": True}, End.STOPPED, "it was stopped on request"),
        (Seen(Life.WORKING), {"worked": 100.0}, End.TIMEOUT, "it timed out"),
    ],
)
def test_an_agent_that_will_write_no_more_is_fetched_from_for_the_last_time(
    seen: Seen, more: dict[str, float], end: End, text: str
) -> None:
    assert advice(seen, **more) == Advice(Action.FETCH, end, text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "more", "end", "text"),
    [
        (Seen(Life.ABSENT), {}, End.STOPPED, "it was destroyed by someone else"),
        (Seen(Life.LOST), {}, End.LOST, "its host is gone"),
        (Seen(Life.UNSEEN), {"unseen": 50.0}, End.LOST, "it was not seen for 50 s"),
    ],
)
def test_an_agent_from_which_nothing_can_come_is_given_up(
    seen: Seen, more: dict[str, float], end: End, text: str
) -> None:
    assert advice(seen, **more) == Advice(Action.GIVE_UP, end, text)  # type: ignore[arg-type]


def test_an_agent_that_is_late_in_being_seen_is_waited_for() -> None:
    assert advice(Seen(Life.UNSEEN), worked=100.0, unseen=49.0).action is Action.NOTHING
