"""The log of a review: each act is a line on disk before it is applied, and the review is the fold of these lines.

    opened      kind, key, base, base_name, branches, is_linear   the subject of the review
    arrived     base, branches, new             the subject from now on, and its new commits
    decided     items, alternatives, says       keep, revert or undecided, by oid; a reverted row keeps its choice
    chosen      alternatives, items, says       the chosen change of a row, apart, or null for neither, by oid
    moved       oids, before, order, says       the whole order from then on
    noted       oid, text, says                 an empty text removes the note
    resolved    oid, resolution, says           null removes the resolution
    split       oid, parts, items, ends, says   `parts` null: whole again; `items`: decisions made with it; `ends`: the
                                                parts that are no more, with the decisions on them
    squashed    squash, says                    all groups of changes that share a commit from then on
    reworded    oid, text, says                 an empty text: the message of its author again
    recalled    oid, resolution                 a resolution of an earlier review that fits; no act
    onto        name, oid, says                 rebase onto a commit; null: onto the own base again
    imported    decisions, mark, says           the decisions of a file, over earlier ones
    undone, redone                              the last act that is not undone; the first that is
    withdrawn                                   the last act could not be applied
    published   ref, tip, tree, kept            no act: it cannot be undone here; `kept`: the tip without trailers
    integrating run, tasks                      no act: agents work on conflicts; `tasks`: oids by agent
    integrated  run, agent, attempt, reason     no act: its answer was taken, or refused for a reason

Pure: no clock, no file, no git. Undo and redo move a mark in the list of acts, so they reach any depth and outlive
restarts; a new act drops the undone ones. A line of a later version, or one that does not fit, changes nothing.
`says` describes an act for undo and redo.
"""

from __future__ import annotations

from dataclasses import field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.objects import is_oid
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.collect_changes import Branch
from selftest_core.review.changes.parts import parse_split
from selftest_core.review.changes.rows import APART
from selftest_core.review.decisions import Decisions, parse_decisions
from selftest_core.review.resolutions import Resolution, resolution_from_json
from selftest_core.undo import Act, Acts, act_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from selftest_core.journal import Entry
    from selftest_core.review.changes.kinds import Kind
    from selftest_core.review.changes.parts import Split
    from selftest_core.review.resolutions import Meeting

_NOTHING: Mapping[str, Any] = MappingProxyType({})
ACTS = frozenset(
    {"decided", "chosen", "moved", "noted", "resolved", "split", "squashed", "reworded", "onto", "imported"}
)
"""The events that can be undone."""
_OF_A_PERSON = ACTS | {"opened", "undone", "redone", "published"}
LONGEST_PAUSE = 300.0
"""Seconds between two acts after which the person was not at work."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a review. `kind`: run, agents, branches or range; `key`: which one, to find the review again."""

    kind: str
    key: str
    base: str
    base_name: str
    branches: tuple[Branch, ...]
    is_linear: bool


@dataclass(frozen=True, slots=True)
class Integration:
    """The work of an agent on a conflict: `run` and `agent` by name. `reason`: why its last answer was refused.

    `is_ended`: its answer was taken or refused.
    """

    run: str
    agent: str
    is_ended: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Integrations:
    """The work of agents on conflicts of a review. `by_change`: the newest for each oid.

    `tasks`: the oids by run and agent; `taken`: run, agent and attempt of each answer that was taken or refused.
    """

    by_change: Mapping[str, Integration] = field(default_factory=lambda: _NOTHING)
    tasks: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    taken: frozenset[tuple[str, str, int]] = frozenset()

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs of integrators, in their order."""
        return tuple(dict.fromkeys(run for run, _ in self.tasks))

    def working_on(self, oid: str) -> Integration | None:
        """The work on a change that has not ended."""
        found = self.by_change.get(oid)
        return None if found is None or found.is_ended else found


@dataclass(frozen=True, slots=True)
class ReviewLog(Acts):
    """The folded log.

    `new`: commits that arrived after the review was opened, each with the number of its arrival. `recalled`:
    resolutions of earlier reviews, by oid.
    `answered`: conflicts that a person resolved here at any time, undone or not: they are not recalled again.
    """

    subject: Subject | None = None
    new: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    published: tuple[tuple[str, str, str], ...] = ()
    recalled: Mapping[str, Resolution] = field(default_factory=lambda: _NOTHING)
    answered: frozenset[Meeting] = frozenset()
    integrations: Integrations = Integrations()


def fold(entries: Iterable[Entry]) -> ReviewLog:
    """Fold the lines of a log."""
    log = ReviewLog()
    for entry in entries:
        log = apply(log, entry)
    return log


def apply(log: ReviewLog, entry: Entry) -> ReviewLog:
    """Fold one more line."""
    fields = entry.fields
    try:
        match entry.event:
            case "opened":
                return replace(log, subject=_subject(fields))
            case "arrived":
                return _arrived(log, fields)
            case "undone":
                return log.undone()
            case "redone":
                return log.redone()
            case "withdrawn":
                done = max(0, log.done - 1)
                return replace(log, acts=log.acts[:done], done=done)
            case "recalled":
                oid, resolution = _oid(fields["oid"]), resolution_from_json(fields["resolution"])
                return replace(log, recalled={**log.recalled, oid: resolution})
            case "published":
                tip = str(fields["tip"])
                found = str(fields["ref"]), tip, str(fields.get("kept") or tip)
                return replace(log, published=(*log.published, found))
            case "integrating":
                return replace(log, integrations=_integrating(log.integrations, fields))
            case "integrated":
                return replace(log, integrations=_integrated(log.integrations, fields))
            case event if event in ACTS:
                act = act_of(event, fields)
                answered = log.answered | _answered(act)
                return replace(log.with_act(act), answered=answered)
            case _:
                return log
    except (AttributeError, KeyError, TypeError, ValueError, UsageError):
        return log


def seconds_spent(entries: Iterable[Entry]) -> float:
    """Estimate the time that a person spent: between neighbouring acts, without pauses longer than `LONGEST_PAUSE`."""
    times = [entry.at for entry in entries if entry.event in _OF_A_PERSON]
    gaps = (after - before for before, after in pairwise(times))
    return sum(gap for gap in gaps if 0 < gap <= LONGEST_PAUSE)


def decisions_of(log: ReviewLog) -> tuple[Decisions, str | None]:
    """The decisions in effect, and the commit that the branch was rebased onto, None for the review's own base."""
    default, on_conflict = Decision.UNDECIDED, "hold"
    kinds: Mapping[Kind, Decision] = {}
    items: dict[str, Decision] = {}
    notes: dict[str, str] = {}
    resolutions = dict(log.recalled)
    order: tuple[str, ...] = ()
    splits: dict[str, Split] = {}
    squash: tuple[tuple[str, ...], ...] = ()
    messages: dict[str, str] = {}
    onto: str | None = None
    alternatives: dict[str, str] = {}
    for act in log.acts[: log.done]:
        fields = act.fields
        match act.event:
            case "decided" | "chosen":
                items |= {oid: Decision(word) for oid, word in fields["items"].items()}
                for oid, chosen in fields.get("alternatives", _NOTHING).items():
                    _put(alternatives, oid, chosen)
            case "moved":
                order = tuple(fields["order"])
            case "noted":
                _put(notes, fields["oid"], fields["text"])
            case "resolved":
                document = fields["resolution"]
                _put(resolutions, fields["oid"], resolution_from_json(document) if document else None)
            case "split":
                _put(splits, fields["oid"], parse_split(fields["parts"]) if fields["parts"] else None)
                ends = frozenset(fields.get("ends", ()))
                for gone in (items, notes, messages, splits, resolutions):
                    _remove(gone, ends)
                for oid, chosen in [*alternatives.items()]:
                    if oid in ends or chosen in ends:
                        del alternatives[oid]
                        whole = fields["oid"] if oid in ends else oid
                        alternatives.setdefault(whole, fields["oid"] if chosen in ends else chosen)
                order = _with_whole(order, fields["oid"], ends)
                squash = tuple(group for one in squash if len(group := _with_whole(one, fields["oid"], ends)) > 1)
                items |= {oid: Decision(word) for oid, word in fields["items"].items()}
            case "squashed":
                squash = tuple(tuple(group) for group in fields["squash"])
            case "reworded":
                _put(messages, fields["oid"], fields["text"])
            case "onto":
                onto = fields["oid"]
            case "imported":
                read = parse_decisions(fields["decisions"])
                default, on_conflict, kinds = read.default, read.on_conflict, read.kinds
                items |= read.items
                notes |= read.notes
                resolutions |= read.resolutions
                alternatives |= read.alternatives
                order = read.order or order
                splits |= read.splits
                squash = read.squash or squash
                messages |= read.messages
                alternatives |= read.alternatives
    made = Decisions(
        default, "fail" if on_conflict == "fail" else "hold", kinds, items, order, notes, resolutions, splits, squash,
        messages, alternatives,
    )  # fmt: skip
    return made, onto


def subject_fields(subject: Subject) -> dict[str, Any]:
    """Convert a subject to the fields of `opened`."""
    return {
        "kind": subject.kind, "key": subject.key, "base": subject.base, "base_name": subject.base_name,
        "branches": branch_fields(subject.branches), "is_linear": subject.is_linear,
    }  # fmt: skip


def branch_fields(branches: Iterable[Branch]) -> list[list[str]]:
    """Convert branches to JSON: agent and tip, and of a proposed change the one whose row it joins."""
    return [[one.agent, one.tip, *([one.alternative_of] if one.alternative_of else [])] for one in branches]


def _remove(decided: dict[str, Any], oids: Collection[str]) -> None:
    for oid in oids:
        decided.pop(oid, None)


def _with_whole(oids: tuple[str, ...], whole: str, parts: Collection[str]) -> tuple[str, ...]:
    """Replace the parts of a change by the change, at the place of the first."""
    return tuple(dict.fromkeys(whole if oid in parts else oid for oid in oids)) if parts else oids


def _put(into: dict[str, Any], oid: str, value: Any) -> None:
    if value:
        into[oid] = value
    else:
        into.pop(oid, None)


def _subject(fields: Mapping[str, Any]) -> Subject:
    base = _oid(fields["base"])
    branches = _branches(fields["branches"])
    is_linear = fields["is_linear"] is True
    return Subject(str(fields["kind"]), str(fields["key"]), base, str(fields["base_name"]), branches, is_linear)


def _arrived(log: ReviewLog, fields: Mapping[str, Any]) -> ReviewLog:
    if log.subject is None:
        return log
    subject = replace(log.subject, base=_oid(fields["base"]), branches=_branches(fields["branches"]))
    number = max(log.new.values(), default=0) + 1
    return replace(log, subject=subject, new={**log.new, **{_oid(oid): number for oid in fields["new"]}})


def _integrating(before: Integrations, fields: Mapping[str, Any]) -> Integrations:
    run = str(fields["run"])
    tasks = {(run, str(agent)): tuple(_oid(oid) for oid in oids) for agent, oids in fields["tasks"].items()}
    begun = {oid: Integration(run, agent) for (_, agent), oids in tasks.items() for oid in oids}
    return replace(before, by_change={**before.by_change, **begun}, tasks={**before.tasks, **tasks})


def _integrated(before: Integrations, fields: Mapping[str, Any]) -> Integrations:
    run, agent, attempt, reason = (
        str(fields["run"]),
        str(fields["agent"]),
        int(fields["attempt"]),
        str(fields["reason"]),
    )
    ended = {
        oid: Integration(run, agent, True, reason)
        for oid in before.tasks.get((run, agent), ())
        if (before.by_change[oid].run, before.by_change[oid].agent) == (run, agent)
    }
    return replace(before, by_change={**before.by_change, **ended}, taken=before.taken | {(run, agent, attempt)})


def _branches(value: Any) -> tuple[Branch, ...]:
    return tuple(Branch(str(agent), _oid(tip), *map(_oid, other)) for agent, tip, *other in value)


def _oid(value: Any) -> str:
    if not isinstance(value, str) or not is_oid(value):
        raise ValueError(f"not a full object id: {value!r:.80}")
    return value


def _answered(act: Act) -> frozenset[Meeting]:
    """The conflicts that an act resolves. Raises for an invalid act, so that nothing in the log can fail later."""
    fields = act.fields
    match act.event:
        case "decided" | "chosen":
            for oid, word in fields["items"].items():
                Decision(word)
                _oid(oid)
            for oid, chosen in fields.get("alternatives", _NOTHING).items():
                _oid(oid)
                if chosen not in (None, APART):
                    _oid(chosen)
        case "moved":
            for oid in fields["order"]:
                _oid(oid)
        case "noted":
            _oid(fields["oid"])
            if not isinstance(fields["text"], str):
                raise TypeError("a note is text")
        case "resolved":
            _oid(fields["oid"])
            if fields["resolution"]:
                answers = resolution_from_json(fields["resolution"]).answers
                return frozenset(answer.meeting for answer in answers)
        case "split":
            _oid(fields["oid"])
            if fields["parts"]:
                parse_split(fields["parts"])
            for oid in fields.get("ends", ()):
                _oid(oid)
            for oid, word in fields["items"].items():
                Decision(word)
                _oid(oid)
        case "squashed":
            parse_decisions({"squash": fields["squash"]})
        case "reworded":
            _oid(fields["oid"])
            if not isinstance(fields["text"], str):
                raise TypeError("a message is text")
        case "onto":
            if fields["oid"] is not None:
                _oid(fields["oid"])
        case _:
            parse_decisions(fields["decisions"])
    return frozenset()
