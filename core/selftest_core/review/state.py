"""The state of a review at one moment, and how it is built from the log and the candidate branch.

States are frozen: each act gives a new one. All texts in a state are those of commits and agents, and not yet safe to
show.
"""

from __future__ import annotations

from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_core.review.apply_decisions import apply_decisions
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.resolutions import Resolution

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.git.merges import Conflict
    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.candidate_branch import Line
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.changes.plan import Plan
    from selftest_core.review.decisions import Decisions
    from selftest_core.review.engine import Engine
    from selftest_core.review.evidence import Evidence
    from selftest_core.review.resolutions import ResolutionMemory
    from selftest_core.review.review_log import ReviewLog

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Consequences:
    """What a decision would do to others: `breaks` are laid now and would be held, `lets_in` held now and laid then."""

    breaks: tuple[Change, ...] = ()
    lets_in: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Published:
    """A branch that was published: its full ref and commit. `is_current`: publishing again would change nothing."""

    ref: str
    tip: str
    is_current: bool = True


@dataclass(frozen=True, slots=True)
class ReviewState:
    """A review as it stands.

    `name` is its id, `home` the folder with its log and its decisions file. `reviewed` has the order, the line and
    what is decided for each change. `new`: changes that came after the review was first opened and were not decided
    yet. `undo_says`, `redo_says`: what would be taken back or done again, empty where there is nothing.
    `total` = `decided` + those that are undecided and not void; `held` and `open` count changes.
    `main`: the branch that the line may be re-laid on, empty where there is none; `main_moved`: how many commits it has
    that the line is not laid on. `publishable`: why publishing makes no sense now, empty where it does; `stat`: lines
    added and removed by what would be published. `alternatives`: changes much like this one, by oid. `hot`: by path,
    how many agents touched it. `evidence` by agent. `gone`: decisions whose commits are not there any more.
    `is_live`: more may arrive.
    """

    name: str
    home: Path
    plan: Plan
    decisions: Decisions
    reviewed: Reviewed
    new: frozenset[str] = frozenset()
    notes: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    undo_says: str = ""
    redo_says: str = ""
    total: int = 0
    decided: int = 0
    held: int = 0
    open: int = 0
    main: str = ""
    main_moved: int = 0
    publishable: str = ""
    stat: tuple[int, int] = (0, 0)
    published: Published | None = None
    alternatives: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NOTHING)
    hot: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    evidence: Mapping[str, Evidence] = field(default_factory=lambda: _NOTHING)
    gone: tuple[str, ...] = ()
    is_live: bool = False


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
    after = statuses(apply_decisions(engine, reviewed.plan, wanted, stored=False, should_stop=lambda: True))
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
