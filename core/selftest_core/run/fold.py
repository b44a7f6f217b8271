"""A run as the fold of its plan and its journal: what the screen, the JSON, the report and a resume all read.

    run = fold(plan, journal.entries)

Pure: no clock, no file. Every prefix of a journal is a run, the same line twice is the same as once, and the counts
always sum to the number of tests. Lines of a later version, or that do not fit (`events.NEXT`), change nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import MISSING, field, fields
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.fleet.clusters import signature
from selftest_core.frozen import dataclass
from selftest_core.run.clock import Moment
from selftest_core.run.events import NEXT, RUNNING, Event, Phase
from selftest_core.run.outcome.ends import End
from selftest_core.run.smoke import apply_smoke
from selftest_core.usage.tokens import from_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from selftest_core.journal import Entry
    from selftest_core.run.plan.plan import PlannedTest, RunPlan
    from selftest_core.run.smoke import Smoke
    from selftest_core.usage.tokens import Usage

_LONGEST_NAME = 50
_TAIL = 14  # of a planned name: its hash and its run, which must survive a cut
_OF_THE_RUN = frozenset({
    Event.CONDUCTING, Event.LEFT, Event.PAUSED, Event.RESUMED, Event.HALTED, Event.SLOWED, Event.SMOKING, Event.SMOKED,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """One agent of the run: an attempt at a test. `host_id` is empty while it is not known to be there."""

    test: str
    """The planned agent's name, which names the test through all attempts."""
    node_id: str
    attempt: int
    agent_id: str
    name: str
    host_id: str = ""
    provider: str = ""

    @property
    def address(self) -> str:
        """The one spelling that mngr never takes for another agent."""
        return f"{self.agent_id}@{self.host_id}.{self.provider}"


@dataclass(frozen=True, slots=True)
class Retry:
    """An attempt that was given up for another: why (`launch`, `lost`, `asked`), in words, its agent, what it used."""

    reason: str
    text: str
    member: Member
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class RunRow:
    """One test of the run. Times are seconds since the epoch; `text` is untrusted.

    `attempt` is 0 before the first. `stage` is where a failure happened (`launch`, `work`, `pull`), `tip` the last
    commit of its branch and `commits` how many it has over the base. `signature`: what failures that are alike share.
    `prompts`: how often its prompt was sent; `unsure`: why nobody can tell whether it has it.
    `began`: since when its agent's time counts. `is_whole`: the outcome that was last fetched in vain is whole.
    `attention`: why it needs a person, `asks`: the kind of that (`condition.Kind`); `limited`: what its screen says of
    a service that takes no more. `says`: why its agent could not be stopped. `setup`: seconds that the setup of
    its copy took. `usage`: what its agent used, of this attempt alone.
    """

    planned: PlannedTest
    phase: Phase = Phase.WAITING
    attempt: int = 0
    member: Member | None = None
    launching_at: float | None = None
    launched_at: float | None = None
    prompts: int = 0
    unsure: str = ""
    began: Moment | None = None
    ended_at: float | None = None
    end: End | None = None
    stage: str = ""
    text: str = ""
    signature: str = ""
    tip: str = ""
    commits: int = 0
    misses: int = 0
    missed: str = ""
    is_whole: bool = False
    stamp: str = ""
    is_reminded: bool = False
    attention: str = ""
    asks: str = ""
    noticed_at: float | None = None
    limited: str = ""
    limited_at: float | None = None
    says: str = ""
    setup: float | None = None
    usage: Usage | None = None
    retries: tuple[Retry, ...] = ()

    @property
    def name(self) -> str:
        """The planned name: the row's key."""
        return self.planned.agent_name

    @property
    def launches(self) -> int:
        """How many agents were made, or tried to be, for this test."""
        return self.attempt

    def retried(self, reason: str) -> int:
        """How often it was tried again for this reason."""
        return sum(retry.reason == reason for retry in self.retries)

    def next_member(self) -> Member:
        """The agent of the next attempt: the plan's own, and others that follow from it without chance."""
        attempt = self.attempt + 1
        planned = self.planned
        if attempt == 1:
            return Member(planned.agent_name, planned.node_id, 1, planned.agent_id, planned.agent_name)
        digest = hashlib.sha256(f"{planned.agent_id} {attempt}".encode()).hexdigest()[:32]
        ending = f"{planned.agent_name[-_TAIL:]}-a{attempt}"
        head = planned.agent_name[:-_TAIL][: _LONGEST_NAME - len(ending)].rstrip("-")
        name = f"{head}{ending}".lstrip("-")
        return Member(planned.agent_name, planned.node_id, attempt, f"agent-{digest}", name)


@dataclass(frozen=True, slots=True)
class Run:
    """The whole run. `rows` by planned agent name, in the plan's order. `last`: the number of the last line taken.

    `paused`: why launching rests, empty where it does not; `paused_by`: person, cluster, budget. `left`: why the last
    conductor left, None while one should be there. `accepted`: signatures of clusters that were waved through.
    `slowed`: why launching goes slowly, empty where it does not.
    `order`: the names of the ended tests, in the order in which they ended.
    """

    plan: RunPlan
    rows: MappingProxyType[str, RunRow]
    last: int = 0
    conductors: int = 0
    started_at: float | None = None
    left: str | None = None
    paused: str = ""
    paused_by: str = ""
    paused_signature: str = ""
    is_halted: bool = False
    slowed: str = ""
    accepted: frozenset[str] = frozenset()
    order: tuple[str, ...] = field(default=())
    smoke: tuple[Smoke, ...] = ()

    @property
    def is_over(self) -> bool:
        """True when every test has ended and every agent was dealt with."""
        return all(row.phase is Phase.ENDED for row in self.rows.values())

    @property
    def running(self) -> int:
        """How many agents run or are being made."""
        return sum(row.phase in RUNNING for row in self.rows.values())

    @property
    def limited(self) -> int:
        """How many agents are held up by a service that takes no more for now."""
        return sum(bool(row.limited) for row in self.rows.values())

    @property
    def launches(self) -> int:
        """How many agents were paid for: those that came to be."""
        return len(self.smoke) + sum(
            sum(retry.reason != "launch" for retry in row.retries) + (row.launched_at is not None)
            for row in self.rows.values()
        )

    def phases(self) -> dict[Phase, int]:
        """How many tests are in each phase; sums to the number of tests."""
        counted = Counter(row.phase for row in self.rows.values())
        return {phase: counted[phase] for phase in Phase}

    def ends(self) -> dict[End, int]:
        """How each test ended if the run ended now; sums to the number of tests.

        One that no agent was ever made for is `not_started`, one that was left in the middle `stopped`.
        """
        counted = Counter(end_of(row) for row in self.rows.values())
        return {end: counted[end] for end in End}


def end_of(row: RunRow) -> End:
    """How a test ended, or would if the run were left now."""
    if row.end is not None:
        return row.end
    return End.NOT_STARTED if row.phase is Phase.WAITING and not row.retries else End.STOPPED


def begin(plan: RunPlan) -> Run:
    """The run before its first line."""
    return Run(plan, MappingProxyType({test.agent_name: RunRow(test) for test in plan.tests}))


def fold(plan: RunPlan, entries: Iterable[Entry]) -> Run:
    """The run after these lines."""
    return advance(begin(plan), entries)


def apply(run: Run, entry: Entry) -> Run:
    """The run after one line more. A line that was taken before changes nothing."""
    return advance(run, (entry,))


def advance(run: Run, entries: Iterable[Entry]) -> Run:
    """The run after these lines more: what `apply` with each gives, at a fraction of its cost."""
    # What is made here is nobody else's until it is returned: so it is made once, and then changed in place.
    made: dict[str, RunRow] = {}
    order, last = run.order, run.last
    for entry in entries:
        if entry.number <= last:
            continue
        last = entry.number
        try:
            event = Event(entry.event)
        except ValueError:
            continue  # of a later version
        if event in _OF_THE_RUN:
            run = _copied(run, _changes_of_run(run, event, entry))
            continue
        name = _text(entry.fields, "agent")
        row = made.get(name) or run.rows.get(name)
        if row is None:
            continue
        phase = NEXT.get((row.phase, event))
        if phase is None or entry.fields.get("attempt") != row.attempt + (event is Event.LAUNCHING):
            continue
        changes = _changes(row, event, entry)
        if name not in made:
            made[name] = _copied(row, {})
        _set(made[name], changes)
        _set(made[name], {"phase": phase})
        if event is Event.ENDED:
            order = (*order, name)
        elif event is Event.RETRYING and name in order:
            order = tuple(one for one in order if one != name)
    if made:
        return _copied(run, {"last": last, "rows": MappingProxyType(run.rows.copy() | made), "order": order})
    return run if last == run.last else _copied(run, {"last": last})


def _changes_of_run(run: Run, event: Event, entry: Entry) -> dict[str, Any]:
    fields = entry.fields
    match event:
        case Event.CONDUCTING:
            started = entry.at if run.started_at is None else run.started_at
            return {"conductors": run.conductors + 1, "started_at": started, "left": None}
        case Event.LEFT:
            return {"left": _text(fields, "why")}
        case Event.PAUSED:
            by, alike = _text(fields, "by"), _text(fields, "signature")
            return {"paused": _text(fields, "reason") or by, "paused_by": by, "paused_signature": alike}
        case Event.RESUMED:
            accepted = run.accepted | ({run.paused_signature} if run.paused_signature else frozenset())
            nothing = {"paused": "", "paused_by": "", "paused_signature": ""}
            return {**nothing, "is_halted": False, "accepted": accepted}
        case Event.HALTED:
            return {"is_halted": True}
        case Event.SMOKING | Event.SMOKED:
            return {"smoke": apply_smoke(run.smoke, entry, run.plan.agent_type)}
        case _:
            return {"slowed": _text(fields, "reason")}


def _changes(row: RunRow, event: Event, entry: Entry) -> dict[str, Any]:
    fields = entry.fields
    match event:
        case Event.LAUNCHING:
            member = row.next_member()
            agent_id, name = _text(fields, "agent_id") or member.agent_id, _text(fields, "name") or member.name
            member = _copied(member, {"agent_id": agent_id, "name": name})
            return {
                **_FRESH, "attempt": member.attempt, "member": member, "retries": row.retries,
                "launching_at": entry.at, "began": _moment(entry),
            }  # fmt: skip
        case Event.MADE:
            return {"member": _placed(row, fields)}
        case Event.PROMPTING:
            return {"prompts": row.prompts + 1}
        case Event.LAUNCHED:
            member = _placed(row, fields)
            # One that was found there may have been made long before: its time counts from the launching.
            began = row.began if fields.get("adopted") is True else _moment(entry)
            return {
                "member": member, "launched_at": entry.at, "began": began, "setup": _seconds(fields, "setup"),
                "unsure": _text(fields, "unsure"),
            }  # fmt: skip
        case Event.PULLING:
            return {"stamp": _text(fields, "stamp")}
        case Event.MISSED:
            stamp = "" if fields.get("again") is True else row.stamp
            is_whole = fields.get("whole") is True
            return {"misses": row.misses + 1, "missed": _text(fields, "says"), "is_whole": is_whole, "stamp": stamp}
        case Event.REMINDED:
            return {"is_reminded": True}
        case Event.NOTICED:
            reason = _text(fields, "reason")
            return {"attention": reason, "noticed_at": entry.at if reason else None, "asks": _text(fields, "kind")}
        case Event.LIMITED:
            reason = _text(fields, "reason")
            return {"limited": reason, "limited_at": entry.at if reason else None}
        case Event.METERED:
            return {"usage": from_fields(fields.get("usage"))}
        case Event.ENDED:
            text = _text(fields, "text")
            told = _text(fields, "signature") if "signature" in fields else signature(text)
            return {
                "end": _end(fields), "ended_at": entry.at, "stage": _text(fields, "stage"), "text": text,
                "signature": told, "tip": _text(fields, "tip"), "commits": _count(fields, "commits"),
                "attention": "", "asks": "", "noticed_at": None, "limited": "", "limited_at": None,
            }  # fmt: skip
        case Event.STOPPED:
            return {"says": _text(fields, "says")}
        case Event.RETRYING:
            retries = row.retries
            if row.member is not None:
                retries = (*retries, Retry(_text(fields, "reason"), _text(fields, "text"), row.member, row.usage))
            return {**_FRESH, "attempt": row.attempt, "retries": retries}
        case _:
            return {}


def _copied[T: (Run, RunRow, Member)](value: T, changes: Mapping[str, Any]) -> T:
    """`dataclasses.replace` at half of its cost."""
    kind = type(value)
    copy = object.__new__(kind)
    names, take = _FIELDS[kind]
    for name, field_value in zip(names, take(value), strict=True):
        _set_field(copy, name, field_value)
    _set(copy, changes)
    return copy


def _set(value: Run | RunRow | Member, changes: Mapping[str, Any]) -> None:
    """Change what was made here, and was not handed out yet."""
    for name, field_value in changes.items():
        _set_field(value, name, field_value)


_set_field = object.__setattr__
_FIELDS = {
    kind: ((names := tuple(one.name for one in fields(kind))), attrgetter(*names)) for kind in (Run, RunRow, Member)
}
_FRESH = {one.name: one.default for one in fields(RunRow) if one.default is not MISSING}
"""Of a test that no agent was made for: everything but what is planned."""


def _member(row: RunRow) -> Member:
    return row.member if row.member is not None else row.next_member()


def _placed(row: RunRow, fields: Mapping[str, Any]) -> Member:
    return _copied(_member(row), {"host_id": _text(fields, "host_id"), "provider": _text(fields, "provider")})


def _end(fields: Mapping[str, Any]) -> End:
    try:
        return End(_text(fields, "end"))
    except ValueError:
        return End.UNREADABLE  # a later version's; never a success


def _moment(entry: Entry) -> Moment:
    elapsed, boot = entry.fields.get("elapsed"), _text(entry.fields, "boot")
    return Moment(entry.at, float(elapsed), boot) if isinstance(elapsed, int | float) else Moment(entry.at)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    return value if isinstance(value, str) else ""


def _count(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name, 0)
    return value if isinstance(value, int) and value >= 0 else 0


def _seconds(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
