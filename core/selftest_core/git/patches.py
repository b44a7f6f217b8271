"""A parser of git's patches: hunks, lines with their numbers, and the words that differ.

Hunks are read by the counts in their headers, so no content can imitate one. All texts are safe to show: control
characters become symbols, tabs become spaces, long lines are cut. Changed words are computed when a line is shown, so a
diff of 20,000 lines opens at once. (Why not unidiff: docs/decisions/36-unidiff.md.)

Pure: text in, values out; no colours, columns or files.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 2_000
"""Characters of a line that are shown; the rest becomes an ellipsis."""
MOST_LINES = 100_000
"""Lines of one commit that are kept; the others are counted."""

_HEAD = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)", re.DOTALL)
_WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)
# Control characters, and characters that turn or hide text: bidi marks and overrides, zero-width characters, tags, lone
# surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
_TAB = 4
_ID = 12
"""Digits of the id of a hunk."""


class LineKind(StrEnum):
    """The kind of a line in a hunk."""

    CONTEXT = "context"
    REMOVED = "removed"
    ADDED = "added"


type Span = tuple[int, int]
"""Start and end of a part of a line's text, the end not included."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line. `old`, `new`: its number on each side, from 1, None if that side does not have it.

    `text` is safe to show, without its line break. `other`: the text of its counterpart (the added line of a removed
    one and vice versa), None if there is none.
    """

    kind: LineKind
    old: int | None
    new: int | None
    text: str
    other: str | None = None
    has_newline: bool = True

    @property
    def spans(self) -> tuple[Span, ...]:
        """The parts of `text` that its counterpart does not have; none if the two have too little in common."""
        return () if self.other is None else changed_words(self.text, self.other)


@dataclass(frozen=True, slots=True)
class Hunk:
    """Consecutive lines. `heading`: the function or class that git found above them, safe to show.

    `id`: the first digits of the SHA-1 of its removed and added lines, each with its sign and its line break; of equal
    hunks of one file, the second has "-2" at the end, and so on. It does not depend on the place of the hunk.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    heading: str
    lines: tuple[DiffLine, ...]
    id: str = ""

    def rows(self) -> Iterator[tuple[DiffLine | None, DiffLine | None]]:
        """Yield its lines side by side: before and after, None if one side has nothing."""
        removed: list[DiffLine] = []
        added: list[DiffLine] = []
        for line in self.lines:
            if line.kind is LineKind.REMOVED and added:
                yield from zip_longest(removed, added)
                removed, added = [], []
            match line.kind:
                case LineKind.REMOVED:
                    removed.append(line)
                case LineKind.ADDED:
                    added.append(line)
                case LineKind.CONTEXT:
                    yield from zip_longest(removed, added)
                    removed, added = [], []
                    yield line, line
        yield from zip_longest(removed, added)


@lru_cache(maxsize=8192)
def changed_words(text: str, other: str) -> tuple[Span, ...]:
    """Find the parts of `text` that `other` does not have: whole words, neighbours joined.

    Empty if more than two thirds of the line differ: so many marks would not help.
    """
    # Imported here: it costs 40 ms, and only screens compare words.
    from rapidfuzz.distance import LCSseq

    if text == other:
        return ()
    own, theirs = _WORDS.findall(text), _WORDS.findall(other)
    starts = [0]
    for word in own:
        starts.append(starts[-1] + len(word))
    found: list[Span] = []
    for step in LCSseq.opcodes(own, theirs):
        if step.tag in ("replace", "delete") and step.src_start < step.src_end:
            start, end = starts[step.src_start], starts[step.src_end]
            if found and not text[found[-1][1] : start].strip():
                found[-1] = (found[-1][0], end)
            else:
                found.append((start, end))
    visible = sum(not letter.isspace() for letter in text)
    differing = sum(not letter.isspace() for start, end in found for letter in text[start:end])
    return tuple(found) if 3 * differing <= 2 * visible else ()


def shown(text: str) -> str:
    """Make text of a commit safe to show: one character for each, tabs as spaces, cut if it is too long."""
    text = text[: LONGEST + 1].replace("\t", " " * _TAB)
    if not text.isascii() or not text.isprintable():
        text = _UNSAFE.sub(_picture, text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


@dataclass(frozen=True, slots=True)
class Section:
    """One file of a patch: its hunks, whether it has lines at all, and how many were left out."""

    hunks: tuple[Hunk, ...]
    is_text: bool
    left_out: int


class Patch:
    """Reads the sections of a patch one after the other."""

    def __init__(self, patch: str, room: int = MOST_LINES) -> None:
        self._lines = patch.split("\n")
        self._at = 0
        self._room = room

    def section(self) -> Section | None:
        """Read the section of the next file, None at the end."""
        while self._at < len(self._lines) and not self._lines[self._at].startswith("diff --git "):
            self._at += 1
        if self._at == len(self._lines):
            return None
        self._at += 1
        hunks: list[Hunk] = []
        ids: Counter[str] = Counter()
        is_text, left_out = True, 0
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith("diff --git "):
                break
            self._at += 1
            if line.startswith("Binary files "):
                is_text = False
            elif (head := _HEAD.fullmatch(line)) is not None:
                hunk, missing = self._hunk(head)
                left_out += missing
                if hunk.lines:
                    ids[hunk.id] += 1
                    again = ids[hunk.id]
                    hunks.append(hunk if again == 1 else replace(hunk, id=f"{hunk.id}-{again}"))
        return Section(tuple(hunks), is_text, left_out)

    def _hunk(self, head: re.Match[str]) -> tuple[Hunk, int]:
        """Read the hunk below this header; returns it and the number of lines left out."""
        start = end = self._at
        left_out = 0
        old_left = 1 if head[2] is None else int(head[2])
        new_left = 1 if head[4] is None else int(head[4])
        counts = (int(head[1]), old_left, int(head[3]), new_left)
        lines = self._lines
        # "\ No newline at end of file" counts on neither side, and may follow the last line.
        while self._at < len(lines) and (old_left > 0 or new_left > 0 or lines[self._at].startswith("\\")):
            sign = lines[self._at][:1]
            self._at += 1
            if sign == "\\":
                end = end if left_out else self._at
                continue
            old_left -= sign != "+"
            new_left -= sign != "-"
            if self._room:
                self._room -= 1
                end = self._at
            else:
                left_out += 1
        kept = tuple(_numbered(lines[start:end], counts[0], counts[2]))
        return Hunk(*counts, shown(head[5]), kept, _hunk_id(lines[start:end])), left_out


def _hunk_id(lines: list[str]) -> str:
    changed: list[str] = []
    is_changed = False
    for line in lines:
        if line.startswith(("+", "-")):
            changed.append(f"{line}\n")
            is_changed = True
        elif line.startswith("\\"):
            if is_changed:
                changed[-1] = changed[-1][:-1]
        else:
            is_changed = False
    body = "".join(changed).encode("utf-8", "surrogateescape")
    return hashlib.sha1(body, usedforsecurity=False).hexdigest()[:_ID]


def _numbered(lines: list[str], old: int, new: int) -> Iterator[DiffLine]:
    """Number the lines of a hunk, and pair each removed line with the added line in its place."""
    at = 0
    while at < len(lines):
        removed, at = _run(lines, at, "-")
        added, at = _run(lines, at, "+")
        for index, (text, is_whole) in enumerate(removed):
            other = added[index][0] if index < len(added) else None
            yield DiffLine(LineKind.REMOVED, old + index, None, text, other, is_whole)
        for index, (text, is_whole) in enumerate(added):
            other = removed[index][0] if index < len(removed) else None
            yield DiffLine(LineKind.ADDED, None, new + index, text, other, is_whole)
        old, new = old + len(removed), new + len(added)
        kept, at = _run(lines, at, " ")
        for index, (text, is_whole) in enumerate(kept):
            yield DiffLine(LineKind.CONTEXT, old + index, new + index, text, None, is_whole)
        old, new = old + len(kept), new + len(kept)


def _run(lines: list[str], at: int, sign: str) -> tuple[list[tuple[str, bool]], int]:
    """Read lines of one sign from `at`: text, whether a line break ends it; returns the next index too."""
    found: list[tuple[str, bool]] = []
    while at < len(lines):
        line = lines[at]
        if line.startswith("\\"):
            if found:
                found[-1] = (found[-1][0], False)
        # git may leave out the space of an empty line of the context.
        elif line.startswith(sign) or (sign == " " and not line):
            found.append((shown(line[1:]), True))
        else:
            break
        at += 1
    return found, at
