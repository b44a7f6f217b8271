"""The messages of all tables."""

from __future__ import annotations

from textual.message import Message


class CursorMoved(Message):
    """The cursor is on another line, or its line has changed. The table has the line."""

    def can_replace(self, message: Message) -> bool:
        """Replace older ones: only the last place matters."""
        return isinstance(message, CursorMoved)


class HeadingClicked(Message):
    """The title of a column was clicked."""

    def __init__(self, column: str) -> None:
        super().__init__()
        self.column = column


class MarksChanged(Message):
    """The marks changed, or a range began or ended."""

    def can_replace(self, message: Message) -> bool:
        """Replace older ones: only the last marks matter."""
        return isinstance(message, MarksChanged)


class LineOpened(Message):
    """The line under the cursor was clicked twice."""
