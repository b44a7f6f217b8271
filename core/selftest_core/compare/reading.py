"""Reading of the runs to compare: their journals, their verifications, and the tests in their commits.

A test that only one of the runs has is new or gone if the other one did not find it. Where both were asked for the same
tests, their plans say what they found; else git is asked whether the test's function is in the other run's commit.
Nothing is written.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.compare.comparison import compare, has_results, planned
from selftest_core.errors import SelftestError, UsageError
from selftest_core.git.command import Git, find_place
from selftest_core.run.history.growth import comparable, new_and_gone, suite_tests, unknown_files
from selftest_core.run.overview import own_folders
from selftest_core.run.plan.plan import COMMANDS
from selftest_core.verify.kept.verification_file import read_verification
from selftest_core.verify.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from selftest_core.compare.comparison import Comparison
    from selftest_core.run.fold import Run
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.run.store import RunFolder

_MOST_RUNS = 30
"""Earlier runs of its kind that are looked at for the run before: reading a plan takes some milliseconds."""
_FLAKY = (Verdict.FLAKY, Verdict.ORDER_DEPENDENT)


def compare_runs(before: RunFolder, after: RunFolder, environ: Mapping[str, str]) -> Comparison:
    """Compare two runs. Raises UsageError where they cannot be compared, and the error of a plan or journal."""
    earlier, later = _read(before), _read(after)
    if earlier.plan.repository != later.plan.repository:
        both = f"{before.run}: {earlier.plan.repository}\n{after.run}: {later.plan.repository}"
        raise UsageError("These runs are of different repositories", both, "Compare two runs of one repository.")
    if earlier.plan.role != later.plan.role:
        both = "\n".join(f"{run.plan.run} is a run of `{COMMANDS[run.plan.role]}`" for run in (earlier, later))
        raise UsageError("These runs are of different kinds", both, "`selftest-tui runs` lists them.")
    for run in (earlier, later):
        if not has_results(run):
            detail = "It has no tests." if not run.rows else "None of its tests has ended."
            raise UsageError(
                f"The run {run.plan.run} has no results to compare", detail, "`selftest-tui runs` lists them."
            )
    alone = {name: run for run, other in ((earlier, later), (later, earlier)) for name in _only(run, other)}
    new, gone, problems = _new_and_gone(earlier, later, alone, environ)
    found = compare(earlier, later, flaky_tests(before), flaky_tests(after), new, gone)
    return replace(found, problems=(*found.problems, *problems))


def previous_run(folder: RunFolder, environ: Mapping[str, str]) -> RunFolder | None:
    """Return the newest run before this one that can be compared with it: one of the same role, with results.

    One that was asked for the same tests is preferred to a newer one of other tests, among the last `_MOST_RUNS`.
    """
    plan = folder.plan()
    newest, looked_at = None, 0
    for one in own_folders(environ, Path(plan.repository)):
        if looked_at == _MOST_RUNS:
            break
        try:
            earlier = one.plan()
            is_earlier = (earlier.created_at, one.run) < (plan.created_at, folder.run)
            if not is_earlier or earlier.role != plan.role or earlier.repository != plan.repository:
                continue
            looked_at += 1
            has_same_suite = _has_same_suite(earlier, plan)
            if (has_same_suite or newest is None) and has_results(one.read()):
                newest = one
                if has_same_suite:
                    break
        except (SelftestError, OSError):
            continue  # a damaged run cannot be compared
    return newest


def _has_same_suite(before: RunPlan, after: RunPlan) -> bool:
    """True if both runs were asked for the same tests. Plans of older versions do not say."""
    return after.suite is not None and comparable((before,), after.suite.asked, after.pytest_args) is not None


def flaky_tests(folder: RunFolder) -> frozenset[str]:
    """List the tests that the newest verification of a run's changes found flaky."""
    kept = read_verification(folder.path)
    return (
        frozenset() if kept is None else frozenset(one.test for one in kept.verification.tests if one.after in _FLAKY)
    )


def _read(folder: RunFolder) -> Run:
    try:
        return folder.read()
    except OSError as error:
        raise UsageError(f"The run {folder.run} cannot be read", str(error), "Restore its files.") from error


def _only(run: Run, other: Run) -> tuple[str, ...]:
    there = frozenset(planned(other))
    return tuple(name for name in planned(run) if name not in there)


def _new_and_gone(
    before: Run, after: Run, alone: Mapping[str, Run], environ: Mapping[str, str]
) -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
    """Return which of the tests of one run alone are new, which are gone, and what could not be read."""
    if not alone:
        return frozenset(), frozenset(), ()
    if _has_same_suite(before.plan, after.plan):
        new, gone = new_and_gone(before.plan, suite_tests(after.plan), unknown_files(after.plan))
        return frozenset(new), frozenset(gone), ()
    try:
        git = Git(find_place(Path(before.plan.repository), environ).git_dir, environ)
        earlier, later = (_defined(git, run.plan.base, alone) for run in (before, after))
    except (SelftestError, OSError) as error:
        says = error.title if isinstance(error, SelftestError) else str(error)
        return frozenset(), frozenset(), (f"Whether tests are new or gone is not known: {says}",)
    return later - earlier, earlier - later, ()


def _defined(git: Git, commit: str, tests: Iterable[str]) -> frozenset[str]:
    """List the tests whose function is in their file in a commit. Raises ToolError if the commit cannot be read."""
    git.ask("cat-file", "-e", f"{commit}^{{tree}}")
    by_path: dict[str, list[str]] = {}
    for test in tests:
        by_path.setdefault(test.partition("::")[0], []).append(test)
    texts = _read_files(git, commit, [path for path in by_path if "\n" not in path])
    return frozenset(test for path, names in by_path.items() for test in names if _has(texts.get(path), test))


def _read_files(git: Git, commit: str, paths: list[str]) -> dict[str, bytes]:
    """Read files of a commit with one process; missing ones are left out."""
    asked = "".join(f"{commit}:{path}\n" for path in paths)
    data = git.ask("cat-file", "--batch", text=asked).encode("utf-8", "surrogateescape")
    found: dict[str, bytes] = {}
    place = 0
    for path in paths:
        end = data.index(b"\n", place)
        words = data[place:end].split(b" ")
        place = end + 1
        if words[-1] == b"missing":
            continue
        size = int(words[-1])
        found[path] = data[place : place + size]
        place += size + 1
    return found


def _has(text: bytes | None, test: str) -> bool:
    if text is None:
        return False
    name = test.rpartition("::")[2].partition("[")[0]
    return re.search(rf"\bdef\s+{re.escape(name)}\b".encode("utf-8", "surrogateescape"), text) is not None
