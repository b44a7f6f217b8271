"""The differences between a stale citation and its nearest block, by line and by word. Pure."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from selftest_core.frozen import dataclass

MOST_LINES = 400
"""Lines of either side that are compared: the time is quadratic."""
MOST_WORDS = 400
"""Words of either line that are compared; longer lines differ as a whole."""
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line. `is_marked`: the other side does not have it."""

    text: str
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of the diff. `sign`: `-` only in the citation, `+` only in the block, ` ` in both."""

    sign: str
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The whole line."""
        return "".join(piece.text for piece in self.pieces)


def differences(cited: str, block: str) -> tuple[DiffLine, ...]:
    """Compare a citation with a block: by line, and by word in changed lines.

    As in the check, blanks around lines and empty lines do not count.
    """
    old, new = (
        [line.strip() for line in text.splitlines() if line.strip()][:MOST_LINES] for text in (cited, block)
    )  # fmt: skip
    lines: list[DiffLine] = []
    for what, first, last, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            lines += [DiffLine(" ", (Piece(line),)) for line in old[first:last]]
            continue
        pairs = min(last - first, end - start)
        for before, after in zip(old[first : first + pairs], new[start : start + pairs], strict=True):
            lines += _words(before, after)
        lines += [DiffLine("-", (Piece(line, True),)) for line in old[first + pairs : last]]
        lines += [DiffLine("+", (Piece(line, True),)) for line in new[start + pairs : end]]
    return tuple(lines)


def _words(before: str, after: str) -> list[DiffLine]:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(old), len(new)) > MOST_WORDS:
        return [DiffLine("-", (Piece(before, True),)), DiffLine("+", (Piece(after, True),))]
    removed: list[Piece] = []
    added: list[Piece] = []
    for what, first, last, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        is_marked = what != "equal"
        removed += [Piece("".join(old[first:last]), is_marked)] if last > first else []
        added += [Piece("".join(new[start:end]), is_marked)] if end > start else []
    return [DiffLine("-", tuple(removed)), DiffLine("+", tuple(added))]
