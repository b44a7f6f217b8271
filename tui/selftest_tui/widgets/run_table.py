"""The tests of a run, under their clusters and states: virtual lines, a cursor, and nothing about what a run is.

It draws only what is on the screen, and of that only what has changed: a thousand tests of which thirty are new cost
thirty lines at most. The cursor belongs to a test or a group, not to a place, so it stays with it while the run goes
on around it. It knows no key, no file, no run: the screen calls it, and it posts what became of that.
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

from selftest_core.run.fold import RunRow
from selftest_tui import present, run_columns, run_words
from selftest_tui.bindings import bindings_of
from selftest_tui.keys import Where
from selftest_tui.keys_run import RUN
from selftest_tui.run_lines import RunGroup, RunLines, changed_places, how_of, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.binding import BindingType

    from selftest_tui.run_lines import RunLine

HEADING = 1
"""Lines at the top that do not scroll."""
OPEN, FOLDED = "▾", "▸"
_LONGEST_STAGE = 20
TIMES = "\N{MULTIPLICATION SIGN}"
_BACKGROUNDS = ("base", "cursor", "cursor-blurred")
_PARTS = (*_BACKGROUNDS, "heading", "muted", "success", "primary", "warning", "error")


class RunTable(ScrollView, can_focus=True):
    """Shows RunLines. Posts CursorMoved, and LineOpened where one is to be opened."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(RUN.of(Where.TABLE))]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"run-table--{part}" for part in _PARTS}
    DEFAULT_CSS = """
    RunTable {
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        &> .run-table--base { background: $background; color: $foreground; }
        &> .run-table--cursor { background: $primary 40%; color: $foreground; }
        &> .run-table--cursor-blurred { background: $primary 20%; color: $foreground; }
        &> .run-table--heading { color: $text-muted; }
        &> .run-table--muted { color: $text-muted; }
        &> .run-table--success { color: $text-success; }
        &> .run-table--primary { color: $text-primary; }
        &> .run-table--warning { color: $text-warning; text-style: bold; }
        &> .run-table--error { color: $text-error; text-style: bold; }
    }
    """

    class CursorMoved(Message):
        """Another line is under the cursor, or it changed."""

    class LineOpened(Message):
        """A test was clicked twice, or a group once."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.shown = RunLines()
        self.placeholder: tuple[str, ...] = ()
        self._now = 0.0
        self._cursor = 0
        self._was_moved = False
        self._styles: dict[str, Style] = {}
        self._drawn_times: dict[str, str] = {}

    # what is shown

    def show(self, lines: RunLines, now: float) -> None:
        """Go over to newer lines: the cursor stays with its test, and its line at its place on the screen."""
        before, self.shown, self._now = self.shown, lines, now
        cursor_before, top = self._cursor, self.scroll_offset.y
        self._cursor = self._place_of_cursor(before, lines)
        self.virtual_size = Size(self.size.width, len(lines.lines) + HEADING)
        wanted = self._first_line(cursor_before, top)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, force=True)
        if self.scroll_offset.y != top or not lines.lines:
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

    def tick(self, now: float) -> None:
        """Move the clock: only lines whose time reads differently now are painted again."""
        self._now = now
        top = self.scroll_offset.y
        for place in range(top, min(len(self.shown.lines), top + self.page)):
            line = self.shown.lines[place]
            if isinstance(line, RunRow) and run_columns.running_for(line, now) != self._drawn_times.get(line.name):
                self._refresh_places((place,))

    # cursor

    @property
    def line(self) -> RunLine | None:
        """The line under the cursor."""
        lines = self.shown.lines
        return lines[self._cursor] if self._cursor < len(lines) else None

    @property
    def row(self) -> RunRow | None:
        """The test under the cursor."""
        return self.line if isinstance(self.line, RunRow) else None

    @property
    def group(self) -> RunGroup | None:
        """The group under the cursor, or that of the test under it."""
        line = self.line
        if line is None or isinstance(line, RunGroup):
            return line
        return self.shown.groups.get(self.shown.group_of.get(line.name, ""))

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
        """Put the cursor on a test by its planned agent name, or on a group; False where it is not shown."""
        place = self.shown.places.get(key)
        if place is not None:
            self.go_to(place)
        return place is not None

    def _place_of_cursor(self, before: RunLines, after: RunLines) -> int:
        if not self._was_moved or not before.lines or not after.lines:
            return 0
        cursor = min(self._cursor, len(before.lines) - 1)
        key = key_of(before.lines[cursor])
        if key in after.places:
            return after.places[key]
        if key in after.group_of:  # its group was closed, or it went into one that is
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
        """One line of the screen: the titles, a line of the run, or nothing."""
        width = self.scrollable_content_region.width
        base = self._style("base")
        if not self.shown.lines:
            return self._placeholder_line(y, width)
        if y < HEADING:
            titles = "".join(one.column.heading(one.width) + " " * one.gap for one in run_columns.place(width))
            return _strip(" " * run_columns.PREFIX + titles, base + self._style("heading"), width)
        place = self.scroll_offset.y + y - HEADING
        if place >= len(self.shown.lines):
            return Strip.blank(width, base)
        line = self.shown.lines[place]
        if place == self._cursor:
            base = base + self._style("cursor" if self.has_focus else "cursor-blurred")
        return self._group(line, base, width) if isinstance(line, RunGroup) else self._test(line, base, width)

    def _group(self, group: RunGroup, base: Style, width: int) -> Strip:
        cluster = group.cluster
        count = f" {len(group.members)}{TIMES}" if cluster else ""
        tail = f"  {_where(group)} " if cluster else f"  {len(group.members)}"
        head = f" {FOLDED if group.is_folded else OPEN} {group.sign}{count} "
        room = width - cell_len(head) - cell_len(tail)
        title = present.fit(group.title, room) if cluster else present.clean(group.title)
        colour = self._style(group.style)
        segments = [
            Segment(head, base + colour + Style(bold=True)),
            Segment(title, base + Style(bold=True)),
            Segment(tail, base + self._style("muted")),
        ]
        return Strip(segments).adjust_cell_length(width, base)

    def _test(self, row: RunRow, base: Style, width: int) -> Strip:
        how = how_of(row)
        colour = base + self._style(run_words.STYLES[how])
        said = base + Style(color=self._style(run_words.STYLES[how]).color)
        muted = base + self._style("muted")
        needs = bool(row.attention) and row.end is None
        sign = run_words.NEEDS_YOU if needs else run_words.SYMBOLS[how]
        if needs:
            colour = said = base + self._style("warning")
        self._drawn_times[row.name] = run_columns.running_for(row, self._now)
        segments = [Segment(f"  {sign} ", colour)]
        for one in run_columns.place(width):
            text = one.column.cell(row, self._now, one.width) + " " * one.gap
            style = base if one.column.name == "test" else said if one.column.name == "says" else muted
            segments.append(Segment(text, style))
        return Strip(segments).adjust_cell_length(width, base)

    def _placeholder_line(self, y: int, width: int) -> Strip:
        number = y - max(0, (self.size.height - len(self.placeholder)) // 3)
        if not 0 <= number < len(self.placeholder):
            return Strip.blank(width, self._style("base"))
        text = present.clean(self.placeholder[number])
        indent = max(0, (width - max(cell_len(present.clean(line)) for line in self.placeholder)) // 2)
        style = self._style("base") + (Style(bold=True) if number == 0 else self._style("muted"))
        return _strip(" " * indent + text, style, width)

    def _style(self, part: str) -> Style:
        """By its name, or by the theme's variable; backgrounds whole, of the others only what lies on any."""
        part = {"$foreground-muted": "muted"}.get(part, part.removeprefix("$text-"))
        if part not in self._styles:
            whole = self.get_component_rich_style(f"run-table--{part}")
            if part not in _BACKGROUNDS:
                whole = Style(color=whole.color, bold=whole.bold or None)
            self._styles[part] = whole
        return self._styles[part]

    def _refresh_places(self, places: Iterable[int]) -> None:
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.page
        regions = [
            Region(0, place - top + HEADING, self.size.width, 1) for place in places if top <= place < bottom
        ]  # fmt: skip
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
        """To the line that was clicked; a group's title, or a test clicked twice, is opened."""
        place = self.scroll_offset.y + event.y - HEADING
        if event.y < HEADING or place >= len(self.shown.lines):
            return
        is_group = isinstance(self.shown.lines[place], RunGroup)
        self.go_to(place)
        if event.chain == 2 or is_group:
            self.post_message(self.LineOpened())


def _where(group: RunGroup) -> str:
    """Where the failures of a cluster happened, and what is held up by it."""
    cluster = group.cluster
    assert cluster is not None
    place = {"blocked": "", "waiting": "", "limited": ""}.get(
        cluster.stage, f"at {present.clean(cluster.stage)[:_LONGEST_STAGE]}"
    )
    notes = [place, "launching rests" if cluster.is_pausing else "", "waved through" if cluster.is_accepted else ""]
    return " · ".join(note for note in notes if note)


def _strip(text: str, style: Style, width: int) -> Strip:
    return Strip([Segment(present.fit(text, width), style)], width)
