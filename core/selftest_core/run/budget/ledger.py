"""Usage of one day by the runs of a repository.

    spent = DayLedger(repository).read(now)            # of all runs; `without` leaves one out

An agent belongs to the day on which it was launched, in local time, and counts as in `spending`. Runs whose journal was
not written since midnight are not read. A run of today that cannot be read, or that is dated in the future (the clock
was wrong when it was started, or is now), is named and does not count, so that a wrong clock never blocks the next runs
for a year.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.paths import runs_folder
from selftest_core.run.budget.day import DaySpent, day_of
from selftest_core.run.spending import usages_of
from selftest_core.run.store import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.budget.day import Day
    from selftest_core.run.fold import Run

type _Stamp = tuple[int, int]


class DayLedger:
    """Reads the runs of a repository, each again when its journal has changed. For one thread at a time."""

    def __init__(self, repository: Path, *, without: str = "") -> None:
        """`without`: the id of a run that is left out."""
        self._folder = runs_folder(repository)
        self._without = without
        self._known: dict[str, tuple[_Stamp, Run]] = {}

    def read(self, now: float) -> DaySpent:
        """Add up the day around `now`. Never raises: a run that cannot be read is a problem."""
        day = day_of(now)
        usd, tokens, runs = 0.0, 0, 0
        problems: list[str] = []
        for path in sorted(self._folder.glob("*/journal.jsonl")):
            found = None if path.parent.name == self._without else self._run(path, day)
            if isinstance(found, str):
                problems.append(f"run {path.parent.name} cannot be read, so what it used today is not known: {found}")
            elif found is not None:
                if _is_of_the_future(found, day):
                    problems.append(f"run {found.plan.run} {DATED_IN_THE_FUTURE}; its usage does not count")
                used = usages_of(found, day.has)
                runs += bool(used)
                usd += sum(one.usd for one in used if one.usd is not None)
                tokens += sum(one.tokens for one in used)
        return DaySpent(day, round(usd, 9), tokens, runs, tuple(problems))

    def _run(self, journal: Path, day: Day) -> Run | str | None:
        """Return the run, or why it cannot be read; None if it wrote nothing since the day began, or is no run."""
        try:
            status = journal.stat()
            if status.st_mtime < day.start or not (journal.parent / "plan.json").is_file():
                return None
            stamp = (status.st_size, status.st_mtime_ns)
            known = self._known.get(journal.parent.name)
            if known is None or known[0] != stamp:
                known = self._known[journal.parent.name] = (stamp, RunFolder(journal.parent).read())
        except (SelftestError, OSError) as error:
            return (
                " ".join(f"{error.title}: {error.detail}".split()) if isinstance(error, SelftestError) else str(error)
            )
        return known[1]


DATED_IN_THE_FUTURE = "is dated in the future: the clock was wrong when it started, or is wrong now"


def _is_of_the_future(run: Run, day: Day) -> bool:
    launched = [row.launched_at for row in run.rows.values() if row.launched_at is not None]
    return max((run.plan.created_at, *launched)) >= day.end
