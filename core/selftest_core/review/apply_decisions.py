"""Decisions applied to a plan: the candidate branch with every change that is not reverted, and the branch of what is
kept, which is published.

    decide (session) → apply_decisions → candidate_branch.build_line → commit ids
    publish (session, batch) → publish_review → verified and written by publishing

Applying computes ids only. The commits are written when the candidate's ref is updated (`publishing.keep_candidate`)
and when the branch is published.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_core.frozen import dataclass
from selftest_core.git.diffs import compare_trees, read_diff
from selftest_core.git.patches import LineKind
from selftest_core.review.candidate_branch import (
    Decision,
    Entry,
    Line,
    Squash,
    Status,
    build_line,
    items_of,
    store_line,
)
from selftest_core.review.changes.provenance import with_trailers
from selftest_core.review.decisions import (
    Decisions,
    Rule,
    choose_in_rows,
    decide,
    in_order,
    is_guarded,
    messages_of,
    rule_of,
    shape,
    squashed_in,
)
from selftest_core.review.dependencies import Dependents, find_dependents
from selftest_core.review.publishing import check_by_rebuilding, publish
from selftest_core.review.resolutions import answers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from selftest_core.git.command import Git
    from selftest_core.git.diffs import FileDiff
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.changes.plan import Plan
    from selftest_core.review.changes.provenance import Provenance
    from selftest_core.review.changes.ranking import Ranked
    from selftest_core.review.changes.rows import Row
    from selftest_core.review.engine import Engine
    from selftest_core.review.resolutions import Answers

_MOST_LINES = 64


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A plan with its decisions applied: `line` has everything that is not reverted.

    `ranked`: the changes of the plan as they are split and reworded.
    `row_of`: the row of each change. Of a row, all but the chosen change count as reverted in `decided`. `asking`: ids
    of changes that a rule for their kind would keep, and that their verdict leaves to a person.
    """

    plan: Plan
    decisions: Decisions
    decided: Mapping[str, Decision]
    order: tuple[Change, ...]
    line: Line
    dependents: Dependents
    ranked: tuple[Ranked, ...]
    row_of: Mapping[str, Row]
    asking: frozenset[str] = frozenset()

    @property
    def chosen(self) -> tuple[Change, ...]:
        """The changes in their order, without alternatives: one of each row."""
        return tuple(change for change in self.order if self.is_chosen(change.oid))

    def is_chosen(self, oid: str) -> bool:
        """Return True for the change of a row that is applied, kept, or reverted."""
        return self.row_of[oid].chosen == oid

    def agents_of(self, oid: str) -> tuple[str, ...]:
        """The agents of all changes that say the same, those of the chosen one first, each once."""
        row = self.row_of[oid]
        by_oid = {change.oid: change for change in self.order if change.oid in row.members}
        return tuple(dict.fromkeys(agent for one in (row.chosen, *row.others) for agent in by_oid[one].agents))

    @property
    def open(self) -> tuple[Change, ...]:
        """The changes that still need a decision or a resolution."""
        held = {placed.item.oid for placed in self.line.items if placed.status is Status.HELD}
        void = {placed.item.oid for placed in self.line.items if placed.status is Status.VOID}
        return tuple(
            change
            for change in self.order
            if change.oid in held or (self.decided[change.oid] is Decision.UNDECIDED and change.oid not in void)
        )

    @property
    def kept_weakening(self) -> tuple[Change, ...]:
        """The kept changes that weaken a test."""
        return tuple(one for one in self.order if one.weakenings and self.decided[one.oid] is Decision.KEEP)

    @property
    def guarded(self) -> tuple[Change, ...]:
        """The changes that a rule for their kind would keep, if they did not weaken a test, or ask by their verdict."""
        return tuple(
            one
            for one in self.chosen
            if one.oid in self.asking
            or (
                is_guarded(one, self.decisions)
                and rule_of(one, self.decisions) is Rule.DEFAULT
                and self.decided[one.oid] is not Decision.KEEP
            )
        )

    @property
    def kept_by_kind(self) -> tuple[Change, ...]:
        """The kept changes that nothing but a rule for their kind keeps."""
        return tuple(
            one
            for one in self.chosen
            if self.decided[one.oid] is Decision.KEEP and rule_of(one, self.decisions) is Rule.KIND
        )


def apply_decisions(
    engine: Engine,
    plan: Plan,
    decisions: Decisions,
    *,
    stored: bool = True,
    should_stop: Callable[[], bool] | None = None,
) -> Reviewed:
    """Build the candidate branch of a plan. Raises UsageError for decisions that do not fit the plan.

    Not `stored`: only ids are computed. `should_stop` ends the search for dependents early; what was found is kept, and
    the next call goes on from there.
    """
    ranked = shape(engine.shapes, plan.ranked, decisions)
    changes = [one.change for one in ranked]
    decided = decide(changes, decisions)
    row_of = choose_in_rows(plan, changes, decisions)
    decided |= {oid: Decision.REVERT for oid, row in row_of.items() if row.chosen != oid}
    order = in_order(changes, decisions)
    entries = _entries(plan, order, decisions, row_of)
    answers = answers_of(decisions.resolutions.values())
    line = _build_line(engine, plan, entries, decided, answers, stored=stored)
    paths = {change.oid: change.paths for change in order}
    by_oid = {change.oid: change for change in order}
    items = items_of(entries)
    base_tree = engine.store.tree_of(plan.base)
    dependents = find_dependents(engine, base_tree, items, decided, paths, answers=answers, should_stop=should_stop)
    in_place = tuple(by_oid[item.oid] for item in items)
    return Reviewed(plan, decisions, decided, in_place, line, dependents, ranked, row_of)


def with_asking(engine: Engine, reviewed: Reviewed, oids: Collection[str]) -> Reviewed:
    """Return the review with these changes undecided: a person has to decide them, not a rule."""
    decided = {**reviewed.decided, **dict.fromkeys(oids, Decision.UNDECIDED)}
    entries = _entries(reviewed.plan, reviewed.order, reviewed.decisions, reviewed.row_of)
    answers = answers_of(reviewed.decisions.resolutions.values())
    line = _build_line(engine, reviewed.plan, entries, decided, answers, stored=True)
    return replace(reviewed, decided=decided, line=line, asking=reviewed.asking | frozenset(oids))


def with_text(engine: Engine, reviewed: Reviewed, oid: str) -> Reviewed:
    """Return the review with another text of a row applied in place of the chosen one; nothing is decided by that."""
    row = reviewed.row_of[oid]
    decided = {**reviewed.decided, row.chosen: Decision.REVERT, oid: reviewed.decided[row.chosen]}
    row_of = {**reviewed.row_of, **dict.fromkeys(row.members, replace(row, chosen=oid))}
    entries = _entries(reviewed.plan, reviewed.order, reviewed.decisions, row_of)
    answers = answers_of(reviewed.decisions.resolutions.values())
    line = _build_line(engine, reviewed.plan, entries, decided, answers, stored=False)
    by_oid = {change.oid: change for change in reviewed.order}
    in_place = tuple(by_oid[item.oid] for item in items_of(entries))
    return replace(reviewed, decided=decided, order=in_place, line=line, row_of=row_of)


def publish_review(
    engine: Engine,
    user: Git,
    reviewed: Reviewed,
    branch: str,
    folder: Path,
    environ: Mapping[str, str],
    provenance: Provenance | None = None,
) -> tuple[str, Line]:
    """Publish the base plus what is kept; undecided changes are never published. Returns the ref and its line.

    `provenance`: each commit gets it as trailers; None for none. The trees, which are checked, are the same.
    Raises RefusedError as `publishing.publish` does, where nothing is kept, and where the branch cannot be verified.
    """
    plan = reviewed.plan
    line = build_kept_line(engine, reviewed)
    why_not = publish_disabled_reason(reviewed, line)
    if why_not:
        raise RefusedError("There is nothing to publish", why_not)
    answers = answers_of(reviewed.decisions.resolutions.values())
    check_by_rebuilding(
        line, folder, user.git_dir, environ, line.entries, only_kept(reviewed), answers,
        # The parts of changes that are split are made again, too.
        prepare=lambda fresh: shape(fresh.shapes, plan.ranked, reviewed.decisions),
    )  # fmt: skip
    if provenance is not None:
        store_line(engine, line, engine.store.tree_of(line.base))
        others = {row.chosen: reviewed.agents_of(row.chosen) for row in reviewed.row_of.values() if row.others}
        line = with_trailers(engine.store, line, reviewed.order, provenance, others)
    return publish(engine, user, plan.name, branch, line, is_stored=provenance is not None), line


def build_kept_line(engine: Engine, reviewed: Reviewed, *, stored: bool = False) -> Line:
    """Build the branch of what is kept, which would be published."""
    answers = answers_of(reviewed.decisions.resolutions.values())
    return _build_line(engine, reviewed.plan, reviewed.line.entries, only_kept(reviewed), answers, stored=stored)


def only_what_is_kept(engine: Engine, reviewed: Reviewed) -> Reviewed:
    """Return the review as it would be published: the same changes, with undecided ones reverted."""
    return replace(reviewed, decided=only_kept(reviewed), line=build_kept_line(engine, reviewed))


def publish_disabled_reason(reviewed: Reviewed, kept: Line) -> str:
    """The reason why publishing is useless or forbidden, empty where it is possible."""
    found = [placed.status for placed in kept.items]
    held = found.count(Status.HELD)
    if held and reviewed.decisions.on_conflict == "fail":
        return f"{held} kept {'change is' if held == 1 else 'changes are'} in conflict, which the decisions forbid"
    if Decision.KEEP not in reviewed.decided.values():
        return "no change is kept yet"
    return "" if Status.LAID in found else "no change is kept that the base does not have"


def only_kept(reviewed: Reviewed) -> dict[str, Decision]:
    """The decisions, with undecided changes reverted."""
    return {
        oid: Decision.REVERT if decision is Decision.UNDECIDED else decision
        for oid, decision in reviewed.decided.items()
    }


@dataclass(frozen=True, slots=True)
class UnusedResolution:
    """A kept change whose resolution is not part of what would be published.

    `rivals`: undecided changes before it on the candidate that change the same files; `is_held`: without them it is in
    conflict again, so it is not published; else what its agent committed is.
    """

    change: Change
    rivals: tuple[Change, ...]
    is_held: bool


def find_unused_resolutions(reviewed: Reviewed, kept: Line) -> tuple[UnusedResolution, ...]:
    """Find the resolutions that hold on the candidate, but not where undecided changes are left out."""
    changes = {change.oid: change for change in reviewed.order}
    on_kept = {one.item.oid: one for one in kept.items}
    before: list[Change] = []
    found = []
    for one in reviewed.line.items:
        change = changes[one.item.oid]
        is_kept = reviewed.decided[change.oid] is Decision.KEEP
        answers = [answer for answer in one.answers if answer.by != "union"]
        used = set() if one.item.oid not in on_kept else {answer.meeting for answer in on_kept[one.item.oid].answers}
        lost = {answer.path for answer in answers if answer.meeting not in used}
        if is_kept and lost:
            rivals = tuple(other for other in before if any(path.path in lost for path in other.paths))
            is_held = one.item.oid in on_kept and on_kept[one.item.oid].status is Status.HELD
            found.append(UnusedResolution(change, rivals, is_held))
        if reviewed.decided[change.oid] is Decision.UNDECIDED and one.status is Status.LAID:
            before.append(change)
    return tuple(found)


def read_joint_diff(engine: Engine, reviewed: Reviewed) -> tuple[FileDiff, ...]:
    """Read the diff of the shared commit, empty where there is none. Stores the commit in the engine."""
    if not reviewed.line.joint_commit:
        return ()
    plan = reviewed.plan
    joint = [one for one in reviewed.line.entries if isinstance(one, Squash) and one.is_joint]
    answers = answers_of(reviewed.decisions.resolutions.values())
    line = _build_line(engine, plan, joint, reviewed.decided, answers, stored=True)
    return compare_trees(engine.store, engine.store.tree_of(plan.base), line.tree)


@dataclass(frozen=True, slots=True)
class ChangeDiff:
    """The diff of a change as it is applied, and as its agent committed it.

    `differs`: their changed lines are not the same, since a conflict was resolved, or lines were there already. For a
    change that is not applied both are the agent's.
    """

    applied: tuple[FileDiff, ...]
    original: tuple[FileDiff, ...]
    differs: bool = False


def read_change_diff(engine: Engine, reviewed: Reviewed, oid: str) -> ChangeDiff:
    """Read the diff of a change. Stores what is applied before it in the engine. Raises KeyError, ToolError."""
    store, original = engine.store, read_diff(engine.store, oid)
    if not _may_differ(reviewed, oid):
        return ChangeDiff(original, original)
    plan = reviewed.plan
    base_tree = store.tree_of(plan.base)
    answers = answers_of(reviewed.decisions.resolutions.values())
    items = tuple(change.item for change in reviewed.order)
    place = next(number for number, item in enumerate(items) if item.oid == oid)
    before, after = (
        build_line(engine, plan.base, base_tree, [Squash(items[:count])], reviewed.decided, answers=answers).tree
        for count in (place, place + 1)
    )
    applied = compare_trees(store, before, after)
    return ChangeDiff(applied, original, _changed_lines(applied) != _changed_lines(original))


def compare_changes(engine: Engine, reviewed: Reviewed, one: str, other: str) -> tuple[FileDiff, ...]:
    """Compare what two changes make of the base, each alone. Stores both results. Raises KeyError, ToolError."""
    plan, store = reviewed.plan, engine.store
    base_tree = store.tree_of(plan.base)
    items = {change.oid: change.item for change in reviewed.order}
    trees = []
    for oid in (one, other):
        alone = build_line(engine, plan.base, base_tree, [items[oid]], {})
        # One that is in conflict with the base itself is compared as its agent committed it.
        trees.append(alone.tree if alone.items[0].status is Status.LAID else store.tree_of(oid))
    return compare_trees(store, trees[0], trees[1])


def _may_differ(reviewed: Reviewed, oid: str) -> bool:
    """Return False for a change that is applied exactly as its agent committed it, or not applied."""
    changes = {change.oid: change for change in reviewed.order}
    line = reviewed.line.items
    place = next(number for number, one in enumerate(line) if one.item.oid == oid)
    if line[place].status is not Status.LAID:
        return False
    paths = {path.path for path in changes[oid].paths}
    before = (changes[one.item.oid] for one in line[:place] if one.status is Status.LAID)
    if line[place].answers or any(path.path in paths for change in before for path in change.paths):
        return True
    agent = next(source.agent for source in changes[oid].sources if source.oid == oid)
    roots = (
        source.commit.parents
        for change in reviewed.order
        for source in change.sources
        if (source.agent, source.position) == (agent, 0)
    )
    return all(reviewed.plan.base not in parents for parents in roots)  # rebased, or onto a newer base


def _changed_lines(files: Sequence[FileDiff]) -> list[tuple[object, ...]]:
    return [
        (
            file.path, file.old_path, file.status, file.old_mode, file.new_mode, file.new_size, file.left_out,
            *((one.kind, one.text) for hunk in file.hunks for one in hunk.lines if one.kind is not LineKind.CONTEXT),
        )
        for file in files
    ]  # fmt: skip


def _build_line(
    engine: Engine,
    plan: Plan,
    entries: Sequence[Entry],
    decided: Mapping[str, Decision],
    answers: Answers,
    *,
    stored: bool,
) -> Line:
    """Build a line, or return the same one from before: keeping an undecided change, or undo, changes no line."""
    reverted = frozenset(oid for oid, decision in decided.items() if decision is Decision.REVERT)
    key = (plan.base, tuple(entries), reverted, frozenset(answers.values()))
    if not stored and key in engine.lines:
        return engine.lines[key]
    base_tree = engine.store.tree_of(plan.base)
    line = build_line(engine, plan.base, base_tree, entries, decided, answers=answers, stored=stored)
    if not stored:
        if len(engine.lines) >= _MOST_LINES:
            del engine.lines[next(iter(engine.lines))]
        engine.lines[key] = line
    return line


def _entries(plan: Plan, order: Sequence[Change], decisions: Decisions, row_of: Mapping[str, Row]) -> list[Entry]:
    """Arrange the changes in what becomes one commit each.

    Tests, docs and build files share the first one, unless the review is linear. Squashed changes stand at the place of
    the first of them.
    """
    groups = squashed_in(order, decisions, row_of)
    squashed = {change.oid for group in groups for change in group.members}
    texts = messages_of(order, decisions)
    joint = tuple(
        change.item
        for change in order
        if not plan.is_linear and not change.kind.is_implementation and change.oid not in squashed
    )
    is_joint = {item.oid for item in joint}
    group_of = {group.members[0].oid: group for group in groups}
    entries: list[Entry] = [Squash(joint, is_joint=True)] if joint else []
    for change in order:
        if change.oid in group_of:
            group = group_of[change.oid]
            entries.append(Squash(tuple(one.item for one in group.members), text=texts.get(group.first)))
        elif change.oid not in squashed and change.oid not in is_joint:
            entries.append(change.item)
    return entries
