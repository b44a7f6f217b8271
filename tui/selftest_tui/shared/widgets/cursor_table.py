"""A table with a cursor: virtual lines, drawn only if they are visible and only if they changed.

It has the parts that all tables share: the cursor, scrolling, the line of titles, the text of an empty table, the
mouse, colours. It does not know the meaning of its lines. A subclass draws a line, places the cursor when the lines
change, and handles a click. The screen calls it, and it posts messages.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from selftest_tui.shared import present
from selftest_tui.shared.widgets.columns import Layout
from selftest_tui.shared.widgets.table_messages import CursorMoved, HeadingClicked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual import events

    from selftest_tui.shared.widgets.columns import Choice, Columns


class Foldable(Protocol):
    """A group of lines."""

    @property
    def is_folded(self) -> bool:
        """True if only its title is shown."""
        ...


HEADING = 1
"""Lines at the top that do not scroll."""
PREFIX = "cursor-table--"
"""Prefix of the names of the styles of a table's parts."""


class CursorTable[L](ScrollView, can_focus=True, inherit_bindings=False):
    """Shows `lines`. Posts CursorMoved and HeadingClicked.

    Without Textual's own keys: one that the user freed must do nothing.
    """

    BACKGROUNDS: ClassVar[tuple[str, ...]] = ("base", "cursor", "cursor-blurred")
    """Parts whose background counts too; of the other parts only the foreground does."""
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"{PREFIX}{part}" for part in (*BACKGROUNDS, "heading", "muted")}
    DEFAULT_CSS = """
    CursorTable {
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        &> .cursor-table--base { background: $background; color: $foreground; }
        &> .cursor-table--cursor { background: $primary 40%; color: $foreground; }
        &> .cursor-table--cursor-blurred { background: $primary 20%; color: $foreground; }
        &> .cursor-table--heading { color: $text-muted; }
        &> .cursor-table--muted { color: $text-muted; }
    }
    """

    def __init__(self, columns: Columns[Any], *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.columns: Layout[Any] = Layout(columns)
        self.placeholder: tuple[str, ...] = ()
        self._cursor = 0
        self._was_moved = False
        self._styles: dict[str, Style] = {}

    # what a table defines

    @property
    @abstractmethod
    def lines(self) -> Sequence[L]:
        """The lines, top first."""

    @property
    @abstractmethod
    def group(self) -> Foldable | None:
        """The group under the cursor, or that of the line under it."""

    @abstractmethod
    def draw_titles(self, width: int) -> Strip:
        """Draw the titles of the columns."""

    @abstractmethod
    def draw_at(self, place: int, width: int) -> Strip:
        """Draw the line at this place."""

    @abstractmethod
    def clicked(self, place: int, event: events.Click) -> None:
        """Handle a click on the line at this place."""

    def cursor_went(self) -> None:
        """Handle a moved cursor."""
        self.post_message(CursorMoved())

    # what is shown

    def show_placeholder(self, lines: tuple[str, ...]) -> None:
        """Set the text of an empty table: a headline, and lines below it."""
        if lines != self.placeholder:
            self.placeholder = lines
            self.refresh()

    def relaid(self, first: int, changed: Iterable[int], cursor_before: int, *, was_empty: bool) -> None:
        """Show the new lines from `first` on, with the cursor already moved, and repaint the changed ones."""
        self.virtual_size = Size(self.size.width, len(self.lines) + HEADING)
        top = self.scroll_offset.y
        if first != top:
            self.scroll_to(y=first, animate=False, force=True)
        if self.scroll_offset.y != top or was_empty or not self.lines:
            self.refresh()
        else:
            self.refresh_places(changed)
            if self._cursor != cursor_before:
                self.refresh_places((self._cursor, cursor_before))
        self.post_message(CursorMoved())

    # columns

    def choose_columns(self, choices: Mapping[str, Choice]) -> None:
        """Show these columns always, and those never."""
        self.columns.choose(choices)
        self.columns_moved()

    def columns_moved(self) -> None:
        """Paint everything: columns have other places or widths."""
        self.refresh()

    # cursor

    @property
    def line(self) -> L | None:
        """The line under the cursor."""
        return self.lines[self._cursor] if self._cursor < len(self.lines) else None

    @property
    def cursor(self) -> int:
        """The place of the cursor among the lines."""
        return self._cursor

    @property
    def page(self) -> int:
        """Lines that fit on the screen."""
        return max(1, self.size.height - HEADING)

    def go_to(self, place: int) -> None:
        """Move the cursor to the line at `place`, within bounds, and scroll it into view."""
        self._was_moved = True
        self._go_to(place)

    def go_to_group(self) -> None:
        """Move to the title of the group that the cursor is in."""
        if self.group is not None:
            self.go_to(self.lines.index(self.group))

    def _go_to(self, place: int) -> None:
        place = max(0, min(place, len(self.lines) - 1))
        if place != self._cursor:
            before, self._cursor = self._cursor, place
            self.refresh_places((before, place))
            self.cursor_went()
        self.scroll_to_cursor()

    def scroll_to_cursor(self) -> None:
        """Scroll the cursor into view, with the title of its group if that is the line above."""
        top, place = self.scroll_offset.y, self._cursor
        if place < top:
            self.scroll_to(y=0 if place == 1 else place, animate=False, force=True)
        elif place >= top + self.page:
            self.scroll_to(y=place - self.page + 1, animate=False, force=True)

    # drawing

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen: the titles, a line, or a blank."""
        width = self.scrollable_content_region.width
        if not self.lines:
            return self._placeholder_line(y, width)
        if y < HEADING:
            return self.draw_titles(width)
        place = self.scroll_offset.y + y - HEADING
        return self.draw_at(place, width) if place < len(self.lines) else Strip.blank(width, self.style_of("base"))

    def _placeholder_line(self, y: int, width: int) -> Strip:
        """Draw the headline centred, and the other lines as one centred block."""
        number = y - HEADING - max(0, (self.page - len(self.placeholder)) // 3)
        if not 0 <= number < len(self.placeholder):
            return Strip.blank(width, self.style_of("base"))
        text = present.clean(self.placeholder[number])
        block = max((cell_len(present.clean(line)) for line in self.placeholder[1:]), default=0)
        indent = max(0, (width - (block if number else cell_len(text))) // 2)
        style = self.style_of("base") + (self.style_of("muted") if number else Style(bold=True))
        return Strip([Segment(present.fit(" " * indent + text, width), style)], width)

    def style_of(self, part: str) -> Style:
        """Return a style by name: backgrounds whole, others only what fits on any background, with shades mixed."""
        if part not in self._styles:
            whole = self.get_component_rich_style(f"{PREFIX}{part}")
            if part not in self.BACKGROUNDS:
                whole = Style(color=whole.color, bold=whole.bold or None, italic=whole.italic or None)
            self._styles[part] = whole
        return self._styles[part]

    def refresh_places(self, places: Iterable[int]) -> None:
        """Repaint those of these lines that are on the screen."""
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.page
        shown = (place - top for place in places if top <= place < bottom)
        regions = [Region(0, y + HEADING, self.size.width, 1) for y in shown]
        if regions:
            self.refresh(*regions)

    # events

    def notify_style_update(self) -> None:
        """Repaint with the colours of another theme."""
        super().notify_style_update()
        self._styles.clear()
        self.refresh()

    def on_resize(self) -> None:
        """Place the columns in the new width, and keep the cursor in view."""
        self.virtual_size = Size(self.size.width, len(self.lines) + HEADING)
        self.scroll_to_cursor()
        self.refresh()

    def on_focus(self) -> None:
        """Brighten the cursor."""
        self.refresh_places((self._cursor,))

    def on_blur(self) -> None:
        """Dim the cursor."""
        self.refresh_places((self._cursor,))

    def on_click(self, event: events.Click) -> None:
        """Handle a click on a line, or on the title of a column."""
        if event.y < HEADING and self.lines:
            column = self.columns.column_at(event.x, self.scrollable_content_region.width)
            if column is not None:
                self.post_message(HeadingClicked(column.name))
            return
        place = self.scroll_offset.y + event.y - HEADING
        if 0 <= place < len(self.lines):
            self.clicked(place, event)
