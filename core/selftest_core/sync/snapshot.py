"""The tutorial and its tests at one commit, read from git's objects: nothing is checked out, imported or run."""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.tutorial.check import Check, compare, is_checked
from selftest_core.tutorial.citations import read_tests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from selftest_core.git.object_store import ObjectStore

_FILES = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class Paths:
    """The tutorial, and the folder or file of its tests, relative to the top of the repository."""

    tutorial: str = "tutorial.sh"
    tests: str = "tests"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One commit. `tutorial`: the file's content, None where there is none. `tests`: the test files by path.

    `check`: the answer of `selftest-tui check` on these files.
    """

    tree: str
    tutorial: bytes | None
    tests: Mapping[str, bytes]
    check: Check


def paths_within(tutorial: str, tests: str) -> Paths:
    """Make paths of what a user typed, from the top of the repository. Raises UsageError for a path outside of it."""
    cleaned = [posixpath.normpath(path) for path in (tutorial, tests)]
    for path in cleaned:
        if path.startswith(("/", "../")) or path == "..":
            hint = "Give it from the top of the repository, as `tests/e2e`."
            raise UsageError(f"{path} is not a path within the repository", "", hint)
    return Paths(*cleaned)


def take_snapshot(store: ObjectStore, commit: str, paths: Paths) -> Snapshot:
    """Read a commit or tree. Raises ToolError if it cannot be read."""
    tree = store.git.ask("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}").strip()
    tutorial = next((store.read(oid)[1] for path, oid in _files(store, tree, paths.tutorial)), None)
    tests = {
        path: store.read(oid)[1]
        for path, oid in _files(store, tree, paths.tests)
        if path == paths.tests or is_checked(PurePosixPath(path).relative_to(paths.tests))
    }
    text = (tutorial or b"").decode("utf-8-sig", errors="replace")
    check = compare(text, [read_tests(source, path) for path, source in sorted(tests.items())])
    return Snapshot(tree, tutorial, tests, check)


def refuse_missing(found: Snapshot, paths: Paths, commit: str) -> None:
    """Raise UsageError where a commit has no tutorial."""
    if found.tutorial is None:
        detail = f"Agents start from {commit[:12]}, which does not contain it."
        raise UsageError(f"There is no tutorial {paths.tutorial} at the base", detail, "Name it with --tutorial FILE.")


def _files(store: ObjectStore, tree: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and blob of the regular files at or below a path: links and submodules are left out."""
    within = () if path == "." else ("--", path)
    listed = store.git.ask("ls-tree", "-r", "-z", "--full-tree", tree, *within)
    for line in listed.split("\0"):
        about, _, name = line.partition("\t")
        words = about.split()
        if len(words) == 3 and words[0] in _FILES:
            yield name, words[2]
