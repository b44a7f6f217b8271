"""The table of agents and other tmux sessions: virtual lines, a cursor, marks.

A view in which thirty of a thousand rows are new costs thirty lines at most. The cursor and the marks belong to
identities, not to places, so they stay where they are when the fleet is rearranged around them; the line under the
cursor stays at its place on the screen as well.
The screen calls it, and it posts messages.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.geometry import Region

from selftest_core.fleet.observations import TmuxSession
from selftest_core.fleet.view import FleetView, Row
from selftest_tui.fleet.arrangement import (
    FILTER,
    Arranged,
    Arrangement,
    Group,
    arrange,
    changed_places,
    facts_of,
    first_line,
    items_of,
    key_of,
    next_needing,
    place_of_cursor,
)
from selftest_tui.fleet.columns import COLUMNS
from selftest_tui.fleet.keys import FLEET
from selftest_tui.fleet.line_painter import BACKGROUNDS, PARTS, LinePainter, Look
from selftest_tui.fleet.messages import LineVanished, NameChanged
from selftest_tui.shared.filter import Finder
from selftest_tui.shared.keys import Where
from selftest_tui.shared.widgets.cursor_table import HEADING, PREFIX, CursorTable
from selftest_tui.shared.widgets.table_messages import LineOpened, MarksChanged

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.strip import Strip

    from selftest_core.agents import AgentKey
    from selftest_tui.fleet.arrangement import Line, LineKey


class AgentTable(CursorTable["Line"]):
    """Shows a FleetView as an Arrangement lays it out. Posts the messages of `table_messages`."""

    BINDINGS: ClassVar[list[BindingType]] = FLEET.bindings(Where.TABLE)
    BACKGROUNDS = BACKGROUNDS
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"{PREFIX}{part}" for part in PARTS}
    DEFAULT_CSS = """
    AgentTable {
        &> .cursor-table--marked { background: $accent 15%; color: $foreground; }
        &> .cursor-table--group { text-style: bold; }
        &> .cursor-table--stale { color: $text-disabled; text-style: italic; }
        &> .cursor-table--mark { color: $foreground; text-style: bold; }
        &> .cursor-table--needs-you { color: $text-warning; text-style: bold; }
        &> .cursor-table--failed { color: $text-error; text-style: bold; }
        &> .cursor-table--working { color: $text-success; }
        &> .cursor-table--waiting { color: $text-primary; }
        &> .cursor-table--done { color: $text-success; }
        &> .cursor-table--stopped { color: $text-muted; }
        &> .cursor-table--unknown { color: $text-muted; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(COLUMNS, id=id)
        self.arrangement = Arrangement()
        self.arranged = Arranged()
        self._view = FleetView(at=0.0)
        self._now = 0.0
        self._finder: Finder[LineKey, Row | TmuxSession] = Finder(facts_of, FILTER)
        self._marks: frozenset[AgentKey] = frozenset()
        self._range_from: LineKey | None = None
        self._marks_before: frozenset[AgentKey] = frozenset()
        self._painter: LinePainter | None = None

    @property
    def lines(self) -> Sequence[Line]:
        """The lines that are shown."""
        return self.arranged.lines

    # what is shown

    def show(self, view: FleetView, now: float) -> None:
        """Show a newer view; cursor, marks and scroll position stay with their agents."""
        before, self._view, self._now = self._view, view, now
        if self._measure(view, now):
            self.columns_moved()
        under = self.line
        self._arrange()
        if self._marks:
            self._set_marks(self._marks & view.by_key.keys())
        if isinstance(under, Row):
            self._tell_what_happened_to(under, view)
        if not self._was_moved:
            self._go_to_first(before)

    def _measure(self, view: FleetView, now: float) -> bool:
        """Give columns the room that this view needs; True if they moved. What has joined stays."""
        moved = self.columns.measure(items_of(view), now)
        if any(row.usage is not None for row in view.rows):
            moved = self.columns.let_join("cost", "tokens") or moved
        if len({row.agent.run for row in view.rows if row.agent.run}) > 1:
            moved = self.columns.prefer("run") or moved
        return moved

    def columns_moved(self) -> None:
        """Paint with columns at other places."""
        self._painter = None
        super().columns_moved()

    def arrange_by(self, arrangement: Arrangement) -> None:
        """Arrange the view differently; the cursor stays on its line, or goes to the nearest that is left."""
        self.arrangement = arrangement
        if arrangement.by_column != self.columns.sort:
            self.columns.sort = arrangement.by_column
            self.columns_moved()
        self._arrange()

    def tick(self, now: float) -> None:
        """Move the clock: only cells whose text it changes are painted again."""
        self._now = now
        painter = self.painter
        regions = [
            Region(x, self._y_of(place), width, 1)
            for place in self._visible()
            for x, width in painter.changed_by_time(self.arranged.lines[place], now)
        ]
        if regions:
            self.refresh(*regions)

    # cursor

    @property
    def row(self) -> Row | None:
        """The agent under the cursor."""
        return self.line if isinstance(self.line, Row) else None

    @property
    def session(self) -> TmuxSession | None:
        """The session of no agent under the cursor."""
        return self.line if isinstance(self.line, TmuxSession) else None

    def cursor_went(self) -> None:
        """Extend the range of marks to the cursor."""
        self._extend_range()
        super().cursor_went()

    def go_to_key(self, key: LineKey) -> bool:
        """Put the cursor on a line by identity: open its group, show old agents. False if it is not shown."""
        group = self.arranged.group_of.get(key)
        if key not in self.arranged.places and group is not None:
            self.fold(group, False)
        elif group is None and self.arranged.hidden and key in self._view.by_key:
            self.arrange_by(replace(self.arrangement, hides_old=False))
        place = self.arranged.places.get(key)
        if place is not None:
            self.go_to(place)
        return place is not None

    def go_to_needing(self, step: int) -> bool:
        """Move to the next (1) or previous (-1) agent that needs the user, wrapping around; False if there is none."""
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
        """Moving the cursor marks agents."""
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
        """Return whether the filter shows this line, or would show it in an open group."""
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
            self.refresh_places(self.arranged.places[key] for key in changed if key in self.arranged.places)
        self.post_message(MarksChanged())

    # laying out

    def _arrange(self) -> None:
        before, cursor_before, top = self.arranged, self._cursor, self.scroll_offset.y
        matching = self._finder.find(items_of(self._view), self.arrangement.query)
        after = arrange(self._view, self.arrangement, matching)
        self.arranged = after
        self._cursor = place_of_cursor(before, after, cursor_before)
        first = first_line(before, after, cursor_before, self._cursor, top, self.page)
        self.relaid(first, changed_places(before, after), cursor_before, was_empty=not before.lines)

    def _tell_what_happened_to(self, under: Row, view: FleetView) -> None:
        place = self.arranged.places.get(under.key)
        now = self.arranged.lines[place] if place is not None else view.by_key.get(under.key)
        if not isinstance(now, Row):
            self.post_message(LineVanished(under, self.line))
        elif now.agent.name != under.agent.name:
            self.post_message(NameChanged(under, now))

    def _go_to_first(self, before: FleetView) -> None:
        """Until the user moves the cursor: go to the first agent, or without agents to the first session."""
        if before.rows or (isinstance(self.line, TmuxSession) and not self._view.rows):
            return
        kind = Row if self._view.rows else TmuxSession
        self._go_to(next((place for place, line in enumerate(self.arranged.lines) if isinstance(line, kind)), 0))

    # drawing

    def draw_titles(self, width: int) -> Strip:
        """Draw the titles of the columns."""
        return self._painter_for(width).heading(self.columns.headings(width))

    def draw_at(self, place: int, width: int) -> Strip:
        """Draw an agent, a session or the title of a group."""
        painter, line = self._painter_for(width), self.arranged.lines[place]
        look = Look(place == self._cursor, self.has_focus, isinstance(line, Row) and line.key in self._marks)
        return painter.line(line, look, self._now)

    @property
    def painter(self) -> LinePainter:
        """The painter for the width of the table and its colours."""
        return self._painter_for(self.scrollable_content_region.width)

    def _painter_for(self, width: int) -> LinePainter:
        if self._painter is None or self._painter.width != width:
            styles = {part: self.style_of(part) for part in PARTS}
            self._painter = LinePainter(styles, width, self.columns.place(width))
        return self._painter

    def _visible(self) -> range:
        top = self.scroll_offset.y
        return range(top, min(len(self.arranged.lines), top + self.page))

    def _y_of(self, place: int) -> int:
        return place - self.scroll_offset.y + HEADING

    def notify_style_update(self) -> None:
        """Paint with the new colours."""
        super().notify_style_update()
        self._painter = None

    # mouse

    def clicked(self, place: int, event: events.Click) -> None:
        """Move there; shift marks up to there, ctrl marks that one, twice opens, a group's title folds."""
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
