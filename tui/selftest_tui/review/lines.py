"""Lines of a review's table: which changes are shown, under which titles, in which order. Pure.

First the tests, docs and build files, which become one commit; then the changes in the order of the branch; then the
changes that arrived since the review was opened. A column that the user chooses sorts each of these. Pending
decisions are shown at once, before the branch is updated.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.review.candidate_branch import Decision, Squash, Status
from selftest_core.review.changes.rows import APART
from selftest_core.verify.verification import ASKS, Mark, Verified
from selftest_tui.shared import present
from selftest_tui.shared.filter import Language, facts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.changes.rows import Row
    from selftest_core.review.state import ReviewState
    from selftest_core.verify.background.background_verifier import VerificationState
    from selftest_core.verify.verification import ItemVerdict
    from selftest_tui.shared.filter import Facts

_TAG = re.compile(r"\[[A-Za-z]+_?[A-Za-z]*\]\s*")
JOINT, NEW, FIRST = "joint", "new", "first"
_ALARMING = frozenset({*ASKS, Mark.CULPRIT, Mark.NO_FIX})
_NO_PLACES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """One change, or the chosen one of several that say the same.

    `number`: its place on the branch, 0 for a part of the joint commit.
    `key` stays the same when another text of the row is chosen. `others`: changes that say the same in other words, of
    which none is applied; `is_apart`: it was taken out of such a row. `differing`: their verdicts are not all the same.

    `ranked`: its place in the ranking, another one where a change was moved. `is_settling`: the decision is pending, so
    `status` is still the one before. `needed_by`: number of later changes that need it; `hot`: the most agents that
    changed one of its files, its own included. `is_resolved`: a conflict was resolved, so what is applied is not its
    agent's commit. `tests`: number of tests that its agents named; `passing`: those claimed to pass. `verdict`: ours,
    None before there is one; where not `is_settled`, it is not final, or of an earlier branch. `is_verifying`: it will
    be renewed. `commit_mates`: the other changes that are squashed into its commit. `integrating`: what the agent does
    that resolves its conflict, empty where none does.
    """

    change: Change
    number: int
    why: str
    decision: Decision
    status: Status
    is_settling: bool = False
    key: str = ""
    others: tuple[Change, ...] = ()
    is_apart: bool = False
    differing: bool = False
    needed_by: int = 0
    hot: int = 0
    tests: int = 0
    passing: int = 0
    is_new: bool = False
    has_note: bool = False
    ranked: int = 0
    verdict: ItemVerdict | None = None
    is_settled: bool = False
    is_verifying: bool = False
    is_resolved: bool = False
    commit_mates: frozenset[str] = frozenset()
    integrating: str = ""

    @property
    def oid(self) -> str:
        """The id of its applied commit."""
        return self.change.oid

    @property
    def texts(self) -> int:
        """Number of changes that say the same, itself included."""
        return 1 + len(self.others)

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents of all of them, its own first."""
        return tuple(dict.fromkeys(agent for change in (self.change, *self.others) for agent in change.agents))

    @property
    def weakens(self) -> bool:
        """True if it makes a test easier to pass."""
        return bool(self.change.weakenings)

    @property
    def is_open(self) -> bool:
        """True while a person must decide or resolve a conflict."""
        if self.decision is Decision.REVERT or self.status is Status.VOID:
            return False
        return self.decision is Decision.UNDECIDED or self.status is Status.HELD

    @property
    def is_alarming(self) -> bool:
        """True while a person must decide about a liar, a culprit, a change of its own judge, or a missing fix."""
        return self.is_open and self.verdict is not None and not _ALARMING.isdisjoint(self.verdict.marks)

    @property
    def verified(self) -> Verified:
        """Our final verdict, unknown where there is none."""
        return self.verdict.verified if self.verdict is not None and self.is_settled else Verified.UNKNOWN


@dataclass(frozen=True, slots=True)
class ReviewGroup:
    """The title of a group. `members`: its changes that pass the filter; `whole`: the number of all its changes."""

    key: str
    title: str
    members: tuple[ReviewRow, ...]
    whole: int
    is_folded: bool


type ReviewLine = ReviewGroup | ReviewRow


@dataclass(frozen=True, slots=True)
class ReviewLines:
    """The lines of the table. `places`: indexes of lines by key; `rows`: all changes that pass the filter."""

    lines: tuple[ReviewLine, ...] = ()
    places: Mapping[str, int] = field(default_factory=lambda: _NO_PLACES)
    rows: tuple[ReviewRow, ...] = ()
    group_of: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def subject_of(change: Change) -> str:
    """Return the subject of a change without the tag of its kind, which has its own column."""
    subject = present.clean(change.subject)
    tag = _TAG.match(subject)
    return (subject[tag.end() :] if tag is not None else subject) or subject or "(no message)"


def titled(change: Change) -> str:
    """Return the subject after the number of the part, of a change that is one."""
    part = change.part
    return subject_of(change) if part is None else f"{part.number}/{part.count} {subject_of(change)}"


def key_of(line: ReviewLine) -> str:
    """Return the key of a line, which stays the same while the line changes."""
    return f"group {line.key}" if isinstance(line, ReviewGroup) else line.key


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts of a change that do not depend on decisions."""

    why: str
    hot: int
    tests: int
    passing: int
    ranked: int = 0


class RowMaker:
    """Makes the rows of one review. An unchanged row is the same object as before.

    Rows are made twice for each decision: at once, and when the branch is updated.
    """

    def __init__(self) -> None:
        self._rows: dict[str, ReviewRow] = {}
        self._facts: dict[str, _Facts] = {}
        self._known_from: tuple[object, ...] = ()
        self._row_of: Mapping[str, Row] = {}
        self.final_verdicts: dict[str, Verified] = {}
        """Our last final verdict on each change while it was applied: another text of its row may be chosen now."""

    def all_rows(
        self,
        state: ReviewState,
        pending: Mapping[str, Decision],
        verification: VerificationState | None = None,
        integrating: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[ReviewRow, ...]:
        """Return a row for each change, in the order of the branch; alternatives have none."""
        reviewed, known = state.reviewed, self._look_up(state)
        verdicts = verification.items if verification is not None else {}
        is_settled = verification is not None and verification.is_settled
        is_verifying = verification is not None and verification.is_active and not is_settled
        if is_settled:
            # Without a test that ran, such as that of a text that is not chosen, a verdict says nothing.
            self.final_verdicts |= {oid: one.verified for oid, one in verdicts.items() if one.tests}
        for oid, word in state.text_verdicts.items():
            self.final_verdicts.setdefault(oid, Verified(word))
        placed = {one.item.oid: one.status for one in reviewed.line.items}
        resolved = {one.item.oid for one in reviewed.line.items if one.answers}
        mates = _mates(reviewed)
        needed_by = reviewed.dependents.needed_by
        by_oid = {change.oid: change for change in reviewed.order}
        rows = []
        number = 0
        for change in reviewed.chosen:
            oid = change.oid
            decided = reviewed.decided[oid]
            decision = pending.get(oid, decided)
            place = 0
            if state.plan.is_linear or change.kind.is_implementation:
                number += 1
                place = number
            status, needs, is_new, has_note = (
                placed[oid], len(needed_by.get(oid, ())), oid in state.new, bool(state.notes.get(oid)),
            )  # fmt: skip
            is_resolved, commit_mates = oid in resolved, mates.get(oid, frozenset())
            agent = integrating.get(oid, "")
            if commit_mates:
                number += not place
                place = number
            row, verdict = known.get(oid), verdicts.get(oid)
            group = reviewed.row_of[oid]
            others = tuple(by_oid[other] for other in group.others)
            is_apart, differing = _is_apart(change, reviewed), _are_differing((oid, *group.others), self.final_verdicts)
            if (
                row is None or row.decision is not decision or row.status is not status or row.number != place
                or row.is_settling is not (decision is not decided) or row.needed_by != needs
                or row.is_new is not is_new or row.has_note is not has_note or row.change is not change
                or row.verdict is not verdict or row.is_settled is not is_settled
                or row.is_verifying is not is_verifying
                or row.is_resolved is not is_resolved or row.commit_mates != commit_mates
                or row.integrating != agent
                or row.key != group.id or row.others != others
                or row.is_apart is not is_apart or row.differing is not differing
            ):  # fmt: skip
                facts = self._facts[oid]
                row = known[oid] = ReviewRow(
                    change=change, number=place, why=facts.why, decision=decision, status=status,
                    is_settling=decision is not decided, key=group.id, others=others, is_apart=is_apart,
                    differing=differing, needed_by=needs, hot=facts.hot, tests=facts.tests,
                    passing=facts.passing, is_new=is_new, has_note=has_note,
                    verdict=verdict, is_settled=is_settled, is_verifying=is_verifying,
                    is_resolved=is_resolved, ranked=facts.ranked, commit_mates=commit_mates, integrating=agent,
                )  # fmt: skip
            rows.append(row)
        return tuple(rows)

    def _look_up(self, state: ReviewState) -> dict[str, ReviewRow]:
        """Return the earlier rows; none of them when the sources of their facts have changed."""
        known_from, row_of = (state.reviewed.ranked, state.hot, state.evidence), state.reviewed.row_of
        is_same = all(one is two for one, two in zip(known_from, self._known_from, strict=False))
        if not self._known_from or not is_same or row_of != self._row_of:
            self._known_from, self._row_of = known_from, row_of
            self._facts = {one.change.oid: _facts(one.change, one.why, state) for one in state.reviewed.ranked}
            for number, change in enumerate(_numbered(state), 1):
                self._facts[change.oid] = replace(self._facts[change.oid], ranked=number)
            self._rows = {}
        return self._rows


def _mates(reviewed: Reviewed) -> dict[str, frozenset[str]]:
    """For each change of a squashed commit the others of it."""
    groups = [
        {item.oid for item in one.items if reviewed.is_chosen(item.oid)}
        for one in reviewed.line.entries
        if isinstance(one, Squash) and not one.is_joint
    ]
    return {oid: frozenset(group - {oid}) for group in groups for oid in group}


def _is_apart(change: Change, reviewed: Reviewed) -> bool:
    """Return True for a change that somebody took out of the row of those that say the same."""
    decisions = reviewed.decisions
    return any(decisions.alternatives.get(oid) == APART for oid in change.oids)


def _are_differing(oids: Iterable[str], verdicts: Mapping[str, Verified]) -> bool:
    """Return True where changes that say the same have different verdicts."""
    return len({verdicts[oid] for oid in oids if oid in verdicts}) > 1


def _numbered(state: ReviewState) -> list[Change]:
    """The changes with a commit of their own, in the order of the ranking."""
    changes = (one.change for one in state.reviewed.ranked if state.reviewed.is_chosen(one.change.oid))
    return [change for change in changes if state.plan.is_linear or change.kind.is_implementation]


def why_here(row: ReviewRow) -> str:
    """Return why a change has its place: because of its rank, or because it or another change was moved."""
    if row.number and row.number != row.ranked:
        return f"moved, ranked {present.ordinal(row.ranked)}: {row.why}"
    return row.why


def _facts(change: Change, why: str, state: ReviewState) -> _Facts:
    told = [state.evidence[agent] for agent in change.agents if agent in state.evidence]
    claimed = [passes for one in told for _, passes in one.tests]
    return _Facts(
        why,
        max((state.hot.get(path.path, 0) for path in change.paths), default=0),
        len(claimed),
        claimed.count(True),
    )


def lay_out(
    rows: Iterable[ReviewRow],
    *,
    folded: frozenset[str] = frozenset(),
    matching: Collection[str] | None = None,
    only_open: bool = False,
    in_order: Callable[[Iterable[ReviewRow]], list[ReviewRow]] = list,
) -> ReviewLines:
    """Return the lines of the rows that pass the filter. `matching`: oids that match, None for all.

    `in_order` sorts the changes of each group, and those that have a commit of their own.
    """
    everything = tuple(rows)
    shown = tuple(
        row for row in everything if (not only_open or row.is_open) and (matching is None or row.oid in matching)
    )
    alarming = [row for row in shown if row.is_alarming]
    joint = [row for row in shown if row.number == 0 and not row.is_new and not row.is_alarming]
    new = [row for row in shown if row.is_new and not row.is_alarming]
    lines: list[ReviewLine] = []
    group_of: dict[str, str] = {}
    # Matches of a filter are never hidden in a folded group.
    is_found = matching is not None or only_open

    def put(key: str, title: str, members: list[ReviewRow], whole: int) -> None:
        if not members:
            return
        members = in_order(members)
        is_folded = key in folded and not is_found
        lines.append(ReviewGroup(key, title, tuple(members), whole, is_folded))
        group_of.update((row.key, key) for row in members)
        if not is_folded:
            lines.extend(members)

    put(FIRST, "look first: liar, culprit, own judge", alarming, len(alarming))
    put(JOINT, "tests, docs and build files: one commit", joint, sum(row.number == 0 for row in everything))
    lines.extend(in_order(row for row in shown if row.number and not row.is_new and not row.is_alarming))
    put(NEW, "new since the review was opened", new, sum(row.is_new for row in everything))
    places = {key_of(line): place for place, line in enumerate(lines)}
    return ReviewLines(tuple(lines), places, shown, group_of)


# filter


FILTER = Language(
    states=(
        "open", "undecided", "kept", "reverted", "applied", "conflict", "empty", "new", "noted", "needed", "weakens",
        "liar", "culprit", "own-judge", "test-edited", "fewer-asserts", "no-fix", "flaky", "unverified", "passed",
        "failed", "resolved", "alternatives", "apart", "differing",
        *(state for state in (*Decision, *Status) if state not in ("undecided",)),
    ),
    fields=("kind", "agent", "file", "commit"),
)  # fmt: skip
"""The filter of a review: states are decisions, statuses, marks and verdicts, as shown and as the journal has them."""

MARKS = {
    Mark.LIAR: "liar", Mark.CULPRIT: "culprit", Mark.OWN_JUDGE: "own judge", Mark.EDITED: "test edited",
    Mark.FEWER: "fewer asserts", Mark.NO_FIX: "no fix",
}  # fmt: skip
"""Marks of verdicts, as the table and the filter name them."""

_SHOWN_STATES = {
    Decision.KEEP: "kept", Decision.REVERT: "reverted", Status.LAID: "applied", Status.HELD: "conflict",
    Status.VOID: "empty",
}  # fmt: skip


def facts_of(row: ReviewRow) -> Facts:
    """Return the searchable facts of a change."""
    change = row.change
    states: list[str] = [row.decision, row.status]
    states += [_SHOWN_STATES[one] for one in (row.decision, row.status) if one in _SHOWN_STATES]
    marks = {"new": row.is_new, "open": row.is_open, "noted": row.has_note, "needed": bool(row.needed_by)}
    marks |= {"weakens": row.weakens, "resolved": row.is_resolved, "alternatives": row.texts > 1}
    marks |= {"apart": row.is_apart, "differing": row.differing}
    states += [word for word, has in marks.items() if has]
    states += [word for mark, word in MARKS.items() if row.verdict is not None and mark in row.verdict.marks]
    states.append("unverified" if row.verified is Verified.UNKNOWN else row.verified)
    # Who looks for an agent or a commit finds the row, whichever of its texts is chosen.
    fields = _fields_of(row)
    subjects = dict.fromkeys(one.subject for one in (change, *row.others))
    parts = (*subjects, *fields["agent"], *fields["file"], *fields["commit"])
    return facts(parts, states, fields)


def _fields_of(row: ReviewRow) -> dict[str, tuple[str, ...]]:
    texts = (row.change, *row.others)
    return {
        "kind": (row.change.kind.value,), "agent": row.agents, "file": tuple(path.path for path in row.change.paths),
        "commit": tuple(oid for one in texts for oid in one.oids),
    }  # fmt: skip


def filters_for(row: ReviewRow | None) -> list[tuple[str, str]]:
    """Return the filters that F offers, each with its description. The first clears the filter."""
    offered = [
        ("", "all changes"),
        ("is:undecided", "undecided changes"),
        ("is:conflict", "changes in conflict"),
        ("is:new", "changes that arrived since the review was opened"),
        ("is:empty", "empty changes: the branch has them already"),
        ("is:reverted", "reverted changes"),
        ("is:noted", "changes with a note"),
        ("is:weakens", "changes that weaken a test"),
        ("is:alternatives", "rows of several texts that say the same"),
        ("is:differing", "such rows whose texts have different verdicts"),
        ("is:apart", "texts that were set apart"),
        ("is:liar", "liars: the agent says that its test passes, and it fails on the agent's own tree"),
        ("is:culprit", "culprits: they break the tests of others"),
        ("is:flaky", "changes whose tests are flaky"),
        ("is:unverified", "changes without a verdict"),
        ("kind:impl", "implementation fixes"),
        ("kind:test", "tests"),
        ("kind:docs", "docs"),
        ("kind:build", "build files"),
    ]
    if row is not None:
        offered += [(f"agent:{_word(agent)}", f"changes of {present.clean(agent)}") for agent in row.agents[:8]]
        offered += [(f"file:{_word(path.path)}", f"changes of {_word(path.path)}") for path in row.change.paths[:8]]
    return offered


def _word(text: str) -> str:
    """Return the longest word of a text, for a filter without blanks."""
    return max(present.clean(text).split(), key=len, default="")


# decisions on many changes


def scopes(
    row: ReviewRow, everything: tuple[ReviewRow, ...], shown: tuple[ReviewRow, ...]
) -> Iterator[tuple[str, tuple[ReviewRow, ...]]]:
    """Yield the sets of changes that one decision can be about, each with its description."""
    for agent in row.change.agents[:12]:
        yield f"all of {present.clean(agent)}", tuple(one for one in everything if agent in one.change.agents)
    kind = row.change.kind
    yield f"all of kind {kind.value}", tuple(one for one in everything if one.change.kind is kind)
    paths = {path.path for path in row.change.paths}
    touching = tuple(one for one in everything if any(path.path in paths for path in one.change.paths))
    if len(touching) > 1:
        yield "all that change one of its files", touching
    yield "all that are shown", shown


def changed_places(before: ReviewLines, after: ReviewLines) -> Iterator[int]:
    """Yield the indexes of lines that changed, and of lines that are gone."""
    for place, line in enumerate(after.lines):
        if place >= len(before.lines) or before.lines[place] != line:
            yield place
    yield from range(len(after.lines), len(before.lines))
