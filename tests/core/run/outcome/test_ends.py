"""The table of ends: every end is counted, shown, logged and printed without a second list of ends."""

from __future__ import annotations

import pytest

from core.run.rehearsals import a_plan
from selftest_core.journal import Entry
from selftest_core.run.events import Event, Phase
from selftest_core.run.fold import fold
from selftest_core.run.log_lines import log_line
from selftest_core.run.outcome.ends import ENDS_BY_GRAVITY, End, Group
from selftest_core.run.progress import progress
from selftest_core.schema.run import exit_status, open_counts, run_summary
from selftest_tui.run.words import GROUPS, STYLES, SYMBOLS, WORDS

PLAN = a_plan(1)
TEST = PLAN.tests[0]


@pytest.mark.parametrize("end", End)
def test_each_end_is_counted_shown_and_logged(end: End) -> None:
    agent = {"agent": TEST.agent_name, "attempt": 1}
    lines = [
        (Event.LAUNCHING, agent),
        (Event.LAUNCHED, agent),
        (Event.ENDED, {**agent, "end": str(end)}),
        (Event.STOPPED, agent),
    ]
    entries = [Entry(number, 10.0 * number, event, fields) for number, (event, fields) in enumerate(lines, 1)]
    run = fold(PLAN, entries)

    outcomes = run_summary(run, 100.0).outcomes.model_dump()
    assert (outcomes["failed"] if end.is_failure else outcomes)[end] == 1
    assert sum(open_counts(run).model_dump().values()) == end.group.is_open
    assert exit_status(run) == end.group.is_open
    assert progress(run, 100.0).count(end.group) == 1
    assert log_line(run, entries[2]) == f"[1/1] {TEST.node_id} {end.sentence}"
    assert all(table[end] for table in (SYMBOLS, WORDS, STYLES))


def test_each_group_has_a_look_and_each_end_a_place() -> None:
    assert set(GROUPS) == set(Group)
    assert {*SYMBOLS} == {*End, *Phase}
    assert sorted(ENDS_BY_GRAVITY) == sorted(End)
