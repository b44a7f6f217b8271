"""Table of a search: draws hits under their runs, with the matches marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from selftest_tui.search.keys import SEARCH
from selftest_tui.search.lines import (
    COLUMNS,
    NO_LINES,
    SearchGroup,
    SearchLine,
    SearchLines,
    changed_places,
    key_of,
    marked,
)
from selftest_tui.shared import present
from selftest_tui.shared.keys import Where
from selftest_tui.shared.widgets.grouped_table import FOLDED, OPEN, GroupedTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.binding import BindingType

    from selftest_recorder.search.hits import Hit


class SearchTable(GroupedTable[SearchLine, SearchLines]):
    """Table of SearchLines."""

    BINDINGS: ClassVar[list[BindingType]] = SEARCH.bindings(Where.TABLE)

    def __init__(self) -> None:
        super().__init__(NO_LINES, COLUMNS)

    def show(self, lines: SearchLines) -> None:
        """Show newer lines."""
        hits = ((str(line.id), line) for line in lines.lines if not isinstance(line, SearchGroup))
        if self.columns.measure(hits, 0.0):
            self.columns_moved()
        super().show(lines)

    def start_over(self) -> None:
        """Put the cursor on the first hit of the next lines: they are about something else."""
        self._was_moved = False

    @property
    def group(self) -> SearchGroup | None:
        """The run under the cursor, or that of the hit under it."""
        line = self.line
        if line is None or isinstance(line, SearchGroup):
            return line
        return self.shown.groups.get(line.run)

    def key_of(self, line: SearchLine) -> str:
        """Return the key of a line."""
        return key_of(line)

    def is_group(self, line: SearchLine) -> bool:
        """Return True for the title of a run."""
        return isinstance(line, SearchGroup)

    def changed_places(self, before: SearchLines, after: SearchLines) -> Iterable[int]:
        """Return the indexes of lines that are others now."""
        return changed_places(before, after)

    def first_place(self, after: SearchLines) -> int:
        """Return the place of the first hit."""
        return min(1, len(after.lines) - 1)

    def titles(self, width: int) -> str:
        """Return the titles of the columns."""
        headings = "".join(
            one.column.heading(one.width, self.columns.sort) + " " * one.gap for one in self.columns.place(width)
        )
        return " " * COLUMNS.prefix + headings

    def draw(self, line: SearchLine, base: Style, width: int) -> Strip:
        """Draw a run's title or a hit."""
        return self._group(line, base, width) if isinstance(line, SearchGroup) else self._hit(line, base, width)

    def _group(self, group: SearchGroup, base: Style, width: int) -> Strip:
        head = f" {FOLDED if group.is_folded else OPEN} {present.clean(group.key)}"
        segments = [
            Segment(head, base + Style(bold=True)),
            Segment(f"  {group.count:,}", base + self.style_of("muted")),
        ]
        return Strip(segments).adjust_cell_length(width, base)

    def _hit(self, hit: Hit, base: Style, width: int) -> Strip:
        strips = [Strip([Segment(" " * COLUMNS.prefix, base)])]
        for one in self.columns.place(width):
            if one.column.name == "text":
                strips += [
                    self._text(hit, base, one.width).adjust_cell_length(one.width, base),
                    Strip([Segment(" " * one.gap, base)]),
                ]
            else:
                text = one.column.cell(hit, 0.0, one.width) + " " * one.gap
                strips.append(Strip([Segment(text, base + self.style_of("muted"))]))
        return Strip.join(strips).adjust_cell_length(width, base)

    def _text(self, hit: Hit, base: Style, width: int) -> Strip:
        # Underlined too: colour alone says nothing.
        match = base + self.style_of("warning") + Style(underline=True)
        pieces = marked(hit.text, hit.spans, width)
        return Strip([Segment(text, match if is_match else base) for text, is_match in pieces])
