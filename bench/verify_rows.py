"""Rows of verification, on real git and pytest: 60 changes of three tests each, and the cost of moving to a tree."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bench.fleets import base_environ
from bench.measure import Result, Stopwatch, median, percentile, result
from core.verify.desks import SANDBOX
from core.verify.known_repository import KnownRepository
from core.verify.known_truth import KnownLine
from selftest_core.tools.process import run
from selftest_core.verify.sandbox import sandbox_argv
from selftest_core.verify.schedule import REPEATS
from selftest_core.verify.slots import Slot
from selftest_core.verify.verdicts import Result as TestResult
from selftest_core.verify.verification import ReviewLine

if TYPE_CHECKING:
    from core.verify.known_repository import OpenReview
    from selftest_core.verify.verifier import Progress

_CHANGES = 60
_SEED = 7
_EXECUTIONS, _PROCESSES = 0.6, 0.25
_FIRST_VERDICT = 3.0
_BUDGETS: dict[int, dict[int, float | None]] = {2_000: {1: 60.0, 20: 110.0}, 20_000: {1: 350.0, 20: None}}
_MOVES = 12
_KEYS, _KEY_TO_PAINT = 100, 33.0
_ROOT = Path(__file__).resolve().parents[1]


def verify() -> dict[str, Result]:
    """All rows."""
    rows: dict[str, Result] = {}
    for files, budgets in _BUDGETS.items():
        line = KnownLine(random.Random(_SEED), _CHANGES)
        with TemporaryDirectory(prefix="verify-bench-") as folder:
            known = KnownRepository.make(line, Path(folder) / "repository", files)
            with known.opened(Path(folder)) as review:
                if files == min(_BUDGETS):
                    rows |= _sixty(line, review)
                rows |= _moves(review, Path(folder), files, budgets)
    with TemporaryDirectory(prefix="verify-bench-") as folder:
        rows |= _keys(min(_BUDGETS), Path(folder))
    return rows


def _keys(files: int, folder: Path) -> dict[str, Result]:
    """Cursor keys by Pilot, in a fresh process, while two jobs run."""
    argv = (sys.executable, "-m", "bench.verify_child", str(files), str(_KEYS), str(folder))
    done = run(argv, timeout=1800, cwd=_ROOT, env=base_environ())
    if not done.ok:
        raise RuntimeError(done.stderr_end)
    said: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    quiet, busy = said["quiet"], said["busy"]
    return {
        "key_to_paint_verifying": result(
            percentile(busy, 95), "ms", _KEY_TO_PAINT,
            against=f"the same keys before it: p95 {percentile(quiet, 95):.0f} ms, median {median(quiet):.0f} ms",
            note=f"two jobs verify {_CHANGES} changes, {files:,} files; p95 of {len(busy)} cursor keys, median "
            f"{median(busy):.0f} ms: key, screen composed; Pilot",
        )
    }  # fmt: skip


def _sixty(line: KnownLine, review: OpenReview) -> dict[str, Result]:
    with Stopwatch() as watch:
        found = review.verify((), lambda _: None)
    executions, processes, checkouts = _one_by_one(line)
    firsts = []
    for place in random.Random(_SEED).sample(range(line.count), 3):
        first: list[float] = []
        began = time.perf_counter()

        def take(_: Progress, began: float = began, first: list[float] = first) -> None:
            first.append(time.perf_counter() - began)

        review.verify((place,), take)
        firsts.append(first[0])
    about = f"{_CHANGES} changes of 3 tests, liars 10 %, culprits 3 %, flakes 2 %; the base included"
    against = "each change before and after it, reds repeated, and the candidate"
    return {
        "verify_executions": result(
            found.executions / executions, "of those", _EXECUTIONS, against=f"{against}: {executions}, counted",
            note=f"{about}: {found.executions}; {watch.wall:.0f} s with two jobs, isolation: {SANDBOX.kind}",
        ),
        "verify_processes": result(
            found.processes / processes, "of those", _PROCESSES, against=f"{against}: {processes}, counted",
            note=f"{about}: {found.processes}, one of which collects",
        ),
        "verify_checkouts": result(found.checkouts, "", against=f"{against}: {checkouts}, counted", note=about),
        "verify_first_verdict": result(
            max(firsts), "s", _FIRST_VERDICT,
            note=f"warm, {min(_BUDGETS):,} files: from a decision to the first test that ended; worst of {len(firsts)}",
        ),
    }  # fmt: skip


def _one_by_one(line: KnownLine) -> tuple[int, int, int]:
    """Count what it takes to run the tests of each change before and after it, and all on the candidate.

    Before it the change's own test files are there, so that a new test is red, not missing.
    """
    executions = processes = 0
    asked = [(line.prefix(place + after), line.items[place].tests) for place in range(line.count) for after in (0, 1)]
    asked.append((line.prefix(line.count), tuple(line.owner)))
    for tree, tests in asked:
        left = list(tests)
        for _ in range(REPEATS + 1):
            runs = {test: line.result(tree, test) for test in left}
            executions += len(runs)
            left = [test for test, one in runs.items() if one.is_red or one is TestResult.MISSING]
            processes += 1
            if not left:
                break
    return executions, processes, line.count + 1


def _moves(review: OpenReview, folder: Path, files: int, budgets: dict[int, float | None]) -> dict[str, Result]:
    reviewed = review.reviewed()
    line = ReviewLine(review.engine, reviewed, {})
    slot = Slot(folder / "slot", review.engine.store.git)
    slot.lay(line.prefix(0))
    sandbox = _sandbox_ms(folder) if SANDBOX.is_isolated else 0.0
    rows = {}
    for distance, budget in budgets.items():
        times = []
        for number in range(_MOVES):
            place = number * 2
            slot.lay(line.prefix(place))
            began = time.perf_counter()
            slot.lay(line.prefix(place + distance))
            times.append((time.perf_counter() - began) * 1000)
        rows[f"verify_move_{distance}_{files}"] = result(
            median(times) + sandbox, "ms", budget,
            note=f"to a tree {distance} changes away, {files:,} files: laid, cleaned and proved clean, median of "
            f"{len(times)}, p95 {percentile(times, 95):.0f} ms; with {sandbox:.0f} ms for the sandbox's start",
        )  # fmt: skip
    return rows


def _sandbox_ms(folder: Path) -> float:
    """Measure how much later a program starts in the sandbox."""
    plain = ["/bin/true"]
    isolated = sandbox_argv(
        plain, writable=[], readable=[], cwd=Path("/"), environment={}, bindings={}
    )  # fmt: skip
    spent = {}
    for name, argv in (("plain", plain), ("isolated", isolated)):
        times = []
        for _ in range(10):
            began = time.perf_counter()
            done = run(argv, timeout=60, cwd=folder)
            assert done.ok, done.stderr_end
            times.append(time.perf_counter() - began)
        spent[name] = min(times)
    return (spent["isolated"] - spent["plain"]) * 1000
