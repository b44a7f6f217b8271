"""The columns of a review's changes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.verify.verification import Verified
from selftest_tui.review import words as review_words
from selftest_tui.review.lines import titled, why_here
from selftest_tui.shared.widgets.columns import Column, Columns

if TYPE_CHECKING:
    from selftest_tui.review.lines import ReviewRow


WHAT: Column[ReviewRow] = Column("what", "change", 16, lambda row, now: titled(row.change), good=32, most=90)
_TEXTS_CELLS = 22
_GRAVE = {Verified.FAILED: 3, Verified.FLAKY: 2, Verified.UNKNOWN: 1, Verified.PASSED: 0}


def _unproved(row: ReviewRow) -> float:
    """Return how much its tests need a look: a red verdict first, then flaky ones, red claims, and none at all."""
    return _GRAVE[row.verified] + (0.5 if row.passing < row.tests else 0.0)


def _marks(row: ReviewRow) -> float | None:
    """Return its number of marks; what must be looked at first counts more than any of the others."""
    count = len(review_words.marks(row).split())
    return count + (100 if row.is_alarming else 10 if row.weakens else 0) if count else None


AGENTS: Column[ReviewRow] = Column(
    "agents", "agents", 8,
    lambda row, now: f"{review_words.texts(row):<{_TEXTS_CELLS}}" if row.others else f"{len(row.agents):>6}",
    good=_TEXTS_CELLS, most=_TEXTS_CELLS, drops=2, grows_first=True,
    short=lambda row, now: f"{row.texts} of {len(row.agents)}" if row.others else f"{len(row.agents):>6}",
    short_below=_TEXTS_CELLS, amount=lambda row, now: len(row.agents),
)  # fmt: skip
"""Of a row of several texts both numbers, as nothing is merged silently; where it is narrow without the words."""
WHO: Column[ReviewRow] = Column("who", "by", 10, lambda row, now: ", ".join(row.agents[:3]), good=18, joins=3)
KIND: Column[ReviewRow] = Column("kind", "kind", 5, lambda row, now: review_words.KINDS[row.change.kind], joins=1)
FILES: Column[ReviewRow] = Column(
    "files", "files", 5, lambda row, now: str(len(row.change.paths)), joins=4, is_number=True,
    amount=lambda row, now: len(row.change.paths),
)  # fmt: skip
TESTS: Column[ReviewRow] = Column(
    "tests", "tests", 5, lambda row, now: review_words.tests(row),
    amount=lambda row, now: _unproved(row),
)  # fmt: skip
"""Claimed and verified: never dropped and never cut."""
MARKS: Column[ReviewRow] = Column(
    "marks", "marks", 7, lambda row, now: review_words.marks(row), good=14, most=24, drops=3,
    amount=lambda row, now: _marks(row),
)  # fmt: skip
WHY: Column[ReviewRow] = Column("why", "why here", 24, lambda row, now: why_here(row), good=40, joins=2)

COLUMNS: Columns[ReviewRow] = Columns("review", 9, (WHAT, AGENTS, WHO, KIND, FILES, TESTS, MARKS, WHY))
"""All columns, in their order. The prefix holds the decision, its result, and the place on the branch."""
