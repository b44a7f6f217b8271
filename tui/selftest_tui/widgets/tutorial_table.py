"""The table of the tutorial's screen: virtual lines and a cursor. It draws only what is on the screen.

The cursor belongs to what a line is, not to its place: when files change it stays on its block, and at its place on
the screen. It knows no key, no file and no run: the screen calls it, and it posts what became of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView

from selftest_core.tutorial_view import BlockLine, Section, StaleLine, identity
from selftest_tui.bindings import bindings_of
from selftest_tui.keys import Where
from selftest_tui.keys_tutorial import TUTORIAL
from selftest_tui.widgets.tutorial_lines import BACKGROUNDS, PARTS, TutorialPainter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual import events
    from textual.binding import BindingType
    from textual.strip import Strip

    from selftest_core.tutorial_view import Line

HEADING = 1
"""Lines at the top that do not scroll."""


class TutorialTable(ScrollView, can_focus=True):
    """Shows the lines that `tutorial_view.lay_out` made."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(TUTORIAL.of(Where.TABLE))]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tutorial-table--{part}" for part in PARTS}
    DEFAULT_CSS = """
    TutorialTable {
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        &> .tutorial-table--base { background: $background; color: $foreground; }
        &> .tutorial-table--cursor { background: $primary 40%; color: $foreground; }
        &> .tutorial-table--cursor-blurred { background: $primary 20%; color: $foreground; }
        &> .tutorial-table--heading { color: $text-muted; }
        &> .tutorial-table--section { text-style: bold; }
        &> .tutorial-table--muted { color: $text-muted; }
        &> .tutorial-table--good { color: $text-success; }
        &> .tutorial-table--same { color: $text-primary; }
        &> .tutorial-table--bad { color: $text-error; text-style: bold; }
        &> .tutorial-table--warning { color: $text-warning; text-style: bold; }
    }
    """

    class CursorMoved(Message):
        """Another line, or another state of the line, is under the cursor."""

        def can_replace(self, message: Message) -> bool:
            """Two of these say no more than one."""
            return isinstance(message, TutorialTable.CursorMoved)

    class LineOpened(Message):
        """A line was clicked twice, or a section once."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: tuple[Line, ...] = ()
        self.placeholder: tuple[str, ...] = ()
        self._cursor = 0
        self._was_moved = False
        self._painter: TutorialPainter | None = None

    # what is shown

    def show(self, lines: tuple[Line, ...]) -> None:
        """Go over to other lines: cursor and place on the screen stay with what they were on."""
        before, self.lines = self.lines, lines
        cursor_before, top = self._cursor, self.scroll_offset.y
        self._cursor = self._place_after(before, cursor_before)
        if not self._was_moved:
            self._cursor = next((at for at, line in enumerate(lines) if not isinstance(line, Section)), 0)
        self.virtual_size = Size(self.size.width, len(lines) + HEADING)
        wanted = max(0, min(top + self._cursor - cursor_before if top else 0, len(lines) - self.page))
        if wanted != top:
            self.scroll_to(y=wanted, animate=False, force=True)
        if self.scroll_offset.y != top or not lines:
            self.refresh()
        else:
            places = range(max(len(before), len(lines)))
            self._refresh_places(at for at in places if before[at : at + 1] != lines[at : at + 1])
            self._refresh_places((cursor_before, self._cursor))
        self._scroll_to_cursor()
        self.post_message(self.CursorMoved())

    def _place_after(self, before: tuple[Line, ...], cursor: int) -> int:
        """Where the cursor belongs now: its line, else the next of those after it that is left, else its place."""
        places: dict[tuple[str, ...], int] = {}
        for place, line in enumerate(self.lines):
            places.setdefault(identity(line), place)
        for line in before[cursor : cursor + 1]:
            if (place_or_none := places.get(identity(line))) is not None:
                return place_or_none
        if len(before) != len(self.lines):  # else a line was edited where it stands
            for line in before[cursor + 1 : cursor + 200]:
                if (place_or_none := places.get(identity(line))) is not None:
                    return place_or_none
        return max(0, min(cursor, len(self.lines) - 1))

    def show_placeholder(self, lines: tuple[str, ...]) -> None:
        """What to say when there is no line at all."""
        if lines != self.placeholder:
            self.placeholder = lines
            self.refresh()

    # cursor

    @property
    def line(self) -> Line | None:
        """The line under the cursor."""
        return self.lines[self._cursor] if self._cursor < len(self.lines) else None

    @property
    def cursor(self) -> int:
        """The place of the cursor among `lines`."""
        return self._cursor

    @property
    def page(self) -> int:
        """Lines that fit on the screen."""
        return max(1, self.size.height - HEADING)

    def go_to(self, place: int) -> None:
        """The person moves the cursor to the line at `place`, within bounds; it is scrolled into sight."""
        self._was_moved = True
        place = max(0, min(place, len(self.lines) - 1))
        if place != self._cursor:
            before, self._cursor = self._cursor, place
            self._refresh_places((before, place))
            self.post_message(self.CursorMoved())
        self._scroll_to_cursor()

    def go_to_open(self, step: int) -> bool:
        """To the next (1) or previous (-1) uncited block or stale citation, round the end; False where none shows."""
        opens = [place for place, line in enumerate(self.lines) if is_open(line)]
        if not opens:
            return False
        if step > 0:
            self.go_to(next((place for place in opens if place > self._cursor), opens[0]))
        else:
            self.go_to(next((place for place in reversed(opens) if place < self._cursor), opens[-1]))
        return True

    @property
    def section(self) -> Section | None:
        """The section under the cursor, or that of the line under it."""
        above = (line for line in reversed(self.lines[: self._cursor + 1]) if isinstance(line, Section))
        return next(above, None)

    def go_to_section(self) -> None:
        """To the title of the section that the cursor is in."""
        for place in range(min(self._cursor, len(self.lines) - 1), -1, -1):
            if isinstance(self.lines[place], Section):
                self.go_to(place)
                return

    # drawing

    def render_line(self, y: int) -> Strip:
        """One line of the screen: the titles, a line of the tutorial, or nothing."""
        painter = self.painter
        if not self.lines:
            return self._placeholder_line(painter, y)
        if y < HEADING:
            return painter.heading()
        place = self.scroll_offset.y + y - HEADING
        if place >= len(self.lines):
            return painter.blank()
        return painter.line(self.lines[place], is_cursor=place == self._cursor, has_focus=self.has_focus)

    def _placeholder_line(self, painter: TutorialPainter, y: int) -> Strip:
        number = y - max(1, (self.page - len(self.placeholder)) // 3)
        return painter.placeholder(self.placeholder, number) if 0 <= number < len(self.placeholder) else painter.blank()

    @property
    def painter(self) -> TutorialPainter:
        """What draws lines at this width, in these colours."""
        width = self.scrollable_content_region.width
        if self._painter is None or self._painter.width != width:
            self._painter = TutorialPainter({part: self._style(part) for part in PARTS}, width)
        return self._painter

    def _style(self, part: str) -> Style:
        """Backgrounds whole; of the others only what lies on any background, with shades already mixed."""
        whole = self.get_component_rich_style(f"tutorial-table--{part}")
        return whole if part in BACKGROUNDS else Style(color=whole.color, bold=whole.bold or None)

    def _refresh_places(self, places: Iterable[int]) -> None:
        top = self.scroll_offset.y
        shown = (place - top for place in places if top <= place < top + self.page)
        regions = [Region(0, y + HEADING, self.size.width, 1) for y in shown]
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
        self.virtual_size = Size(self.size.width, len(self.lines) + HEADING)
        self._scroll_to_cursor()
        self.refresh()

    def on_focus(self) -> None:
        """The cursor is brighter with the focus."""
        self._refresh_places((self._cursor,))

    def on_blur(self) -> None:
        """The cursor is paler without it."""
        self._refresh_places((self._cursor,))

    def on_click(self, event: events.Click) -> None:
        """Move there; a section folds, twice opens."""
        place = self.scroll_offset.y + event.y - HEADING
        if event.y < HEADING or not 0 <= place < len(self.lines):
            return
        self.go_to(place)
        if event.chain == 2 or isinstance(self.lines[place], Section):
            self.post_message(self.LineOpened())


def is_open(line: Line) -> bool:
    """Something to do: a block that no test cites, or a stale citation."""
    return isinstance(line, StaleLine) or (isinstance(line, BlockLine) and not line.view.tests)
