"""The messages of all tables."""

from __future__ import annotations

from textual.message import Message


class CursorMoved(Message):
    """Another line, or something new in the same line, is under the cursor. Ask the table which."""

    def can_replace(self, message: Message) -> bool:
        """Only where the cursor is in the end matters."""
        return isinstance(message, CursorMoved)


class MarksChanged(Message):
    """Other agents are marked, or a range began or ended."""

    def can_replace(self, message: Message) -> bool:
        """Only the marks in the end matter."""
        return isinstance(message, MarksChanged)


class LineOpened(Message):
    """The line under the cursor was clicked twice."""
