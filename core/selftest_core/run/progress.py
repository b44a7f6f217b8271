"""The progress of a run: counts, cost, and the estimated time left. Pure.

The time left is estimated from the tests that ended in this run; it is unknown before the first one. Running agents
count with the time that they still need.
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
    """Numbers of a run. `tests` = `ended` + `running` + `waiting`; `running` includes agents that are being stopped.

    `launched`: tests that had an agent. `ends`: number of tests by end, only ends that occur. `seconds_left`: None
    before the first end, after the last, and while launching is paused. `spent`: the cost until now.
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
    """Compute the progress of `run` at `now` (seconds since the epoch). `live`: usage newer than the journal's, by
    agent id.
    """
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
    rounds = math.ceil(waiting / run.at_once)
    making = waiting / run.plan.launch_rate
    # The first round ends while its agents run; each further round takes the average.
    return max(fmean(begun) if begun and waiting else max(begun, default=0.0), 0.0) + max(rounds * each, making)


def _took(row: RunRow) -> float | None:
    if row.end is None or row.launching_at is None or row.ended_at is None:
        return None
    return max(0.0, row.ended_at - row.launching_at)
