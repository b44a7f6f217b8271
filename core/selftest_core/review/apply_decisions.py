"""One review: branches in, decisions applied, the line laid, and what a script is told about it.

`make_plan` gathers and ranks; `lay_review` is a fold of that plan and the decisions, done again whenever a decision
changes; `publish_review` hands over what is kept. All of it works without a run, on any branches of anybody's making.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.git.diffs import compare_trees
from selftest_core.review.candidate_branch import Decision, Line, Status, lay
from selftest_core.review.decisions import Decisions, decide, in_order
from selftest_core.review.dependencies import Dependents, find_dependents
from selftest_core.review.publishing import prove, publish
from selftest_core.review.resolutions import answers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.git.command import Git
    from selftest_core.git.diffs import FileDiff
    from selftest_core.git.engine import Engine
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.changes.plan import Plan
    from selftest_core.review.resolutions import Answers


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A plan with its decisions, laid: `line` has everything that is not reverted."""

    plan: Plan
    decisions: Decisions
    decided: Mapping[str, Decision]
    order: tuple[Change, ...]
    line: Line
    dependents: Dependents

    @property
    def open(self) -> tuple[Change, ...]:
        """The changes that still need a decision or are held."""
        held = {placed.item.oid for placed in self.line.items if placed.status is Status.HELD}
        void = {placed.item.oid for placed in self.line.items if placed.status is Status.VOID}
        return tuple(
            change
            for change in self.order
            if change.oid in held or (self.decided[change.oid] is Decision.UNDECIDED and change.oid not in void)
        )


def lay_review(
    engine: Engine,
    plan: Plan,
    decisions: Decisions,
    *,
    stored: bool = True,
    should_stop: Callable[[], bool] | None = None,
) -> Reviewed:
    """Lay the line of a plan under these decisions. Raises UsageError for decisions that do not fit the plan.

    Not `stored`: only the ids are worked out, as `line.lay` says. `should_stop` ends the search for dependents early;
    what was found stands, and laying the same again goes on from there.
    """
    decided = decide(plan.changes, decisions)
    order = in_order(plan.changes, decisions)
    joint, single = _halves(plan, order)
    answers = answers_of(decisions.resolutions.values())
    line = _lay(engine, plan, joint, single, decided, answers, stored=stored)
    paths = {change.oid: change.paths for change in order}
    items = [change.item for change in (*joint, *single)]
    dependents = find_dependents(
        engine, engine.tree_of(plan.base), items, decided, paths, answers=answers, should_stop=should_stop
    )
    return Reviewed(plan, decisions, decided, (*joint, *single), line, dependents)


def publish_review(
    engine: Engine, user: Git, reviewed: Reviewed, branch: str, folder: Path, environ: Mapping[str, str]
) -> tuple[str, Line]:
    """Publish base plus what is kept; undecided is never published. Returns the ref and the line that it holds.

    Raises RefusedError as `publishing.publish` does, and where there is nothing to publish or a held change forbids it.
    """
    plan = reviewed.plan
    line = lay_kept(engine, reviewed)
    joint, single = _halves(plan, reviewed.order)
    items, members = [change.item for change in single], [change.item for change in joint]
    answers = answers_of(reviewed.decisions.resolutions.values())
    prove(line, folder, user.git_dir, environ, items, only_kept(reviewed), members, answers)
    return publish(engine, user, plan.name, branch, line), line


def lay_kept(engine: Engine, reviewed: Reviewed, *, stored: bool = False) -> Line:
    """The line of what is kept: what would be published."""
    plan = reviewed.plan
    joint, single = _halves(plan, reviewed.order)
    answers = answers_of(reviewed.decisions.resolutions.values())
    return _lay(engine, plan, joint, single, only_kept(reviewed), answers, stored=stored)


def read_joint_diff(engine: Engine, reviewed: Reviewed) -> tuple[FileDiff, ...]:
    """What the joint commit changes as it is laid now, nothing where there is none; stored in the engine for it."""
    if not reviewed.line.joint_commit:
        return ()
    plan = reviewed.plan
    joint, _ = _halves(plan, reviewed.order)
    answers = answers_of(reviewed.decisions.resolutions.values())
    line = _lay(engine, plan, joint, (), reviewed.decided, answers, stored=True)
    return compare_trees(engine, engine.tree_of(plan.base), line.tree)


_MOST_LINES = 64


def _lay(
    engine: Engine,
    plan: Plan,
    joint: Sequence[Change],
    single: Sequence[Change],
    decided: Mapping[str, Decision],
    answers: Answers,
    *,
    stored: bool,
) -> Line:
    """Lay it, or take the same line of before: keeping what was laid undecided, or an undo, gives no other line."""
    items, members = [change.item for change in single], [change.item for change in joint]
    reverted = frozenset(oid for oid, decision in decided.items() if decision is Decision.REVERT)
    key = (plan.base, tuple(items), tuple(members), reverted, frozenset(answers.values()))
    if stored or key not in engine.lines:
        base_tree = engine.tree_of(plan.base)
        line = lay(engine, plan.base, base_tree, items, decided, joint=members, answers=answers, stored=stored)
        if stored:
            return line
        if len(engine.lines) >= _MOST_LINES:
            del engine.lines[next(iter(engine.lines))]
        engine.lines[key] = line
    return engine.lines[key]


def only_kept(reviewed: Reviewed) -> dict[str, Decision]:
    """The decisions with what is undecided left out too."""
    return {
        oid: Decision.REVERT if decision is Decision.UNDECIDED else decision
        for oid, decision in reviewed.decided.items()
    }


def _halves(plan: Plan, order: Sequence[Change]) -> tuple[list[Change], list[Change]]:
    """What is laid together, and what gets a commit of its own; of one branch each commit stays its own."""
    if plan.is_linear:
        return [], list(order)
    joint = [change for change in order if not change.kind.is_implementation]
    return joint, [change for change in order if change.kind.is_implementation]
