"""The line at the top of the fleet's screen: the repository, counts of agents, the age of the data.

Every number has a place of its own that does not move when it grows, up to the number of all agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from selftest_core.fleet.view import Category, FleetView
from selftest_core.usage.tokens import total_of
from selftest_tui.shared import present
from selftest_tui.shared.keys import shown
from selftest_tui.shared.widgets.pieces import PiecesWidget, width_of

if TYPE_CHECKING:
    from selftest_tui.shared.widgets.pieces import Piece

COUNTED = (
    Category.WORKING,
    Category.NEEDS_YOU,
    Category.WAITING,
    Category.DONE,
    Category.FAILED,
    Category.STOPPED,
)
STYLES = {
    Category.WORKING: "$text-success",
    Category.NEEDS_YOU: "$text-warning",
    Category.WAITING: "$text-primary",
    Category.DONE: "$text-success",
    Category.FAILED: "$text-error",
    Category.STOPPED: "$foreground-muted",
    Category.UNKNOWN: "$foreground-muted",
}
AGE_WIDTH = 15
LEAST_COUNT_WIDTH = 2


class StatusBar(PiecesWidget):
    """Shows a place and a FleetView."""

    DEFAULT_CSS = """
    StatusBar { height: 1; background: $panel; color: $foreground; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.place = ""
        self._hidden = 0
        self._view = FleetView(at=0.0)
        self._now = 0.0

    def show(self, view: FleetView, now: float) -> None:
        """Show a newer view, or a later time."""
        self._view, self._now = view, now
        self.repaint()

    def show_hidden(self, hidden: int) -> None:
        """Show another number of hidden agents."""
        if hidden != self._hidden:
            self._hidden = hidden
            self.repaint()

    def show_place(self, place: str) -> None:
        """Show another repository and branch."""
        self.place = place
        self.repaint()

    def lines_of_pieces(self, width: int) -> list[list[Piece]]:
        """Return one line."""
        age = present.fit_right(present.list_age(self._view.lanes, self._now), AGE_WIDTH)
        tail: list[Piece] = [(age, "$foreground-muted"), (" ", "")]
        counts = _counts(self._view, in_words=True)
        # 34 cells: room for a name and a place beside the counts.
        if width_of(counts) + width_of(tail) + 34 > width:
            counts = _counts(self._view, in_words=False)
        if width_of(counts) + width_of(tail) + 12 > width:
            tail = [(" ", "")]
        room = width - width_of(counts) - width_of(tail)
        head: list[Piece] = [(" selftest ", "bold")]
        news = pending_sources(self._view)
        told = (cell_len(news) + 2 if news else 0) + (len(f"  {self._hidden} hidden") if self._hidden else 0)
        place_room = room - cell_len(" selftest ") - told - 1
        if place_room >= 4:
            place = present.clean(self.place)
            words = place if cell_len(place) <= place_room else present.fit(place, place_room)
            head.append((f" {words}", ""))
        if news and width_of(head) + cell_len(news) + 2 <= room:
            head.append((f"  {news}", "italic $foreground-muted"))
        hidden = f"{self._hidden} of old runs hidden ({shown('fleet.hide_old', '^e')})" if self._hidden else ""
        if hidden and width_of(head) + cell_len(hidden) + 2 > room:
            hidden = f"{self._hidden} hidden"
        if hidden and width_of(head) + cell_len(hidden) + 2 <= room:
            head.append((f"  {hidden}", "$foreground-muted"))
        used = used_by_all(self._view)
        if used and width_of(head) + cell_len(used) + 2 <= room:
            head.append((f"  {used}", "$foreground-muted"))
        gap = max(0, room - width_of(head))
        return [[*head, (" " * gap, ""), *counts, *tail]]


def pending_sources(view: FleetView) -> str:
    """The sources that have not answered yet, in words."""
    if not view.expecting:
        return ""
    names = sorted(present.clean(name) for name in view.expecting if name != "remote")
    if not names:
        return "◌ waiting for remote hosts"
    return f"◌ waiting for {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"


def used_by_all(view: FleetView) -> str:
    """The cost of all agents together: dollars, or tokens without known prices; empty if nothing is metered."""
    total = total_of(row.usage for row in view.rows if row.usage is not None)
    if total is None:
        return ""
    return present.cost(total) or f"{present.tokens(total.tokens)} tokens"


def _counts(view: FleetView, *, in_words: bool) -> list[Piece]:
    counts = view.counts
    digits = max(LEAST_COUNT_WIDTH, len(str(len(view.rows))))
    categories = [*COUNTED, *([Category.UNKNOWN] if counts[Category.UNKNOWN] else [])]
    pieces: list[Piece] = []
    for category in categories:
        count = counts[category]
        style = STYLES[category] if count else "$foreground-disabled"
        if count and category in (Category.NEEDS_YOU, Category.FAILED):
            style = f"bold {style}"
        word = f" {present.WORDS[category]}" if in_words else ""
        pieces.append((f"{present.SYMBOLS[category]}{count:>{digits}}{word}", style))
        pieces.append(("  " if in_words else " ", ""))
    return pieces
