"""Earlier runs of a repository, as the next run needs them: which tests worked, which rested, and from which base.

Only runs of testers count. A run that cannot be read is left out; so is one that is dated in the future, skipped ones
too, since a clock that jumped would make it the newest run for years.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.paths import runs_folder
from selftest_core.run.crew.crew import OUTCOME
from selftest_core.run.history.scheduled_log import scheduled_lines
from selftest_core.run.outcome.claims import ClaimResult
from selftest_core.run.outcome.ends import End
from selftest_core.run.outcome.outcome_file import LARGEST, parse_outcome
from selftest_core.run.store import RunFolder, plan_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from selftest_core.run.fold import RunRow
    from selftest_core.run.plan.plan import RunPlan

_SPARE = 86_400.0
"""Seconds that a run may be dated in the future: clocks of two machines that share a repository differ a little."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """One earlier run. `at`: seconds since the epoch. `worked`: whether the test of each agent that ended was green and
    unchanged, by node id; `rested`: tests that got no agent because they rested. A scheduled run that was skipped
    since every test rested has no `run` and no `base`.
    """

    at: float
    run: str = ""
    base: str = ""
    worked: Mapping[str, bool] | None = None
    rested: frozenset[str] = frozenset()


def earlier_plans(repository: Path, now: float, most: int) -> tuple[tuple[RunPlan, ...], tuple[str, ...]]:
    """Read the plans of the newest runs of testers, newest first; then the ids of runs that are dated in the future."""
    plans: list[RunPlan] = []
    future: list[str] = []
    for path in plan_files(repository):
        with suppress(SelftestError, OSError):
            plan = RunFolder(path.parent).plan()
            if plan.created_at > now + _SPARE:
                future.append(plan.run)
            elif plan.role == "tester":
                plans.append(plan)
        if len(plans) == most:
            break
    return tuple(plans), tuple(future)


def past_runs(repository: Path, plans: Iterable[RunPlan], now: float) -> tuple[PastRun, ...]:
    """Read what the tests of these runs did, and add the scheduled runs in which every test rested; newest first."""
    found = [past for past in _skipped(repository) if past.at <= now + _SPARE]
    for plan in plans:
        with suppress(SelftestError, OSError):
            found.append(_past_run(RunFolder(runs_folder(repository) / plan.run)))
    return tuple(sorted(found, key=lambda past: past.at, reverse=True))


def _past_run(folder: RunFolder) -> PastRun:
    run = folder.read()
    worked = {
        row.planned.node_id: _is_green_and_unchanged(folder, row)
        for row in run.rows.values()
        if row.end not in (None, End.NOT_STARTED)
    }
    suite = run.plan.suite
    rested = frozenset() if suite is None else frozenset(one.node_id for one in suite.resting)
    return PastRun(run.plan.created_at, run.plan.run, run.plan.base, worked, rested)


def _is_green_and_unchanged(folder: RunFolder, row: RunRow) -> bool:
    """Return whether an agent changed nothing, and its test passes: as verified, else as it reports."""
    if row.end is not End.UNCHANGED or row.member is None or row.verified in (ClaimResult.FAILED, ClaimResult.FLAKY):
        return False
    if row.verified == ClaimResult.PASSED:
        return True
    try:
        with (folder.attempt(row.member) / OUTCOME).open("rb") as file:
            return parse_outcome(file.read(LARGEST + 1)).tests_passing_after is True
    except (OSError, SelftestError):
        return False


def _skipped(repository: Path) -> Iterable[PastRun]:
    for line in scheduled_lines(repository):
        rested = line.get("rested")
        if not isinstance(rested, list):
            continue
        try:
            at = datetime.fromisoformat(line["at"]).timestamp()
        except (KeyError, TypeError, ValueError, OverflowError):
            continue  # a line that was damaged
        yield PastRun(at, rested=frozenset(map(str, rested)))
