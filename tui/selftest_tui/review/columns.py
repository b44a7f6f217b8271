"""The columns of the line's table: which fit into a width, how wide each is, and what a change has in them. Pure.

Widths depend on the width of the table alone, so nothing moves when a decision changes the line.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_tui.fleet.columns import share_out
from selftest_tui.review import words as review_words
from selftest_tui.review.lines import subject_of
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Callable

    from selftest_tui.review.lines import ReviewRow

PREFIX = 9
"""Cells before the first column: the decision, what became of it, and the place on the line."""
ROOMY = 84


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `least` cells at any width, `good` before others join, `share` of what is then left."""

    name: str
    title: str
    least: int
    good: int
    share: int
    text: Callable[[ReviewRow], str]
    is_number: bool = False

    def cell(self, row: ReviewRow, width: int) -> str:
        """What the change has here, in exactly `width` cells, harmless."""
        return present.fit_right(self.text(row), width) if self.is_number else present.fit(self.text(row), width)

    def heading(self, width: int) -> str:
        """Its title, aligned as its cells are."""
        return present.fit_right(self.title, width) if self.is_number else present.fit(self.title, width)


WHAT = Column("what", "change", 16, 30, 5, lambda row: subject_of(row.change))
AGENTS = Column("agents", "agents", 6, 6, 0, lambda row: str(len(row.change.agents)), is_number=True)
TESTS = Column("tests", "tests", 5, 6, 0, review_words.claim)
MARKS = Column("marks", "", 8, 14, 0, review_words.marks)
KIND = Column("kind", "kind", 5, 5, 0, lambda row: review_words.KINDS[row.change.kind])
FILES = Column("files", "files", 5, 5, 0, lambda row: str(len(row.change.paths)), is_number=True)
WHO = Column("who", "by", 10, 18, 1, lambda row: ", ".join(row.change.agents[:3]))
WHY = Column("why", "why here", 24, 40, 3, lambda row: row.why)
ALWAYS = (WHAT, AGENTS, TESTS, MARKS)
IN_WIDE = (KIND, WHY, WHO, FILES)
DROPPED_FIRST = (TESTS, MARKS)
_ORDER = ("what", "agents", "who", "kind", "files", "tests", "marks", "why")


@dataclass(frozen=True, slots=True)
class Placed:
    """A column at its width, with `gap` cells after it."""

    column: Column
    width: int
    gap: int


@lru_cache(maxsize=64)
def place(width: int) -> tuple[Placed, ...]:
    """The columns of a table `width` cells wide."""
    chosen = list(ALWAYS)
    gap = 2 if width >= ROOMY else 1
    room = width - PREFIX
    for column in DROPPED_FIRST:
        if sum(one.least + gap for one in chosen) > room:
            chosen.remove(column)
    for column in IN_WIDE:
        if sum(one.good + gap for one in [*chosen, column]) <= room:
            chosen.append(column)
    chosen.sort(key=lambda column: _ORDER.index(column.name))
    widths = share_out(chosen, room - gap * len(chosen))
    return tuple(Placed(column, cells, gap) for column, cells in zip(chosen, widths, strict=True))
