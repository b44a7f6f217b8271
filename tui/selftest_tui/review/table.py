"""Table of a review: draws its changes and groups, and places the cursor at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from selftest_core.review.candidate_branch import Decision, Status
from selftest_tui.review import columns as review_columns
from selftest_tui.review import words as review_words
from selftest_tui.review.keys import REVIEW
from selftest_tui.review.lines import ReviewGroup, ReviewLine, ReviewLines, ReviewRow, changed_places, key_of
from selftest_tui.shared import present
from selftest_tui.shared.keys import Where
from selftest_tui.shared.widgets.grouped_table import FOLDED, OPEN, GroupedTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.binding import BindingType


_MOST_DRAWN = 1_000
"""Lines that are kept as they were drawn."""


class LineTable(GroupedTable[ReviewLine, ReviewLines]):
    """Table of ReviewLines."""

    BINDINGS: ClassVar[list[BindingType]] = REVIEW.bindings(Where.TABLE)
    DEFAULT_CSS = """
    LineTable > .cursor-table--success { text-style: bold; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(ReviewLines(), review_columns.COLUMNS, id=id)
        self.marked: frozenset[str] = frozenset()
        """The changes that are marked for a squash."""
        self._drawn: dict[tuple[object, ...], tuple[ReviewRow, Strip]] = {}

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
        place = self.shown.places.get(f"group {self.shown.group_of.get(line.key, '')}")
        found = None if place is None else self.shown.lines[place]
        return found if isinstance(found, ReviewGroup) else None

    def toggle_mark(self, oid: str) -> None:
        """Mark a change, or unmark it."""
        self.marked ^= {oid}
        self.refresh()

    def unmark(self) -> None:
        """Remove all marks."""
        self.marked = frozenset()
        self.refresh()

    def show(self, lines: ReviewLines) -> None:
        """Show newer lines, with the widths that their subjects need."""
        is_wider = self.columns.measure(((row.oid, row) for row in lines.rows), 0.0)
        # These marks must not be dropped where it is narrow; nothing else on the line says it.
        if any(row.is_alarming or row.weakens for row in lines.rows):
            is_wider = self.columns.prefer("marks") or is_wider
        if any(row.others for row in lines.rows):
            is_wider = self.columns.prefer("agents") or is_wider
        if is_wider:
            self.columns_moved()
        super().show(lines)

    # what a line is, and how it looks

    def key_of(self, line: ReviewLine) -> str:
        """Return the key of a line."""
        return key_of(line)

    def is_group(self, line: ReviewLine) -> bool:
        """Return True for the title of a group."""
        return isinstance(line, ReviewGroup)

    def changed_places(self, before: ReviewLines, after: ReviewLines) -> Iterable[int]:
        """Return the indexes of lines that changed."""
        return changed_places(before, after)

    def first_place(self, after: ReviewLines) -> int:
        """Return the first change with a commit of its own; the group above it is decided with one key."""
        return next((at for at, line in enumerate(after.lines) if isinstance(line, ReviewRow) and line.number), 0)

    def titles(self, width: int) -> str:
        """Return the titles of the columns."""
        headings = "".join(
            one.column.heading(one.width, self.columns.sort) + " " * one.gap for one in self.columns.place(width)
        )
        return f"{'#':>{review_columns.COLUMNS.prefix - 2}}  {headings}"

    def draw(self, line: ReviewLine, base: Style, width: int) -> Strip:
        """Draw a group's title or a change, drawn once: scrolling by a line shows fifty that did not change."""
        if isinstance(line, ReviewGroup):
            return self._group(line, base, width)
        key = (line.key, base, width, line.oid in self.marked)
        before, strip = self._drawn.get(key, (None, None))
        if strip is None or before is not line:
            if len(self._drawn) >= _MOST_DRAWN:
                self._drawn.clear()
            strip = self._change(line, base, width)
            self._drawn[key] = line, strip
        return strip

    def columns_moved(self) -> None:
        """Paint everything anew."""
        self._drawn.clear()
        super().columns_moved()

    def notify_style_update(self) -> None:
        """Repaint with the colours of another theme."""
        self._drawn.clear()
        super().notify_style_update()

    def _group(self, group: ReviewGroup, base: Style, width: int) -> Strip:
        decisions = {row.decision for row in group.members}
        sign, style = "~", "muted"
        if len(decisions) == 1:
            (one,) = decisions
            sign, style = review_words.DECISIONS[one], review_words.DECISION_STYLES[one]
        held = sum(row.status is Status.HELD and row.decision is not Decision.REVERT for row in group.members)
        count = len(group.members)
        members = present.plural(group.whole, "change") if count == group.whole else f"{count} of {group.whole} changes"
        tail = f"  {members}" + (f"  {held} in conflict" if held else "")
        head = f" {sign} {FOLDED if group.is_folded else OPEN} "
        title = present.fit(group.title, max(1, width - cell_len(head) - cell_len(tail))).rstrip()
        segments = [
            Segment(head, base + self.style_of(style)),
            Segment(title, base + Style(bold=True)),
            Segment(tail, base + self.style_of("muted")),
        ]
        return Strip(segments).adjust_cell_length(width, base)

    def _tests(self, row: ReviewRow, cell: str, base: Style) -> list[Segment]:
        """Draw claim and verdict, each in its own colour."""
        claim = "error" if row.passing < row.tests else "muted"
        verdict = "muted"
        if row.verdict is not None and row.is_settled:
            verdict = review_words.VERIFIED_STYLES[row.verdict.verified]
        return [Segment(cell[:2], base + self.style_of(claim)), Segment(cell[2:], base + self.style_of(verdict))]

    def _change(self, row: ReviewRow, base: Style, width: int) -> Strip:
        decision, muted = row.decision, base + self.style_of("muted")
        status = " " if row.decision is Decision.REVERT else review_words.STATUSES[row.status]
        status_style = review_words.STATUS_STYLES[row.status]
        if row.is_settling:
            status, status_style = review_words.SETTLING, "muted"
        number = f"{row.number:>3}" if row.number else "   "
        is_out = decision is Decision.REVERT or row.status is Status.VOID
        text = muted + Style(strike=True) if decision is Decision.REVERT else muted if is_out else base
        styles = {
            "what": text + Style(bold=True) if row.is_open else text,
            "agents": text if row.others else muted,
            "marks": base + self.style_of("warning"),
        }
        if row.is_alarming:
            styles["marks"] = base + self.style_of("error")
        segments = [
            Segment(
                f"{review_words.MARKED if row.oid in self.marked else ' '}{review_words.DECISIONS[decision]}",
                base + self.style_of(review_words.DECISION_STYLES[decision]),
            ),
            Segment(f" {status} ", base + self.style_of(status_style)),
            Segment(f"{number} ", muted),
        ]
        for one in self.columns.place(width):
            cell = one.column.cell(row, 0.0, one.width)
            if one.column is review_columns.TESTS:
                segments += self._tests(row, cell, base)
            else:
                segments.append(Segment(cell, styles.get(one.column.name, muted)))
            segments.append(Segment(" " * one.gap, base))
        return Strip(segments).adjust_cell_length(width, base)
