"""The rules of a run as one pure function: the next step of a test, given the last observation of its agent.

A state alone never ends a test: a command agent is WAITING all its life, and an interactive agent waits when it is
done. An end requires fetched files, or a last fetch without an outcome after the agent ended or its time was up. Until
then a missing or incomplete file is fetched again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.agent_types.condition import Kind
from selftest_core.fleet.attention import AFTER_REMINDER
from selftest_core.frozen import dataclass
from selftest_core.run.crew.crew import Life
from selftest_core.run.events import Phase
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.prompt import PROMPT_LINE

if TYPE_CHECKING:
    from selftest_core.run.crew.crew import Seen
    from selftest_core.run.fold import RunRow

UNSURE = f"it may not have its prompt; if it waits, send it “{PROMPT_LINE}”"
UNSURE_OF_ANSWER = "it may not have the answer; if it waits, send it again"
TURN_ENDED = AFTER_REMINDER
ASKS = "it asks something that only a person can answer"


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits and deadlines of a run. Times are seconds.

    `last_looks`: fetches without a file before an ended agent counts as crashed. `lost_after`: how long an agent may be
    unseen while others are seen; `outage_after`: while none is. `screen_pause`: between two checks of rate limits.
    `remind_tries`: sends of a reminder that did not arrive; `prompt_tries`: of a prompt, before another agent is made.
    `starting_hosts`: creates at once where all hosts are made on Modal, which takes time and little of this machine.
    `limited_many`: so many rate-limited agents, and a third of all, slow the launches. `smoke_deadline`: for a smoke
    agent; `smoke_idle`: of that with its turn ended. `error_tries`: equal unexpected errors before a test is given up.
    `leave_when_paused`: a paused run ends its conductor, since nobody is there to resume it (batch). The budgets
    override the plan's where they are set.
    """

    poll: float = 1.0
    look_deadline: float = 90.0
    create_deadline: float = 300.0
    pull_deadline: float = 300.0
    screen_deadline: float = 30.0
    conversation_deadline: float = 60.0
    screen_pause: float = 20.0
    prompt_deadline: float = 120.0
    prompt_tries: int = 2
    prompt_pause: float = 3.0
    remind_deadline: float = 60.0
    remind_tries: int = 3
    remind_pause: float = 5.0
    smoke_deadline: float = 240.0
    smoke_idle: float = 20.0
    stop_deadline: float = 120.0
    creates_at_once: int = 4
    starting_hosts: int = 20
    pulls_at_once: int = 4
    stop_batch: int = 10
    stops_at_once: int = 2
    stop_tries: int = 3
    error_tries: int = 3
    launch_pause: float = 5.0
    longest_launch_interval: float = 60.0
    last_looks: int = 2
    failed_pulls: int = 5
    pull_pause: float = 2.0
    longest_pull_pause: float = 60.0
    lost_after: float = 300.0
    outage_after: float = 900.0
    reminder_patience: float = 120.0
    limited_many: int = 3
    leave_when_paused: bool = False
    budget_usd: float | None = None
    budget_day_usd: float | None = None
    budget_day_tokens: int = 0


class Action(StrEnum):
    """The next step of a test."""

    NOTHING = "nothing"
    FETCH = "fetch"
    REMIND = "remind"
    NOTICE = "notice"
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True)
class Advice:
    """The next step of a test. `end`: how it ends if a fetch finds no outcome; None while one may still come.

    `text`: the reason of a notice or an end. `kind`: what a noticed agent waits for.
    """

    action: Action
    end: End | None = None
    text: str = ""
    kind: Kind | None = None


_NOTHING = Advice(Action.NOTHING)


def advise(
    row: RunRow, seen: Seen, policy: Policy, *, worked: float, timeout: float, unseen: float, lost_after: float,
    reminded: float, is_asked_to_stop: bool, was_restarted: bool = False,
) -> Advice:  # fmt: skip
    """Decide the next step of a test that runs.

    `worked`, `unseen`, `reminded`: seconds since its launch, since it was last seen, since its reminder. `timeout`,
    `lost_after`: the limits of the first two. `was_restarted`: the agent's machine was, since it was launched.
    """
    end, text = _end(seen, worked >= timeout, is_asked_to_stop, was_restarted)
    match seen.life:
        case Life.LOST:
            return Advice(Action.GIVE_UP, End.LOST, seen.detail or "its host is gone")
        case Life.UNSEEN:
            if unseen >= lost_after:
                return Advice(Action.GIVE_UP, End.LOST, seen.detail or f"it was not seen for {lost_after:g} s")
            if is_asked_to_stop and unseen >= policy.look_deadline:
                return Advice(
                    Action.GIVE_UP, End.STOPPED, f"it was stopped on request while unreachable: {seen.detail}"
                )
            return _NOTHING
        case Life.ABSENT:
            return Advice(Action.GIVE_UP, End.STOPPED, "it was destroyed by someone else")
        case _:
            pass
    if end is not None:
        return Advice(Action.FETCH, end, text)
    # A fetch that an earlier conductor began is begun again.
    if row.phase is Phase.PULLING or (seen.outcome and seen.outcome != row.stamp):
        return Advice(Action.FETCH)
    if row.is_whole:
        return Advice(Action.FETCH, End.UNREADABLE)  # the outcome is complete, but its branch cannot be used
    return _attend(row, seen, policy, reminded)


def _end(seen: Seen, is_late: bool, is_asked_to_stop: bool, was_restarted: bool) -> tuple[End | None, str]:
    """Return the end and its reason if no outcome is found now; None while the agent may still write one."""
    if seen.life is Life.EXITED:
        return End.CRASH, "its program ended without an outcome"
    if seen.life is Life.STOPPED and was_restarted:
        return End.LOST, "this machine was restarted while it worked"
    if seen.life is Life.STOPPED:
        return End.STOPPED, "it was stopped by someone else"
    if is_asked_to_stop:
        return End.STOPPED, "it was stopped on request"
    if is_late:
        return End.TIMEOUT, "it timed out"
    return None, ""


def _attend(row: RunRow, seen: Seen, policy: Policy, reminded: float) -> Advice:
    """Remind an agent that waits, or notify the user about it."""
    kind: Kind | None
    match seen.life:
        case Life.ASKS:
            reason, kind = seen.detail or ASKS, seen.kind or Kind.QUESTION
        case _ if row.unsure:  # a reminder must not be its first message
            is_continued = row.member is not None and row.member.is_continued
            reason, kind = UNSURE_OF_ANSWER if is_continued else UNSURE, Kind.TURN_ENDED
        case Life.TURN_ENDED if not row.is_reminded:
            return Advice(Action.REMIND)
        case Life.TURN_ENDED if reminded < policy.reminder_patience and not seen.needs_you:
            return _NOTHING
        case Life.TURN_ENDED:
            reason, kind = seen.detail or TURN_ENDED, seen.kind or Kind.TURN_ENDED
        case _:
            reason, kind = "", None
    return _NOTHING if row.attention == reason else Advice(Action.NOTICE, text=reason, kind=kind)


def fetch_backoff(misses: int, policy: Policy) -> float:
    """Return the seconds before the next fetch after `misses` without a usable outcome."""
    return min(policy.pull_pause * 2.0 ** min(misses - 1, 16), policy.longest_pull_pause)
