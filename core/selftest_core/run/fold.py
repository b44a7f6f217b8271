"""The state of a run: the fold of its plan and its journal. The screen, the JSON, the report and a resume read it.

    run = fold(plan, journal.entries)

Pure: no clock, no files. Every prefix of a journal is a run, a repeated line changes nothing, and the counts always
add up to the number of tests. Unknown events, and events that do not fit the state (`events.NEXT`), change nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import MISSING, fields, replace
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from selftest_core.fleet.clusters import signature
from selftest_core.frozen import dataclass
from selftest_core.run.answer.answer import Answer
from selftest_core.run.clock import Moment
from selftest_core.run.events import NEXT, RUNNING, Event, Phase
from selftest_core.run.outcome.claims import ClaimResult
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
_TAIL = 14  # hash and run at the end of a planned name: never cut
_RUN_EVENTS = frozenset({
    Event.CONDUCTING, Event.LEFT, Event.PAUSED, Event.RESUMED, Event.HALTED, Event.ADAPTED, Event.SLOWED, Event.SMOKING,
    Event.SMOKED,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Member:
    """One agent of the run: one attempt at a test. `host_id` is empty until the agent is known to exist.

    `answer`: what a person answered to the attempt before. `is_continued`: the agent of that attempt goes on.
    """

    test: str
    """The planned agent's name: the key of the test in all attempts."""
    node_id: str
    attempt: int
    agent_id: str
    name: str
    host_id: str = ""
    provider: str = ""
    answer: Answer | None = None
    is_continued: bool = False

    @property
    def address(self) -> str:
        """The unambiguous name of the agent for mngr."""
        return f"{self.agent_id}@{self.host_id}.{self.provider}"


@dataclass(frozen=True, slots=True)
class Retry:
    """An attempt that was replaced by another. `reason`: `launch`, `lost`, `asked`, `answered` or `gone`.

    `text`: the reason in words, or the answer. `tip`: the last commit that came back. `usage`: None where the agent
    went on: the next attempt's includes it (`is_continued`).
    """

    reason: str
    text: str
    member: Member
    usage: Usage | None = None
    tip: str = ""
    is_continued: bool = False


@dataclass(frozen=True, slots=True)
class RunRow:
    """One test of the run. Times are seconds since the epoch; `text` is untrusted.

    `attempt` is 0 before the first. `stage`: where a failure happened (`launch`, `work`, `pull`). `tip`: the last
    commit of the agent's branch; `commits`: its number of commits beyond the base. `signature`: equal for failures with
    one cause. `prompts`: number of times that the prompt was sent; `unsure`: why it is unknown whether it arrived.
    `began`: when the agent's time started. `is_whole`: the outcome of the last failed fetch is complete.
    `attention`: why the agent needs the user, `asks`: the kind of that (`condition.Kind`); `limited`: the rate limit
    on its screen. `says`: why the agent could not be stopped. `setup`: seconds that the setup of its copy took.
    `usage`: of its agent, in earlier attempts too where it went on. `is_verifying`: its claim is being verified;
    `verified`: the verdict, empty without one (`claims.ClaimResult`), and `verified_reason` why it did not pass.
    `gate`: the verdict of the role's gate in the same words, empty for testers and before it. `answer`: what a
    person answered, for this attempt or the next one where it waits; `continues`: the agent that goes on then.
    `telling`: an answer that is being sent to the running agent. `answered`: ids of the answers taken.
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
    is_verifying: bool = False
    verified: str = ""
    verified_reason: str = ""
    gate: str = ""
    answer: Answer | None = None
    continues: Member | None = None
    telling: Answer | None = None
    answered: tuple[str, ...] = ()
    retries: tuple[Retry, ...] = ()

    @property
    def name(self) -> str:
        """The planned agent's name: the row's key."""
        return self.planned.agent_name

    def retried(self, reason: str) -> int:
        """Count the retries for this reason."""
        return sum(retry.reason == reason for retry in self.retries)

    def next_member(self) -> Member:
        """Return the agent of the next attempt: that of the last one where it goes on, else a new one."""
        made = member_of(self.planned, self.attempt + 1)
        if self.continues is not None:
            return replace(self.continues, attempt=made.attempt, answer=self.answer, is_continued=True)
        return replace(made, answer=self.answer)


def member_of(planned: PlannedTest, attempt: int) -> Member:
    """Return the agent of an attempt: first the planned one, then others whose ids and names follow from it."""
    if attempt == 1:
        return Member(planned.agent_name, planned.node_id, 1, planned.agent_id, planned.agent_name)
    digest = hashlib.sha256(f"{planned.agent_id} {attempt}".encode()).hexdigest()[:32]
    ending = f"{planned.agent_name[-_TAIL:]}-a{attempt}"
    head = planned.agent_name[:-_TAIL][: _LONGEST_NAME - len(ending)].rstrip("-")
    name = f"{head}{ending}".lstrip("-")
    return Member(planned.agent_name, planned.node_id, attempt, f"agent-{digest}", name)


@dataclass(frozen=True, slots=True)
class Level:
    """The number of agents at a time from `at` on (seconds since the epoch), and why it is that."""

    at: float
    limit: int
    reason: str


@dataclass(frozen=True, slots=True)
class Run:
    """The state of a run. `rows`: by planned agent name, in the plan's order. `last`: number of the last applied line.

    `paused`: why launching is paused, empty if it is not; `paused_by`: person, cluster or budget. `left`: why the
    last conductor ended, None while one should be running. `accepted`: signatures of clusters that a user accepted.
    `slowed`: why launching is slow, empty if it is not. `order`: names of the ended tests, in order of their end.
    `curve`: the numbers of agents at a time, each from its time on; empty before the first conductor.
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
    order: tuple[str, ...] = ()
    smoke: tuple[Smoke, ...] = ()
    curve: tuple[Level, ...] = ()

    @property
    def at_once(self) -> int:
        """Number of agents that may run at a time now."""
        return self.curve[-1].limit if self.curve else start_of(self.plan)

    @property
    def is_over(self) -> bool:
        """True when every test has ended, every agent was stopped, and no claim is being verified."""
        return all(row.phase is Phase.ENDED and not row.is_verifying for row in self.rows.values())

    @property
    def running(self) -> int:
        """Number of agents that run or are being launched."""
        return sum(row.phase in RUNNING for row in self.rows.values())

    @property
    def limited(self) -> int:
        """Number of agents that are rate limited."""
        return sum(bool(row.limited) for row in self.rows.values())

    def ends(self) -> dict[End, int]:
        """Count the tests by how they ended, or would if the run ended now. Adds up to the number of tests.

        A test that never had an agent counts as `not_started`, one that is running as `stopped`.
        """
        counted = Counter(end_of(row) for row in self.rows.values())
        return {end: counted[end] for end in End}


def start_of(plan: RunPlan) -> int:
    """Return the number of agents at a time with which a run starts."""
    return min(plan.start_running, plan.max_running) if plan.adapt and plan.start_running else plan.max_running


def end_of(row: RunRow) -> End:
    """Return how a test ended, or would if the run ended now."""
    if row.end is not None:
        return row.end
    return End.NOT_STARTED if row.phase is Phase.WAITING and not row.retries else End.STOPPED


def claim_counts(run: Run) -> dict[ClaimResult, int]:
    """Count the verified claims by their verdict."""
    counted = Counter(row.verified for row in run.rows.values())
    return {result: counted[result] for result in ClaimResult}


def begin(plan: RunPlan) -> Run:
    """Return the run before its first line."""
    return Run(plan, MappingProxyType({test.agent_name: RunRow(test) for test in plan.tests}))


def fold(plan: RunPlan, entries: Iterable[Entry]) -> Run:
    """Return the run after these lines."""
    return advance(begin(plan), entries)


def apply(run: Run, entry: Entry) -> Run:
    """Return the run after one more line. A line that was applied before changes nothing."""
    return advance(run, (entry,))


def advance(run: Run, entries: Iterable[Entry]) -> Run:
    """Return the run after more lines: the same object if none of them is new."""
    draft = _Draft.of(run)
    rows: dict[str, _Draft] = {}
    for entry in entries:
        if entry.number <= draft.last:
            continue
        draft.last = entry.number
        try:
            event = Event(entry.event)
        except ValueError:
            continue  # of a later version
        if event in _RUN_EVENTS:
            _change_run(draft, event, entry)
            continue
        name = _text(entry.fields, "agent")
        row = rows.get(name) or run.rows.get(name)
        if row is None:
            continue
        phase = NEXT.get((row.phase, event))
        if phase is None or entry.fields.get("attempt") != row.attempt + (event is Event.LAUNCHING):
            continue
        changed = rows[name] = row if isinstance(row, _Draft) else _Draft.of(row)
        _change_row(changed, event, entry)
        changed.phase = phase
        if event is Event.ENDED:
            draft.order = (*draft.order, name)
        elif changed.phase is Phase.WAITING and name in draft.order:
            draft.order = tuple(one for one in draft.order if one != name)
    if rows:
        # A proxy's copy is a dict; unpacking the proxy takes four times as long.
        draft.rows = MappingProxyType(run.rows.copy() | {name: row.freeze(RunRow) for name, row in rows.items()})
    return run if draft.last == run.last else draft.freeze(Run)


class _Draft(SimpleNamespace):
    """The fields of a run or of a row while lines change them; a frozen value is made of it at the end."""

    @classmethod
    def of(cls, value: Run | RunRow) -> _Draft:
        """Copy the fields of a value."""
        return cls(**{name: getattr(value, name) for name in _FIELDS[type(value)]})

    def freeze[T](self, kind: type[T]) -> T:
        """Construct the frozen value: each field is set once, in half of the time that `__init__` takes."""
        made = object.__new__(kind)
        for name, value in vars(self).items():
            _set_field(made, name, value)
        return made


_set_field = object.__setattr__
_FIELDS = {kind: tuple(one.name for one in fields(kind)) for kind in (Run, RunRow)}
_NEW_ROW = {one.name: one.default for one in fields(RunRow) if one.default is not MISSING}
"""The fields of a test without an agent, except what is planned."""


def _change_run(run: _Draft, event: Event, entry: Entry) -> None:
    fields = entry.fields
    match event:
        case Event.CONDUCTING:
            run.conductors += 1
            run.curve = run.curve or (Level(entry.at, start_of(run.plan), ""),)
            run.started_at = entry.at if run.started_at is None else run.started_at
            run.left = None
        case Event.LEFT:
            run.left = _text(fields, "why")
        case Event.PAUSED:
            run.paused_by, run.paused_signature = _text(fields, "by"), _text(fields, "signature")
            run.paused = _text(fields, "reason") or run.paused_by
        case Event.RESUMED:
            if run.paused_signature:
                run.accepted |= {run.paused_signature}
            run.paused = run.paused_by = run.paused_signature = ""
            run.is_halted = False
        case Event.HALTED:
            run.is_halted = True
        case Event.ADAPTED:
            limit = max(1, min(_count(fields, "limit"), run.plan.max_running))
            run.curve = (*run.curve, Level(entry.at, limit, _text(fields, "reason")))
        case Event.SMOKING | Event.SMOKED:
            run.smoke = apply_smoke(run.smoke, entry, run.plan.agent_type)
        case _:
            run.slowed = _text(fields, "reason")


def _change_row(row: _Draft, event: Event, entry: Entry) -> None:
    fields = entry.fields
    match event:
        case Event.LAUNCHING:
            member = member_of(row.planned, row.attempt + 1)
            agent_id, name = _text(fields, "agent_id") or member.agent_id, _text(fields, "name") or member.name
            last, answer, usage = row.continues, row.answer, row.usage
            _clear(row, row.retries)
            row.answer = answer
            if last is not None and last.agent_id == agent_id:
                row.member = replace(last, attempt=member.attempt, answer=answer, is_continued=True)
                row.usage = usage
            else:
                row.member = replace(member, agent_id=agent_id, name=name, answer=answer)
            row.attempt = member.attempt
            row.launching_at, row.began = entry.at, _moment(entry)
        case Event.MADE:
            row.member = _placed(row, fields)
        case Event.PROMPTING:
            row.prompts += 1
        case Event.LAUNCHED:
            row.member = _placed(row, fields)
            if fields.get("adopted") is not True:
                # An adopted agent may have been made long before: its time counts from the launching.
                row.began = _moment(entry)
            row.launched_at, row.setup, row.unsure = entry.at, _seconds(fields, "setup"), _text(fields, "unsure")
        case Event.PULLING:
            row.stamp = _text(fields, "stamp")
        case Event.MISSED:
            row.misses += 1
            row.missed, row.is_whole = _text(fields, "says"), fields.get("whole") is True
            row.stamp = "" if fields.get("again") is True else row.stamp
        case Event.REMINDED:
            row.is_reminded = True
        case Event.NOTICED:
            row.attention, row.asks = _text(fields, "reason"), _text(fields, "kind")
            row.noticed_at = entry.at if row.attention else None
        case Event.LIMITED:
            row.limited = _text(fields, "reason")
            row.limited_at = entry.at if row.limited else None
        case Event.METERED:
            row.usage = from_fields(fields.get("usage"))
        case Event.ENDED:
            row.end, row.ended_at = _end(fields), entry.at
            row.stage, row.text, row.tip = _text(fields, "stage"), _text(fields, "text"), _text(fields, "tip")
            row.signature = _text(fields, "signature") if "signature" in fields else signature(row.text)
            row.commits = _count(fields, "commits")
            row.is_verifying = fields.get("verifying") is True
            row.attention = row.asks = row.limited = ""
            row.noticed_at = row.limited_at = None
        case Event.VERIFIED:
            row.is_verifying = False
            result, row.verified_reason, is_gate = _text(fields, "result"), _text(fields, "reason"), fields.get("gate")
            row.verified, row.gate = ("", result) if is_gate is True else (result, "")
            if result == ClaimResult.FAILED:
                row.end, row.stage = End.RED, "gate" if row.gate else "verify"
                row.text, row.signature = _text(fields, "text"), _text(fields, "signature")
        case Event.STOPPED:
            row.says = _text(fields, "says")
        case Event.RETRYING:
            reason, answer, was_launched = _text(fields, "reason"), row.answer, row.member is not None
            _replace(row, reason, _text(fields, "text"))
            # A person who wants it tried again wants it from the base, unless nobody has had the answer yet.
            row.answer = None if reason == "asked" and was_launched else answer
        case Event.ANSWERED:
            key, text, asked = _text(fields, "id"), _text(fields, "text"), _text(fields, "asked")
            _answer(row, Answer(key, text, asked or row.text or row.attention), goes_on=fields.get("continues") is True)
        case Event.TOLD:
            row.telling = None
        case _:
            pass


def _clear(row: _Draft, retries: tuple[Retry, ...]) -> None:
    """Forget the attempt, but not the retries, nor which answers were taken."""
    answered = row.answered
    vars(row).update(_NEW_ROW)
    row.retries, row.answered = retries, answered


def _replace(row: _Draft, reason: str, text: str, *, goes_on: bool = False) -> None:
    """End the attempt, and wait for the next one."""
    attempt, member, usage, retries = row.attempt, row.member, row.usage, row.retries
    if member is not None:
        # The meter counts an agent from its beginning, so the usage of one that goes on moves to its next attempt.
        retries = (*retries, Retry(reason, text, member, None if goes_on else usage, row.tip, goes_on))
    _clear(row, retries)
    row.attempt = attempt
    if goes_on:
        row.continues, row.usage = member, usage


def _answer(row: _Draft, answer: Answer, *, goes_on: bool) -> None:
    """Take an answer: for the running agent, for the next attempt, or in addition to one that waits for it."""
    before = row.answer
    row.answered = (*row.answered, answer.id)
    if row.phase is Phase.WORKING:
        row.telling = answer
    elif row.phase is Phase.WAITING:
        row.answer = answer if before is None else replace(before, text=f"{before.text}\n\n{answer.text}")
    else:
        start = (row.tip, row.attempt) if row.tip else (before.start, before.start_attempt) if before else ("", 0)
        _replace(row, "answered", answer.text, goes_on=goes_on)
        row.answer = replace(answer, start=start[0], start_attempt=start[1])


def _placed(row: _Draft, fields: Mapping[str, Any]) -> Member:
    member = row.member if row.member is not None else member_of(row.planned, row.attempt + 1)
    return replace(member, host_id=_text(fields, "host_id"), provider=_text(fields, "provider"))


def _end(fields: Mapping[str, Any]) -> End:
    try:
        return End(_text(fields, "end"))
    except ValueError:
        return End.UNREADABLE  # an end of a later version is never a success


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
