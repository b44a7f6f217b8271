"""Run tests by a command that is no pytest, and read the JUnit XML that it writes.

`verify_command` names the file as {junit}; {tests} stands for the wanted tests, none for all. The reader trusts little:
a report that is missing or cut, or that does not agree with the exit status, makes every test unknown. A test that
passed only when it was repeated is flaky, whatever the runner says of the whole.
"""

from __future__ import annotations

import math
import os
import stat
from collections import defaultdict
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from selftest_core.frozen import dataclass
from selftest_core.verify.commands.contained import contained_variables, place_of, run_in_slot
from selftest_core.verify.verdicts import Execution, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from selftest_core.verify.commands.contained import Ended
    from selftest_core.verify.environment import Testing
    from selftest_core.verify.slots import Slot

REPORT, TESTS = "{junit}", "{tests}"
_LARGEST = 256 * 1024 * 1024
_OUTPUT = 20_000
_WORDS = {
    "failure": Result.FAILED, "error": Result.ERROR, "skipped": Result.SKIPPED,
    # cargo-nextest and surefire: it failed, was repeated, and passed.
    "flakyFailure": Result.FLAKY, "flakyError": Result.FLAKY,
    "rerunFailure": Result.FLAKY, "rerunError": Result.FLAKY,
}  # fmt: skip
_WORST = (Result.ERROR, Result.FAILED, Result.FLAKY, Result.SKIPPED)
_BUILD_FAILURE = "TestMain"
"""The name under which gotestsum reports a package that cannot be built; a repeat of other tests hides it."""


@dataclass(frozen=True, slots=True)
class Report:
    """The tests of a report by id, and the suites that could not be built; `reason`: why it says nothing."""

    runs: Mapping[str, Execution]
    broken_suites: tuple[str, ...] = ()
    reason: str = ""
    output: str = ""


def is_reported(words: Sequence[str]) -> bool:
    """True for a command that writes JUnit XML; others are pytest."""
    return any(REPORT in word for word in words)


def run_reported(
    slot: Slot, tests: Sequence[str], testing: Testing, should_stop: Callable[[], bool]
) -> Mapping[str, Execution]:
    """Run these tests on the tree that is laid in the slot; {} where it was stopped."""
    report = _run(slot, tests, testing, should_stop)
    if should_stop():
        return {}
    if report.reason:
        return {test: Execution(Result.NOT_RUN, None, report.output, report.reason) for test in tests}
    found = {}
    for test in tests:
        if test in report.runs:
            found[test] = report.runs[test]
        elif test.startswith(tuple(f"{suite}::" for suite in report.broken_suites)):
            found[test] = Execution(Result.ERROR, None, report.output, "it could not be built")
        else:
            found[test] = Execution(Result.MISSING, None, "", "not in the report on this tree")
    return found


def collect_reported(slot: Slot, testing: Testing, should_stop: Callable[[], bool]) -> tuple[tuple[str, ...], str]:
    """Return all tests of the laid tree, and the reason why nothing is known. To be listed, they are run."""
    report = _run(slot, (), testing, should_stop)
    return tuple(report.runs), f"{report.reason}\n{report.output}" if report.reason else ""


def _run(slot: Slot, tests: Sequence[str], testing: Testing, should_stop: Callable[[], bool]) -> Report:
    path = slot.exchange / "report.xml"
    words = []
    for word in testing.environment.words_at(place_of(slot, testing)):
        words += [_selector(test) for test in tests] if word == TESTS else [word.replace(REPORT, str(path))]
    ended = run_in_slot(
        slot, testing, words, contained_variables(slot, testing), timeout=testing.timeout,
        should_stop=should_stop, network=testing.network,
    )  # fmt: skip
    return _judged(read_report(path, slot.untouched, ended.output), ended)


def _judged(report: Report, ended: Ended) -> Report:
    if ended.reason:
        return Report({}, (), f"the test command {ended.reason}", ended.output)
    if report.reason:
        return Report({}, (), f"{report.reason}; the test command ended with status {ended.status}", ended.output)
    is_red = any(run.result.is_red or run.result is Result.FLAKY for run in report.runs.values())
    if ended.status and not is_red and not report.broken_suites:
        reason = f"the test command ended with status {ended.status}, and reports no failure"
        return Report({}, (), reason, ended.output)
    return report


def read_report(path: Path, root: Path, output: str = "") -> Report:
    """Read a report, or a folder of reports, of tests in the tree at `root`."""
    runs: dict[str, list[Execution]] = defaultdict(list)
    broken: dict[str, None] = {}
    suites: dict[str, str] = {}
    try:
        for suite, case in _cases(path):
            name, class_name = case.get("name", ""), case.get("classname", "")
            run = _execution(case)
            if name == _BUILD_FAILURE and not class_name and run.result.is_red:
                broken[suite] = None
                continue
            test = _id(suite, class_name, name, case.get("file", ""), root)
            suites[test] = suite
            runs[test].append(run)
    except FileNotFoundError:
        return Report({}, (), "it wrote no report", output)
    except (ElementTree.ParseError, OSError, ValueError) as error:
        return Report({}, (), f"its report cannot be read: {error}", output)
    found = {}
    for test, several in runs.items():
        if suites[test] in broken:
            found[test] = Execution(Result.ERROR, None, several[0].output, "its suite could not be built")
        else:
            found[test] = _sum(several)
    return Report(found, tuple(broken), "", output)


def _cases(path: Path) -> Iterator[tuple[str, ElementTree.Element]]:
    """Yield each test case with the name of its suite. Follows no link and waits for no pipe that a test left."""
    if path.is_dir() and not path.is_symlink():
        for one in sorted(path.glob("*.xml")):
            yield from _cases(one)
        return
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST:
            raise ValueError("it is no file, or too large")
        root = ElementTree.parse(file).getroot()
    for suite in root.iter("testsuite"):
        for case in suite.findall("testcase"):
            yield suite.get("name", ""), case


def _execution(case: ElementTree.Element) -> Execution:
    found = {_WORDS[child.tag]: child for child in case if child.tag in _WORDS}
    result = next((one for one in _WORST if one in found), Result.PASSED)
    if result is Result.PASSED and case.get("status", "") in ("notrun", "disabled"):
        result = Result.SKIPPED
    try:
        seconds = float(case.get("time", ""))
    except ValueError:
        seconds = math.nan
    parts = [] if result is Result.PASSED else [found[result].get("message"), found[result].text] if found else []
    parts += [child.text for child in case if child.tag in ("system-out", "system-err") and result is not Result.PASSED]
    text = "\n".join(part.strip() for part in parts if part and part.strip())
    reason = "it passed only when it was repeated" if result is Result.FLAKY else ""
    return Execution(result, seconds if math.isfinite(seconds) else None, text[-_OUTPUT:], reason)


def _sum(runs: Sequence[Execution]) -> Execution:
    """Sum up several cases of one id, such as repeats: red and green together are flaky."""
    red = next((run for run in runs if run.result.is_red), None)
    if red is not None and any(run.result in (Result.PASSED, Result.FLAKY) for run in runs):
        return Execution(Result.FLAKY, red.seconds, red.output, "it failed, and passed when it was repeated")
    return next((run for result in _WORST for run in runs if run.result is result), runs[0])


def _id(suite: str, class_name: str, name: str, file: str, root: Path) -> str:
    """Return the id of a test: as pytest's where the class is in a Python file of the tree."""
    parts = class_name.split(".")
    for count in range(len(parts), 0, -1):
        path = "/".join(parts[:count]) + ".py"
        if all(parts[:count]) and (root / path).is_file():
            return "::".join((path, *parts[count:], name))
    where = file.removeprefix("./") or suite
    return "::".join(dict.fromkeys(part for part in (where, class_name, name) if part))


def _selector(test: str) -> str:
    """Return the word that selects a test: a node id of pytest, else the name in the report."""
    file, _, rest = test.partition("::")
    return test if file.endswith(".py") else rest.rpartition("::")[2]
