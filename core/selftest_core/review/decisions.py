"""The decisions file: a person's decisions, in a format that another run and a build server can repeat.

Every change is undecided until something decides it: its entry in `items`, else its kind's in `kinds`, else `default`.
`kinds` never keeps a change that weakens a test; `default` does so only where it is `keep`.

`splits` splits changes into parts, `squash` lists changes that share a commit, and `messages` replaces those of
commits. What names a change that is split holds for each of its parts, unless something nearer names the part.
Of changes that say the same, a row, one is chosen and the others are left out. `alternatives` chooses it, or takes a
change out of its row ("apart"); a change that `items` keeps is chosen, and of two such changes each has its own row.

The file is read strictly, since a silently ignored decision is lost work: unknown keys, unknown words and ids that are
not in the plan are errors. A change may be named by any of its sources, but not be decided in two ways.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import field, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.journal import unwritten
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.kinds import Kind
from selftest_core.review.changes.parts import Split, UnfitSplitError, parse_split, split_json
from selftest_core.review.changes.rows import APART, Row, choose_rows, default_choice
from selftest_core.review.resolutions import Resolution, resolution_from_json, resolution_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.changes.parts import Shapes
    from selftest_core.review.changes.plan import Plan
    from selftest_core.review.changes.ranking import Ranked

_NONE: Mapping[str, Any] = MappingProxyType({})
_HINT = (
    'Such a file is {"default": "undecided", "on_conflict": "hold", "kinds": {"test": "keep"}, '
    '"items": {"<full oid>": "keep|revert|undecided"}}.'
)


class Rule(StrEnum):
    """The part of the decisions that decides a change. ALTERNATIVE: another one of its row is chosen."""

    ITEM = "items"
    KIND = "kinds"
    DEFAULT = "default"
    ALTERNATIVE = "alternatives"


@dataclass(frozen=True, slots=True)
class Decisions:
    """All decisions. `items`, `notes`, `resolutions` by the oid of any source; `kinds` by the kind of a change.

    `order` lists oids, the first first. `splits`: the parts of a change, by oid, without the rest. `squash`: oids of
    changes that share a commit; `messages`: by oid, instead of the message of its commit, and of the squashed commit
    that the change is the first of.
    `order` lists oids, the first first. `alternatives`: by the oid of any member of a row, the oid of the chosen one,
    or `APART`. The chosen one of another row joins both rows.

    `on_conflict`: publish without changes in conflict (`hold`), or nothing (`fail`).
    """

    default: Decision = Decision.UNDECIDED
    on_conflict: Literal["hold", "fail"] = "hold"
    kinds: Mapping[Kind, Decision] = field(default_factory=lambda: MappingProxyType({}))
    items: Mapping[str, Decision] = field(default_factory=lambda: _NONE)
    order: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=lambda: _NONE)
    resolutions: Mapping[str, Resolution] = field(default_factory=lambda: _NONE)
    splits: Mapping[str, Split] = field(default_factory=lambda: _NONE)
    squash: tuple[tuple[str, ...], ...] = ()
    messages: Mapping[str, str] = field(default_factory=lambda: _NONE)
    alternatives: Mapping[str, str] = field(default_factory=lambda: _NONE)


def read_decisions(path: Path) -> Decisions:
    """Read a decisions file. Raises UsageError with the mistake."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read the decisions in {path}", str(error), _HINT) from error
    try:
        return parse_decisions(json.loads(text))
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is not JSON", str(error), _HINT) from error
    except UsageError as error:
        raise UsageError(f"{path}: {error.title}", error.detail, error.hint) from error


def parse_decisions(document: object) -> Decisions:
    """Parse decisions from a JSON document. Raises UsageError."""
    body = _mapping(document, "the file")
    known = {one.name for one in fields(Decisions)}
    unknown = sorted(set(body) - known)
    if unknown:
        raise UsageError(f"Unknown key {unknown[0]!r} in the decisions", f"Known: {', '.join(sorted(known))}.", _HINT)
    on_conflict = body.get("on_conflict", "hold")
    if on_conflict not in ("hold", "fail"):
        raise UsageError(f"on_conflict is {on_conflict!r}", 'It is "hold" or "fail".', _HINT)
    order = body.get("order", [])
    if not isinstance(order, list) or not all(isinstance(oid, str) for oid in order) or len(set(order)) != len(order):
        raise UsageError("order must be a list of oids, each once", "", _HINT)
    return Decisions(
        _decision(body.get("default", "undecided"), "default"),
        on_conflict,
        {_kind(kind): _decision(word, kind) for kind, word in _mapping(body.get("kinds", {}), "kinds").items()},
        {oid: _decision(word, oid) for oid, word in _mapping(body.get("items", {}), "items").items()},
        tuple(order),
        {oid: str(note) for oid, note in _mapping(body.get("notes", {}), "notes").items()},
        {oid: _resolution(value, oid) for oid, value in _mapping(body.get("resolutions", {}), "resolutions").items()},
        {oid: _split(value, oid) for oid, value in _mapping(body.get("splits", {}), "splits").items()},
        _squash(body.get("squash", [])),
        {oid: _message(text, oid) for oid, text in _mapping(body.get("messages", {}), "messages").items()},
        {oid: _choice(value, oid) for oid, value in _mapping(body.get("alternatives", {}), "alternatives").items()},
    )


def decisions_json(decisions: Decisions) -> dict[str, Any]:
    """Convert decisions to the JSON of their file, which `parse_decisions` reads."""
    document: dict[str, Any] = {
        "default": decisions.default.value,
        "on_conflict": decisions.on_conflict,
        "items": {oid: decision.value for oid, decision in decisions.items.items()},
    }
    if decisions.kinds:
        document["kinds"] = {kind.value: decision.value for kind, decision in decisions.kinds.items()}
    if decisions.order:
        document["order"] = list(decisions.order)
    if decisions.notes:
        document["notes"] = dict(decisions.notes)
    if decisions.resolutions:
        document["resolutions"] = {oid: resolution_json(one) for oid, one in decisions.resolutions.items()}
    if decisions.splits:
        document["splits"] = {oid: split_json(one) for oid, one in decisions.splits.items()}
    if decisions.squash:
        document["squash"] = [list(group) for group in decisions.squash]
    if decisions.messages:
        document["messages"] = dict(decisions.messages)
    if decisions.alternatives:
        document["alternatives"] = dict(decisions.alternatives)
    return document


def decide(changes: Sequence[Change], decisions: Decisions) -> dict[str, Decision]:
    """Find the decision on each change, by its own oid.

    Raises UsageError for an oid that is in no change, and for two different decisions on one change.
    """
    named = {oid for change in changes for oid in change.oids}
    missing = [oid for oid in _named_in(decisions) if oid not in named]
    if missing:
        detail = "No branch has this commit, or the base has it already."
        raise UsageError(f"{missing[0]} is not in the plan", detail, "Remove it, or review the branch that has it.")
    explicit = {change.oid: _nearest(change, decisions.items, "decisions") for change in changes}
    return {change.oid: explicit[change.oid] or by_rule(change, decisions)[0] for change in changes}


def _nearest[T](change: Change, values: Mapping[str, T], what: str) -> T | None:
    """The value for a change: its own, else that of the nearest change that it is a part of, None without one.

    Raises UsageError for two different values.
    """
    if not values:
        return None
    for oids in change.names:
        found = [oid for oid in oids if oid in values]
        for other in found[1:]:
            if values[other] != values[found[0]]:
                raise UsageError(f"Two different {what} on one change: {found[0]}", f"{other} is the same change.")
        if found:
            return values[found[0]]
    return None


def choose_in_rows(
    plan: Plan, changes: Sequence[Change], decisions: Decisions, *, is_strict: bool = True
) -> dict[str, Row]:
    """Find the row of each change, by its oid. `changes`: those of the plan as they are split.

    The first part of a chosen change stands for it in its row, and the others have rows of their own; the parts of one
    that is not chosen are alternatives. Raises UsageError for contradictions; not `is_strict`: the last choice counts.
    """
    whole = {source.oid: change.oid for change in plan.changes for source in change.sources}
    parts: dict[str, list[Change]] = {}
    for change in changes:
        parts.setdefault(whole[change.original_oids[0]], []).append(change)
    named = {oid: whole[change.original_oids[0]] for change in changes for oid in change.oids}
    choices = [
        (named[oid], chosen if chosen == APART else named[chosen]) for oid, chosen in decisions.alternatives.items()
    ]
    found = {oid: {_nearest(one, decisions.items, "decisions") for one in made} for oid, made in parts.items()}
    kept = {oid for oid, words in found.items() if Decision.KEEP in words}
    reverted = {oid for oid, words in found.items() if words == {Decision.REVERT}}
    row_of: dict[str, Row] = {}
    for row in choose_rows(plan.changes, plan.rows, choices, kept, reverted, is_strict=is_strict):
        if row.members == (row.chosen,) and [one.oid for one in parts[row.chosen]] == [row.chosen]:
            row_of[row.chosen] = row  # most rows, on each decision
            continue
        first, *rest = (one.oid for one in parts[row.chosen])
        members = [one.oid for oid in row.members for one in parts[oid] if oid != row.chosen or one.oid == first]
        row_of |= dict.fromkeys(members, replace(row, members=tuple(members), chosen=first))
        row_of |= {oid: Row(oid, (oid,), oid) for oid in rest}
    return row_of


def settle_decisions(shapes: Shapes, plan: Plan, decisions: Decisions) -> Decisions:
    """Let the last choice in each row count, in decisions that were made one after the other.

    What verdicts chose becomes a choice, too, so that the decisions give the same branch elsewhere. All ids must be of
    sources of the changes.
    """
    by_oid = {change.oid: change for change in plan.changes}
    judged = [row for row in plan.rows if row.others and row.chosen != default_choice([by_oid[o] for o in row.members])]
    if not decisions.alternatives and not judged:
        return decisions
    changes = [one.change for one in shape(shapes, plan.ranked, decisions)]
    named = {oid: made[0] for oid, made in _named(changes).items()}
    row_of = choose_in_rows(plan, changes, decisions, is_strict=False)
    alternatives = {}
    of_several = {member for one in plan.rows if len(one.members) > 1 for member in one.members}
    for oid, chosen in decisions.alternatives.items():
        row = row_of[named[oid].oid]
        is_alone = not row.others and not of_several.isdisjoint(named[oid].original_oids)
        if chosen == APART:
            alternatives[oid] = APART
        elif not is_alone:  # else it was kept beside the chosen one, which takes it out of its row
            alternatives[oid] = named[row.chosen].original_oids[0]
    of_a_person = {row_of[named[oid].oid].id for oid in alternatives}
    of_a_person |= {row_of[named[oid].oid].id for oid, one in decisions.items.items() if one is Decision.KEEP}
    for one in judged:
        best = named[one.chosen]
        row = row_of[best.oid]
        if row.id not in of_a_person and row.chosen == best.oid:
            alternatives[row.id] = best.original_oids[0]
    return replace(decisions, alternatives=alternatives)


def by_rule(change: Change, decisions: Decisions) -> tuple[Decision, Rule]:
    """Return the decision on a change that `items` does not name, and the rule that makes it."""
    if change.is_earlier:
        return Decision.REVERT, Rule.DEFAULT  # the last attempt counts
    decision = decisions.kinds.get(change.kind)
    if decision is None or is_guarded(change, decisions):
        return decisions.default, Rule.DEFAULT
    return decision, Rule.KIND


def rule_of(change: Change, decisions: Decisions) -> Rule:
    """Return the part of the decisions that decides a change."""
    if any(oid in decisions.items for oid in change.oids):
        return Rule.ITEM
    return by_rule(change, decisions)[1]


def is_guarded(change: Change, decisions: Decisions) -> bool:
    """Return True for a change that the rule of its kind does not keep, because it weakens a test."""
    return bool(change.weakenings) and decisions.kinds.get(change.kind) is Decision.KEEP


def shape(shapes: Shapes, ranked: tuple[Ranked, ...], decisions: Decisions) -> tuple[Ranked, ...]:
    """Split and reword the changes of a plan. Raises UsageError for what does not fit them."""
    if not decisions.splits and not decisions.messages:
        return ranked
    return shapes.shape(ranked, decisions.splits, lambda changes: messages_of(changes, decisions))


def without_missing(
    shapes: Shapes, ranked: tuple[Ranked, ...], decisions: Decisions
) -> tuple[Decisions, tuple[str, ...]]:
    """Split decisions into those that fit the changes, and the ids of commits that do not exist any more.

    A split that does not fit its change any more is left out too.
    """
    splits = dict(decisions.splits)
    while True:
        try:
            shaped = shape(shapes, ranked, replace(decisions, splits=splits))
            break
        except UnfitSplitError as error:
            del splits[error.oid]
    unfit = [oid for oid in decisions.splits if oid not in splits]
    decisions = replace(decisions, splits=splits) if unfit else decisions
    named = {oid for one in shaped for oid in one.change.oids}
    gone = tuple(dict.fromkeys(oid for oid in _named_in(decisions) if oid not in named))
    if not gone:
        return decisions, tuple(unfit)
    fitting = replace(
        decisions,
        items={oid: decision for oid, decision in decisions.items.items() if oid in named},
        order=tuple(oid for oid in decisions.order if oid in named),
        notes={oid: note for oid, note in decisions.notes.items() if oid in named},
        resolutions={oid: resolution for oid, resolution in decisions.resolutions.items() if oid in named},
        squash=tuple(group for one in decisions.squash if len(group := tuple(oid for oid in one if oid in named)) > 1),
        splits={oid: split for oid, split in splits.items() if oid in named},
        messages={oid: text for oid, text in decisions.messages.items() if oid in named},
        alternatives={
            oid: chosen for oid, chosen in decisions.alternatives.items() if oid in named and chosen in {*named, APART}
        },
    )
    return fitting, (*unfit, *gone)


def in_order(changes: Sequence[Change], decisions: Decisions) -> list[Change]:
    """Sort the changes that `order` lists into that order; the other changes keep their places."""
    if not decisions.order:
        return list(changes)
    named = _named(changes)
    listed = list({change.oid: change for oid in decisions.order for change in named[oid]}.values())
    moved = {change.oid for change in listed}
    rest = iter(listed)
    return [next(rest) if change.oid in moved else change for change in changes]


@dataclass(frozen=True, slots=True)
class SquashedGroup:
    """Changes that share a commit, in their order. `first`: the first one that is named, whose message it has."""

    first: str
    members: tuple[Change, ...]


def squashed_in(order: Sequence[Change], decisions: Decisions, row_of: Mapping[str, Row]) -> list[SquashedGroup]:
    """Find the groups of changes that share a commit, each with the alternatives of its changes.

    So another choice in a row is squashed like the one before. Raises UsageError for a change that is named in two.
    """
    if not decisions.squash:
        return []
    named, place = _named(order), {change.oid: number for number, change in enumerate(order)}
    groups = [{change.oid for oid in oids for change in named.get(oid, ())} for oids in decisions.squash]
    twice = [oid for oid, count in Counter(oid for group in groups for oid in group).items() if count > 1]
    if twice:
        raise UsageError(f"{twice[0]} is squashed twice", "A change has one commit.", _HINT)
    seen = {oid for group in groups for oid in group}
    found = []
    for group in groups:
        others = {other for oid in group for other in row_of[oid].members} - seen
        seen |= others
        members = sorted(group | others, key=place.__getitem__)
        if len(group) > 1:
            first = next(oid for oid in members if oid in group)
            found.append(SquashedGroup(first, tuple(order[place[oid]] for oid in members)))
    return found


def messages_of(order: Sequence[Change], decisions: Decisions) -> dict[str, str]:
    """Find the messages that a person wrote, by the oids of the changes."""
    if not decisions.messages:
        return {}
    found = {change.oid: _nearest(change, decisions.messages, "messages") for change in order}
    return {oid: text for oid, text in found.items() if text is not None}


def notes_of(order: Sequence[Change], decisions: Decisions) -> dict[str, str]:
    """Find the notes by the oids of the changes; the note of a change that is split stands at its first part."""
    named = _named(order) if decisions.notes else {}
    return {named[oid][0].oid: text for oid, text in decisions.notes.items() if oid in named}


def _named(changes: Sequence[Change]) -> dict[str, list[Change]]:
    """The changes by each id that names them."""
    named: dict[str, list[Change]] = {}
    for change in changes:
        for oid in change.oids:
            named.setdefault(oid, []).append(change)
    return named


def write_decisions(path: Path, decisions: Decisions) -> None:
    """Replace a decisions file atomically, without sync: it can be written again from the review's log.

    Raises JournalWriteError where the disk is full or read-only.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(json.dumps(decisions_json(decisions), indent=1) + "\n", encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise unwritten(path, error) from error


def _named_in(decisions: Decisions) -> tuple[str, ...]:
    squashed = (oid for group in decisions.squash for oid in group)
    chosen = (oid for oid in decisions.alternatives.values() if oid != APART)
    return (
        *decisions.items, *decisions.order, *decisions.notes, *decisions.resolutions, *decisions.splits, *squashed,
        *decisions.messages, *decisions.alternatives, *chosen,
    )  # fmt: skip


def _decision(word: object, where: str) -> Decision:
    for decision in Decision:
        if decision == word:
            return decision
    raise UsageError(f"{word!r} is not a decision (at {where})", "A decision is keep, revert or undecided.", _HINT)


def _kind(word: str) -> Kind:
    try:
        return Kind(word)
    except ValueError as error:
        raise UsageError(f"{word!r} is not a kind of changes", f"Kinds: {', '.join(Kind)}.", _HINT) from error


def _resolution(value: object, oid: str) -> Resolution:
    try:
        return resolution_from_json(value)
    except ValueError as error:
        raise UsageError(f"The resolution of {oid} cannot be read", str(error), _HINT) from error


def _squash(value: object) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list) or not all(
        isinstance(group, list) and all(isinstance(oid, str) for oid in group) for group in value
    ):
        raise UsageError("squash must be a list of lists of oids", "", _HINT)
    groups = tuple(tuple(group) for group in value)
    oids = [oid for group in groups for oid in group]
    twice = [oid for oid, count in Counter(oids).items() if count > 1]
    if twice:
        raise UsageError(f"{twice[0]} is squashed twice", "A change has one commit.", _HINT)
    if any(len(group) < 2 for group in groups):
        raise UsageError("A list of squash has fewer than two changes", "One change has a commit of its own.", _HINT)
    return groups


def _split(value: object, oid: str) -> Split:
    try:
        return parse_split(value)
    except ValueError as error:
        raise UsageError(f"The split of {oid} cannot be read: {error}", "", _HINT) from error


def _message(text: object, oid: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"The message of {oid} is {'empty' if text == '' else 'no text'}", "", _HINT)
    return text


def _choice(value: object, oid: str) -> str:
    if not isinstance(value, str):
        raise UsageError(
            f"{value!r} is not a choice (at {oid})", f'A choice is the full oid of a change, or "{APART}".'
        )
    return value


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be an object of JSON", "", _HINT)
    return value
