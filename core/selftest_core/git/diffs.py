"""Diffs of commits and trees, file by file, with lines that are safe to show.

Paths and patches are read by two calls of git, since a hostile file name could imitate a patch. Sizes are bounded: big
files and binaries have sizes instead of lines, and a huge commit has a count of the lines that are left out. No filter
or driver of the user's runs.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError, ToolOutputError
from selftest_core.frozen import dataclass
from selftest_core.git.objects import is_oid
from selftest_core.git.patches import Hunk, LineKind, Patch, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from selftest_core.git.object_store import ObjectStore

BIGGEST = 4 * 1024 * 1024
"""Bytes of a file whose lines are compared; a bigger one has only its sizes."""
MOST = 32 * 1024 * 1024
"""Bytes of all patches of one commit together; a bigger commit has only paths and sizes."""

OPTIONS = ("-r", "-M", "--no-textconv", "--no-ext-diff", "--full-index", "--submodule=short")
"""Options of every `git diff-tree`: nothing of the user's settings runs a program."""
_NOTHING = "000000"
_FILES = {"100644", "100755"}
_ABSENT = "0" * 40


class FileStatus(StrEnum):
    """The kind of change of a file."""

    ADDED = "added"
    DELETED = "deleted"
    MODIFIED = "modified"
    RENAMED = "renamed"
    COPIED = "copied"
    RETYPED = "retyped"


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file of a diff. `path` and `old_path` (None unless it was renamed or copied) are safe to show.

    `name`, `old_name`: the paths as git has them, not safe to show. Modes are git's (`100644`), None if the file does
    not exist; sizes are bytes, None for a file with lines (neither `is_binary` nor `is_too_big`). `left_out`: lines of
    both sides beyond `MOST_LINES` of the commit.
    """

    path: str
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
    name: str = ""
    old_name: str | None = None

    @property
    def has_parts(self) -> bool:
        """True for a file whose hunks can be applied without the others: text, all of it here, with the same mode."""
        modes = {self.old_mode, self.new_mode} - {None}
        is_in_place = self.status in (FileStatus.ADDED, FileStatus.DELETED, FileStatus.MODIFIED)
        return is_in_place and len(modes) == 1 and modes <= _FILES and not self.is_binary and not self.left_out

    @property
    def added(self) -> int:
        """The number of added lines."""
        return sum(line.kind is LineKind.ADDED for hunk in self.hunks for line in hunk.lines)

    @property
    def removed(self) -> int:
        """The number of removed lines."""
        return sum(line.kind is LineKind.REMOVED for hunk in self.hunks for line in hunk.lines)


def read_diff(store: ObjectStore, oid: str) -> tuple[FileDiff, ...]:
    """Read the diff of a commit against its first parent; a root commit adds all its files.

    Raises KeyError if the commit is missing, ToolError if git fails.
    """
    commit = store.commit(oid)
    before = store.tree_of(commit.parents[0]) if commit.parents else store.empty_tree()
    return compare_trees(store, before, commit.tree)


def compare_trees(store: ObjectStore, before: str, after: str, *, is_plain: bool = False) -> tuple[FileDiff, ...]:
    """Read the diff of two trees, in git's order of paths. `is_plain`: a renamed file is a deleted and an added one."""
    if not (is_oid(before) and is_oid(after)):
        raise ValueError("only full object ids may reach git")
    options = (*OPTIONS, "--no-renames") if is_plain else OPTIONS
    raw = store.git.ask("diff-tree", *options, "--raw", "-z", before, after)
    settings = ("-c", f"core.bigFileThreshold={BIGGEST}", "-c", "diff.context=3")

    def patch() -> str:
        return store.git.ask(*settings, "diff-tree", *options, "-p", before, after, limit=MOST)

    def sizes(oids: list[str]) -> dict[str, int]:
        out = store.git.ask("cat-file", "--batch-check=%(objectname) %(objectsize)", text="\n".join(oids) + "\n")
        pairs = (line.partition(" ") for line in out.splitlines())
        return {oid: int(size) for oid, _, size in pairs if size.isdigit()}

    return parse_diff(raw, patch, sizes)


def parse_diff(
    raw: str, patch: Callable[[], str], sizes: Callable[[list[str]], dict[str, int]]
) -> tuple[FileDiff, ...]:
    """Make the files of a diff from git's output with `OPTIONS`: `raw` with `--raw -z`, `patch` with `-p`.

    `sizes` returns the sizes of blobs, by id. A patch that raises ToolOutputError is too long: files have sizes alone.
    """
    entries = list(_entries(raw))
    if not entries:
        return ()
    try:
        parts = _parts(entries, patch())
    except ToolOutputError:
        parts = [_Part(entry) for entry in entries]
    wanted = [oid for part in parts if part.hunks is None for oid in (part.entry.old, part.entry.new) if oid != _ABSENT]
    known = sizes(wanted) if wanted else {}
    return tuple(_file(part, known) for part in parts)


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
    """An entry with its hunks; None if git shows no lines."""

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
    """Combine entries and patches, which have the same order; a change of type has two patches."""
    reader = Patch(patch)
    parts: list[_Part] = []
    for entry in entries:
        sections = [reader.section() for _ in range(2 if entry.letter == "T" else 1)]
        found = [section for section in sections if section is not None]
        if len(found) < len(sections):
            raise ToolFailedError("git diff-tree printed too few patches", f"none for {shown(entry.path)}")
        hunks = tuple(hunk for section in found for hunk in section.hunks)
        is_text = all(section.is_text for section in found)
        parts.append(_Part(entry, hunks if is_text else None, sum(section.left_out for section in found)))
    return parts


def _file(part: _Part, sizes: dict[str, int]) -> FileDiff:
    entry = part.entry
    old_size, new_size = sizes.get(entry.old), sizes.get(entry.new)
    return FileDiff(
        path=shown(entry.path),
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
        name=entry.path,
        old_name=entry.old_path,
    )
