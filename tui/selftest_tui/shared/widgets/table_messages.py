"""What the agents table posts: what became of the cursor, the marks and the line under the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from selftest_core.fleet.view import Row
    from selftest_tui.fleet.arrangement import Line


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


class LineVanished(Message):
    """The agent under the cursor is gone from the fleet; the cursor went to `now`."""

    def __init__(self, gone: Row, now: Line | None) -> None:
        super().__init__()
        self.gone = gone
        self.now = now


class NameChanged(Message):
    """The agent under the cursor has another name now."""

    def __init__(self, before: Row, after: Row) -> None:
        super().__init__()
        self.before = before
        self.after = after
