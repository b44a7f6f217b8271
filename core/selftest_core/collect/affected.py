"""Select the tests that a change affects, with reasons.

A test is affected if its own file, a conftest.py of its folders, or a tutorial block that it cites differs from a base
commit, if its file directly imports a changed module, if it ran changed lines by the project's coverage data, or if it
runs a program of the project that uses a changed file. Indirect imports of a test do not count, those of a program do.
The base commit is compared with the work tree, uncommitted and new files included.

It reads files and asks git; it imports nothing of the project and changes nothing. If in doubt, it selects a test.
"""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from selftest_core.collect.changes import changed_paths, git_of_work_tree, paths_of_work_tree
from selftest_core.collect.coverage_contexts import tests_that_ran
from selftest_core.collect.entry_points import entry_points
from selftest_core.collect.import_graph import ImportGraph
from selftest_core.collect.imports import module_names, parsed, read_imports, source_text
from selftest_core.collect.programs_of_tests import ProgramFinder
from selftest_core.tutorial.coverage import cover
from selftest_core.tutorial.tutorial import parse_blocks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from selftest_core.collect.collection import CollectedTest
    from selftest_core.collect.collection import Collection as CollectedTests
    from selftest_core.collect.programs_of_tests import OwnProgram
    from selftest_core.git.command import Git
    from selftest_core.tutorial.citations import Citation
    from selftest_core.tutorial.tutorial import Block

_MOST_REASONS = 3
"""Changed files that are named for one test as those of its programs."""


class Affected(NamedTuple):
    """A test and the reasons why it is affected."""

    test: CollectedTest
    reasons: tuple[str, ...]


class AffectedTests(NamedTuple):
    """The affected tests. `notes`: warnings for the user, about data that could not be used."""

    tests: tuple[Affected, ...]
    notes: tuple[str, ...] = ()


def affected(
    root: Path,
    base: str,
    collection: CollectedTests,
    citations: Sequence[Citation],
    git: Git,
    tutorial: str = "tutorial.sh",
    checkout: Path | None = None,
) -> AffectedTests:
    """Select the affected tests, in the order of the collection. `root`: the top of the work tree of the collection.

    `base`: any name of a commit; `citations`: of the current test files; `tutorial`: relative to `root`. `checkout`:
    the user's, which may have coverage data, if it is another folder. Raises UsageError if `base` names no commit, and
    ToolError if git fails.
    """
    oid = git_of_work_tree(root, git).resolve(base)
    return affected_by_each(root, (oid,), collection, citations, git, tutorial, checkout)[oid]


def affected_by_each(
    root: Path,
    oids: Collection[str],
    collection: CollectedTests,
    citations: Sequence[Citation],
    git: Git,
    tutorial: str = "tutorial.sh",
    checkout: Path | None = None,
) -> dict[str, AffectedTests]:
    """Select as `affected` does, for each of these commits. Files are read once for all, which takes longest."""
    changes = {oid: changed_paths(root, oid, git) for oid in oids}
    files = AffectedFiles(root, [test.file for test in collection.tests])
    programs = _Programs(root, dict.fromkeys(path for each in changes.values() for path in each), citations, git)
    found: dict[str, AffectedTests] = {}
    for oid, changed in changes.items():
        cited = _cited(root, oid, citations, git, tutorial) if tutorial in changed else {}
        by_file = files.by(changed)
        ran = tests_that_ran(checkout or root, root, oid, changed, collection.tests, git, time.time())
        by_program = programs.by(changed, collection)
        picked: list[Affected] = []
        for test in collection.tests:
            name = test.without_parameters
            reasons = (
                *by_file.get(test.file, ()), *cited.get(name, ()), *ran.reasons.get(test.node_id, ()),
                *by_program.get(name, ()),
            )  # fmt: skip
            if reasons:
                picked.append(Affected(test, reasons))
        found[oid] = AffectedTests(tuple(picked), ran.notes)
    return found


class AffectedFiles:
    """The test files of the tree at `root`: which of them a change affects. Each is parsed once, for any number."""

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        self._root, self._files = root, tuple(dict.fromkeys(files))
        self._imports: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    def by(self, changes: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """Return the files that `changes` (path to what became of it) affects, each with the reasons."""
        modules = module_names(changes, lambda folder: self._is_package(folder, changes))
        found = {path: tuple(self._reasons(path, changes, modules)) for path in self._files}
        return {path: reasons for path, reasons in found.items() if reasons}

    def _reasons(self, path: str, changes: Mapping[str, str], modules: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
        if path in changes:
            yield f"{path} {changes[path]}"
        for folder in reversed(PurePosixPath(path).parents):
            conftest = str(folder / "conftest.py")
            if conftest in changes and conftest != path:
                yield f"{conftest} {changes[conftest]}"
        if not modules or not path.endswith(".py"):
            return
        if path not in self._imports:
            imports = read_imports(parsed(source_text(self._root / path)), path)
            certain = [one for one in imports if not one.is_prefix and not one.is_text]
            self._imports[path] = (
                frozenset(one.name for one in certain if one.name), frozenset(one.path for one in certain if one.path)
            )  # fmt: skip
        names, stems = self._imports[path]
        found: dict[str, None] = {}
        for name in sorted(names & modules.keys()):
            found.update(dict.fromkeys(modules[name]))
        for stem in sorted(stems):
            found.update(dict.fromkeys(one for one in (f"{stem}.py", f"{stem}/__init__.py") if one in changes))
        for one in found:
            if one != path and PurePosixPath(one).name != "conftest.py":
                yield f"it imports {one}, which {changes[one]}"

    def _is_package(self, folder: PurePosixPath, changes: Mapping[str, str]) -> bool:
        marker = str(folder / "__init__.py")
        return (self._root / marker).is_file() or changes.get(marker, "") == "was deleted"


class _Programs:
    """The programs of the project that tests run, and the files that these use. `changed`: paths of all changes."""

    def __init__(self, root: Path, changed: Iterable[str], citations: Sequence[Citation], git: Git) -> None:
        # Files that were deleted count: what imported them is broken.
        self._graph = ImportGraph(root, (*paths_of_work_tree(root, git), *changed))
        self._finder = ProgramFinder(self._graph, entry_points(self._graph), citations)
        self._programs: dict[str, tuple[OwnProgram, ...]] = {}
        self._reach: dict[tuple[tuple[str, ...], str | None], frozenset[str]] = {}

    def by(self, changes: Mapping[str, str], collection: CollectedTests) -> dict[str, tuple[str, ...]]:
        """Map each test function to the reasons from programs that it runs."""
        used: dict[tuple[tuple[str, ...], str | None], tuple[str, ...]] = {}
        reasons: dict[str, tuple[str, ...]] = {}
        for name, path in {test.without_parameters: test.file for test in collection.tests}.items():
            if name not in self._programs:
                self._programs[name] = self._finder.programs_of(path, name)
            found: dict[str, str] = {}
            for program in self._programs[name]:
                key = (program.starts, program.word)
                if key not in self._reach:
                    self._reach[key] = self._graph.reach(*key)
                if key not in used:
                    used[key] = _used(self._graph, self._reach[key], changes)
                for one in used[key]:
                    found.setdefault(one, f"it runs `{program.shown}`, which uses {one}, which {changes[one]}")
            if found:
                more = len(found) - _MOST_REASONS
                cut = (f"its programs use {more} more files that differ",) if more > 0 else ()
                reasons[name] = (*list(found.values())[:_MOST_REASONS], *cut)
        return reasons


def _used(graph: ImportGraph, reach: frozenset[str], changes: Mapping[str, str]) -> tuple[str, ...]:
    """Return the changed files that a program with this reach uses: Python files, and data of their packages."""
    return tuple(
        path for path in changes if path in reach or (not path.endswith(".py") and graph.package_of(path) in reach)
    )


def _cited(root: Path, oid: str, citations: Sequence[Citation], git: Git, tutorial: str) -> dict[str, tuple[str, ...]]:
    """Map each test function to the reasons from changed blocks that it cites."""
    shown = git.run("cat-file", "blob", f"{oid}:{tutorial}")
    before = parse_blocks(shown.stdout if shown.ok else "").blocks
    after = parse_blocks(source_text(root / tutorial)).blocks
    reasons: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for blocks, others, what in (
        (after, before, "it cites the block at {}:{}, which changed"),
        (before, after, "it cites the block that was at {}:{}, which changed"),
    ):
        known = {_lines(block) for block in others}
        # All blocks are passed: a citation without a match would cost a search for the nearest block.
        for cited in cover(blocks, citations).blocks:
            if _lines(cited.block) not in known:
                for test in cited.tests:
                    reasons[test][what.format(tutorial, cited.block.line)] = None
    return {test: tuple(found) for test, found in reasons.items()}


def _lines(block: Block) -> tuple[str, ...]:
    return tuple(line.strip() for line in block.text.splitlines() if line.strip())
