"""Layout of a diff in rows: titles of files and hunks, lines in one column or on two sides. Pure.

A diff may have 100,000 lines, of which a screen shows sixty: only the start of each hunk is computed in advance, and a
row is made when it is requested. All text of a diff is already safe to show (`selftest_core.git.patches`).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.git.diffs import FileStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from selftest_core.git.diffs import FileDiff
    from selftest_core.git.patches import DiffLine, Hunk

type Place = tuple[int, int]
"""The number of a file in the diff, and of a hunk in that file, both from 0."""


@dataclass(frozen=True, slots=True)
class FileHead:
    """The title of a file."""

    number: int
    file: FileDiff
    is_folded: bool


@dataclass(frozen=True, slots=True)
class HunkHead:
    """The title of a hunk."""

    place: Place
    hunk: Hunk
    is_folded: bool


@dataclass(frozen=True, slots=True)
class Words:
    """The text for a file that has no lines to show."""

    text: str


@dataclass(frozen=True, slots=True)
class Unified:
    """One line of a hunk in one column. `index`: its number in the hunk."""

    place: Place
    line: DiffLine
    index: int


@dataclass(frozen=True, slots=True)
class Sides:
    """The old line on the left and the new one on the right; None if a side has no line. Both the same: unchanged."""

    place: Place
    left: DiffLine | None
    right: DiffLine | None
    index: int


type DiffRow = FileHead | HunkHead | Words | Unified | Sides


class DiffLayout:
    """The rows of a diff, with some files and hunks folded, in one column or two."""

    def __init__(
        self,
        files: Sequence[FileDiff],
        *,
        is_split: bool = False,
        folded_files: frozenset[int] = frozenset(),
        folded_hunks: frozenset[Place] = frozenset(),
    ) -> None:
        self.files = tuple(files)
        self.is_split = is_split
        self.folded_files = folded_files
        self.folded_hunks = folded_hunks
        self._bodies: dict[Place, tuple[tuple[DiffLine | None, DiffLine | None, int], ...]] = {}
        self._starts: list[int] = []
        self._parts: list[FileHead | HunkHead | Words] = []
        self._heads: dict[Place, int] = {}
        self._files: list[int] = []
        self.height = 0
        self.digits = 1
        for number, file in enumerate(self.files):
            self._add_file(number, file)

    def _add(self, part: FileHead | HunkHead | Words, rows: int = 1) -> None:
        self._starts.append(self.height)
        self._parts.append(part)
        self.height += rows

    def _add_file(self, number: int, file: FileDiff) -> None:
        is_folded = number in self.folded_files
        self._files.append(self.height)
        self._add(FileHead(number, file, is_folded))
        if is_folded:
            return
        for words in words_of(file):
            self._add(Words(words))
        for at, hunk in enumerate(file.hunks):
            place = (number, at)
            is_closed = place in self.folded_hunks
            self._heads[place] = self.height
            size = 0 if is_closed else len(self._body(place)) if self.is_split else len(hunk.lines)
            self._add(HunkHead(place, hunk, is_closed), 1 + size)
            end = max(hunk.old_start + hunk.old_count, hunk.new_start + hunk.new_count)
            self.digits = max(self.digits, len(str(end)))
        if file.left_out:
            self._add(Words(f"{file.left_out:,} more lines are not shown: the commit is too big"))

    def _body(self, place: Place) -> tuple[tuple[DiffLine | None, DiffLine | None, int], ...]:
        """Pair the lines of a hunk on two sides, with the number of each line in the hunk."""
        known = self._bodies.get(place)
        if known is None:
            known = self._bodies[place] = tuple(_numbered(self.files[place[0]].hunks[place[1]]))
        return known

    def row(self, y: int) -> DiffRow | None:
        """Return the row at `y`, None after the end."""
        if not 0 <= y < self.height:
            return None
        at = bisect_right(self._starts, y) - 1
        part, inside = self._parts[at], y - self._starts[at]
        if inside == 0 or not isinstance(part, HunkHead):
            return part
        if self.is_split:
            left, right, index = self._body(part.place)[inside - 1]
            return Sides(part.place, left, right, index)
        return Unified(part.place, part.hunk.lines[inside - 1], inside - 1)

    @property
    def hunks(self) -> int:
        """Number of hunk titles, without those in folded files."""
        return len(self._heads)

    def hunk_at(self, y: int) -> Place | None:
        """Return the hunk of the row at `y`, else the next one below, else the last one."""
        best = None
        for place, start in self._heads.items():
            if best is None or start <= y:
                best = place
        part = self._part(y)
        if isinstance(part, FileHead | Words):  # the title of a file: its own hunks are below it
            below = (place for place, start in self._heads.items() if start > y)
            return next(below, best)
        return best

    def file_at(self, y: int) -> int | None:
        """Return the number of the file of the row at `y`."""
        if not self._files:
            return None
        return max(0, bisect_right(self._files, max(0, y)) - 1)

    def _part(self, y: int) -> FileHead | HunkHead | Words | None:
        return self._parts[bisect_right(self._starts, y) - 1] if 0 <= y < self.height else None

    def start_of(self, place: Place) -> int:
        """Return the row of a hunk's title; of its file's title if the file is folded."""
        return self._heads.get(place, self.start_of_file(place[0]))

    def start_of_file(self, number: int) -> int:
        """Return the row of a file's title."""
        return self._files[number] if number < len(self._files) else 0

    def next_hunk(self, place: Place | None, step: int) -> Place | None:
        """Return the hunk after (1) or before (-1) this one; None at the end."""
        places = list(self._heads)
        if place not in self._heads:
            return places[0] if places else None
        at = places.index(place) + step
        return places[at] if 0 <= at < len(places) else None


def _numbered(hunk: Hunk) -> Iterator[tuple[DiffLine | None, DiffLine | None, int]]:
    numbers = {id(line): number for number, line in enumerate(hunk.lines)}
    for left, right in hunk.rows():
        line = right if right is not None else left
        yield left, right, numbers[id(line)]


def words_of(file: FileDiff) -> Iterator[str]:
    """Yield the notes about a file besides its lines."""
    if file.old_path is not None:
        yield f"{file.status.value} from {file.old_path}"
    if None not in (file.old_mode, file.new_mode) and file.old_mode != file.new_mode:
        yield f"mode {file.old_mode} → {file.new_mode}"
    elif file.new_mode == "160000" or file.old_mode == "160000":
        yield "a submodule"
    elif file.new_mode == "120000" or (file.new_mode is None and file.old_mode == "120000"):
        yield "a symbolic link"
    if file.is_too_big:
        yield f"too big to compare line by line: {_sizes(file)}"
    elif file.is_binary:
        yield f"binary: {_sizes(file)}"
    elif not file.hunks and file.status is FileStatus.ADDED:
        yield "an empty file"


def _sizes(file: FileDiff) -> str:
    sizes = [_size(size) for size in (file.old_size, file.new_size) if size is not None]
    return " → ".join(sizes) or "no size is known"


def _size(count: int) -> str:
    for unit, least in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= least:
            return f"{count / least:.1f} {unit}"
    return f"{count} bytes"


def as_text(file: FileDiff, hunk: Hunk, most: int = 60) -> str:
    """Format the first `most` lines of a hunk as a patch, for a message to its author."""
    signs = {"context": " ", "removed": "-", "added": "+"}
    lines = [f"{signs[line.kind.value]}{line.text}" for line in hunk.lines[:most]]
    if len(hunk.lines) > most:
        lines.append(f"… {len(hunk.lines) - most} more lines")
    head = f"@@ -{hunk.old_start},{hunk.old_count} +{hunk.new_start},{hunk.new_count} @@ {hunk.heading}".rstrip()
    return "\n".join([f"--- {file.old_path or file.path}", f"+++ {file.path}", head, *lines])
