"""Find the tests that ran changed files, by the project's coverage data with a context for each test.

The data is `.coverage` at the top of the checkout, recorded with pytest-cov's `--cov-context=test` or coverage's
`dynamic_context = test_function`. It says nothing of what ran in other processes, and is as old as the last recording:
lines count where the recorded text is known, else the whole file does. A copy of it is read, as reading may write.
"""

from __future__ import annotations

import difflib
import shutil
import sqlite3
import tempfile
from bisect import bisect_left
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from selftest_core.collect.changes import git_of_work_tree
from selftest_core.collect.imports import source_text
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from selftest_core.collect.collection import CollectedTest
    from selftest_core.git.command import Git

DATA_FILE = ".coverage"
_LARGEST = 512 * 1024 * 1024
_MOST_LINES = 50_000
"""Lines of a file, beyond which the whole file counts."""
_PHASES = ("|run", "|setup", "|teardown")
_HINT = "record with `pytest --cov --cov-context=test`"


class RanTests(NamedTuple):
    """`reasons`: by node id. `notes`: why the data says less than it could, for the user."""

    reasons: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Recording:
    """Coverage data of the files that are asked for. `lines`: contexts by line, by path relative to the checkout.

    `at`: when it was recorded, Unix time. `is_from_here`: recorded in this folder, so times can be compared; data that
    was copied from elsewhere is older than it looks.
    """

    at: float
    lines: Mapping[str, Mapping[int, Sequence[str]]]
    contexts: frozenset[str]
    is_from_here: bool


def tests_that_ran(
    checkout: Path, root: Path, oid: str, changes: Mapping[str, str], tests: Sequence[CollectedTest], git: Git,
    now: float,
) -> RanTests:  # fmt: skip
    """Find the tests that ran changed files. `checkout`: the user's, which has the data; `root`: the compared tree.

    `oid`: the commit with which it is compared; `now`: Unix time, for the age of the data.
    """
    recording = _read(checkout, [path for path in changes if path.endswith(".py")])
    if not isinstance(recording, _Recording):
        return RanTests({}, () if recording is None else (recording,))
    named = _Names(tests)
    if not any(named.tests_of(context) for context in recording.contexts):
        return RanTests({}, (f"{DATA_FILE} names none of these tests, so what they ran is not known: {_HINT}",))
    age = _age(now - recording.at)
    texts = _Texts(checkout, root, oid, recording, git_of_work_tree(root, git))
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for path, by_line in recording.lines.items():
        ran = texts.ran_changed_lines(path, by_line)
        what = f"it ran changed lines of {path}"
        if ran is None:
            ran = {context for contexts in by_line.values() for context in contexts}
            what = f"it ran {path}, which {changes[path]}"
        for test in dict.fromkeys(test for context in sorted(ran) for test in named.tests_of(context)):
            if test.file != path:
                reasons[test.node_id].append(f"{what} ({DATA_FILE} {age})")
    return RanTests({test: tuple(found) for test, found in reasons.items()})


def _read(checkout: Path, paths: Sequence[str]) -> _Recording | str | None:
    """Read the data of some files; None if there is no data, a sentence if it is of no use."""
    file = checkout / DATA_FILE
    if not file.is_file():
        is_parallel = next(checkout.glob(f"{DATA_FILE}.*.*"), None) is not None
        return f"{DATA_FILE}.* were not combined, so they are not used: `coverage combine`" if is_parallel else None
    try:
        at, size = file.stat().st_mtime, file.stat().st_size
        if size > _LARGEST:
            return f"{DATA_FILE} is larger than {_LARGEST // 1024**2} MB, so it is not used"
        with tempfile.TemporaryDirectory(prefix="selftest-coverage-") as folder:
            copy = Path(folder) / "data"
            shutil.copyfile(file, copy)
            return _recording(copy, at, checkout, paths)
    except (OSError, sqlite3.Error, ValueError, TypeError, OverflowError) as error:
        return f"{DATA_FILE} cannot be read, so it is not used: {error}"


def _recording(copy: Path, at: float, checkout: Path, paths: Sequence[str]) -> _Recording | str:
    from coverage import CoverageData
    from coverage.exceptions import CoverageException

    data = CoverageData(basename=str(copy))
    try:
        data.read()
        contexts = frozenset(data.measured_contexts())
        if contexts <= {""}:
            return f"{DATA_FILE} has no contexts, so it does not say which test ran what: {_HINT}"
        measured = data.measured_files()
        prefix = _prefix(checkout, measured)
        names = {path: prefix + path for path in paths if prefix + path in measured}
        lines = {path: data.contexts_by_lineno(name) for path, name in names.items()}
    except CoverageException as error:
        says = str(error).replace(str(copy), DATA_FILE)
        return f"{DATA_FILE} cannot be read, so it is not used: {says}"
    finally:
        data.close()
    return _Recording(at, lines, contexts, prefix in (f"{checkout}/", f"{checkout.resolve()}/"))


def _prefix(checkout: Path, measured: Iterable[str]) -> str:
    """Return what stands before the paths of the checkout in the data: another folder if it was recorded elsewhere."""
    files = sorted(measured)
    for here in (f"{checkout}/", f"{checkout.resolve()}/"):
        if any(file.startswith(here) for file in files):
            return here
    counted: Counter[str] = Counter()
    for file in files:
        parts = file.split("/")
        for start in range(len(parts)):
            rest = "/".join(parts[start:])
            if rest and rest[0] not in "/." and (checkout / rest).is_file():
                counted["/".join((*parts[:start], ""))] += 1
    return max(counted, key=lambda prefix: (counted[prefix], -len(prefix)), default="")


class _Names:
    """The tests by the contexts that name them."""

    def __init__(self, tests: Sequence[CollectedTest]) -> None:
        self._tests: defaultdict[str, list[CollectedTest]] = defaultdict(list)
        for test in tests:
            names = {test.node_id, test.without_parameters}
            # coverage's own contexts are dotted, and begin where sys.path does.
            folders = PurePosixPath(test.file).with_suffix("").parts
            place = (*folders, *filter(None, test.class_name.split("::")), test.function)
            names.update(".".join(place[start:]) for start in range(len(folders)))
            for name in names:
                self._tests[name].append(test)

    def tests_of(self, context: str) -> Sequence[CollectedTest]:
        """Return the tests that a context means: `tests/test_a.py::test_b|run`, `tests.test_a.test_b`."""
        for phase in _PHASES:
            context = context.removesuffix(phase)
        # A context of the whole run may stand before it.
        found: Sequence[CollectedTest] = self._tests.get(context, ())
        return found or self._tests.get(context.partition("|")[2], ())


class _Texts:
    """The texts of changed files: as they are, as they were at the base, and which of them was recorded."""

    def __init__(self, checkout: Path, root: Path, oid: str, recording: _Recording, git: Git) -> None:
        self._checkout, self._root, self._oid, self._recording, self._git = checkout, root, oid, recording, git
        self._recorded_commit: str | None = None

    def ran_changed_lines(self, path: str, by_line: Mapping[int, Sequence[str]]) -> set[str] | None:
        """Return the contexts that ran the changed lines of a file; None if the lines cannot be compared."""
        before = self._blob(self._oid, path)
        after = source_text(self._root / path)
        if not before or not after or max(before.count("\n"), after.count("\n")) > _MOST_LINES:
            return None
        is_new = self._is_recorded_now(path, after)
        if not self._recording.is_from_here or not (is_new or self._is_recorded_before(path, before)):
            return None
        if not _are_lines_of(by_line, after if is_new else before):
            return None
        matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines())
        ran: set[str] = set()
        for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
            if tag != "equal":
                start, end = (new_start, new_end) if is_new else (old_start, old_end)
                found = _contexts(by_line, start + 1, end)
                if found is None:
                    return None
                ran |= found
        return ran

    def _is_recorded_now(self, path: str, text: str) -> bool:
        """Return whether the file is as it was recorded: not touched since."""
        file = self._checkout / path
        try:
            is_older = file.stat().st_mtime <= self._recording.at
        except OSError:
            return False
        return is_older and source_text(file) == text

    def _is_recorded_before(self, path: str, text: str) -> bool:
        """Return whether the last commit before the recording had this text of a file."""
        if self._recorded_commit is None:
            done = self._git.run("rev-list", "-1", f"--before={int(self._recording.at)}", "HEAD")
            self._recorded_commit = done.stdout.strip() if done.ok else ""
        return bool(self._recorded_commit) and self._blob(self._recorded_commit, path) == text

    def _blob(self, oid: str, path: str) -> str:
        shown = self._git.run("cat-file", "blob", f"{oid}:{path}")
        # As `source_text` reads files.
        text = shown.stdout.encode("utf-8", "surrogateescape").decode("utf-8-sig", "replace") if shown.ok else ""
        return text.replace("\r\n", "\n").replace("\r", "\n")


def _are_lines_of(by_line: Mapping[int, Sequence[str]], text: str) -> bool:
    """Return whether recorded lines can be lines of this text: neither behind its end, nor empty, nor comments."""
    lines = text.split("\n")
    return all(line <= len(lines) and (lines[line - 1].strip() or "#")[0] != "#" for line in by_line)


def _contexts(by_line: Mapping[int, Sequence[str]], first: int, last: int) -> set[str] | None:
    """Return the contexts that ran some of these lines, or, if none is code, those next to them.

    None if some ran when the file was imported, which is before the tests: a constant or a default may be anywhere.
    """
    lines = [line for line in range(first, last + 1) if line in by_line]
    found = {line: {context for context in by_line[line] if context} for line in lines}
    if lines:
        return None if not all(found.values()) else set().union(*found.values())
    known = sorted(by_line)
    at = bisect_left(known, first)
    around = known[max(0, at - 1) : at + 1]
    ran = {context for line in around for context in by_line[line] if context}
    return ran or None


def _age(seconds: float) -> str:
    """Return how old data is, in words."""
    if seconds < -60:
        return "dated in the future"
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"recorded {count:,} {unit}{'' if count == 1 else 's'} ago"
    return "recorded just now"
