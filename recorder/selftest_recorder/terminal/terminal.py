"""A terminal without a window: bytes of a program go in, what a person would have seen comes out.

The protocol is what replaying needs and no more, so that another emulator can take its place; a conformance suite says
what each must do. Values that leave a terminal are plain: nobody outside needs to know which one made them.

A terminal answers nothing and reaches nothing: queries, titles, clipboards, notifications and pictures from files are
taken in and forgotten. What it shows is still hostile text; whoever draws it makes it harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_COLUMNS = 2_000
MOST_ROWS = 1_000
"""A recording that claims to be larger is shown in a terminal of this size."""

type Colour = int | tuple[int, int, int] | None
"""A number of the palette (0 to 255), red, green and blue (0 to 255), or None for the terminal's own."""


class Pen(NamedTuple):
    """How characters are drawn. `underline`: 0 none, 1 single, 2 double, 3 curly, 4 dotted, 5 dashed."""

    foreground: Colour = None
    background: Colour = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    blink: bool = False
    reverse: bool = False
    conceal: bool = False
    strike: bool = False
    overline: bool = False
    underline: int = 0


PLAIN = Pen()


class Run(NamedTuple):
    """Characters beside each other that are drawn alike. `cells`: the columns that the terminal gives them.

    All of them have one cell, or all have two, or it is a single one with marks, so that each one's place is known.
    """

    text: str
    pen: Pen
    cells: int


type Row = tuple[Run, ...]
"""One row from the left; blank cells at its end that are drawn plainly are left out."""


class Cursor(NamedTuple):
    """Where the cursor stands, from 0; `is_visible`: the program shows it."""

    column: int = 0
    row: int = 0
    is_visible: bool = True


class ScreenUpdate(NamedTuple):
    """What changed since the last read. `rows`: by number from 0, the new ones; `is_whole`: every row is there."""

    columns: int
    lines: int
    rows: Mapping[int, Row]
    cursor: Cursor
    is_whole: bool


class Terminal(Protocol):
    """An emulator. Not for two threads at a time."""

    def feed(self, data: bytes) -> None:
        """Take in output of a program, cut anywhere."""

    def resize(self, columns: int, rows: int) -> None:
        """Another size, brought within what is allowed. In the midst of an escape sequence it comes after that."""

    def read_update(self, *, whole: bool = False) -> ScreenUpdate:
        """The rows that changed since the last read; all of them when `whole`, and after a change of size."""

    def lines(self) -> list[str]:
        """The text of every row, trailing blanks cut."""

    def snapshot(self) -> bytes | None:
        """All that matters for what is shown from here on; None where that is not to be had just now."""

    def restore(self, snapshot: bytes) -> None:
        """Be as when `snapshot` was taken. Raises ValueError where it is none of this emulator."""


def sane_size(columns: int, rows: int) -> tuple[int, int]:
    """The size that a terminal takes for one that a recording claims."""
    return min(max(columns, 1), MOST_COLUMNS), min(max(rows, 1), MOST_ROWS)


def text_of(row: Row) -> str:
    """The characters of a row."""
    return "".join(run.text for run in row)
