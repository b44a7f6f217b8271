"""Check a tutorial against the tests that cite it (`selftest-tui check`).

It only reads files; nothing is imported, run or written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.tutorial.citations import Read, Unreadable, read_tests
from selftest_core.tutorial.coverage import Coverage, cover
from selftest_core.tutorial.tutorial import Tutorial, TutorialWarning, parse_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path, PurePath

    from selftest_core.tutorial.citations import Citation

_SKIPPED = {"node_modules", "__pycache__", "site-packages"}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check. `tests`: number of test functions; `unreadable`: what could not be read in test files."""

    tutorial: Tutorial
    coverage: Coverage
    unreadable: tuple[Unreadable, ...]
    tests: int
    citations: tuple[Citation, ...] = ()

    @property
    def is_ok(self) -> bool:
        """True if nothing is uncited or stale; warnings do not count."""
        return self.coverage.is_complete


def check(root: Path, tutorial: Path, tests: Path) -> Check:
    """Check the tutorial against all test files under `tests`. Node ids are relative to `root`.

    Raises UsageError for a missing tutorial or folder, and for a folder without tests, which must not look like
    success.
    """
    return Checker(root, tutorial, tests).check()


def compare(text: str, reads: Sequence[Read]) -> Check:
    """Compare the text of a tutorial with the citations of test files. Pure."""
    parsed = parse_blocks(text)
    if not parsed.blocks:
        warning = TutorialWarning(1, "there is no block in this file, so nothing was checked")
        parsed = replace(parsed, warnings=(*parsed.warnings, warning))
    citations = tuple(citation for read in reads for citation in read.citations)
    unreadable = tuple(one for read in reads for one in read.unreadable)
    return Check(parsed, cover(parsed.blocks, citations), unreadable, sum(read.tests for read in reads), citations)


class Checker:
    """Checks the same tutorial and tests repeatedly, with a cache: only changed test files are read again."""

    def __init__(self, root: Path, tutorial: Path, tests: Path) -> None:
        self._root = root
        self._tutorial = tutorial
        self._tests = tests
        self._reads: dict[Path, tuple[tuple[int, int, int], Read]] = {}
        self._last: tuple[str, tuple[Read, ...], Check] | None = None

    def check(self) -> Check:
        """Check like the function `check`; return the same object as before if nothing has changed."""
        try:
            text = self._tutorial.read_bytes().decode("utf-8-sig", errors="replace")
        except OSError as error:
            hint = "Name it with --tutorial FILE."
            raise UsageError(f"No tutorial at {self._tutorial}", error.strerror or str(error), hint) from error
        if not self._tests.exists():
            detail = "There is no such file or folder."
            raise UsageError(f"No tests at {self._tests}", detail, "Name them with --tests DIR.")
        reads = tuple(self._read(path) for path in _test_files(self._tests))
        if self._last is None or self._last[:2] != (text, reads):
            self._last = (text, reads, self._compare(text, reads))
        return self._last[2]

    def _compare(self, text: str, reads: Sequence[Read]) -> Check:
        found = compare(text, reads)
        if not found.tests and not found.unreadable:
            hint = "Test files are called test_*.py or *_test.py, their functions test*."
            raise UsageError(f"No tests in {self._tests}", "Not one test function was found there.", hint)
        return found

    def folders(self) -> tuple[Path, ...]:
        """List the folders to watch: those of the tutorial and of all tests."""
        found = {self._tutorial.parent}
        if self._tests.is_file():
            found.add(self._tests.parent)
        elif self._tests.is_dir():
            found.add(self._tests)
            found.update(path for path in self._tests.rglob("*/") if _is_kept(path, self._tests))
        else:
            found.add(self._tests.parent)
        return tuple(sorted(path for path in found if path.is_dir()))

    def _read(self, path: Path) -> Read:
        name = _relative(path, self._root)
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._reads.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            read = read_tests(path.read_bytes(), name)
        except OSError as error:
            return Read((), (Unreadable(name, 1, f"cannot be read: {error.strerror or error}"),), 0)
        self._reads[path] = (stamp, read)
        return read


def _test_files(tests: Path) -> list[Path]:
    if tests.is_file():
        return [tests]
    found = {*tests.rglob("test_*.py"), *tests.rglob("*_test.py")}
    return sorted(path for path in found if _is_kept(path, tests) and path.is_file())


def is_checked(path: PurePath) -> bool:
    """True for a file of tests that is checked; `path`: relative to the folder of the tests."""
    return (path.match("test_*.py") or path.match("*_test.py")) and _is_visible(path)


def _is_kept(path: Path, tests: Path) -> bool:
    return _is_visible(path.relative_to(tests))


def _is_visible(path: PurePath) -> bool:
    return not _SKIPPED.intersection(path.parts) and not any(part.startswith(".") for part in path.parts)


def _relative(path: Path, root: Path) -> str:
    resolved, top = path.resolve(), root.resolve()
    return resolved.relative_to(top).as_posix() if resolved.is_relative_to(top) else path.as_posix()
