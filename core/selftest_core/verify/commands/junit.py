"""Run tests by a command that is no pytest, and read the JUnit XML that it writes.

`verify_command` names the file as {junit}; {tests} stands for the wanted tests, none for all. The reader trusts little:
a report that is missing or cut, or that does not agree with the exit status, makes every test unknown. A test that
passed only when it was repeated is flaky, whatever the runner says of the whole.
"""

from __future__ import annotations

import itertools
import math
import os
import stat
from collections import defaultdict
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from selftest_core.frozen import dataclass
from selftest_core.verify.commands.contained import contained_variables, place_of, run_in_slot
from selftest_core.verify.folders.hostile import opened, read_file
from selftest_core.verify.verdicts import Execution, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from selftest_core.verify.commands.contained import Ended
    from selftest_core.verify.environment import Testing
    from selftest_core.verify.slots import Slot

REPORT, TESTS = "{junit}", "{tests}"
_LARGEST = 256 * 1024 * 1024
_PART = 1 << 24
"""Bytes that are parsed at once: old parsers begin a long word anew with each part."""
_MOST_FILES = 10_000
_MOST_ELEMENTS = 5_000_000
_DEEPEST = 100
_LONGEST_PATH = 1000
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
    """Yield each test case with the name of its suite, of a file or of all in a folder. Both may be a test's work."""
    with opened(path.parent) as at:
        is_folder = stat.S_ISDIR(os.stat(path.name, dir_fd=at, follow_symlinks=False).st_mode)
        if not is_folder:
            yield from _parsed(path.name, at, _LARGEST)
            return
    with opened(path.parent, path.name) as at:
        with os.scandir(at) as entries:
            names = sorted(one.name for one in itertools.islice(entries, _MOST_FILES + 1) if one.name.endswith(".xml"))
        if len(names) > _MOST_FILES:
            raise ValueError("it has too many files")
        left = _LARGEST
        for name in names:
            yield from _parsed(name, at, left)
            left -= os.stat(name, dir_fd=at, follow_symlinks=False).st_size


def _parsed(name: str, at: int, largest: int) -> Iterator[tuple[str, ElementTree.Element]]:
    """Yield the cases of a file, one after the other, so that not all of it is held in memory."""
    cases = _Cases()
    parser = ElementTree.XMLParser(target=cases)
    data = read_file(name, at, largest)
    for place in range(0, len(data), _PART):
        parser.feed(data[place : place + _PART])
        yield from cases.taken()
    parser.close()
    yield from cases.taken()


class _Cases:
    """The target of a parser that keeps whole test cases. Refuses entities, and deep or very many elements."""

    def __init__(self) -> None:
        self._suites: list[str | None] = []
        self._case: ElementTree.TreeBuilder | None = None
        self._depth = self._count = 0
        self._found: list[tuple[str, ElementTree.Element]] = []

    def doctype(self, *_declared: str | None) -> None:
        """Refuse entities: they are declared in a document type, which no report has."""
        raise ValueError("it declares a document type")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        self._count += 1
        if self._count > _MOST_ELEMENTS or len(self._suites) + self._depth > _DEEPEST:
            raise ValueError("it has too many elements")
        # `node --test` has cases in none but <testsuites>.
        if self._case is None and tag == "testcase" and self._suites and self._suites[-1] is not None:
            self._case = ElementTree.TreeBuilder()
        if self._case is not None:
            self._case.start(tag, attributes)
            self._depth += 1
        else:
            self._suites.append(attributes.get("name", "") if tag in ("testsuite", "testsuites") else None)

    def data(self, text: str) -> None:
        """Add text to an element."""
        if self._case is not None:
            self._case.data(text)

    def end(self, tag: str) -> None:
        """End an element."""
        if self._case is None:
            self._suites.pop()
            return
        self._case.end(tag)
        self._depth -= 1
        if not self._depth:
            self._found.append((self._suites[-1] or "", self._case.close()))
            self._case = None

    def close(self) -> None:
        """End the document."""

    def taken(self) -> list[tuple[str, ElementTree.Element]]:
        """Return the cases that have ended since the last time."""
        found, self._found = self._found, []
        return found


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
    parts = class_name.split(".", _DEEPEST)
    for count in range(len(parts), 0, -1):
        path = "/".join(parts[:count]) + ".py"
        if all(parts[:count]) and len(path) < _LONGEST_PATH and (root / path).is_file():
            return "::".join((path, *parts[count:], name))
    where = file.removeprefix("./") or suite
    return "::".join(dict.fromkeys(part for part in (where, class_name, name) if part))


def _selector(test: str) -> str:
    """Return the word that selects a test: a node id of pytest, else the name in the report."""
    file, _, rest = test.partition("::")
    return test if file.endswith(".py") else rest.rpartition("::")[2]
