"""Read the outcomes of another program's run from a folder.

Each agent or test has one file: `<agent>/outcome.json` or `<agent>.json`. The contents decide, not the name: a file
with fields of outcomes, such as `errored` and `changes`, is one. Unknown kinds and statuses are kept. An unreadable
file is a row with its error. The merge report of the branches is recognised and shown as such.

The folder is untrusted: only files below it are read, no links are followed, and sizes are limited.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.errors import UsageError
from selftest_core.fleet.clusters import Failure, cluster
from selftest_core.frozen import dataclass
from selftest_core.run.outcome.ends import End
from selftest_core.run.outcome.outcome import reported_end
from selftest_core.run.outcome.outcome_file import LARGEST, UnreadableOutcomeError, parse_outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from selftest_core.fleet.clusters import Cluster
    from selftest_core.run.outcome.outcome import Outcome

OUTCOME = "outcome.json"
MOST_FILES = 20_000
_DEEPEST = 6
_NOT_OURS = frozenset({".git", "node_modules", "__pycache__", "clone", "engine.git"})
_MARKS = frozenset({"errored", "changes", "tests_passing_after", "tests_passing_before", "escalations", "test_runs"})
_JOINERS = frozenset({"squashed_branches", "squashed_commit_hash", "impl_priority", "impl_commit_hashes"})
_NAMES = ("test_node_id", "node_id", "test_id", "test", "test_name")
"""Optional fields with the test of a file."""
_AGENTS = ("agent_name", "agent", "branch_name", "branch")
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class ForeignTest:
    """One file. `test`: from its fields, else the name of its folder. `outcome`: None if unreadable."""

    test: str
    agent: str
    path: Path
    end: End
    outcome: Outcome | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Joining:
    """A merge report: merged branches, failed branches, and commits of fixes, as written."""

    path: Path
    branches: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    fixes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """A folder of outcomes. `passed_over`: number of JSON files that are not outcomes."""

    path: Path
    tests: tuple[ForeignTest, ...]
    joinings: tuple[Joining, ...]
    passed_over: int

    def ends(self) -> dict[End, int]:
        """Count the tests by end."""
        counted = Counter(test.end for test in self.tests)
        return {end: counted[end] for end in End}

    def kinds(self) -> dict[str, int]:
        """Count the changes of each kind, the most frequent first."""
        counted = Counter(change.kind for test in self.tests if test.outcome for change in test.outcome.changes)
        return dict(counted.most_common())

    def clusters(self) -> tuple[Cluster, ...]:
        """Group the failed and blocked tests by cause."""
        return cluster(Failure(one.test, "work", _evidence(one)) for one in self.tests if one.end.group.is_clustered)


def read_foreign(folder: Path) -> ForeignRun:
    """Read all outcomes below a folder. Raises UsageError if there are none."""
    if not folder.is_dir():
        raise UsageError("There is no such folder", str(folder), "Name a folder with the outcomes of a run.")
    tests: list[ForeignTest] = []
    joinings: list[Joining] = []
    passed_over = 0
    for path in _json_files(folder):
        read = _read(folder, path)
        if isinstance(read, ForeignTest):
            tests.append(read)
        elif isinstance(read, Joining):
            joinings.append(read)
        else:
            passed_over += 1
    if not tests and not joinings:
        detail = f"{passed_over} JSON files below {folder} are none." if passed_over else f"{folder} has no JSON file."
        raise UsageError("There are no outcomes", detail, "`selftest-tui schema` prints what an outcome looks like.")
    return ForeignRun(folder, tuple(tests), tuple(joinings), passed_over)


def _json_files(folder: Path) -> Iterator[Path]:
    """List the JSON files below a folder, in order of their paths."""
    top = len(folder.parts)
    seen = 0
    for place, folders, files in os.walk(folder):
        here = Path(place)
        deep = len(here.parts) - top >= _DEEPEST
        folders[:] = [] if deep else sorted(name for name in folders if name not in _NOT_OURS)
        for name in sorted(files):
            if name.endswith(".json"):
                seen += 1
                if seen > MOST_FILES:
                    raise UsageError(
                        f"There are more than {MOST_FILES:,} JSON files", str(folder), "Name a folder further down."
                    )
                yield here / name


def _read(folder: Path, path: Path) -> ForeignTest | Joining | None:
    is_named_so = path.name == OUTCOME
    try:
        data = _content(path)
    except (OSError, ValueError) as error:
        return _unreadable(folder, path, _reason(error)) if is_named_so else None
    fields = _fields(data)
    if fields is not None and _JOINERS & fields.keys() and "errored" not in fields:
        return _joining(path, fields)
    if not is_named_so and (fields is None or len(_MARKS & fields.keys()) < 2):
        return None
    try:
        outcome = parse_outcome(data)
    except UnreadableOutcomeError as error:
        return _unreadable(folder, path, error.detail, fields or {})
    test, agent = _names(folder, path, outcome.more)
    return ForeignTest(test, agent, path, reported_end(outcome, has_commits=None), outcome)


def _content(path: Path) -> bytes:
    """Read a file. Raises OSError, and ValueError if it is not a regular file or too large."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is not a file")
        if about.st_size > LARGEST:
            raise ValueError(f"it has {about.st_size:,} bytes, and {LARGEST:,} are read at most")
        return file.read(LARGEST + 1)


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _fields(data: bytes) -> dict[str, Any] | None:
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _unreadable(folder: Path, path: Path, reason: str, fields: Mapping[str, Any] | None = None) -> ForeignTest:
    test, agent = _names(folder, path, fields or {})
    return ForeignTest(test, agent, path, End.UNREADABLE, None, reason)


def _names(folder: Path, path: Path, fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return test and agent: from the file's fields, else from its path."""
    place = path.parent if path.name == OUTCOME else path.with_suffix("")
    where = place.relative_to(folder)
    name = str(where) if where.parts else folder.resolve().name
    return _said(fields, _NAMES) or name, _said(fields, _AGENTS) or (where.parts[0] if where.parts else name)


def _said(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    found = (fields.get(name) for name in names)
    return next((text[:_LONGEST] for text in found if isinstance(text, str) and text.strip()), "")


def _joining(path: Path, fields: Mapping[str, Any]) -> Joining:
    branches = fields.get("squashed_branches")
    return Joining(
        path,
        tuple(str(one)[:_LONGEST] for one in branches) if isinstance(branches, list) else (),
        _pairs(fields.get("failed")),
        _pairs(fields.get("impl_commit_hashes")),
    )


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        return ()
    return tuple((str(name)[:_LONGEST], str(said)[:_LONGEST]) for name, said in value.items())


def _evidence(test: ForeignTest) -> str:
    """Return the text that clusters compare: the error, else the escalation, else the summary."""
    if test.outcome is None:
        return test.error
    escalations = [one.title or one.detail for one in test.outcome.escalations]
    return next((text for text in (*escalations, test.outcome.summary) if text.strip()), "")
