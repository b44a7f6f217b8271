"""Select the tests of a run: collect them at the base, and pick those that a change affects.

Agents start from a commit. If the user's work tree equals that commit for all files that decide which tests exist,
pytest collects in it; else it collects in a temporary checkout of the commit: a test that is only in the work tree
would not be in its agent's copy.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.collect.affected import affected, affected_by_each
from selftest_core.collect.changes import git_of_work_tree
from selftest_core.collect.collection import collect
from selftest_core.collect.imports import source_text
from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git
from selftest_core.run.history.resting import EverythingRestsError
from selftest_core.run.plan.clone import write_base_files
from selftest_core.run.plan.plan import RestingTest
from selftest_core.run.plan.plan_builder import blocks_by_test
from selftest_core.tutorial.citations import read_tests
from selftest_core.tutorial.coverage import cover
from selftest_core.tutorial.tutorial import parse_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from selftest_core.collect.collection import CollectedTest, Collection, CollectionError
    from selftest_core.run.history.resting import Rest
    from selftest_core.run.plan.source import Source
    from selftest_core.tutorial.citations import Citation
    from selftest_core.tutorial.tutorial import Block

TUTORIAL = "tutorial.sh"
_DECIDING = frozenset({".py", ".ini", ".cfg", ".toml"})
"""Suffixes of files that decide which tests exist."""


@dataclass(frozen=True, slots=True)
class CollectionRequest:
    """The arguments of a collection. `tests`: relative to `cwd`; `tutorial`: relative to the repository."""

    tests: tuple[str, ...]
    pytest_command: tuple[str, ...]
    pytest_args: tuple[str, ...]
    affected_by: str | None
    tutorial: str
    cwd: Path


@dataclass(frozen=True, slots=True)
class SelectedTests:
    """The result. `broken`: files that cannot be collected, each once. `picked`: reasons by node id, empty if all
    tests are selected. `blocks`: the blocks that each test function cites. `found`: number of tests before that.
    `notes`: warnings for the user. `unselected`: node ids of tests that are not affected. `asked`: the user's TESTS,
    relative to the top of the repository. `resting`: tests that rest, which are not in `tests`. `unknown`: files of
    which it is not known which tests they have, as they are broken or skip themselves.
    """

    tests: tuple[CollectedTest, ...]
    broken: tuple[CollectionError, ...]
    picked: Mapping[str, tuple[str, ...]]
    blocks: Mapping[str, tuple[str, ...]]
    found: int
    deselected: int
    notes: tuple[str, ...]
    unselected: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    resting: tuple[RestingTest, ...] = ()
    unknown: tuple[str, ...] = ()


async def select_tests(
    source: Source,
    asked: CollectionRequest,
    environ: Mapping[str, str],
    rests: Mapping[str, Rest] = MappingProxyType({}),
) -> SelectedTests:
    """Collect and select. `rests`: tests that rest if nothing that affects them has changed, by node id.

    Raises UsageError if no test is left, EverythingRestsError if all that are left rest, and what `collect` raises.
    """
    names = [_from_top(name, asked.cwd, source) for name in asked.tests]
    oid = Git(source.git_dir, environ).resolve(asked.affected_by) if asked.affected_by is not None else ""
    with _files_of_base(source, asked.tutorial, environ) as (root, git):
        _refuse_uncommitted(names, root, source)
        collection = await collect(root, names, asked.pytest_command, asked.pytest_args, environ)
        chosen = await asyncio.to_thread(_chosen, source, asked, collection, oid, root, git)
        chosen = replace(chosen, asked=tuple(names))
        return await asyncio.to_thread(_without_resting, chosen, rests, source, collection, root, git, asked.tutorial)


def _chosen(
    source: Source, asked: CollectionRequest, collection: Collection, oid: str, root: Path, git: Git
) -> SelectedTests:
    citations = _citations(root, collection)
    tests, picked, found = collection.tests, {}, None
    if oid:
        found = affected(root, oid, collection, citations, git, asked.tutorial, source.place.top)
        tests = tuple(one.test for one in found.tests)
        picked = {one.test.node_id: one.reasons for one in found.tests}
        if not tests:
            detail = f"{len(collection.tests)} tests were checked; uncommitted changes do not count."
            raise UsageError(
                f"No test is affected by changes since {asked.affected_by}",
                detail,
                "Omit --affected-by to run all tests.",
            )
    files = {test.file for test in collection.tests}
    broken = {error.path: error for error in collection.errors if error.path not in files}
    notes = [f"{error.path}: {error.message}" for error in collection.errors if error.path in files]
    notes += found.notes if found is not None else ()
    notes += [f"{skipped.path} skips itself: {skipped.message}" for skipped in collection.skipped]
    if root != source.place.top:
        notes.append("the tests were collected in a checkout of the base: your work tree differs from it")
    blocks = blocks_by_test(cover(_blocks(root, asked.tutorial), citations))
    return SelectedTests(
        tests, tuple(broken.values()), picked, blocks, len(collection.tests), collection.deselected, tuple(notes),
        tuple(test.node_id for test in collection.tests if oid and test.node_id not in picked),
        unknown=tuple(sorted({one.path for one in (*collection.errors, *collection.skipped)})),
    )  # fmt: skip


def _without_resting(
    chosen: SelectedTests, rests: Mapping[str, Rest], source: Source, collection: Collection, root: Path, git: Git,
    tutorial: str,
) -> SelectedTests:  # fmt: skip
    """Take out the tests that rest: those that nothing affects that has changed since their rest began to count."""
    wanted = {test.node_id: rests[test.node_id] for test in chosen.tests if test.node_id in rests}
    if not wanted:
        return chosen
    citations = _citations(root, collection)
    # A base that was rewritten, and is gone, is left out: nobody knows what has changed since.
    bases = git_of_work_tree(root, git).resolve_each(rest.base for rest in wanted.values())
    found = affected_by_each(root, tuple(bases), collection, citations, git, tutorial, source.place.top)
    changed = {base: frozenset(one.test.node_id for one in picked.tests) for base, picked in found.items()}
    resting = tuple(
        RestingTest(name, rest.reason, rest.until)
        for name, rest in wanted.items()
        if rest.base in changed and name not in changed[rest.base]
    )
    names = frozenset(one.node_id for one in resting)
    tests = tuple(test for test in chosen.tests if test.node_id not in names)
    if not tests and not chosen.broken:
        raise EverythingRestsError(resting)
    return replace(chosen, tests=tests, resting=resting)


@contextlib.contextmanager
def _files_of_base(source: Source, tutorial: str, environ: Mapping[str, str]) -> Iterator[tuple[Path, Git]]:
    """Provide a folder with the files of the base, and its git."""
    top = source.place.top
    if source.head == source.base and top != source.place.git_dir and not _may_differ(source.left_out, tutorial):
        yield top, Git(source.place.git_dir, environ)
        return
    with tempfile.TemporaryDirectory(prefix="selftest-base-") as made:
        folder = write_base_files(top, source.base, Path(made).resolve() / top.name, environ)
        yield folder, Git(folder / ".git", environ)


def _may_differ(left_out: Sequence[str], tutorial: str) -> bool:
    """Return whether changed or untracked files may change which tests exist."""
    for name in left_out:
        path = PurePosixPath(name)
        is_folder = name.endswith("/") and not path.name.startswith(".")
        is_test_data = any("test" in part for part in path.parts)
        if is_folder or is_test_data or path.suffix in _DECIDING or name == tutorial:
            return True
    return False


def _from_top(name: str, cwd: Path, source: Source) -> str:
    """Make a path or node id of the user relative to the top of the repository."""
    path, colons, rest = name.partition("::")
    top = source.place.top
    whole = Path(os.path.normpath(cwd / path))
    for folder in (top, top.resolve()):
        if whole.is_relative_to(folder):
            return f"{whole.relative_to(folder).as_posix()}{colons}{rest}"
    if (resolved := whole.resolve()).is_relative_to(top.resolve()):
        return f"{resolved.relative_to(top.resolve()).as_posix()}{colons}{rest}"
    raise UsageError(
        f"{name} is outside of the repository", str(top), "Name tests of the repository of the current folder."
    )


def _refuse_uncommitted(names: Sequence[str], root: Path, source: Source) -> None:
    for path in (name.partition("::")[0] for name in names):
        if (source.place.top / path).exists() and not (root / path).exists():
            detail = f"Agents start from {source.base[:12]}, which does not contain it."
            raise UsageError(f"{path} is not in the base", detail, "Commit it, or name another commit with --base.")


def _citations(root: Path, collection: Collection) -> list[Citation]:
    found: list[Citation] = []
    for name in dict.fromkeys(test.file for test in collection.tests):
        if name.endswith(".py"):
            found += read_tests(source_text(root / name), name).citations
    return found


def _blocks(root: Path, tutorial: str) -> tuple[Block, ...]:
    if not (root / tutorial).is_file():
        if tutorial != TUTORIAL:
            raise UsageError(f"There is no tutorial {tutorial} at the base", "", "Name it with --tutorial FILE.")
        return ()
    return tuple(parse_blocks(source_text(root / tutorial)).blocks)
