"""The comparison of two runs of one repository, test by test. Pure: runs in, lists out.

A test is compared by its result: green, flaky, red, or none (blocked, crashed, timed out, …). A test that has not ended
in the later run is not compared. Durations and usage are compared where both runs measured them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.run.events import Phase
from selftest_core.run.outcome.claims import ClaimResult
from selftest_core.run.outcome.ends import End
from selftest_core.run.spending import used_by
from selftest_core.usage.tokens import Label, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from selftest_core.run.fold import Run, RunRow

RATIO = 1.5
"""Factor from which a test is slower or dearer: agents with the same task differ by tens of percent from run to run."""
LEAST_SECONDS = 60.0
"""Seconds that a slower test takes longer, at least: below a minute nobody waits differently."""
LEAST_TOKENS = 20_000
"""Tokens that a dearer test uses more, at least: an agent uses 20,000 to 50,000 before any work."""
LEAST_USD = 0.05
"""Dollars that a dearer test costs more, at least: what these tokens cost with a middling model."""
_AFTER_TIMEOUT = 600.0
"""Seconds after its timeout in which an agent's work is fetched: a longer time comes from a clock that was set."""


class Result(StrEnum):
    """The result of a test. `NONE`: its agent could not tell, such as after a crash or a block."""

    GREEN = "green"
    FLAKY = "flaky"
    RED = "red"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class TestThen:
    """One test in one run. `seconds`: from the launch of its last agent to its end; None if not measured.

    `usage`: metered tokens and dollars of all its agents; None if not metered. `says`: the evidence of a red test or
    of one without a result, untrusted.
    """

    __test__ = False

    end: End
    result: Result
    seconds: float | None
    usage: Usage | None
    says: str = ""


@dataclass(frozen=True, slots=True)
class ComparedTest:
    """One test in both runs; None where a run does not have it."""

    test: str
    before: TestThen | None
    after: TestThen | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs compared; the lists are in the order of the later run's plan, then of the earlier one's.

    A test is in at most one of `newly_red`, `newly_flaky`, `mended` and `no_result` (it had a result before). `new`
    and `gone`: the other run did not find the test. `only_before`, `only_after`: the other run left the test out, such
    as one that rests, or it is not known whether the test existed. `same`: number of tests with equal results.
    `pending`: number of tests that have not ended in the later run. `problems`: what could not be compared, in words.
    """

    before: Run
    after: Run
    newly_red: tuple[ComparedTest, ...] = ()
    newly_flaky: tuple[ComparedTest, ...] = ()
    mended: tuple[ComparedTest, ...] = ()
    no_result: tuple[ComparedTest, ...] = ()
    slower: tuple[ComparedTest, ...] = ()
    dearer: tuple[ComparedTest, ...] = ()
    new: tuple[ComparedTest, ...] = ()
    gone: tuple[ComparedTest, ...] = ()
    only_before: tuple[ComparedTest, ...] = ()
    only_after: tuple[ComparedTest, ...] = ()
    same: int = 0
    pending: int = 0
    problems: tuple[str, ...] = ()

    @property
    def is_worse(self) -> bool:
        """True if a test is newly red, newly flaky, or has no result any more."""
        return bool(self.newly_red or self.newly_flaky or self.no_result)


def compare(
    before: Run,
    after: Run,
    flaky_before: Collection[str] = (),
    flaky_after: Collection[str] = (),
    new: Collection[str] = (),
    gone: Collection[str] = (),
) -> Comparison:
    """Compare two runs. `flaky_…`: tests that the newest verification of each found flaky.

    `new`, `gone`: tests of one run that the other one did not find.
    """
    earlier = {name: _then(row, before, flaky_before) for name, row in _ended(before).items()}
    later = {name: _then(row, after, flaky_after) for name, row in _ended(after).items()}
    planned_before, planned_after = planned(before), planned(after)
    both = [ComparedTest(name, earlier[name], later[name]) for name in later if name in earlier]
    added = [ComparedTest(name, None, later.get(name)) for name in planned_after if name not in planned_before]
    removed = [ComparedTest(name, earlier.get(name), None) for name in planned_before if name not in planned_after]

    def which(is_one: Callable[[TestThen, TestThen], bool]) -> tuple[ComparedTest, ...]:
        return tuple(one for one in both if one.before and one.after and is_one(one.before, one.after))

    return Comparison(
        before,
        after,
        newly_red=which(lambda a, b: b.result is Result.RED and a.result is not Result.RED),
        newly_flaky=which(lambda a, b: b.result is Result.FLAKY and a.result is not Result.FLAKY),
        mended=which(_is_mended),
        no_result=which(lambda a, b: b.result is Result.NONE and a.result is not Result.NONE),
        slower=which(_is_slower),
        dearer=which(_is_dearer),
        new=tuple(one for one in added if one.test in new),
        gone=tuple(one for one in removed if one.test in gone),
        only_before=tuple(one for one in removed if one.test not in gone),
        only_after=tuple(one for one in added if one.test not in new),
        same=len(which(lambda a, b: a.result is b.result)),
        pending=len(planned_after) - len(later),
        problems=(*_unended_problems(before, earlier, later), *_clock_problems(before, after)),
    )


def planned(run: Run) -> tuple[str, ...]:
    """List the tests of a run."""
    return tuple(row.planned.node_id for row in run.rows.values())


def has_results(run: Run) -> bool:
    """True if a test of the run has ended."""
    return bool(_ended(run))


def _ended(run: Run) -> dict[str, RunRow]:
    return {
        row.planned.node_id: row
        for row in run.rows.values()
        if row.end is not None and row.phase in (Phase.STOPPING, Phase.ENDED) and not row.is_verifying
    }


def _then(row: RunRow, run: Run, flaky: Collection[str]) -> TestThen:
    assert row.end is not None
    if row.end is End.RED:
        result = Result.RED
    elif row.end not in (End.SUCCEEDED, End.UNCHANGED):
        result = Result.NONE
    elif row.verified == ClaimResult.FLAKY or row.planned.node_id in flaky:
        result = Result.FLAKY
    else:
        result = Result.GREEN
    usage = used_by(row)
    return TestThen(
        row.end,
        result,
        _seconds(row, run),
        None if usage is None or usage.label is Label.ESTIMATED else usage,
        row.text if result in (Result.RED, Result.NONE) else row.verified_reason,
    )


def _seconds(row: RunRow, run: Run) -> float | None:
    """Return how long the agent worked; None where it did not end its work itself, or the clock was set meanwhile."""
    seconds = _by_clock(row)
    is_possible = seconds is not None and 0.0 <= seconds <= run.plan.timeout + _AFTER_TIMEOUT
    return seconds if is_possible and row.end is not None and row.end.is_reported else None


def _by_clock(row: RunRow) -> float | None:
    return None if row.launched_at is None or row.ended_at is None else row.ended_at - row.launched_at


def _is_mended(before: TestThen, after: TestThen) -> bool:
    """True if a test that was red, flaky or blocked is green. That an agent worked this time mends no test."""
    was_bad = before.result in (Result.RED, Result.FLAKY) or before.end is End.BLOCKED
    return was_bad and after.result is Result.GREEN


def _is_slower(before: TestThen, after: TestThen) -> bool:
    return before.seconds is not None and _is_more(before.seconds, after.seconds, LEAST_SECONDS)


def _is_dearer(before: TestThen, after: TestThen) -> bool:
    """Compare dollars where both are known, else tokens."""
    if before.usage is None or after.usage is None:
        return False
    if before.usage.usd is not None and after.usage.usd is not None:
        return _is_more(before.usage.usd, after.usage.usd, LEAST_USD)
    return _is_more(before.usage.tokens, after.usage.tokens, LEAST_TOKENS)


def _is_more(before: float, after: float | None, least: float) -> bool:
    return after is not None and after >= before * RATIO and after - before >= least


def _unended_problems(before: Run, earlier: Collection[str], later: Collection[str]) -> list[str]:
    """Name how many tests of both runs cannot be compared, since they have not ended in the earlier one."""
    count = sum(name in later and name not in earlier for name in planned(before))
    if not count:
        return []
    tests = "One test has" if count == 1 else f"{count} tests have"
    return [f"{tests} not ended in the run {before.plan.run}, so nothing is compared there."]


def _clock_problems(before: Run, after: Run) -> list[str]:
    found = []
    if before.plan.created_at > after.plan.created_at:
        found.append(f"Run {before.plan.run} is dated after run {after.plan.run}, and is compared as the earlier one.")
    for run in (before, after):
        spans = [span for row in _ended(run).values() if (span := _by_clock(row)) is not None]
        odd = sum(not 0.0 <= span <= run.plan.timeout + _AFTER_TIMEOUT for span in spans)
        if odd:
            tests = "one test" if odd == 1 else f"{odd} tests"
            found.append(f"The clock was set during run {run.plan.run}: the time of {tests} is not compared.")
    return found
