"""The changes of a review as lines of a table: which are shown, under which titles, in which order. Pure.

What is laid together stands under one title, as it is one commit; then the line in its order; then what arrived since
the review was opened. Every line says what was decided, also where the line for it is still being laid: `pending` are
such decisions.
"""

from __future__ import annotations

import re
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.review.candidate_branch import Decision, Status
from selftest_tui.shared import present
from selftest_tui.shared.filter import Language, facts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.state import ReviewState
    from selftest_tui.shared.filter import Facts

_TAG = re.compile(r"\[[A-Za-z]+_?[A-Za-z]*\]\s*")
JOINT, NEW = "joint", "new"
_NO_PLACES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """One change. `number` is its place on the line, 0 for a member of the joint commit.

    `is_settling`: the decision is taken and the line for it is being laid, so `status` is that of before. `needed_by`:
    how many later changes need it; `alternatives`: how many others are nearly the same; `hot`: the most agents that
    touched one of its files, itself included. `tests` that its agents named, `passing` of them by their word.
    """

    change: Change
    number: int
    why: str
    decision: Decision
    status: Status
    is_settling: bool = False
    needed_by: int = 0
    alternatives: int = 0
    hot: int = 0
    tests: int = 0
    passing: int = 0
    is_new: bool = False
    has_note: bool = False

    @property
    def oid(self) -> str:
        """What names it."""
        return self.change.oid

    @property
    def is_open(self) -> bool:
        """It still needs a person."""
        if self.decision is Decision.REVERT or self.status is Status.VOID:
            return False
        return self.decision is Decision.UNDECIDED or self.status is Status.HELD


@dataclass(frozen=True, slots=True)
class ReviewGroup:
    """The title of changes that belong together. `members` are those that pass the filter, `whole` how many it has."""

    key: str
    title: str
    members: tuple[ReviewRow, ...]
    whole: int
    is_folded: bool


type ReviewLine = ReviewGroup | ReviewRow


@dataclass(frozen=True, slots=True)
class ReviewLines:
    """All lines, and where each change and group stands among them. `rows`: every change that passes the filter."""

    lines: tuple[ReviewLine, ...] = ()
    places: Mapping[str, int] = field(default_factory=lambda: _NO_PLACES)
    rows: tuple[ReviewRow, ...] = ()
    group_of: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def subject_of(change: Change) -> str:
    """Its subject as it is shown, without the kind in front, which has a column of its own."""
    subject = present.clean(change.subject)
    tag = _TAG.match(subject)
    return (subject[tag.end() :] if tag is not None else subject) or subject or "(no message)"


def key_of(line: ReviewLine) -> str:
    """What a line is, whatever becomes of it."""
    return f"group {line.key}" if isinstance(line, ReviewGroup) else line.oid


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of a change whatever is decided."""

    why: str
    alternatives: int
    hot: int
    tests: int
    passing: int


class RowMaker:
    """Makes the rows of one review. A row of which nothing changed is the same object as before.

    Rows are made twice for each decision: at once, and when its line is laid.
    """

    def __init__(self) -> None:
        self._rows: dict[str, ReviewRow] = {}
        self._facts: dict[str, _Facts] = {}
        self._known_from: tuple[object, ...] = ()

    def all_rows(self, state: ReviewState, pending: Mapping[str, Decision]) -> tuple[ReviewRow, ...]:
        """Every change of the review, in the order of the line."""
        reviewed, known = state.reviewed, self._look_up(state)
        placed = {one.item.oid: one.status for one in reviewed.line.items}
        needed_by = reviewed.dependents.needed_by
        rows = []
        number = 0
        for change in reviewed.order:
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
            row = known.get(oid)
            if (
                row is None or row.decision is not decision or row.status is not status or row.number != place
                or row.is_settling is not (decision is not decided) or row.needed_by != needs
                or row.is_new is not is_new or row.has_note is not has_note or row.change is not change
            ):  # fmt: skip
                facts = self._facts[oid]
                row = known[oid] = ReviewRow(
                    change=change, number=place, why=facts.why, decision=decision, status=status,
                    is_settling=decision is not decided, needed_by=needs, alternatives=facts.alternatives,
                    hot=facts.hot, tests=facts.tests, passing=facts.passing, is_new=is_new, has_note=has_note,
                )  # fmt: skip
            rows.append(row)
        return tuple(rows)

    def _look_up(self, state: ReviewState) -> dict[str, ReviewRow]:
        """The rows of before, none of them where what their facts are from has changed."""
        known_from = (state.plan.ranked, state.similar, state.hot, state.evidence)
        if not self._known_from or any(one is not two for one, two in zip(known_from, self._known_from, strict=True)):
            self._known_from = known_from
            self._facts = {one.change.oid: _facts(one.change, one.why, state) for one in state.plan.ranked}
            self._rows = {}
        return self._rows


def _facts(change: Change, why: str, state: ReviewState) -> _Facts:
    told = [state.evidence[agent] for agent in change.agents if agent in state.evidence]
    claimed = [passes for one in told for _, passes in one.tests]
    return _Facts(
        why,
        len(state.similar.get(change.oid, ())),
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
) -> ReviewLines:
    """The lines of those rows that pass the filter. `matching`: the oids of those, None for all."""
    everything = tuple(rows)
    shown = tuple(
        row for row in everything if (not only_open or row.is_open) and (matching is None or row.oid in matching)
    )
    joint = [row for row in shown if row.number == 0 and not row.is_new]
    new = [row for row in shown if row.is_new]
    lines: list[ReviewLine] = []
    group_of: dict[str, str] = {}
    # A filter is there to find something: what it found is never hidden in a closed group.
    is_found = matching is not None or only_open

    def put(key: str, title: str, members: list[ReviewRow], whole: int) -> None:
        if not members:
            return
        is_folded = key in folded and not is_found
        lines.append(ReviewGroup(key, title, tuple(members), whole, is_folded))
        group_of.update((row.oid, key) for row in members)
        if not is_folded:
            lines.extend(members)

    put(JOINT, "tests, docs and build files: one commit", joint, sum(row.number == 0 for row in everything))
    lines.extend(row for row in shown if row.number and not row.is_new)
    put(NEW, "new since you looked", new, sum(row.is_new for row in everything))
    places = {key_of(line): place for place, line in enumerate(lines)}
    return ReviewLines(tuple(lines), places, shown, group_of)


# filter


FILTER = Language(
    states=(
        "open", "undecided", "kept", "reverted", "applied", "conflict", "empty", "new", "noted", "needed",
        *(state for state in (*Decision, *Status) if state not in ("undecided",)),
    ),
    fields=("kind", "agent", "file", "commit"),
)  # fmt: skip
"""The filter of a review: states are decisions, statuses and marks, as shown and as the journal has them."""

_SHOWN_STATES = {
    Decision.KEEP: "kept", Decision.REVERT: "reverted", Status.LAID: "applied", Status.HELD: "conflict",
    Status.VOID: "empty",
}  # fmt: skip


def facts_of(row: ReviewRow) -> Facts:
    """The searchable facts of a change."""
    change = row.change
    states: list[str] = [row.decision, row.status]
    states += [_SHOWN_STATES[one] for one in (row.decision, row.status) if one in _SHOWN_STATES]
    marks = {"new": row.is_new, "open": row.is_open, "noted": row.has_note, "needed": bool(row.needed_by)}
    states += [word for word, has in marks.items() if has]
    fields = _fields_of(change)
    parts = (change.subject, *fields["agent"], *fields["file"], *fields["commit"])
    return facts(parts, states, fields)


def _fields_of(change: Change) -> dict[str, tuple[str, ...]]:
    return {
        "kind": (change.kind.value,), "agent": change.agents, "file": tuple(path.path for path in change.paths),
        "commit": tuple(source.oid for source in change.sources),
    }  # fmt: skip


def filters_for(row: ReviewRow | None) -> list[tuple[str, str]]:
    """What F offers: a filter, and what it shows. The first clears."""
    offered = [
        ("", "everything"),
        ("is:undecided", "what is undecided"),
        ("is:held", "what is held by a conflict"),
        ("is:new", "what is new since you looked"),
        ("is:void", "what is there already, so void"),
        ("is:reverted", "what is reverted"),
        ("is:noted", "what has a note"),
        ("kind:impl", "implementation fixes"),
        ("kind:test", "tests"),
        ("kind:docs", "docs"),
        ("kind:build", "build files"),
    ]
    if row is not None:
        offered += [(f"agent:{_word(agent)}", f"changes of {present.clean(agent)}") for agent in row.change.agents[:8]]
        offered += [(f"file:{_word(path.path)}", f"changes of {_word(path.path)}") for path in row.change.paths[:8]]
    return offered


def _word(text: str) -> str:
    """As it can stand in a filter: without blanks."""
    return max(present.clean(text).split(), key=len, default="")


# all like this one


def scopes(row: ReviewRow, everything: tuple[ReviewRow, ...], shown: tuple[ReviewRow, ...],
           alike: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, tuple[ReviewRow, ...]]]:  # fmt: skip
    """What a decision on many can be about, in words, with the changes of each."""
    others = {row.oid, *alike.get(row.oid, ())}
    like = tuple(one for one in everything if one.oid in others)
    if len(like) > 1:
        yield "all like this one", like
    for agent in row.change.agents[:12]:
        yield f"all of {present.clean(agent)}", tuple(one for one in everything if agent in one.change.agents)
    kind = row.change.kind
    yield f"all of kind {kind.value}", tuple(one for one in everything if one.change.kind is kind)
    paths = {path.path for path in row.change.paths}
    touching = tuple(one for one in everything if any(path.path in paths for path in one.change.paths))
    if len(touching) > 1:
        yield "all that touch one of its files", touching
    yield "all that is shown", shown


def changed_places(before: ReviewLines, after: ReviewLines) -> Iterator[int]:
    """The places whose line is another now, those that became empty among them."""
    for place, line in enumerate(after.lines):
        if place >= len(before.lines) or before.lines[place] != line:
            yield place
    yield from range(len(after.lines), len(before.lines))
