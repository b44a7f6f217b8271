"""What a person is told of a review: counts, marks and reasons, from its log and its line.

And what earlier reviews know of what is in conflict here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.review.line import Decision, Status
from selftest_core.review.resolutions import Resolution
from selftest_core.review.review import lay_review
from selftest_core.review.session.state import Consequences, ReviewState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from selftest_core.git.engine import Engine
    from selftest_core.git.merge_tree import Conflict
    from selftest_core.review.line import Line
    from selftest_core.review.resolution_memory import ResolutionMemory
    from selftest_core.review.review import Reviewed
    from selftest_core.review.session.log import ReviewLog


def tell(name: str, home: Path, log: ReviewLog, reviewed: Reviewed, kept: Line) -> ReviewState:
    """The state of a review that has this log and this line; `kept` is what would be published of it."""
    decisions = reviewed.decisions
    named = {source.oid: change.oid for change in reviewed.order for source in change.sources}
    placed = statuses(reviewed)
    undecided = sum(
        decision is Decision.UNDECIDED and placed[oid] is not Status.VOID for oid, decision in reviewed.decided.items()
    )
    arrived = {change.oid for change in reviewed.order if all(one.oid in log.new for one in change.sources)}
    return ReviewState(
        name=name,
        home=home,
        plan=reviewed.plan,
        decisions=decisions,
        reviewed=reviewed,
        new=frozenset(arrived - {named[oid] for oid in decisions.items}),
        notes={named[oid]: text for oid, text in decisions.notes.items()},
        undo_says=log.undo_says,
        redo_says=log.redo_says,
        total=len(reviewed.order),
        decided=len(reviewed.order) - undecided,
        held=sum(status is Status.HELD for status in placed.values()),
        open=len(reviewed.open),
        publishable=why_not(reviewed, kept),
    )


def statuses(reviewed: Reviewed) -> dict[str, Status]:
    """What became of each change on the line."""
    return {placed.item.oid: placed.status for placed in reviewed.line.items}


def find_consequences(engine: Engine, reviewed: Reviewed, asked: Sequence[str], decision: Decision) -> Consequences:
    """What another decision on these changes would break and let in, among the others."""
    decisions = reviewed.decisions
    named = {source.oid: change.oid for change in reviewed.order for source in change.sources}
    items = {named[oid]: one for oid, one in decisions.items.items()} | dict.fromkeys(asked, decision)
    wanted = replace(decisions, items=items)
    before = statuses(reviewed)
    after = statuses(lay_review(engine, reviewed.plan, wanted, stored=False, should_stop=lambda: True))
    others = [change for change in reviewed.order if change.oid not in asked]
    laid, held = Status.LAID, Status.HELD
    return Consequences(
        tuple(one for one in others if (before[one.oid], after[one.oid]) == (laid, held)),
        tuple(one for one in others if (before[one.oid], after[one.oid]) == (held, laid)),
    )


def why_not(reviewed: Reviewed, kept: Line) -> str:
    """Why publishing makes no sense or is forbidden, empty where it is safe."""
    found = [placed.status for placed in kept.items]
    held = found.count(Status.HELD)
    if held and reviewed.decisions.on_conflict == "fail":
        return f"{held} kept {'change is' if held == 1 else 'changes are'} held, and the decisions forbid that"
    return "" if Status.LAID in found else "nothing is kept yet that the base does not have"


def recalled(memory: Memory, reviewed: Reviewed, log: ReviewLog) -> dict[str, Resolution]:
    """What is remembered for the changes that are held, by oid; without what the log has, or had, of it."""
    found: dict[str, Resolution] = {}
    for placed in reviewed.line.items:
        if placed.status is not Status.HELD:
            continue
        oid = placed.item.oid
        resolution = memory.recall(placed.conflicts)
        before = log.recalled[oid].answers if oid in log.recalled else ()
        had = {answer.meeting for answer in before} | log.answered
        if resolution is not None and any(answer.meeting not in had for answer in resolution.answers):
            found[oid] = Resolution((*before, *resolution.answers))
    return found


class Memory:
    """What earlier reviews resolved, each question asked of the disk once: a line is laid at every act."""

    def __init__(self, memory: ResolutionMemory) -> None:
        self._memory = memory
        self._asked: dict[tuple[Conflict, ...], Resolution | None] = {}

    def recall(self, conflicts: tuple[Conflict, ...]) -> Resolution | None:
        """What was answered when exactly these met."""
        if conflicts not in self._asked:
            self._asked[conflicts] = self._memory.recall(conflicts)
        return self._asked[conflicts]

    def remember(self, resolution: Resolution) -> None:
        """Keep these answers for later reviews. Raises OSError where that cannot be."""
        self._memory.remember(resolution)
        self._asked.clear()
