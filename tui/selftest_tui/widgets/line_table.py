"""The line of a review: virtual lines, a cursor, and nothing about what a review is.

It draws only what is on the screen, and of that only what has changed. The cursor belongs to a change or a group, not
to a place, so it stays with it while the line is laid anew around it. It knows no key: the screen calls it, and it
posts what became of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from selftest_core.integration.line import Decision, Status
from selftest_tui import present, review_columns, review_words
from selftest_tui.bindings import bindings_of
from selftest_tui.keys import Where
from selftest_tui.keys_review import REVIEW
from selftest_tui.review_lines import ReviewGroup, ReviewLines, ReviewRow, changed_places, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.binding import BindingType

    from selftest_tui.review_lines import ReviewLine

HEADING = 1
"""Lines at the top that do not scroll."""
OPEN, FOLDED = "▾", "▸"
_BACKGROUNDS = ("base", "cursor", "cursor-blurred")
_PARTS = (*_BACKGROUNDS, "heading", "muted", "success", "warning", "error")


class LineTable(ScrollView, can_focus=True):
    """Shows ReviewLines. Posts CursorMoved, and LineOpened where one is to be opened."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(REVIEW.of(Where.TABLE))]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"line-table--{part}" for part in _PARTS}
    DEFAULT_CSS = """
    LineTable {
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        &> .line-table--base { background: $background; color: $foreground; }
        &> .line-table--cursor { background: $primary 40%; color: $foreground; }
        &> .line-table--cursor-blurred { background: $primary 20%; color: $foreground; }
        &> .line-table--heading { color: $text-muted; }
        &> .line-table--muted { color: $text-muted; }
        &> .line-table--success { color: $text-success; text-style: bold; }
        &> .line-table--warning { color: $text-warning; text-style: bold; }
        &> .line-table--error { color: $text-error; text-style: bold; }
    }
    """

    class CursorMoved(Message):
        """Another line is under the cursor, or it changed."""

        def can_replace(self, message: Message) -> bool:
            """Two of these say no more than one."""
            return isinstance(message, LineTable.CursorMoved)

    class LineOpened(Message):
        """A change was clicked twice, or a group once."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.shown = ReviewLines()
        self.placeholder: tuple[str, ...] = ()
        self._cursor = 0
        self._was_moved = False
        self._styles: dict[str, Style] = {}

    # what is shown

    def show(self, lines: ReviewLines) -> None:
        """Go over to newer lines: the cursor stays with its change, and its line at its place on the screen."""
        before, self.shown = self.shown, lines
        cursor_before, top = self._cursor, self.scroll_offset.y
        self._cursor = self._place_of_cursor(before, lines)
        self.virtual_size = Size(self.size.width, len(lines.lines) + HEADING)
        wanted = self._first_line(cursor_before, top)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, force=True)
        if self.scroll_offset.y != top or not lines.lines or not before.lines:
            self.refresh()
        else:
            self._refresh_places(changed_places(before, lines))
            if self._cursor != cursor_before:
                self._refresh_places((self._cursor, cursor_before))
        self.post_message(self.CursorMoved())

    def show_placeholder(self, lines: tuple[str, ...]) -> None:
        """What to say when there is no line at all: a headline, and lines below it."""
        if lines != self.placeholder:
            self.placeholder = lines
            self.refresh()

    # cursor

    @property
    def line(self) -> ReviewLine | None:
        """The line under the cursor."""
        lines = self.shown.lines
        return lines[self._cursor] if self._cursor < len(lines) else None

    @property
    def row(self) -> ReviewRow | None:
        """The change under the cursor."""
        return self.line if isinstance(self.line, ReviewRow) else None

    @property
    def group(self) -> ReviewGroup | None:
        """The group under the cursor, or that of the change under it."""
        line = self.line
        if line is None or isinstance(line, ReviewGroup):
            return line
        place = self.shown.places.get(f"group {self.shown.group_of.get(line.oid, '')}")
        found = None if place is None else self.shown.lines[place]
        return found if isinstance(found, ReviewGroup) else None

    @property
    def cursor(self) -> int:
        """The place of the cursor among the lines."""
        return self._cursor

    @property
    def page(self) -> int:
        """Lines that fit on the screen."""
        return max(1, self.size.height - HEADING)

    def go_to(self, place: int) -> None:
        """The person moves the cursor to the line at `place`, within bounds; it is scrolled into sight."""
        self._was_moved = True
        place = max(0, min(place, len(self.shown.lines) - 1))
        if place != self._cursor:
            before, self._cursor = self._cursor, place
            self._refresh_places((before, place))
            self.post_message(self.CursorMoved())
        self._scroll_to_cursor()

    def go_to_key(self, key: str) -> bool:
        """Put the cursor on a change by its oid, or on a group; False where it is not shown."""
        place = self.shown.places.get(key)
        if place is not None:
            self.go_to(place)
        return place is not None

    def _place_of_cursor(self, before: ReviewLines, after: ReviewLines) -> int:
        if not after.lines:
            return 0
        if not self._was_moved or not before.lines:
            # What is laid together is decided already: a review begins below it.
            return next((at for at, line in enumerate(after.lines) if isinstance(line, ReviewRow) and line.number), 0)
        cursor = min(self._cursor, len(before.lines) - 1)
        key = key_of(before.lines[cursor])
        if key in after.places:
            return after.places[key]
        if key in after.group_of:  # its group was closed
            return after.places[f"group {after.group_of[key]}"]
        for line in (*before.lines[cursor + 1 :], *reversed(before.lines[:cursor])):
            place = after.places.get(key_of(line))
            if place is not None:
                return place
        return min(cursor, len(after.lines) - 1)

    def _first_line(self, cursor_before: int, top: int) -> int:
        """The first line to show: at the very top it stays the top, else the cursor's line stays where it is."""
        is_seen = top <= cursor_before < top + self.page
        wanted = top
        if top and is_seen:
            wanted = self._cursor - (cursor_before - top)
        elif self._cursor >= top + self.page:
            wanted = self._cursor - self.page + 1
        return max(0, min(wanted, len(self.shown.lines) - self.page))

    # drawing

    def render_line(self, y: int) -> Strip:
        """One line of the screen: the titles, a line of the review, or nothing."""
        width = self.scrollable_content_region.width
        base = self._style("base")
        if not self.shown.lines:
            return self._placeholder_line(y, width)
        if y < HEADING:
            titles = "".join(one.column.heading(one.width) + " " * one.gap for one in review_columns.place(width))
            text = present.fit(f"{'#':>{review_columns.PREFIX - 2}}  {titles}", width)
            return Strip([Segment(text, base + self._style("heading"))], width)
        place = self.scroll_offset.y + y - HEADING
        if place >= len(self.shown.lines):
            return Strip.blank(width, base)
        line = self.shown.lines[place]
        if place == self._cursor:
            base = base + self._style("cursor" if self.has_focus else "cursor-blurred")
        return self._group(line, base, width) if isinstance(line, ReviewGroup) else self._change(line, base, width)

    def _group(self, group: ReviewGroup, base: Style, width: int) -> Strip:
        decisions = {row.decision for row in group.members}
        sign, style = "~", "muted"
        if len(decisions) == 1:
            (one,) = decisions
            sign, style = review_words.DECISIONS[one], review_words.DECISION_STYLES[one]
        held = sum(row.status is Status.HELD and row.decision is not Decision.REVERT for row in group.members)
        count = len(group.members)
        members = present.plural(group.whole, "member") if count == group.whole else f"{count} of {group.whole} members"
        tail = f"  {members}" + (f"  {held} held" if held else "")
        head = f" {sign} {FOLDED if group.is_folded else OPEN} "
        title = present.fit(group.title, max(1, width - cell_len(head) - cell_len(tail))).rstrip()
        segments = [
            Segment(head, base + self._style(style)),
            Segment(title, base + Style(bold=True)),
            Segment(tail, base + self._style("muted")),
        ]
        return Strip(segments).adjust_cell_length(width, base)

    def _change(self, row: ReviewRow, base: Style, width: int) -> Strip:
        decision, muted = row.decision, base + self._style("muted")
        status = " " if row.decision is Decision.REVERT else review_words.STATUSES[row.status]
        status_style = review_words.STATUS_STYLES[row.status]
        if row.is_settling:
            status, status_style = review_words.SETTLING, "muted"
        number = f"{row.number:>3}" if row.number else "  ∑"
        is_out = decision is Decision.REVERT or row.status is Status.VOID
        text = muted + Style(strike=True) if decision is Decision.REVERT else muted if is_out else base
        styles = {"what": text + Style(bold=True) if row.is_open else text, "marks": base + self._style("warning")}
        if row.tests and row.passing < row.tests:
            styles["tests"] = base + self._style("error")
        segments = [
            Segment(f" {review_words.DECISIONS[decision]}", base + self._style(review_words.DECISION_STYLES[decision])),
            Segment(f" {status} ", base + self._style(status_style)),
            Segment(f"{number} ", muted),
        ]
        for one in review_columns.place(width):
            cell = one.column.cell(row, one.width)
            segments.append(Segment(cell, styles.get(one.column.name, muted)))
            segments.append(Segment(" " * one.gap, base))
        return Strip(segments).adjust_cell_length(width, base)

    def _placeholder_line(self, y: int, width: int) -> Strip:
        number = y - max(0, (self.size.height - len(self.placeholder)) // 3)
        if not 0 <= number < len(self.placeholder):
            return Strip.blank(width, self._style("base"))
        text = present.clean(self.placeholder[number])
        indent = max(0, (width - max(cell_len(present.clean(line)) for line in self.placeholder)) // 2)
        style = self._style("base") + (Style(bold=True) if number == 0 else self._style("muted"))
        return Strip([Segment(present.fit(" " * indent + text, width), style)], width)

    def _style(self, part: str) -> Style:
        """Backgrounds whole; of the others only what lies on any background."""
        if part not in self._styles:
            whole = self.get_component_rich_style(f"line-table--{part}")
            if part not in _BACKGROUNDS:
                whole = Style(color=whole.color, bold=whole.bold or None)
            self._styles[part] = whole
        return self._styles[part]

    def _refresh_places(self, places: Iterable[int]) -> None:
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.page
        shown = (place for place in places if top <= place < bottom)
        regions = [Region(0, place - top + HEADING, self.size.width, 1) for place in shown]
        if regions:
            self.refresh(*regions)

    def _scroll_to_cursor(self) -> None:
        top, place = self.scroll_offset.y, self._cursor
        if place < top:
            self.scroll_to(y=0 if place == 1 else place, animate=False, force=True)
        elif place >= top + self.page:
            self.scroll_to(y=place - self.page + 1, animate=False, force=True)

    # what Textual tells

    def notify_style_update(self) -> None:
        """Other colours."""
        super().notify_style_update()
        self._styles.clear()
        self.refresh()

    def on_focus(self) -> None:
        """The cursor looks different."""
        self._refresh_places((self._cursor,))

    def on_blur(self) -> None:
        """The cursor looks different."""
        self._refresh_places((self._cursor,))

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self.virtual_size = Size(self.size.width, len(self.shown.lines) + HEADING)
        self._scroll_to_cursor()
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """To the line that was clicked; a group's title, or a change clicked twice, is opened."""
        place = self.scroll_offset.y + event.y - HEADING
        if event.y < HEADING or place >= len(self.shown.lines):
            return
        is_group = isinstance(self.shown.lines[place], ReviewGroup)
        self.go_to(place)
        if event.chain == 2 or is_group:
            self.post_message(self.LineOpened())
