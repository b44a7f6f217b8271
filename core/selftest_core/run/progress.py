"""How far a run is, in numbers: what is launched, what ended, what was spent, how long it may still take. Pure.

What is left is reckoned from the tests that ended in this run, and from nothing else: before the first one it is not
known. An agent that is being worked on counts for what it still needs, so that the number shrinks as time passes.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.run.events import RUNNING, Phase
from selftest_core.run.fold import end_of
from selftest_core.run.spending import spending

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.outcome.ends import End, Group
    from selftest_core.run.spending import Spending
    from selftest_core.usage.tokens import Usage


@dataclass(frozen=True, slots=True)
class Progress:
    """`tests` = `ended` + `cli.run` + `waiting`, where `cli.run` are those that have an agent, stopping ones too.

    `launched`: tests that an agent was made for. `ends`: how those that ended did, only the kinds that there are.
    `seconds_left`: None where nothing ended yet, where it is over, and where launching rests. `spent`: what the
    agents made so far cost.
    """

    tests: int
    launched: int
    running: int
    waiting: int
    ended: int
    needing: int
    limited: int
    ends: dict[End, int]
    seconds_left: float | None
    spent: Spending

    def count(self, group: Group) -> int:
        """Count the tests that ended in this group."""
        return sum(number for end, number in self.ends.items() if end.group is group)


def progress(run: Run, now: float, live: Mapping[str, Usage] | None = None) -> Progress:
    """How far `run` is at `now` (seconds since the epoch). `live`: newer figures than its journal's, by agent id."""
    ended = [row for row in run.rows.values() if row.phase is Phase.ENDED]
    waiting = sum(row.phase is Phase.WAITING for row in run.rows.values())
    ends: dict[End, int] = {}
    for row in ended:
        ends[end_of(row)] = ends.get(end_of(row), 0) + 1
    return Progress(
        tests=len(run.rows),
        launched=sum(row.attempt > 0 for row in run.rows.values()),
        running=len(run.rows) - len(ended) - waiting,
        waiting=waiting,
        ended=len(ended),
        needing=sum(bool(row.attention) and row.end is None for row in run.rows.values()),
        limited=sum(bool(row.limited) and row.end is None for row in run.rows.values()),
        ends=ends,
        seconds_left=None if run.paused or run.is_halted or run.left else _seconds_left(run, now),
        spent=spending(run, live or {}),
    )


def _seconds_left(run: Run, now: float) -> float | None:
    took = [seconds for row in run.rows.values() if (seconds := _took(row)) is not None]
    if not took or run.is_over:
        return None
    each = fmean(took)
    begun = [
        max(0.0, each - (now - row.launching_at))
        for row in run.rows.values()
        if row.phase in RUNNING and row.launching_at is not None
    ]
    waiting = sum(row.phase is Phase.WAITING for row in run.rows.values())
    rounds = math.ceil(waiting / run.plan.max_running)
    making = waiting / run.plan.launch_rate
    # Places become free while the first ones end; the last round begins when its place does.
    return max(fmean(begun) if begun and waiting else max(begun, default=0.0), 0.0) + max(rounds * each, making)


def _took(row: RunRow) -> float | None:
    if row.end is None or row.launching_at is None or row.ended_at is None:
        return None
    return max(0.0, row.ended_at - row.launching_at)
