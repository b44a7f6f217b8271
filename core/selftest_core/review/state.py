"""The state of a review at one moment, and the builder that makes it from log, plan and candidate branch.

States are frozen: each act gives a new one. Texts in a state come from commits and agents: not yet safe to show.
"""

from __future__ import annotations

import time
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_core.review.apply_decisions import apply_decisions, build_kept_line, publish_disabled_reason
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.plan import Targets, make_plan
from selftest_core.review.changes.ranking import hot_files
from selftest_core.review.changes.rows import APART
from selftest_core.review.decisions import (
    choose_in_rows,
    decide,
    notes_of,
    settle_decisions,
    shape,
    squashed_in,
    without_missing,
)
from selftest_core.review.evidence import claims_of, read_row_verdicts, read_verified
from selftest_core.review.resolutions import Resolution, ResolutionMemory
from selftest_core.review.review_log import Integrations, decisions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.candidate_branch import Line
    from selftest_core.review.changes.collect_changes import Branch, Change
    from selftest_core.review.changes.inputs import Inputs
    from selftest_core.review.changes.plan import Plan
    from selftest_core.review.decisions import Decisions
    from selftest_core.review.engine import Engine
    from selftest_core.review.evidence import Evidence
    from selftest_core.review.publishing import Branches
    from selftest_core.review.review_log import ReviewLog, Subject

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Consequences:
    """Effects of a decision on other changes: `breaks` would be in conflict, `lets_in` would no longer be."""

    breaks: tuple[Change, ...] = ()
    lets_in: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Published:
    """A branch that was published: its full ref and commit. `is_current`: it has what is kept now, in its order."""

    ref: str
    tip: str
    is_current: bool = True


@dataclass(frozen=True, slots=True)
class ReviewState:
    """A review at one moment.

    `name` is its id, `home` the folder with its log and its decisions file. `reviewed` has the order, the line and the
    decision on each change; `kept_line` is what would be published; `branches`: those of the agents. `new`: changes
    that arrived after the review was opened and are not decided. `undo_text`, `redo_text`: descriptions of the acts,
    empty where there is none. `total` = `decided` + undecided changes that are not empty; `held` (in conflict) and
    `open` count changes, `kept` those of the branch that would be published, and `stat` its lines added and removed.
    `main`: the branch that the line may be rebased on, empty where there is none; `main_moved`: how many commits it is
    ahead. `publish_disabled_reason` is empty where publishing is possible. A row counts once.
    `hot`: by path, how many agents changed it. `evidence` by agent. `missing`: decided commits that do not exist any
    more. `branch_names`: those of the repository, for the name to publish under.
    `is_live`: more may arrive. `integrations`: agents that work, or worked, on conflicts.
    `text_verdicts`: verdicts on texts of rows that were known when the review was opened, by oid.
    """

    name: str
    home: Path
    plan: Plan
    decisions: Decisions
    reviewed: Reviewed
    kept_line: Line
    branches: tuple[Branch, ...] = ()
    new: frozenset[str] = frozenset()
    notes: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    undo_text: str = ""
    redo_text: str = ""
    total: int = 0
    decided: int = 0
    held: int = 0
    open: int = 0
    kept: int = 0
    main: str = ""
    main_moved: int = 0
    publish_disabled_reason: str = ""
    stat: tuple[int, int] = (0, 0)
    published: Published | None = None
    hot: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    evidence: Mapping[str, Evidence] = field(default_factory=lambda: _NOTHING)
    missing: tuple[str, ...] = ()
    branch_names: Branches | None = None
    is_live: bool = False
    integrations: Integrations = Integrations()
    text_verdicts: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


class StateBuilder:
    """Builds the states of one review. `collect` comes first, and again when branches moved."""

    def __init__(self, engine: Engine, name: str, home: Path, memory: ResolutionMemory) -> None:
        self._engine = engine
        self._name = name
        self._home = home
        self._memory = memory
        self._plan: Plan
        # Read once: no verdict changes what is chosen while a person looks at it.
        self._verdicts = read_row_verdicts(home)
        self._hot: Mapping[str, int] = {}

    def check(self, decisions: Decisions) -> None:
        """Raise UsageError for decisions that do not fit the plan."""
        ranked = shape(self._engine.shapes, self._plan.ranked, decisions)
        changes = [one.change for one in ranked]
        decide(changes, decisions)
        squashed_in(changes, decisions, choose_in_rows(self._plan, changes, decisions))

    def collect(
        self, subject: Subject, inputs: Inputs, arrived: Mapping[str, int] = _NOTHING, *, may_be_empty: bool = True
    ) -> None:
        """Read the branches and make the plan. `arrived`: when each commit was found, 0 where it is missing.

        Raises UsageError where there is nothing to review.
        """
        targets = Targets(subject.base, subject.base, subject.branches, subject.is_linear, id=self._name)
        store, claims = self._engine.store, claims_of(inputs.evidence, read_verified(self._home))
        self._plan = make_plan(
            store, targets, claims, inputs.left_out, arrived=arrived, verdicts=self._verdicts, may_be_empty=may_be_empty
        )
        self._hot = hot_files(self._plan.changes)

    def apply(self, log: ReviewLog, subject: Subject, seconds: float, should_stop: Callable[[], bool]) -> Applied:
        """Apply the decisions of the log. The search for dependents ends after `seconds`, and goes on next time."""
        decisions, onto = decisions_of(log)
        plan = replace(self._plan, base=onto or subject.base)
        fitting, missing = without_missing(self._engine.shapes, plan.ranked, decisions)
        # A resolution that was recalled for a part is no decision of a person, and stays when the split is undone.
        missing = tuple(oid for oid in missing if oid not in log.recalled or oid in decisions.items)
        fitting = settle_decisions(self._engine.shapes, plan, fitting)
        until = time.monotonic() + seconds

        def is_over() -> bool:
            return time.monotonic() > until or should_stop()

        reviewed = apply_decisions(self._engine, plan, fitting, stored=False, should_stop=is_over)
        return Applied(reviewed, build_kept_line(self._engine, reviewed), missing)

    def recall(self, log: ReviewLog, reviewed: Reviewed) -> dict[str, Resolution]:
        """Find resolutions of earlier reviews for changes in conflict, by oid; without those that the log had."""
        found: dict[str, Resolution] = {}
        for placed in reviewed.line.items:
            if placed.status is not Status.HELD:
                continue
            oid = placed.item.oid
            resolution = self._memory.recall(placed.conflicts)
            before = log.recalled[oid].answers if oid in log.recalled else ()
            had = {answer.meeting for answer in before} | log.answered
            if resolution is not None and any(answer.meeting not in had for answer in resolution.answers):
                found[oid] = Resolution((*before, *resolution.answers))
        return found

    def build(self, log: ReviewLog, applied: Applied) -> ReviewState:
        """Build the state, without what depends on the user's repository."""
        reviewed = applied.reviewed
        status_of = statuses(reviewed)
        total = len(reviewed.chosen)
        undecided = sum(
            decision is Decision.UNDECIDED and status_of[oid] is not Status.VOID
            for oid, decision in reviewed.decided.items()
        )
        explicit = reviewed.decisions.items
        arrived = {
            change.oid
            for change in reviewed.chosen
            if log.new.keys() >= set(change.original_oids) and not any(oid in explicit for oid in change.oids)
        }
        return ReviewState(
            name=self._name,
            home=self._home,
            plan=reviewed.plan,
            decisions=reviewed.decisions,
            reviewed=reviewed,
            kept_line=applied.kept,
            new=frozenset(arrived),
            notes=notes_of(reviewed.order, reviewed.decisions),
            undo_text=log.undo_text,
            redo_text=log.redo_text,
            total=total,
            decided=total - undecided,
            held=sum(status is Status.HELD for status in status_of.values()),
            open=len(reviewed.open),
            kept=sum(placed.status is Status.LAID for placed in applied.kept.items),
            publish_disabled_reason=publish_disabled_reason(reviewed, applied.kept),
            hot=self._hot,
            text_verdicts=self._verdicts,
            missing=applied.missing,
            integrations=log.integrations,
        )


@dataclass(frozen=True, slots=True)
class Applied:
    """Decisions applied: everything not reverted, the branch of what is kept, and decided commits that are missing."""

    reviewed: Reviewed
    kept: Line
    missing: tuple[str, ...]


def statuses(reviewed: Reviewed) -> dict[str, Status]:
    """The status of each change, by oid."""
    return {placed.item.oid: placed.status for placed in reviewed.line.items}


def pinned(reviewed: Reviewed, decisions: Mapping[str, Decision]) -> dict[str, str]:
    """The choices that decisions (by oid) make: a row that is reverted stays so, whatever else it has or gets."""
    rows = [
        reviewed.row_of[oid]
        for oid, decision in decisions.items()
        if decision is Decision.REVERT or (decision is Decision.UNDECIDED and reviewed.row_of[oid].others)
    ]
    names = {change.oid: change.original_oids for change in reviewed.order if not reviewed.plan.is_linear}
    apart = {oid for oid, choice in reviewed.decisions.alternatives.items() if choice == APART}
    return {
        row.id: names[row.chosen][0]
        for row in rows
        if row.chosen in decisions and row.chosen in names and apart.isdisjoint(names[row.chosen])
    }


def find_consequences(engine: Engine, reviewed: Reviewed, asked: Sequence[str], decision: Decision) -> Consequences:
    """Find the effects of another decision on these changes (oids) on all other changes."""
    decisions = reviewed.decisions
    oids = {oid for change in reviewed.order if change.oid in asked for oid in change.names[0]}
    items = {oid: one for oid, one in decisions.items.items() if oid not in oids} | dict.fromkeys(asked, decision)
    alternatives = {**decisions.alternatives, **pinned(reviewed, dict.fromkeys(asked, decision))}
    wanted = replace(decisions, items=items, alternatives=alternatives)
    before = statuses(reviewed)
    after = statuses(apply_decisions(engine, reviewed.plan, wanted, stored=False, should_stop=lambda: True))
    others = [change for change in reviewed.order if change.oid not in asked]
    laid, held = Status.LAID, Status.HELD
    return Consequences(
        tuple(one for one in others if (before[one.oid], after[one.oid]) == (laid, held)),
        tuple(one for one in others if (before[one.oid], after[one.oid]) == (held, laid)),
    )
