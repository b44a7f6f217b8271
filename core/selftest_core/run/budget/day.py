"""One day in local time, and its usage by the runs of a repository. Values."""

from __future__ import annotations

import time

from selftest_core.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Day:
    """A day in local time, from midnight to midnight, in seconds since the epoch."""

    start: float
    end: float

    def has(self, at: float | None) -> bool:
        """True if this moment is on the day."""
        return at is not None and self.start <= at < self.end


@dataclass(frozen=True, slots=True)
class DaySpent:
    """Usage of one day. `runs`: number of runs that launched an agent on it.

    `problems`: a sentence for each run whose usage is not known.
    """

    day: Day
    usd: float = 0.0
    tokens: int = 0
    runs: int = 0
    problems: tuple[str, ...] = ()


def day_of(now: float) -> Day:
    """Return the local day around a moment; days on which the clocks change have 23 or 25 hours."""
    year, month, date = time.localtime(now)[:3]
    start, end = (time.mktime((year, month, day, 0, 0, 0, 0, 0, -1)) for day in (date, date + 1))
    return Day(start, end)
