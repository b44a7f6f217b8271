"""Table of a run: draws tests under their clusters and states, and keeps their times going."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from selftest_core.run.fold import RunRow
from selftest_tui.run import columns as run_columns
from selftest_tui.run import words as run_words
from selftest_tui.run.keys import RUN
from selftest_tui.run.lines import RunGroup, RunLine, RunLines, changed_places, how_of, key_of
from selftest_tui.shared import present
from selftest_tui.shared.keys import Where
from selftest_tui.shared.widgets.grouped_table import FOLDED, OPEN, GroupedTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.binding import BindingType

    from selftest_core.usage.tokens import Usage

TIMES = "\N{MULTIPLICATION SIGN}"


class RunTable(GroupedTable[RunLine, RunLines]):
    """Table of RunLines."""

    BINDINGS: ClassVar[list[BindingType]] = RUN.bindings(Where.TABLE)

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(RunLines(), run_columns.COLUMNS, id=id)
        self._now = 0.0
        self._drawn_times: dict[str, str] = {}
        self._live: Mapping[str, Usage] = {}

    def show_at(self, lines: RunLines, now: float) -> None:
        """Show newer lines with the times at `now`."""
        self._now = now
        tests = ((row.name, row) for group in lines.groups.values() for row in group.members)
        if self.columns.measure(tests, now):
            self.columns_moved()
        self.show(lines)

    def in_order(self, rows: tuple[RunRow, ...]) -> tuple[RunRow, ...]:
        """Sort the tests of a group by the chosen column."""
        return tuple(self.columns.in_order(rows, self._now))

    def meter(self, live: Mapping[str, Usage], *, is_metered: bool) -> None:
        """Store newer usage of agents, by agent id; lines show it within a second."""
        self._live = live
        if is_metered and self.columns.let_join("cost"):  # for good: columns do not come and go
            self.columns_moved()

    def tick(self, now: float) -> None:
        """Advance the clock; only lines whose time changed are painted again."""
        self._now = now
        top = self.scroll_offset.y
        for place in range(top, min(len(self.shown.lines), top + self.page)):
            line = self.shown.lines[place]
            if isinstance(line, RunRow) and run_columns.running_for(line, now) != self._drawn_times.get(line.name):
                self.refresh_places((place,))

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

    # what a line is, and how it looks

    def key_of(self, line: RunLine) -> str:
        """Return the key of a line."""
        return key_of(line)

    def is_group(self, line: RunLine) -> bool:
        """Return True for the title of a cluster or a state."""
        return isinstance(line, RunGroup)

    def changed_places(self, before: RunLines, after: RunLines) -> Iterable[int]:
        """Return the indexes of lines that look different now."""
        return changed_places(before, after)

    def titles(self, width: int) -> str:
        """Return the titles of the columns."""
        return self.columns.headings(width)

    def draw(self, line: RunLine, base: Style, width: int) -> Strip:
        """Draw a group's title or a test."""
        return self._group(line, base, width) if isinstance(line, RunGroup) else self._test(line, base, width)

    def _group(self, group: RunGroup, base: Style, width: int) -> Strip:
        cluster = group.cluster
        count = f" {len(group.members)}{TIMES}" if cluster else ""
        tail = f"  {_where(group)} " if cluster else f"  {len(group.members)}"
        head = f" {FOLDED if group.is_folded else OPEN} {group.sign}{count} "
        room = width - cell_len(head) - cell_len(tail)
        title = present.fit(group.title, room) if cluster else present.clean(group.title)
        colour = self._theme_style(group.style)
        segments = [
            Segment(head, base + colour + Style(bold=True)),
            Segment(title, base + Style(bold=True)),
            Segment(tail, base + self.style_of("muted")),
        ]
        return Strip(segments).adjust_cell_length(width, base)

    def _test(self, row: RunRow, base: Style, width: int) -> Strip:
        how = how_of(row)
        colour = base + self._theme_style(run_words.STYLES[how])
        said = base + Style(color=self._theme_style(run_words.STYLES[how]).color)
        muted = base + self.style_of("muted")
        needs = bool(row.attention) and row.end is None
        sign = run_words.NEEDS_YOU if needs else run_words.SYMBOLS[how]
        if needs:
            colour = said = base + self.style_of("warning")
        self._drawn_times[row.name] = run_columns.running_for(row, self._now)
        segments = [Segment(f"  {sign} ", colour)]
        if row.end is None and row.member is not None and row.member.agent_id in self._live:
            row = replace(row, usage=self._live[row.member.agent_id])
        for one in self.columns.place(width):
            text = one.column.cell(row, self._now, one.width) + " " * one.gap
            style = base if one.column.name == "test" else said if one.column.name == "says" else muted
            segments.append(Segment(text, style))
        return Strip(segments).adjust_cell_length(width, base)

    def _theme_style(self, name: str) -> Style:
        """Return a style by the name of a part or of a theme variable."""
        return self.style_of({"$foreground-muted": "muted"}.get(name, name.removeprefix("$text-")))


def _where(group: RunGroup) -> str:
    """Return when the tests of a cluster failed, and whether it pauses the run."""
    cluster = group.cluster
    assert cluster is not None
    stage = run_words.stage_words(cluster.stage)
    notes = [stage, "launching paused" if cluster.is_pausing else "", "accepted" if cluster.is_accepted else ""]
    return " · ".join(note for note in notes if note)
