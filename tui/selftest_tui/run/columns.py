"""The columns of a run's tests: which fit into a width, how wide each is, and what a test has in them. Pure.

Widths depend on the width of the table alone, never on what is in it, so that nothing moves when the run goes on.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.run.events import RUNNING
from selftest_core.run.spending import used_by
from selftest_tui.fleet.columns import ROOMY, share_out
from selftest_tui.run.lines import said_of
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Callable

    from selftest_core.run.fold import RunRow

PREFIX = 4
"""Cells before the first column: indent, symbol, space."""


@dataclass(frozen=True, slots=True)
class RunColumn:
    """One column: `least` cells at any width, `good` before others may join, `share` of what is then left."""

    name: str
    title: str
    least: int
    good: int
    share: int
    text: Callable[[RunRow, float], str]
    is_number: bool = False
    cuts_left: bool = False

    def cell(self, row: RunRow, now: float, width: int) -> str:
        """What a test has here, in exactly `width` cells, harmless."""
        text = self.text(row, now)
        if self.is_number:
            return present.fit_right(text, width)
        return present.fit_end(text, width) if self.cuts_left else present.fit(text, width)

    def heading(self, width: int) -> str:
        """Its title, aligned as its cells are."""
        return present.fit_right(self.title, width) if self.is_number else present.fit(self.title, width)


def test_name(row: RunRow) -> str:
    """The test without the folders before its file."""
    path, separator, name = row.planned.node_id.partition("::")
    return path.rpartition("/")[2] + separator + name


test_name.__test__ = False  # type: ignore[attr-defined]  # no test of ours, whatever a collector thinks of its name


def running_for(row: RunRow, now: float) -> str:
    """How long it has been worked on, or was; empty before its first agent."""
    if row.launching_at is None:
        return ""
    if row.ended_at is not None:
        return present.duration(row.ended_at - row.launching_at)
    return present.duration(now - row.launching_at) if row.phase in RUNNING else ""


def _host(row: RunRow, now: float) -> str:
    if row.member is None or not row.member.provider:
        return ""
    return row.member.provider


def _attempt(row: RunRow, now: float) -> str:
    return str(row.attempt) if row.attempt > 1 else ""


TEST = RunColumn("test", "test", 22, 34, 4, lambda row, now: test_name(row), cuts_left=True)
SAYS = RunColumn("says", "how it is", 16, 32, 4, lambda row, now: said_of(row))
ATTEMPT = RunColumn("attempt", "try", 3, 3, 0, _attempt, is_number=True)
TIME = RunColumn("time", "time", 6, 6, 0, running_for, is_number=True)
COMMITS = RunColumn("commits", "commits", 7, 7, 0, lambda row, now: str(row.commits or ""), is_number=True)
COST = RunColumn("cost", "cost", 8, 8, 0, lambda row, now: present.cost(used_by(row)), is_number=True)
HOST = RunColumn("host", "host", 10, 14, 0, _host)
AGENT = RunColumn("agent", "agent", 20, 32, 2, lambda row, now: row.member.name if row.member is not None else row.name)
FILE = RunColumn("file", "in", 12, 28, 1, lambda row, now: row.planned.node_id.partition("::")[0], cuts_left=True)

METERED = (COST,)
"""What joins when there is room and a test is metered, before all others."""
ALWAYS = (TEST, SAYS, ATTEMPT, TIME)
IN_WIDE = (COMMITS, HOST, AGENT, FILE)
"""What joins when there is room, most wanted first."""
_ORDER = ("test", "says", "attempt", "time", "cost", "commits", "host", "agent", "file")


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """A column at its place: `x` cells from the left edge, `width` cells wide, `gap` cells after it."""

    column: RunColumn
    x: int
    width: int
    gap: int


@lru_cache(maxsize=64)
def place(width: int, *, is_metered: bool = False) -> tuple[PlacedColumn, ...]:
    """The columns of a table `width` cells wide; together with the prefix and the gaps they fill it.

    `is_metered`: what some test used is known.
    """
    chosen = list(ALWAYS)
    gap = 2 if width >= ROOMY else 1
    room = width - PREFIX
    for column in (*(METERED if is_metered else ()), *IN_WIDE):
        if sum(one.good + gap for one in [*chosen, column]) <= room:
            chosen.append(column)
    chosen.sort(key=lambda column: _ORDER.index(column.name))
    placed, x = [], PREFIX
    for column, cells in zip(chosen, share_out(chosen, room - gap * len(chosen)), strict=True):
        placed.append(PlacedColumn(column, x, cells, gap))
        x += cells + gap
    return tuple(placed)
