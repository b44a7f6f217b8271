"""`selftest-tui check`: read a tutorial and the tests of a folder, and hold them against each other.

Reading files is all the IO in here; nothing is imported, run or written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from selftest_core.citations import Unreadable, read_tests
from selftest_core.coverage import Coverage, cover
from selftest_core.errors import UsageError
from selftest_core.tutorial import Tutorial, parse_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.citations import Citation

_SKIPPED = {"node_modules", "__pycache__", "site-packages"}


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `tests` counts all test functions read, `unreadable` what could not be read in test files."""

    tutorial: Tutorial
    coverage: Coverage
    unreadable: tuple[Unreadable, ...]
    tests: int

    @property
    def is_ok(self) -> bool:
        """True when nothing is uncited or stale; warnings leave it."""
        return self.coverage.is_complete


def check(root: Path, tutorial: Path, tests: Path) -> Check:
    """Check the tutorial against all test files under `tests`. Node ids are relative to `root`.

    Raises UsageError for a tutorial or a folder that is not there, and for a folder without a test:
    a filter that matches nothing must not look like success.
    """
    try:
        text = tutorial.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        hint = "Name it with --tutorial FILE."
        raise UsageError(f"No tutorial at {tutorial}", error.strerror or str(error), hint) from error
    if not tests.exists():
        raise UsageError(f"No tests at {tests}", "There is no such file or folder.", "Name them with --tests DIR.")
    parsed = parse_blocks(text)
    citations: list[Citation] = []
    unreadable: list[Unreadable] = []
    count = 0
    for path in _test_files(tests):
        name = _relative(path, root)
        try:
            source = path.read_text(encoding="utf-8-sig", errors="replace")
        except OSError as error:
            unreadable.append(Unreadable(name, 1, f"cannot be read: {error.strerror or error}"))
            continue
        read = read_tests(source, name)
        citations += read.citations
        unreadable += read.unreadable
        count += read.tests
    if not count and not unreadable:
        hint = "Test files are called test_*.py or *_test.py, their functions test*."
        raise UsageError(f"No tests in {tests}", "Not one test function was found there.", hint)
    return Check(parsed, cover(parsed.blocks, citations), tuple(unreadable), count)


def _test_files(tests: Path) -> list[Path]:
    if tests.is_file():
        return [tests]
    found = {*tests.rglob("test_*.py"), *tests.rglob("*_test.py")}
    kept = (path for path in found if not _SKIPPED.intersection(path.relative_to(tests).parts))
    return sorted(path for path in kept if not any(part.startswith(".") for part in path.relative_to(tests).parts))


def _relative(path: Path, root: Path) -> str:
    resolved, top = path.resolve(), root.resolve()
    return resolved.relative_to(top).as_posix() if resolved.is_relative_to(top) else path.as_posix()
