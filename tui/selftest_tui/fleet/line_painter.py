"""One line of the agents table as a strip of styled cells. It keeps the styles and a cache of strips.

A strip is reused while its line is the same object and its cells with times read the same: the table asks for seventy
lines a frame, and most of them have not changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from selftest_core.fleet.observations import TmuxSession
from selftest_core.fleet.view import Category, Row
from selftest_core.frozen import dataclass
from selftest_tui.fleet.arrangement import Group, is_same, key_of
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_tui.fleet.arrangement import Line, LineKey
    from selftest_tui.shared.widgets.columns import Placed


def style_of(category: Category) -> str:
    """The name of a category's style."""
    return category.name.lower().replace("_", "-")


MARK = "┃"
OPEN, FOLDED = "▾", "▸"

BACKGROUNDS = ("base", "cursor", "cursor-blurred", "marked")
PARTS = (*BACKGROUNDS, "heading", "group", "muted", "stale", "mark", *map(style_of, Category))
"""The names of the styles that a painter needs."""

_BEFORE = 2
"""Segments before those of the columns."""
MOST_STRIPS = 256
"""Lines that are kept, the last painted ones: more than a screen has."""


@dataclass(frozen=True, slots=True)
class Look:
    """The look of a line: under the cursor (of a table with or without the focus), and marked."""

    is_cursor: bool = False
    has_focus: bool = True
    is_marked: bool = False


class LinePainter:
    """Paints lines `width` cells wide. `styles` has every name of PARTS; all but base and backgrounds are partial."""

    def __init__(self, styles: Mapping[str, Style], width: int, placed: tuple[Placed[Row | TmuxSession], ...]) -> None:
        self.styles = styles
        self.width = width
        self.placed = placed
        self._timed = [one for one in self.placed if one.column.is_timed]
        self._timed_places = [place for place, one in enumerate(self.placed, _BEFORE) if one.column.is_timed]
        """The numbers of their segments in a line."""
        self._fit = all(one.x + one.width + one.gap <= width for one in self.placed)
        self._done: dict[LineKey, tuple[Line, tuple[str, ...], Look, Strip]] = {}

    def timed_cells(self, line: Line, now: float) -> tuple[str, ...]:
        """The texts of the cells that a clock changes."""
        if isinstance(line, Group):
            return ()
        return tuple(one.column.cell(line, now, one.width) for one in self._timed)

    def heading(self, headings: str) -> Strip:
        """The line of column titles."""
        style = self.styles["base"] + self.styles["heading"]
        return Strip([Segment(present.fit(headings, self.width), style)], self.width)

    def line(self, line: Line, look: Look, now: float) -> Strip:
        """Paint one line, or return the cached strip if nothing in it has changed."""
        key, times = key_of(line), self.timed_cells(line, now)
        known = self._done.get(key)
        if known is not None and not (is_same(known[0], line) and known[2] == look):
            known = None
        if known is not None and known[1] == times:
            return known[3]
        if known is not None and self._fit:
            strip = self._with_times(known[3], times)
        else:
            strip = self._group(line, look) if isinstance(line, Group) else self._cells(line, look, now)
        self._done.pop(key, None)
        if len(self._done) >= MOST_STRIPS:
            del self._done[next(iter(self._done))]
        self._done[key] = (line, times, look, strip)
        return strip

    def changed_by_time(self, line: Line, now: float) -> list[tuple[int, int]]:
        """List the x and the width of the cells whose text at `now` is another than the painted one."""
        known, times = self._done.get(key_of(line)), self.timed_cells(line, now)
        before = (None,) * len(times) if known is None else known[1]
        columns = zip(self._timed, before, times, strict=False)  # a group's title has no times
        return [(one.x, one.width) for one, was, is_now in columns if was != is_now]

    def _with_times(self, strip: Strip, times: tuple[str, ...]) -> Strip:
        """Exchange the texts of the cells that a clock changes: seventy lines a second may have new ones."""
        segments = list(strip)
        for place, text in zip(self._timed_places, times, strict=True):
            segments[place] = Segment(text + " " * self.placed[place - _BEFORE].gap, segments[place].style)
        return Strip(segments, self.width)

    def _background(self, look: Look) -> Style:
        if look.is_cursor:
            return self.styles["base"] + self.styles["cursor" if look.has_focus else "cursor-blurred"]
        return self.styles["base"] + self.styles["marked"] if look.is_marked else self.styles["base"]

    def _group(self, group: Group, look: Look) -> Strip:
        style = self._background(look)
        colour = self.styles[style_of(group.category)] if group.category else Style()
        title = f" {FOLDED if group.is_folded else OPEN} {present.clean(group.title)}"
        count = f"  {group.count}"
        title = present.fit(title, self.width - len(count)).rstrip()
        rest = present.fit(count, self.width - cell_len(title))
        return Strip(
            [
                Segment(title, style + self.styles["group"] + colour),
                Segment(rest, style + self.styles["muted"]),
            ],
            self.width,
        )

    def _cells(self, line: Row | TmuxSession, look: Look, now: float) -> Strip:
        base = self._background(look)
        muted = base + self.styles["muted"]
        if isinstance(line, TmuxSession):
            sign, state, name_style = present.SESSION_SYMBOL, muted, base
            reason = muted
        else:
            sign = present.symbol(line)
            state = base + self.styles[style_of(line.category)]
            is_stale = line.stale_since is not None
            name_style = base + self.styles["stale"] if is_stale else base
            if is_stale:
                state = name_style
            elif present.has_ended_somehow(line):
                state = base
            elif line.attention is not None:
                name_style = base + Style(bold=True)
            reason = state if line.attention is not None else muted
        styles = {"name": name_style, "reason": reason}
        segments = [
            Segment(MARK if look.is_marked else " ", base + self.styles["mark"]),
            Segment(f" {sign} ", state),
        ]
        for one in self.placed:
            text = one.column.cell(line, now, one.width) + " " * one.gap
            segments.append(Segment(text, styles.get(one.column.name, muted)))
        return Strip(segments).adjust_cell_length(self.width, base)
