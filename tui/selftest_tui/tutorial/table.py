"""The table of the tutorial screen: blocks with their tests, stale citations and notes, in sections.

The cursor belongs to a line's identity, not to its position: when files change, it stays on its block, at the same
place on the screen. The table knows no keys, files or runs: the screen calls it, and it posts messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from selftest_tui.shared.keys import Where
from selftest_tui.shared.widgets.cursor_table import PREFIX, CursorTable
from selftest_tui.shared.widgets.table_messages import LineOpened
from selftest_tui.tutorial.keys import TUTORIAL
from selftest_tui.tutorial.lines import COLUMNS, PARTS, TutorialPainter
from selftest_tui.tutorial.view import BlockLine, ProposalLine, Section, StaleLine, identity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.binding import BindingType
    from textual.strip import Strip

    from selftest_tui.tutorial.view import Line


class TutorialTable(CursorTable["Line"]):
    """Table of the lines that `tutorial.view.lay_out` makes. Posts CursorMoved and LineOpened."""

    BINDINGS: ClassVar[list[BindingType]] = TUTORIAL.bindings(Where.TABLE)
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"{PREFIX}{part}" for part in PARTS}
    DEFAULT_CSS = """
    TutorialTable {
        &> .cursor-table--section { text-style: bold; }
        &> .cursor-table--good { color: $text-success; }
        &> .cursor-table--same { color: $text-primary; }
        &> .cursor-table--bad { color: $text-error; text-style: bold; }
        &> .cursor-table--warning { color: $text-warning; text-style: bold; }
    }
    """

    def __init__(self) -> None:
        super().__init__(COLUMNS)
        self._lines: tuple[Line, ...] = ()
        self._painter: TutorialPainter | None = None

    @property
    def lines(self) -> Sequence[Line]:
        """The lines that are shown."""
        return self._lines

    # what is shown

    def show(self, lines: tuple[Line, ...]) -> None:
        """Show other lines: the cursor and the scroll position stay on the same line."""
        before, self._lines = self._lines, lines
        if self.columns.measure(((identity(line), line) for line in lines), 0.0):
            self.columns_moved()
        cursor_before, top = self._cursor, self.scroll_offset.y
        self._cursor = self._place_after(before, cursor_before)
        if not self._was_moved:
            self._cursor = next((at for at, line in enumerate(lines) if not isinstance(line, Section)), 0)
        wanted = max(0, min(top + self._cursor - cursor_before if top else 0, len(lines) - self.page))
        places = range(max(len(before), len(lines)))
        changed = (at for at in places if before[at : at + 1] != lines[at : at + 1])
        self.relaid(wanted, changed, cursor_before, was_empty=not before)
        self.scroll_to_cursor()

    def _place_after(self, before: tuple[Line, ...], cursor: int) -> int:
        """Return the new position of the cursor: of its line, else of the next line that is left, else unchanged."""
        places: dict[tuple[str, ...], int] = {}
        for place, line in enumerate(self._lines):
            places.setdefault(identity(line), place)
        for line in before[cursor : cursor + 1]:
            if (place_or_none := places.get(identity(line))) is not None:
                return place_or_none
        if len(before) != len(self._lines):  # else a line was edited where it stands
            for line in before[cursor + 1 : cursor + 200]:
                if (place_or_none := places.get(identity(line))) is not None:
                    return place_or_none
        return max(0, min(cursor, len(self._lines) - 1))

    # cursor

    def go_to_open(self, step: int) -> bool:
        """Move to the next (1) or previous (-1) open line, wrapping around; return False if there is none."""
        opens = [place for place, line in enumerate(self._lines) if is_open(line)]
        if not opens:
            return False
        if step > 0:
            self.go_to(next((place for place in opens if place > self._cursor), opens[0]))
        else:
            self.go_to(next((place for place in reversed(opens) if place < self._cursor), opens[-1]))
        return True

    @property
    def group(self) -> Section | None:
        """The section under the cursor, or the section of the line under it."""
        above = (line for line in reversed(self._lines[: self._cursor + 1]) if isinstance(line, Section))
        return next(above, None)

    # drawing

    def draw_titles(self, width: int) -> Strip:
        """Draw the titles of the columns."""
        return self._painter_of(width).heading()

    def draw_at(self, place: int, width: int) -> Strip:
        """Draw one line."""
        is_cursor = place == self._cursor
        return self._painter_of(width).line(self._lines[place], is_cursor=is_cursor, has_focus=self.has_focus)

    def _painter_of(self, width: int) -> TutorialPainter:
        """Return the painter for this width, with the current colours."""
        if self._painter is None or self._painter.width != width:
            self._painter = TutorialPainter(
                {part: self.style_of(part) for part in PARTS}, width, self.columns.place(width)
            )
        return self._painter

    def columns_moved(self) -> None:
        """Repaint after columns have moved."""
        self._painter = None
        super().columns_moved()

    def notify_style_update(self) -> None:
        """Repaint with the new colours."""
        super().notify_style_update()
        self._painter = None

    def clicked(self, place: int, event: events.Click) -> None:
        """Move the cursor there; a click folds a section, a double click opens the line."""
        self.go_to(place)
        if event.chain == 2 or isinstance(self._lines[place], Section):
            self.post_message(LineOpened())


def is_open(line: Line) -> bool:
    """Return whether the line is open: an undecided proposal, a block that no test cites, or a stale citation."""
    match line:
        case ProposalLine():
            return line.proposal.is_open
        case BlockLine():
            return not line.view.tests
        case _:
            return isinstance(line, StaleLine)
