"""Base of tables whose lines stand under the titles of groups, such as those of a run and of a review.

The cursor belongs to a line or a group, not to a place, so it stays with it while the lines around it change.
Subclasses define the lines and draw them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from rich.segment import Segment
from textual.strip import Strip

from selftest_tui.shared import present
from selftest_tui.shared.widgets.cursor_table import PREFIX, CursorTable
from selftest_tui.shared.widgets.table_messages import LineOpened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.style import Style
    from textual import events

    from selftest_tui.shared.widgets.columns import Columns

OPEN, FOLDED = "▾", "▸"


class Lines[L](Protocol):
    """Lines with keys. The key of a group begins with `group `."""

    @property
    def lines(self) -> Sequence[L]:
        """The lines, top first."""
        ...

    @property
    def places(self) -> Mapping[str, int]:
        """The place of each key."""
        ...

    @property
    def group_of(self) -> Mapping[str, str]:
        """The group of each line, folded ones included."""
        ...


class GroupedTable[L, S: Lines[Any]](CursorTable[L]):
    """Shows grouped lines. Posts CursorMoved, and LineOpened after a double click."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"{PREFIX}{part}" for part in ("success", "primary", "warning", "error")}
    DEFAULT_CSS = """
    GroupedTable {
        &> .cursor-table--success { color: $text-success; }
        &> .cursor-table--primary { color: $text-primary; }
        &> .cursor-table--warning { color: $text-warning; text-style: bold; }
        &> .cursor-table--error { color: $text-error; text-style: bold; }
    }
    """

    def __init__(self, shown: S, columns: Columns[Any], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(columns, id=id)
        self.shown: S = shown

    @property
    def lines(self) -> Sequence[L]:
        """The lines that are shown."""
        return self.shown.lines

    # lines, defined by subclasses

    @abstractmethod
    def key_of(self, line: L) -> str:
        """The identity of a line."""

    @abstractmethod
    def is_group(self, line: L) -> bool:
        """True for the title of a group."""

    @abstractmethod
    def changed_places(self, before: S, after: S) -> Iterable[int]:
        """The places whose lines look different now, and those that are empty now."""

    @abstractmethod
    def titles(self, width: int) -> str:
        """The titles of the columns."""

    @abstractmethod
    def draw(self, line: L, base: Style, width: int) -> Strip:
        """Draw one line on this background."""

    def first_place(self, after: S) -> int:
        """Return the position of the cursor until the user moves it."""
        return 0

    # showing

    def show(self, lines: S) -> None:
        """Show newer lines: the cursor stays on its line, and the line at its place on the screen."""
        before, self.shown = self.shown, lines
        cursor_before = self._cursor
        self._cursor = self._place_of_cursor(before, lines)
        first = self._first_line(cursor_before, self.scroll_offset.y)
        self.relaid(first, self.changed_places(before, lines), cursor_before, was_empty=not before.lines)

    def go_to_key(self, key: str) -> bool:
        """Put the cursor on a line or a group by its key; False if it is not shown."""
        place = self.shown.places.get(key)
        if place is not None:
            self.go_to(place)
        return place is not None

    def _place_of_cursor(self, before: S, after: S) -> int:
        if not after.lines:
            return 0
        if not self._was_moved or not before.lines:
            return self.first_place(after)
        cursor = min(self._cursor, len(before.lines) - 1)
        key = self.key_of(before.lines[cursor])
        if key in after.places:
            return after.places[key]
        if key in after.group_of:  # its group was folded, or it moved into a folded one
            return after.places[f"group {after.group_of[key]}"]
        for line in (*before.lines[cursor + 1 :], *reversed(before.lines[:cursor])):
            place = after.places.get(self.key_of(line))
            if place is not None:
                return place
        return min(cursor, len(after.lines) - 1)

    def _first_line(self, cursor_before: int, top: int) -> int:
        """The first visible line: the top stays the top, else the cursor's line keeps its place on the screen."""
        is_seen = top <= cursor_before < top + self.page
        wanted = top
        if top and is_seen:
            wanted = self._cursor - (cursor_before - top)
        elif self._cursor >= top + self.page:
            wanted = self._cursor - self.page + 1
        return max(0, min(wanted, len(self.shown.lines) - self.page))

    # drawing

    def draw_titles(self, width: int) -> Strip:
        """Draw the titles of the columns."""
        style = self.style_of("base") + self.style_of("heading")
        return Strip([Segment(present.fit(self.titles(width), width), style)], width)

    def draw_at(self, place: int, width: int) -> Strip:
        """Draw the line at this place."""
        base = self.style_of("base")
        if place == self._cursor:
            base = base + self.style_of("cursor" if self.has_focus else "cursor-blurred")
        return self.draw(self.lines[place], base, width)

    def clicked(self, place: int, event: events.Click) -> None:
        """Go to the clicked line; open a group's title, or a line that was clicked twice."""
        is_group = self.is_group(self.lines[place])
        self.go_to(place)
        if event.chain == 2 or is_group:
            self.post_message(LineOpened())
