"""Widget of a replayed terminal: one cached strip for each row; only changed rows are painted again.

If the terminal is larger than the widget, a part of it is shown that keeps the cursor visible until the user pans; or
it is drawn small, as blocks without letters, to show all of it. Matches of a search are highlighted. It takes updates
and paints them; it knows neither time nor recordings.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.color import Color, ColorType
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from selftest_recorder.terminal.terminal import PLAIN
from selftest_tui.replay.frames import safe
from selftest_tui.replay.terminal_small import shrunk
from selftest_tui.shared.widgets.screen_text import with_cursor

if TYPE_CHECKING:
    from textual import events

    from selftest_recorder.terminal.terminal import Colour, Cursor, Pen, Row, ScreenUpdate

_MATCH = Style(reverse=True, bold=True)
_NO_ATTRIBUTES = PLAIN[2:]


class TerminalView(Widget):
    """The screen of a terminal."""

    DEFAULT_CSS = """
    TerminalView { width: 1fr; height: 1fr; background: $background; color: $foreground; }
    """

    can_focus = True

    class Clicked(Message):
        """The terminal was clicked."""

    class Scrolled(Message):
        """The wheel was turned: `steps` down, or up where negative."""

        def __init__(self, steps: int) -> None:
            super().__init__()
            self.steps = steps

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Row] = []
        self._strips: list[Strip | None] = []
        self._columns = 0
        self._cursor: Cursor | None = None
        self._needle = ""
        self._place: tuple[int, int] | None = None
        self._is_small = False
        self._small: list[Strip] | None = None
        self._words: tuple[str, ...] = ()
        self._base = Style()
        self._frame: tuple[Style, int, tuple[int, int]] | None = None

    @property
    def terminal_size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        return self._columns, len(self._rows)

    @property
    def is_cut(self) -> bool:
        """True if the terminal does not fit."""
        return self._columns > self.size.width or len(self._rows) > self.size.height

    @property
    def is_small(self) -> bool:
        """True while it is drawn small."""
        return self._is_small and self.is_cut

    @property
    def corner(self) -> tuple[int, int]:
        """The column and row at the top left corner."""
        spare = max(0, self._columns - self.size.width), max(0, len(self._rows) - self.size.height)
        if self._place is not None:
            return min(self._place[0], spare[0]), min(self._place[1], spare[1])
        if self._cursor is None:
            return 0, spare[1]
        left = self._cursor.column - self.size.width * 2 // 3 if self._cursor.column >= self.size.width else 0
        down = self._cursor.row - self.size.height + 1
        return min(max(left, 0), spare[0]), min(max(down, 0), spare[1])

    def say(self, *words: str) -> None:
        """Show a text instead of a terminal: the first line is the headline."""
        self._words = words
        self.refresh()

    def show(self, update: ScreenUpdate) -> None:
        """Apply an update."""
        corner, cursor = self.corner, self._cursor
        if update.is_whole or update.lines != len(self._rows) or update.columns != self._columns:
            self._rows = [()] * update.lines
            self._strips = [None] * update.lines
            self._columns = update.columns
        for row, runs in update.rows.items():
            self._rows[row] = runs
            self._strips[row] = None
        self._cursor = update.cursor
        self._small = None
        is_first, self._words = bool(self._words), ()
        if is_first or update.is_whole or self.is_small or corner != self.corner:
            self.refresh()
            return
        changed = set(update.rows)
        if cursor != update.cursor:
            changed.update(one.row for one in (cursor, update.cursor) if one is not None)
        shown = [row - corner[1] for row in changed if 0 <= row - corner[1] < self.size.height]
        if shown:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in shown))

    def find(self, needle: str) -> None:
        """Highlight all matches; "" for none."""
        if needle != self._needle:
            self._needle = needle.casefold()
            self._strips = [None] * len(self._rows)
            self.refresh()

    def pan(self, columns: int, rows: int) -> bool:
        """Move the visible part of a larger terminal. Return False if that is impossible."""
        if not self.is_cut or self.is_small:
            return False
        before = self.corner
        self._place = max(0, before[0] + columns), max(0, before[1] + rows)
        self._place = self.corner
        self.refresh()
        return self.corner != before

    def follow_cursor(self) -> None:
        """Keep the cursor visible again."""
        self._place = None
        self.refresh()

    def make_small(self, is_small: bool) -> None:
        """Draw it small, or in full size."""
        self._is_small = is_small
        self._small = None
        self.refresh()

    def text(self) -> str:
        """Return the whole text of the terminal, without trailing blanks."""
        lines = ["".join(safe(run.text, run.cells) for run in row).rstrip() for row in self._rows]
        return "\n".join(lines).rstrip("\n")

    def on_resize(self) -> None:
        """Redraw: another part fits now."""
        self._small = None

    def on_click(self, event: events.Click) -> None:
        """Post that the terminal was clicked."""
        event.stop()
        self.post_message(self.Clicked())

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Post a scroll step up."""
        event.stop()
        self.post_message(self.Scrolled(-1))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Post a scroll step down."""
        event.stop()
        self.post_message(self.Scrolled(1))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw several lines; values that are the same for all of them are computed once."""
        self._frame = self._make_frame()
        try:
            return super().render_lines(crop)
        finally:
            self._frame = None

    def _make_frame(self) -> tuple[Style, int, tuple[int, int]]:
        colours = self.visual_style.rich_style
        return Style.from_color(colours.color, colours.bgcolor), self.size.width, self.corner

    def render_line(self, y: int) -> Strip:
        """Draw one line."""
        base, width, (left, top) = self._frame or self._make_frame()
        if self._words:
            return self._word_line(y, base)
        if self.is_small:
            if self._small is None:
                self._small = shrunk(self._rows, self._columns, self.size.width, self.size.height)
            strip = self._small[y] if y < len(self._small) else Strip([])
            return strip.crop_extend(0, width, None).apply_style(base)
        row = y + top
        if row >= len(self._rows):
            return Strip.blank(width, base)
        if base != self._base:
            self._base = base
            self._strips = [None] * len(self._rows)
        strip = self._strip(row)
        if self._cursor is not None and self._cursor.is_visible and self._cursor.row == row:
            column = min(self._cursor.column, self._columns - 1)
            strip = with_cursor(strip.extend_cell_length(column + 1, base), column, base + Style(reverse=True))
        if not left and strip.cell_length <= width:
            return strip.extend_cell_length(width, base)
        return strip.crop_extend(left, left + width, base)

    def _strip(self, row: int) -> Strip:
        strip = self._strips[row]
        if strip is None:
            strip = strip_of(self._rows[row], self._base)
            if self._needle:
                strip = with_matches(strip, self._needle)
            self._strips[row] = strip
        return strip

    def _word_line(self, y: int, style: Style) -> Strip:
        top = max(0, (self.size.height - len(self._words)) // 2)
        if not top <= y < top + len(self._words):
            return Strip.blank(self.size.width, style)
        words = self._words[y - top]
        indent = max(0, (self.size.width - cell_len(words)) // 2)
        text = Segment(" " * indent + words, Style(bold=True) if y == top else Style(dim=True))
        return Strip([text]).crop_extend(0, self.size.width, None).apply_style(style)


def strip_of(row: Row, base: Style) -> Strip:
    """Make the strip of one row, on the colours of `base`."""
    runs = [Segment(safe(run.text, run.cells), style_of(run.pen, base)) for run in row]
    return Strip(runs, sum(run.cells for run in row))


def with_matches(strip: Strip, needle: str) -> Strip:
    """Return the strip with all matches of `needle` (casefolded) highlighted."""
    folded = strip.text.casefold()
    if needle not in folded or len(folded) != len(strip.text):
        return strip
    made, text = [], strip.text
    at = cells = 0
    while (found := folded.find(needle, at)) >= 0:
        first = cells + cell_len(text[at:found])
        last = first + cell_len(text[found : found + len(needle)])
        made += [strip.crop(cells, first), _standing_out(strip.crop(first, last))]
        at, cells = found + len(needle), last
    return Strip.join([*made, strip.crop(cells)])


def _standing_out(strip: Strip) -> Strip:
    return Strip([Segment(segment.text, (segment.style or Style()) + _MATCH) for segment in strip])


@lru_cache(8192)
def style_of(pen: Pen, base: Style) -> Style:
    """Return the style of a pen on the colours of `base`: a complete style, because adding styles is much slower.

    Most pens of colourful programs have only colours.
    """
    colours = Style.from_color(_colour(pen.foreground) or base.color, _colour(pen.background) or base.bgcolor)
    if pen[2:] == _NO_ATTRIBUTES:
        return colours
    return colours + Style(
        bold=pen.bold or None,
        dim=pen.dim or None,
        italic=pen.italic or None,
        reverse=pen.reverse or None,
        conceal=pen.conceal or None,
        strike=pen.strike or None,
        overline=pen.overline or None,
        underline=(pen.underline not in (0, 2)) or None,
        underline2=(pen.underline == 2) or None,
    )


@lru_cache(8192)
def _colour(colour: Colour) -> Color | None:
    if colour is None:
        return None
    if isinstance(colour, int):
        return Color.from_ansi(colour)
    return Color("", ColorType.TRUECOLOR, triplet=ColorTriplet(*colour))  # from_rgb would make up a name for each
