"""The line at the bottom: the most used keys of the screen, disabled ones dimmed.

Keys keep their places; where space is short the least used are left out, and `?` always stays. A click presses a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.message import Message

from selftest_tui.shared import present
from selftest_tui.shared.widgets.pieces import PiecesWidget

if TYPE_CHECKING:
    from textual import events

    from selftest_tui.shared.keys import Key, KeyTable
    from selftest_tui.shared.widgets.pieces import Piece

SPACE = "  "


class KeyBar(PiecesWidget):
    """Shows the key line of a key table; `mode` replaces it while keys mean something else.

    `show` takes the screen's `situation()`, which decides which keys are disabled.
    """

    DEFAULT_CSS = """
    KeyBar { height: 1; background: $panel; color: $foreground; }
    """

    class Pressed(Message):
        """A key was clicked."""

        def __init__(self, key: Key) -> None:
            super().__init__()
            self.key = key

    def __init__(self, table: KeyTable, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._table = table
        self._situation: object = None
        self._mode = ""
        self._places: list[tuple[range, Key]] = []

    def show(self, situation: object, mode: str = "") -> None:
        """Show another situation, or a mode (`RANGE  move marks · V ends it`)."""
        self._situation, self._mode = situation, mode
        self.repaint()

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked."""
        for cells, key in self._places:
            if event.x in cells:
                self.post_message(self.Pressed(key))

    def lines_of_pieces(self, width: int) -> list[list[Piece]]:
        """Return one line."""
        self._places = []
        if self._mode:
            name, _, rest = present.clean(self._mode).partition("  ")
            return [[(f" {name} ", "bold reverse"), (f"  {rest}", "")]]
        left, right = self._table.line()
        tail_width = sum(_width(key) for key in right)
        x = 1
        pieces: list[Piece] = [(" ", "")]
        for key in left:
            if x + _width(key) + tail_width > width:
                continue
            x = self._add(pieces, key, x)
        gap = max(0, width - x - tail_width)
        pieces.append((" " * gap, ""))
        x += gap
        for key in right:
            x = self._add(pieces, key, x)
        return [pieces]

    def _add(self, pieces: list[Piece], key: Key, x: int) -> int:
        refuses = self._situation is not None and key.disabled_reason(self._situation) is not None
        shows = key.shows.partition(" ")[0]
        pieces.append((shows, "$foreground-disabled" if refuses else "bold"))
        pieces.append((f" {key.label}{SPACE}", "$foreground-disabled" if refuses else "$foreground-muted"))
        self._places.append((range(x, x + _width(key) - len(SPACE)), key))
        return x + _width(key)


def _width(key: Key) -> int:
    return cell_len(key.shows.partition(" ")[0]) + 1 + cell_len(key.label) + len(SPACE)
