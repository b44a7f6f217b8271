"""The fold of a run: any prefix of a journal is a run, counts always sum, a line taken twice is taken once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from core.run.rehearsals import a_plan, a_rehearsal
from selftest_core.journal import Entry
from selftest_core.run.events import Event, Phase
from selftest_core.run.fold import Run, apply, begin, fold
from selftest_core.run.outcome.ends import End
from selftest_core.schema.run import outcome_counts
from simulated.crew import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

PLAN = a_plan(3)
NAMES = tuple(test.agent_name for test in PLAN.tests)
WORDS = st.sampled_from([*map(str, Event), "of a later version"])
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "agent": st.sampled_from([*NAMES, "nobody", 7]),
        "attempt": st.integers(0, 3) | st.none(),
        "end": st.sampled_from([*map(str, End), "unheard of", None]),
        "text": st.text(max_size=5),
        "commits": st.integers(-1, 2) | st.text(max_size=1),
        "reason": st.sampled_from(["launch", "lost", "asked", 3]),
    },
)


def entries(*lines: tuple[str, dict[str, object]]) -> tuple[Entry, ...]:
    return tuple(Entry(number, 10.0 * number, event, fields) for number, (event, fields) in enumerate(lines, 1))


def line(event: Event, attempt: int = 1, agent: str = NAMES[0], **fields: object) -> tuple[str, dict[str, object]]:
    return str(event), {"agent": agent, "attempt": attempt, **fields}


def assert_sums(run: Run) -> None:
    said = outcome_counts(run.ends()).model_dump()
    failed = said.pop("failed")
    assert sum(said.values()) + sum(failed.values()) == len(PLAN.tests)
    assert len(run.rows) == len(PLAN.tests)
    assert sum(run.ends().values()) == len(PLAN.tests)


@given(st.lists(st.tuples(WORDS, FIELDS), max_size=40))
def test_whatever_the_lines_say_the_counts_sum_and_repeats_change_nothing(
    lines: Sequence[tuple[str, dict[str, object]]],
) -> None:
    run = begin(PLAN)
    for entry in entries(*lines):
        run = apply(run, entry)
        assert_sums(run)
        assert apply(run, entry) == run
        for row in run.rows.values():
            assert (row.end is not None) == (row.phase in (Phase.STOPPING, Phase.ENDED))
            assert len(row.retries) <= row.attempt
    again = fold(PLAN, [*entries(*lines), *entries(*lines)])
    assert again == run


def test_every_prefix_of_a_real_journal_is_a_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    rehearsal = a_rehearsal(tmp_path_factory.mktemp("run"), list(Role)[:6])
    assert rehearsal.conduct() == "done"
    run = begin(rehearsal.plan)
    for entry in rehearsal.ledger.entries:
        run = apply(run, entry)
        assert len(run.rows) == 6
    assert run == rehearsal.run
    assert run.is_over
    assert run.left == "done"


def test_a_line_of_an_attempt_that_is_over_is_not_obeyed() -> None:
    first = (line(Event.LAUNCHING), line(Event.LAUNCHED, host_id="h"), line(Event.RETRYING, reason="lost", text="gone"))
    second = (line(Event.LAUNCHING, 2), line(Event.LAUNCHED, 2, host_id="h2"))
    late = line(Event.ENDED, 1, end="succeeded")
    row = fold(PLAN, entries(*first, *second, late)).rows[NAMES[0]]
    assert (row.phase, row.attempt, row.end) == (Phase.WORKING, 2, None)
    assert [retry.reason for retry in row.retries] == ["lost"]
    assert row.member is not None
    assert row.member.agent_id != PLAN.tests[0].agent_id
    assert len(row.member.name) <= 50


def test_a_run_that_is_left_in_the_middle_still_counts_every_test() -> None:
    run = fold(PLAN, entries(line(Event.LAUNCHING), line(Event.LAUNCHED, host_id="h")))
    assert outcome_counts(run.ends()).model_dump()["stopped"] == 1
    assert outcome_counts(run.ends()).model_dump()["not_started"] == 2


def test_an_end_of_a_later_version_is_no_success() -> None:
    run = fold(PLAN, entries(line(Event.LAUNCHING), line(Event.LAUNCHED), line(Event.ENDED, end="perfected")))
    assert run.rows[NAMES[0]].end is End.UNREADABLE


def test_going_on_accepts_the_cluster_that_paused_the_run() -> None:
    paused = fold(PLAN, entries((Event.PAUSED, {"reason": "5 of 6", "by": "cluster", "signature": "s"})))
    assert (paused.paused, paused.paused_by) == ("5 of 6", "cluster")
    resumed = apply(paused, Entry(2, 0.0, Event.RESUMED, {}))
    assert (resumed.paused, resumed.accepted) == ("", frozenset({"s"}))
