"""Protocol of terminal emulators: bytes of a program go in, the screen comes out.

The protocol has only what replay needs, so that another emulator can replace ours; a conformance suite tests each.
Results are plain values that do not depend on the emulator.

A terminal has no effect outside of its screen: queries, titles, clipboards, notifications and pictures from files are
dropped. Its texts are still hostile; the code that draws them makes them harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_COLUMNS = 2_000
MOST_ROWS = 1_000
"""A recording that claims to be larger is shown in a terminal of this size."""

type Colour = int | tuple[int, int, int] | None
"""A number of the palette (0 to 255), red, green and blue (0 to 255), or None for the default colour."""


class Pen(NamedTuple):
    """The style of characters. `underline`: 0 none, 1 single, 2 double, 3 curly, 4 dotted, 5 dashed."""

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
    """Adjacent characters of one style. `cells`: their columns in the terminal.

    All of them have one cell, or all have two, or it is a single character with marks, so that each place is known.
    """

    text: str
    pen: Pen
    cells: int


type Row = tuple[Run, ...]
"""One row from the left, without plain blank cells at its end."""


class Cursor(NamedTuple):
    """The place of the cursor, from 0; `is_visible`: the program shows it."""

    column: int = 0
    row: int = 0
    is_visible: bool = True


class ScreenUpdate(NamedTuple):
    """Changes since the last read. `rows`: changed rows by number from 0; `is_whole`: all rows are in it."""

    columns: int
    lines: int
    rows: Mapping[int, Row]
    cursor: Cursor
    is_whole: bool


class Terminal(Protocol):
    """An emulator; not thread-safe."""

    def feed(self, data: bytes) -> None:
        """Process output of a program, which may be cut anywhere."""

    def resize(self, columns: int, rows: int) -> None:
        """Change the size, within the limits. Inside of an escape sequence it waits for its end."""

    def read_update(self, *, whole: bool = False) -> ScreenUpdate:
        """Return the rows that changed since the last read; all of them when `whole`, or after a change of size."""

    def lines(self) -> list[str]:
        """Return the text of all rows, without trailing blanks."""

    def changed_lines(self) -> Mapping[int, str]:
        """Return the texts of the rows that changed since the last call, by number from 0, without trailing blanks."""

    def scrolled_lines(self) -> list[str]:
        """Return the lines above the screen and on it, wrapped ones joined, and forget those above.

        At least `kept_above` rows above the screen are kept until then, where the terminal was opened for it.
        """

    def snapshot(self) -> bytes | None:
        """Return the whole state, None if that is not possible now."""

    def restore(self, snapshot: bytes) -> None:
        """Restore the state of a snapshot. Raises ValueError for a snapshot of another emulator."""


def kept_above(columns: int, rows: int) -> int:
    """Return how many rows above the screen `Terminal.scrolled_lines` is sure to have; 0 where it is too few to use."""
    kept = min(300, 30_000 // columns)
    return kept if kept >= 2 * rows else 0


def sane_size(columns: int, rows: int) -> tuple[int, int]:
    """Return the size of the terminal for the size that a recording claims."""
    return min(max(columns, 1), MOST_COLUMNS), min(max(rows, 1), MOST_ROWS)


def text_of(row: Row) -> str:
    """Return the characters of a row."""
    return "".join(run.text for run in row)
