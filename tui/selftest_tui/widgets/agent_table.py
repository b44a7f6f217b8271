"""The table of agents and other tmux sessions: virtual lines, a cursor, marks, and nothing about what agents are.

It draws only what is on the screen, and of that only what has changed: a view in which thirty of a thousand rows are
new costs thirty lines at most. The cursor and the marks belong to identities, not to places, so they stay where they
are when the fleet is rearranged around them; the line under the cursor stays at its place on the screen as well.
It knows no key, no watch, no mngr: the screen calls it, and it posts what became of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView

from selftest_core.observations import TmuxSession
from selftest_core.view import FleetView, Row
from selftest_tui.arrangement import Arranged, Arrangement, Group, arrange, key_of
from selftest_tui.bindings import bindings_of
from selftest_tui.finding import Finder
from selftest_tui.keys import Where
from selftest_tui.keys_fleet import FLEET
from selftest_tui.widgets.line_painter import BACKGROUNDS, PARTS, LinePainter, Look
from selftest_tui.widgets.line_places import changed_places, first_line, next_needing, place_of_cursor
from selftest_tui.widgets.table_messages import CursorMoved, LineOpened, LineVanished, MarksChanged, NameChanged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.binding import BindingType
    from textual.strip import Strip

    from selftest_core.agents import AgentKey
    from selftest_tui.arrangement import Line, LineKey

HEADING = 1
"""Lines at the top that do not scroll."""


class AgentTable(ScrollView, can_focus=True):
    """Shows a FleetView as an Arrangement lays it out. Posts the messages of `table_messages`."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(FLEET.of(Where.TABLE))]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"agent-table--{part}" for part in PARTS}
    DEFAULT_CSS = """
    AgentTable {
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        &> .agent-table--base { background: $background; color: $foreground; }
        &> .agent-table--cursor { background: $primary 40%; color: $foreground; }
        &> .agent-table--cursor-blurred { background: $primary 20%; color: $foreground; }
        &> .agent-table--marked { background: $accent 15%; color: $foreground; }
        &> .agent-table--heading { color: $text-muted; }
        &> .agent-table--group { text-style: bold; }
        &> .agent-table--muted { color: $text-muted; }
        &> .agent-table--stale { color: $text-disabled; text-style: italic; }
        &> .agent-table--mark { color: $foreground; text-style: bold; }
        &> .agent-table--needs-you { color: $text-warning; text-style: bold; }
        &> .agent-table--failed { color: $text-error; text-style: bold; }
        &> .agent-table--working { color: $text-success; }
        &> .agent-table--waiting { color: $text-primary; }
        &> .agent-table--done { color: $text-success; }
        &> .agent-table--stopped { color: $text-muted; }
        &> .agent-table--unknown { color: $text-muted; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.arrangement = Arrangement()
        self.arranged = Arranged()
        self.placeholder: tuple[str, ...] = ()
        self._view = FleetView(at=0.0)
        self._now = 0.0
        self._finder = Finder()
        self._cursor = 0
        self._was_moved = False
        self._marks: frozenset[AgentKey] = frozenset()
        self._range_from: LineKey | None = None
        self._marks_before: frozenset[AgentKey] = frozenset()
        self._painter: LinePainter | None = None
        self._drawn_times: dict[LineKey, tuple[str, ...]] = {}

    # what is shown

    def show(self, view: FleetView, now: float) -> None:
        """Go over to a newer view: cursor, marks and place on the screen stay with their agents."""
        before, self._view, self._now = self._view, view, now
        under = self.line
        self._arrange()
        if self._marks:
            self._set_marks(self._marks & view.by_key.keys())
        if isinstance(under, Row):
            self._tell_what_happened_to(under, view)
        if not self._was_moved:
            self._go_to_first(before)

    def arrange_by(self, arrangement: Arrangement) -> None:
        """Lay the same view out differently; the cursor stays on its line, or goes to the nearest that is left."""
        self.arrangement = arrangement
        self._arrange()

    def show_placeholder(self, lines: tuple[str, ...]) -> None:
        """What to say when there is no line at all."""
        if lines != self.placeholder:
            self.placeholder = lines
            self.refresh()

    def tick(self, now: float) -> None:
        """Move the clock: only cells whose text it changes are painted again."""
        self._now = now
        painter = self.painter
        width = painter.width - painter.timed_from
        for place in self._visible():
            line = self.arranged.lines[place]
            if painter.timed_cells(line, now) != self._drawn_times.get(key_of(line), ()):
                self.refresh(Region(painter.timed_from, self._y_of(place), width, 1))

    # cursor

    @property
    def line(self) -> Line | None:
        """The line under the cursor."""
        lines = self.arranged.lines
        return lines[self._cursor] if self._cursor < len(lines) else None

    @property
    def row(self) -> Row | None:
        """The agent under the cursor."""
        return self.line if isinstance(self.line, Row) else None

    @property
    def session(self) -> TmuxSession | None:
        """The session of no agent under the cursor."""
        return self.line if isinstance(self.line, TmuxSession) else None

    @property
    def cursor(self) -> int:
        """The place of the cursor among `arranged.lines`."""
        return self._cursor

    @property
    def page(self) -> int:
        """Lines that fit on the screen."""
        return max(1, self.size.height - HEADING)

    def go_to(self, place: int) -> None:
        """The person moves the cursor to the line at `place`, within bounds; it is scrolled into sight."""
        self._was_moved = True
        self._go_to(place)

    def _go_to(self, place: int) -> None:
        place = max(0, min(place, len(self.arranged.lines) - 1))
        if place != self._cursor:
            before, self._cursor = self._cursor, place
            self._refresh_places((before, place))
            self._extend_range()
            self.post_message(CursorMoved())
        self._scroll_to_cursor()

    def go_to_key(self, key: LineKey) -> bool:
        """Put the cursor on a line by identity, opening its group; False where it is not shown."""
        group = self.arranged.group_of.get(key)
        if key not in self.arranged.places and group is not None:
            self.fold(group, False)
        place = self.arranged.places.get(key)
        if place is not None:
            self.go_to(place)
        return place is not None

    def go_to_needing(self, step: int) -> bool:
        """To the next (1) or previous (-1) agent that needs a person, round the end; False where there is none."""
        key = next_needing(self.arranged, self._cursor, step, is_on_agent=self.row is not None)
        return key is not None and self.go_to_key(key)

    # groups

    @property
    def group(self) -> Group | None:
        """The group under the cursor, or that of the line under it."""
        line = self.line
        if line is None or isinstance(line, Group):
            return line
        place = self.arranged.places.get(self.arranged.group_of.get(key_of(line), ""))
        found = self.arranged.lines[place] if place is not None else None
        return found if isinstance(found, Group) else None

    def fold(self, group: str, closed: bool) -> None:
        """Close or open a group; a cursor inside goes to its title."""
        self.arrange_by(self.arrangement.fold(group, closed))

    # marks

    @property
    def marks(self) -> frozenset[AgentKey]:
        """The marked agents, shown or not."""
        return self._marks

    @property
    def in_range(self) -> bool:
        """Moving the cursor marks as it goes."""
        return self._range_from is not None

    def mark(self, keys: Iterable[AgentKey]) -> None:
        """Make exactly these the marked ones."""
        self._range_from = None
        self._set_marks(frozenset(keys))

    def toggle_mark(self) -> None:
        """Mark or unmark the agent under the cursor and go on; on a group, all of it."""
        line = self.line
        if isinstance(line, Row):
            self._set_marks(self._marks ^ {line.key})
            self.go_to(self._cursor + 1)
        elif isinstance(line, Group):
            members = {row.key for row in self._view.rows if self.arranged.group_of.get(row.key) == line.key}
            self._set_marks(self._marks - members if members <= self._marks else self._marks | members)

    def toggle_range(self) -> None:
        """Start a range here, or end it and keep its marks."""
        if self.in_range:
            self._range_from = None
            self.post_message(MarksChanged())
        elif self.line is not None:
            self._range_from, self._marks_before = key_of(self.line), self._marks
            self._extend_range()

    def shown_rows(self) -> tuple[Row, ...]:
        """The agents that the filter lets through, those of folded groups too, in order of the fleet."""
        return tuple(row for row in self._view.rows if self.is_let_through(row.key))

    def is_let_through(self, key: LineKey) -> bool:
        """The filter shows this line, or would in an open group."""
        return key in self.arranged.places or key in self.arranged.group_of

    def _extend_range(self) -> None:
        if self._range_from is None:
            return
        start = self.arranged.places.get(self._range_from, self._cursor)
        low, high = sorted((start, self._cursor))
        within = {line.key for line in self.arranged.lines[low : high + 1] if isinstance(line, Row)}
        self._set_marks(self._marks_before | within)

    def _set_marks(self, marks: frozenset[AgentKey]) -> None:
        changed = self._marks ^ marks
        self._marks = marks
        if changed:
            self._refresh_places(self.arranged.places[key] for key in changed if key in self.arranged.places)
        self.post_message(MarksChanged())

    # laying out

    def _arrange(self) -> None:
        before, cursor_before, top = self.arranged, self._cursor, self.scroll_offset.y
        after = arrange(self._view, self.arrangement, self._finder.find(self._view, self.arrangement.query))
        self.arranged = after
        self._cursor = place_of_cursor(before, after, cursor_before)
        self.virtual_size = Size(self.size.width, len(after.lines) + HEADING)
        wanted = first_line(before, after, cursor_before, self._cursor, top, self.page)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, force=True)
        if self.scroll_offset.y != top or not after.lines:
            self.refresh()
        else:
            self._refresh_places(changed_places(before, after))
            if self._cursor != cursor_before:
                self._refresh_places((self._cursor, cursor_before))
        self.post_message(CursorMoved())

    def _tell_what_happened_to(self, under: Row, view: FleetView) -> None:
        place = self.arranged.places.get(under.key)
        now = self.arranged.lines[place] if place is not None else view.by_key.get(under.key)
        if not isinstance(now, Row):
            self.post_message(LineVanished(under, self.line))
        elif now.agent.name != under.agent.name:
            self.post_message(NameChanged(under, now))

    def _go_to_first(self, before: FleetView) -> None:
        """Until the person moves: to the first agent as soon as there is one, to the first session without."""
        if before.rows or (isinstance(self.line, TmuxSession) and not self._view.rows):
            return
        kind = Row if self._view.rows else TmuxSession
        self._go_to(next((place for place, line in enumerate(self.arranged.lines) if isinstance(line, kind)), 0))

    # drawing

    def render_line(self, y: int) -> Strip:
        """One line of the screen: the titles, a line of the fleet, or nothing."""
        painter = self.painter
        if y < HEADING:
            return painter.heading() if self.arranged.lines else painter.blank()
        place = self.scroll_offset.y + y - HEADING
        if not self.arranged.lines:
            return self._placeholder_line(painter, place)
        if place >= len(self.arranged.lines):
            return painter.blank()
        line = self.arranged.lines[place]
        key = key_of(line)
        self._drawn_times[key] = painter.timed_cells(line, self._now)
        look = Look(place == self._cursor, self.has_focus, isinstance(line, Row) and line.key in self._marks)
        return painter.line(line, look, self._now)

    def _placeholder_line(self, painter: LinePainter, place: int) -> Strip:
        first = max(0, (self.page - len(self.placeholder)) // 3)
        number = place - first
        if 0 <= number < len(self.placeholder):
            return painter.placeholder(self.placeholder, number)
        return painter.blank()

    @property
    def painter(self) -> LinePainter:
        """What draws lines at this width, in these colours."""
        width = self.scrollable_content_region.width
        if self._painter is None or self._painter.width != width:
            styles = {part: self._style(part) for part in PARTS}
            self._painter = LinePainter(styles, width)
            self._drawn_times.clear()
        return self._painter

    def _style(self, part: str) -> Style:
        """Backgrounds whole; of the others only what lies on any background, with shades already mixed."""
        whole = self.get_component_rich_style(f"agent-table--{part}")
        if part in BACKGROUNDS:
            return whole
        return Style(color=whole.color, bold=whole.bold or None, italic=whole.italic or None)

    def _visible(self) -> range:
        top = self.scroll_offset.y
        return range(top, min(len(self.arranged.lines), top + self.page))

    def _y_of(self, place: int) -> int:
        return place - self.scroll_offset.y + HEADING

    def _refresh_places(self, places: Iterable[int]) -> None:
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.page
        regions = [Region(0, self._y_of(place), self.size.width, 1) for place in places if top <= place < bottom]
        if regions:
            self.refresh(*regions)

    def _scroll_to_cursor(self) -> None:
        top, place = self.scroll_offset.y, self._cursor
        if place < top:
            self.scroll_to(y=0 if place == 1 else place, animate=False, force=True)
        elif place >= top + self.page:
            self.scroll_to(y=place - self.page + 1, animate=False, force=True)

    def notify_style_update(self) -> None:
        """Other colours: paint with them."""
        super().notify_style_update()
        self._painter = None

    def on_resize(self) -> None:
        """Other columns may fit."""
        self._painter = None
        self.virtual_size = Size(self.size.width, len(self.arranged.lines) + HEADING)
        self._scroll_to_cursor()
        self.refresh()

    def on_focus(self) -> None:
        """The cursor is brighter with the focus."""
        self._refresh_places((self._cursor,))

    def on_blur(self) -> None:
        """The cursor is paler without it."""
        self._refresh_places((self._cursor,))

    # mouse

    def on_click(self, event: events.Click) -> None:
        """Move there; shift marks up to there, ctrl marks that one, twice opens, a group's title folds."""
        place = self.scroll_offset.y + event.y - HEADING
        if event.y < HEADING or not 0 <= place < len(self.arranged.lines):
            return
        line = self.arranged.lines[place]
        if event.shift:
            if not self.in_range:
                self.toggle_range()
            self.go_to(place)
            self.toggle_range()
        elif event.ctrl and isinstance(line, Row):
            self.go_to(place)
            self._set_marks(self._marks ^ {line.key})
        elif isinstance(line, Group):
            self.go_to(place)
            self.fold(line.key, not line.is_folded)
        else:
            self.go_to(place)
            if event.chain == 2:
                self.post_message(LineOpened())
