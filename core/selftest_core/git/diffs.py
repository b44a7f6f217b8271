"""What a commit changes, file by file, with lines that can be shown.

git finds the lines; it is asked for paths and for patches apart, since a hostile file name could imitate a patch where
names are not quoted. How much is read is bounded: big files and binaries are told by their sizes, and a commit of very
many lines says how many are left out.

Nothing in here runs a filter or a driver of the person's.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError, ToolOutputError
from selftest_core.frozen import dataclass
from selftest_core.git.objects import is_oid
from selftest_core.git.patches import Hunk, LineKind, Patch, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.git.object_store import ObjectStore

BIGGEST = 4 * 1024 * 1024
"""Bytes of a file whose lines are compared; a bigger one is told by its sizes alone."""
MOST = 32 * 1024 * 1024
"""Bytes of all patches of one commit together; beyond them only the paths are told."""

_NOTHING = "000000"
_ABSENT = "0" * 40


class FileStatus(StrEnum):
    """What happened to a file."""

    ADDED = "added"
    DELETED = "deleted"
    MODIFIED = "modified"
    RENAMED = "renamed"
    COPIED = "copied"
    RETYPED = "retyped"


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file of a diff. `path` and `old_path` (None unless it was renamed or copied) are safe to show.

    `raw_path` is the path as git has it, bytes that are not UTF-8 as surrogates. Modes are git's (`100644`), None where
    the file is not there; sizes are bytes, told only for a file without lines (`is_binary`, `is_too_big`). `left_out`:
    lines of both sides that are not in `hunks`, since the commit has more than `MOST_LINES`.
    """

    path: str
    raw_path: str
    old_path: str | None
    status: FileStatus
    old_mode: str | None
    new_mode: str | None
    hunks: tuple[Hunk, ...] = ()
    is_binary: bool = False
    is_too_big: bool = False
    old_size: int | None = None
    new_size: int | None = None
    left_out: int = 0

    @property
    def added(self) -> int:
        """How many lines came."""
        return sum(line.kind is LineKind.ADDED for hunk in self.hunks for line in hunk.lines)

    @property
    def removed(self) -> int:
        """How many lines went."""
        return sum(line.kind is LineKind.REMOVED for hunk in self.hunks for line in hunk.lines)


def read_diff(store: ObjectStore, oid: str) -> tuple[FileDiff, ...]:
    """What a commit changes against its first parent; a first commit adds all its files.

    Raises KeyError where the commit is missing, ToolError where git cannot tell.
    """
    commit = store.commit(oid)
    before = store.tree_of(commit.parents[0]) if commit.parents else store.empty_tree()
    return compare_trees(store, before, commit.tree)


def compare_trees(store: ObjectStore, before: str, after: str) -> tuple[FileDiff, ...]:
    """What turns one tree into another, by path (as git orders them)."""
    if not (is_oid(before) and is_oid(after)):
        raise ValueError("only full object ids may reach git")
    common = ("diff-tree", "-r", "-M", "--no-textconv", "--no-ext-diff", "--full-index", "--submodule=short")
    entries = list(_entries(store.git.ask(*common, "--raw", "-z", before, after)))
    if not entries:
        return ()
    settings = ("-c", f"core.bigFileThreshold={BIGGEST}", "-c", "diff.context=3")
    try:
        patch = store.git.ask(*settings, *common, "-p", before, after, limit=MOST)
    except ToolOutputError:
        return _sized(store, [_Part(entry) for entry in entries])
    return _sized(store, _parts(entries, patch))


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line of the raw diff."""

    old_mode: str
    new_mode: str
    old: str
    new: str
    letter: str
    path: str
    old_path: str | None


@dataclass(frozen=True, slots=True)
class _Part:
    """An entry with the lines that were found for it; `hunks` None: git would not show lines."""

    entry: _Entry
    hunks: tuple[Hunk, ...] | None = None
    left_out: int = 0


_STATUSES = {
    "A": FileStatus.ADDED, "D": FileStatus.DELETED, "R": FileStatus.RENAMED, "C": FileStatus.COPIED,
    "T": FileStatus.RETYPED,
}  # fmt: skip


def _entries(out: str) -> Iterator[_Entry]:
    words = iter(out.split("\0"))
    for word in words:
        if not word.startswith(":"):
            continue
        old_mode, new_mode, old, new, status = word[1:].split(" ")
        first = next(words)
        is_moved = status[0] in "RC"
        path = next(words) if is_moved else first
        yield _Entry(old_mode, new_mode, old, new, status[0], path, first if is_moved else None)


def _parts(entries: list[_Entry], patch: str) -> list[_Part]:
    """Each entry with its lines: patches stand in the order of the raw diff, a change of type as two of them."""
    reader = Patch(patch)
    parts: list[_Part] = []
    for entry in entries:
        sections = [reader.section() for _ in range(2 if entry.letter == "T" else 1)]
        told = [section for section in sections if section is not None]
        if len(told) < len(sections):
            raise ToolFailedError("git diff-tree said less than it promised", f"no patch for {shown(entry.path)}")
        hunks = tuple(hunk for section in told for hunk in section.hunks)
        is_text = all(section.is_text for section in told)
        parts.append(_Part(entry, hunks if is_text else None, sum(section.left_out for section in told)))
    return parts


def _sized(store: ObjectStore, parts: list[_Part]) -> tuple[FileDiff, ...]:
    """The files, those without lines with their sizes."""
    wanted = [oid for part in parts if part.hunks is None for oid in (part.entry.old, part.entry.new) if oid != _ABSENT]
    sizes: dict[str, int] = {}
    if wanted:
        out = store.git.ask("cat-file", "--batch-check=%(objectname) %(objectsize)", text="\n".join(wanted) + "\n")
        for line in out.splitlines():
            oid, _, size = line.partition(" ")
            if size.isdigit():
                sizes[oid] = int(size)
    return tuple(_file(part, sizes) for part in parts)


def _file(part: _Part, sizes: dict[str, int]) -> FileDiff:
    entry = part.entry
    old_size, new_size = sizes.get(entry.old), sizes.get(entry.new)
    return FileDiff(
        path=shown(entry.path),
        raw_path=entry.path,
        old_path=None if entry.old_path is None else shown(entry.old_path),
        status=_STATUSES.get(entry.letter, FileStatus.MODIFIED),
        old_mode=None if entry.old_mode == _NOTHING else entry.old_mode,
        new_mode=None if entry.new_mode == _NOTHING else entry.new_mode,
        hunks=part.hunks or (),
        is_binary=part.hunks is None,
        is_too_big=part.hunks is None and max(old_size or 0, new_size or 0) > BIGGEST,
        old_size=old_size,
        new_size=new_size,
        left_out=part.left_out,
    )
