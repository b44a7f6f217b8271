"""The decisions file: a person's decisions, in a format that another run and a build server can repeat.

Every change is undecided until something decides it: its entry in `items`, else its kind's in `kinds`, else `default`.
`kinds` never keeps a change that weakens a test; `default` does so only where it is `keep`.

The file is read strictly, since a silently ignored decision is lost work: unknown keys, unknown words and ids that are
not in the plan are errors. A change may be named by any of its sources, but not be decided in two ways.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.journal import unwritten
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.kinds import Kind
from selftest_core.review.resolutions import Resolution, resolution_from_json, resolution_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.review.changes.collect_changes import Change

_NONE: Mapping[str, Any] = MappingProxyType({})
_HINT = (
    'Such a file is {"default": "undecided", "on_conflict": "hold", "kinds": {"test": "keep"}, '
    '"items": {"<full oid>": "keep|revert|undecided"}}.'
)


class Rule(StrEnum):
    """The part of the decisions that decides a change."""

    ITEM = "items"
    KIND = "kinds"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Decisions:
    """All decisions. `items`, `notes`, `resolutions` by the oid of any source; `kinds` by the kind of a change.

    `order` lists oids, the first first.

    `on_conflict`: publish without changes in conflict (`hold`), or nothing (`fail`).
    """

    default: Decision = Decision.UNDECIDED
    on_conflict: Literal["hold", "fail"] = "hold"
    kinds: Mapping[Kind, Decision] = field(default_factory=lambda: MappingProxyType({}))
    items: Mapping[str, Decision] = field(default_factory=lambda: _NONE)
    order: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=lambda: _NONE)
    resolutions: Mapping[str, Resolution] = field(default_factory=lambda: _NONE)


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
    known = {"default", "on_conflict", "kinds", "items", "order", "notes", "resolutions"}
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
    return document


def decide(changes: Sequence[Change], decisions: Decisions) -> dict[str, Decision]:
    """Find the decision on each change, by its own oid.

    Raises UsageError for an oid that is in no change, and for two different decisions on one change.
    """
    named = {source.oid: change.oid for change in changes for source in change.sources}
    missing = [oid for oid in _named_in(decisions) if oid not in named]
    if missing:
        detail = "No branch has this commit, or the base has it already."
        raise UsageError(f"{missing[0]} is not in the plan", detail, "Remove it, or review the branch that has it.")
    explicit: dict[str, Decision] = {}
    for oid, decision in decisions.items.items():
        if explicit.setdefault(named[oid], decision) is not decision:
            raise UsageError(f"Two different decisions on one change: {named[oid]}", f"{oid} is the same change.")
    return {change.oid: explicit.get(change.oid, by_rule(change, decisions)[0]) for change in changes}


def by_rule(change: Change, decisions: Decisions) -> tuple[Decision, Rule]:
    """Return the decision on a change that `items` does not name, and the rule that makes it."""
    decision = decisions.kinds.get(change.kind)
    if decision is None or is_guarded(change, decisions):
        return decisions.default, Rule.DEFAULT
    return decision, Rule.KIND


def rule_of(change: Change, decisions: Decisions) -> Rule:
    """Return the part of the decisions that decides a change."""
    if any(source.oid in decisions.items for source in change.sources):
        return Rule.ITEM
    return by_rule(change, decisions)[1]


def is_guarded(change: Change, decisions: Decisions) -> bool:
    """Return True for a change that the rule of its kind does not keep, because it weakens a test."""
    return bool(change.weakenings) and decisions.kinds.get(change.kind) is Decision.KEEP


def without_missing(changes: Sequence[Change], decisions: Decisions) -> tuple[Decisions, tuple[str, ...]]:
    """Split decisions into those that fit the changes, and the ids of commits that do not exist any more."""
    named = {source.oid for change in changes for source in change.sources}
    gone = tuple(dict.fromkeys(oid for oid in _named_in(decisions) if oid not in named))
    if not gone:
        return decisions, ()
    fitting = replace(
        decisions,
        items={oid: decision for oid, decision in decisions.items.items() if oid in named},
        order=tuple(oid for oid in decisions.order if oid in named),
        notes={oid: note for oid, note in decisions.notes.items() if oid in named},
        resolutions={oid: resolution for oid, resolution in decisions.resolutions.items() if oid in named},
    )
    return fitting, gone


def in_order(changes: Sequence[Change], decisions: Decisions) -> list[Change]:
    """Sort the changes that `order` lists into that order; the other changes keep their places."""
    named = {source.oid: change for change in changes for source in change.sources}
    listed = list({named[oid].oid: named[oid] for oid in decisions.order}.values())
    moved = {change.oid for change in listed}
    rest = iter(listed)
    return [next(rest) if change.oid in moved else change for change in changes]


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
    return (*decisions.items, *decisions.order, *decisions.notes, *decisions.resolutions)


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


def _mapping(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be an object of JSON", "", _HINT)
    return value
