"""Proves verification against known truths: nobody is wrongly accused, little is run, and nothing twice.

    make proof [ARGS="--lines 1000 --real 20 --kills 20"]

1. Scripted lines of random liars, culprits, flakes and decisions, through the schedule and the driver that ship.
2. Random lines on real git and real pytest.
3. A verification that is ended by kill -9 at as many moments, and goes on.

Prints a table; ends with 1 where a figure is not met. The same figures each time: all seeds are fixed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from core.verify.desks import SANDBOX  # noqa: E402 -- the tests' own harness, from where it is
from core.verify.killed import kill_again_and_again  # noqa: E402
from core.verify.known_repository import KnownRepository  # noqa: E402
from core.verify.known_truth import FIGURES, KnownLine, ScriptedVerifier, count  # noqa: E402
from selftest_core.verify import schedule  # noqa: E402
from selftest_core.verify.kept.results import Results  # noqa: E402
from selftest_core.verify.verdicts import Verdict  # noqa: E402
from selftest_core.verify.verifier import Driver  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from selftest_core.verify.schedule import TestReport
    from selftest_core.verify.verifier import Progress

FLAKES_ACCUSED = 3.0
"""Percent of flaky tests, failing in three of ten runs, for which somebody may be blamed."""
MORE_THAN_THE_FIGURES = 1.3


@dataclass
class Tally:
    """Verdicts held against the truth."""

    lines: int = 0
    verifications: int = 0
    liars: int = 0
    broken: int = 0
    wrong: int = 0
    missed: int = 0
    flakes: int = 0
    flakes_accused: int = 0
    twice: int = 0
    after_undo: int = 0
    seeds: list[int] = field(default_factory=list)

    def judge(
        self, line: KnownLine, reports: Iterable[TestReport], applied: Collection[int], seed: int, prefix: str = ""
    ) -> None:
        """Compare the verdicts on tests with the truth of a line, of which these changes are applied."""
        self.verifications += 1
        for report in reports:
            test = report.test.removeprefix(prefix)
            found = (report.false_claims, report.culprit)
            true = line.truth(test, applied)
            self.liars += bool(true[0])
            self.broken += true[1] is not None
            is_accused = bool(report.false_claims or report.culprit)
            if test in line.flaky:
                if true == ((), None):
                    self.flakes += 1
                    self.flakes_accused += is_accused
            elif found != true:
                self.wrong += is_accused
                self.missed += not is_accused
                self.seeds.append(seed)


class Table:
    """Rows of figures; `is_met` is false once one was not met."""

    def __init__(self) -> None:
        self.is_met = True

    def row(self, what: str, value: str, goal: str = "", *, is_met: bool = True) -> None:
        """Print one figure."""
        self.is_met = self.is_met and is_met
        print(f"{'✓' if is_met else '✗'} {what:<58} {value:>16}  {goal}", flush=True)

    def none(self, what: str, value: int) -> None:
        """Print a figure that must be 0."""
        self.row(what, f"{value}", "0", is_met=value == 0)


def main() -> int:
    """Prove it; 1 where a figure is not met."""
    arguments = _arguments()
    table = Table()
    began = time.monotonic()
    if arguments.lines:
        _scripted(table, arguments.lines)
        _cost(table)
    if arguments.real:
        _real(table, arguments.real)
    if arguments.kills:
        _killed(table, arguments.kills)
    print(f"{'proved' if table.is_met else 'NOT PROVED'} in {time.monotonic() - began:.0f} s")
    return 0 if table.is_met else 1


def _scripted(table: Table, lines: int) -> None:
    tally = Tally()
    for seed in range(lines):
        dice = random.Random(seed)
        line = KnownLine(dice, dice.choice([1, 2, 3, 5, 8, 20, 40]), liars=0.15, culprits=0.1, flakes=0.03)
        reverted = dice.sample(range(line.count), dice.randint(0, min(3, line.count - 1)))
        tally.lines += 1
        with tempfile.TemporaryDirectory() as folder, closing(Results.open(Path(folder), "known")) as results:
            verifier = ScriptedVerifier(line)
            for places in ((), reverted, ()):
                before = verifier.runs.total()
                part = line.without(places)
                driver = Driver(verifier, results, lambda _: None)
                report = driver.drive(schedule.verify(part, (), results.flakes()))
                candidate = part.prefix(len(part.applied))
                unsteady = (Verdict.FLAKY, Verdict.ORDER_DEPENDENT)
                results.purge((one.test, candidate) for one in report.tests if one.after in unsteady)
                tally.judge(line, report.tests, part.applied, seed)
            if not line.flaky:
                tally.after_undo += verifier.runs.total() - before
        # A flaky test's runs are no results, so they are not kept.
        tally.twice += sum(times > 1 for (_, test, _), times in verifier.runs.items() if test not in line.flaky)
    _verdicts(table, f"{lines:,} scripted lines", tally)


def _verdicts(table: Table, what: str, tally: Tally) -> None:
    table.row(f"{what}: verifications, with decisions and undo", f"{tally.verifications:,}")
    table.row("  false claims and broken tests in them", f"{tally.liars:,} and {tally.broken:,}")
    table.none("  deterministic tests wrongly blamed on somebody", tally.wrong)
    table.none("  false claims and culprits that were missed", tally.missed)
    if tally.flakes:
        percent = 100 * tally.flakes_accused / tally.flakes
        allowed = max(FLAKES_ACCUSED * tally.flakes / 100, 1)
        table.row(
            f"  flaky tests (p = 0.3) wrongly blamed, of {tally.flakes:,}", f"{percent:.1f} %",
            f"≤ {FLAKES_ACCUSED:g} %", is_met=tally.flakes_accused <= allowed,
        )  # fmt: skip
    table.none("  runs twice for one tree", tally.twice)
    table.none("  runs after undo", tally.after_undo)
    if tally.seeds:
        print(f"  seeds: {', '.join(map(str, dict.fromkeys(tally.seeds)))}")


def _cost(table: Table) -> None:
    lines = [KnownLine(random.Random(seed), 60) for seed in range(60)]
    for line in lines:
        line.verify()
    for what, figure in FIGURES.items():
        mean = sum(count(line, what) for line in lines) / len(lines)
        most = MORE_THAN_THE_FIGURES * figure
        table.row(f"  60 changes: {what}, mean of 60 lines", f"{mean:.0f}", f"≤ {most:.0f}", is_met=mean <= most)


def _real(table: Table, lines: int) -> None:
    tally = Tally()
    executions = processes = 0
    for seed in range(lines):
        dice = random.Random(1000 + seed)
        line = KnownLine(dice, dice.choice([1, 2, 2, 3, 3, 4]), liars=0.2, culprits=0.3, flakes=0.03)
        with tempfile.TemporaryDirectory(prefix="proof-") as folder:
            found = _real_line(tally, line, dice, Path(folder), seed)
        executions, processes = executions + found[0], processes + found[1]
    isolation = SANDBOX.kind if SANDBOX.is_isolated else f"no sandbox: {SANDBOX.reason}"
    _verdicts(table, f"{lines} lines on real git and pytest, {isolation}", tally)
    table.row("  runs of tests, and processes for them", f"{executions:,} in {processes:,}")


def _real_line(tally: Tally, line: KnownLine, dice: random.Random, folder: Path, seed: int) -> tuple[int, int]:
    """Verify a line as it is, with one change reverted, and after undo; returns the runs of tests and processes."""
    processes = 0
    known = KnownRepository.make(line, folder / "repository")
    seen: list[tuple[str, str, int]] = []

    def take(progress: Progress) -> None:
        seen.append((progress.job.tree, progress.test, dict(progress.job.runs)[progress.test]))

    tally.lines += 1
    with known.opened(folder) as review:
        reverted = dice.randrange(line.count)
        for gone in ((), (reverted,), ()):
            before = len(seen)
            found = review.verify(gone, take)
            processes += found.processes
            applied = [place for place in range(line.count) if place not in gone]
            reports = [_renamed(one, review.places) for one in found.tests]
            tally.judge(line, reports, applied, seed, "tests/")
        if not line.flaky:
            tally.after_undo += len(seen) - before
    steady = [one for one in seen if one[1].removeprefix("tests/") not in line.flaky]
    tally.twice += len(steady) - len(set(steady))
    return len(seen), processes


def _renamed(report: TestReport, places: Mapping[str, int]) -> TestReport:
    """The report with the names of the known line."""
    from dataclasses import replace

    return replace(
        report,
        culprit=None if report.culprit is None else f"change {places[report.culprit]}",
        false_claims=tuple(f"change {places[oid]}" for oid in report.false_claims),
    )


def _killed(table: Table, kills: int) -> None:
    if not SANDBOX.is_isolated:
        table.row("kill -9", "not tried", SANDBOX.reason)
        return
    dice = random.Random(12)
    line = KnownLine(dice, 9, liars=0, culprits=0.2, flakes=0)
    moments = [dice.randrange(3) for _ in range(kills)]
    with tempfile.TemporaryDirectory(prefix="proof-") as folder:
        known = KnownRepository.make(line, Path(folder) / "repository")
        same = KnownRepository.make(line, Path(folder) / "same")
        arguments = (known.repository.folder, known.branches)
        found = kill_again_and_again(Path(folder) / "killed", *arguments, moments)
        calm = kill_again_and_again(Path(folder) / "calm", same.repository.folder, same.branches, ())
    table.row("kill -9 of a verification: moments", f"{found.kills}", f"{kills}", is_met=found.kills == kills)
    table.none("  runs of tests that were run again", len(found.runs) - len(set(found.runs)))
    lost = {run[1:] for run in calm.runs} - {run[1:] for run in found.runs}
    table.none(f"  runs that were lost, of {len(calm.runs)}", len(lost))
    table.none(
        "  verdicts that differ from an undisturbed one's", len(dict(found.verdicts.items() ^ calm.verdicts.items()))
    )
    # Without a run no agent claims anything, and a test that was red before and is not edited is nobody's.
    wrong = set(found.broken) - {f"tests/{test}" for test in line.broken_by} | set(found.broken) ^ set(calm.broken)
    table.none(f"  tests wrongly called broken, of {len(calm.broken)}", len(wrong))
    table.none("  processes, slots and mounts left over", len(found.left))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="proof", description=__doc__.partition("\n")[0])
    parser.add_argument("--lines", type=int, default=1000, help="scripted lines (1000)")
    parser.add_argument("--real", type=int, default=20, help="lines on real git and pytest (20)")
    parser.add_argument("--kills", type=int, default=20, help="moments at which a verification is killed (20)")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
