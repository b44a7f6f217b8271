"""Base of the bars at the edges of a screen: lines of styled pieces of text, made for the present width.

They are made when they are painted, so that the first frame has them: the message with a widget's size comes later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

if TYPE_CHECKING:
    from collections.abc import Iterable

type Piece = tuple[str, str]
"""A text and its style."""


class PiecesWidget(Widget):
    """Shows `lines_of_pieces`. Call `repaint` after a change of their data."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._lines: list[list[Piece]] = []
        self._width = 0
        self._content = Content("")

    def lines_of_pieces(self, width: int) -> list[list[Piece]]:
        """The lines; `width` in cells, wider ones are cut."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Paint again if the lines have changed."""
        if self.size.width and self._make():
            self.refresh()

    def on_resize(self) -> None:
        """Make the lines for the new width."""
        self.repaint()

    def render(self) -> Content:
        """The lines."""
        if self.size.width != self._width:
            self._make()
        return self._content

    def _make(self) -> bool:
        self._width = self.size.width
        lines = self.lines_of_pieces(self._width)
        if lines == self._lines:  # contents compare by their text only, without styles
            return False
        self._lines = lines
        self._content = Content("\n").join(Content.assemble(*line).truncate(self._width) for line in lines)
        return True


def width_of(pieces: Iterable[Piece]) -> int:
    """Width in cells."""
    return sum(cell_len(text) for text, _ in pieces)
