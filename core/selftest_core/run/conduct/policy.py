"""What is to be done about one test, given what was seen of its agent: the rules of the issue as one pure function.

State alone is never the end: a plain command agent is WAITING all its life, and an interactive one waits when it is
done. So an end comes only from files that were fetched, or from a last fetch that found none after the agent had
ended or its time was up. A file that is not there, or not whole, is asked for again until then.
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

UNSURE = f"it may not have got its prompt: where it waits, tell it “{PROMPT_LINE}”"
TURN_ENDED = AFTER_REMINDER
ASKS = "it asks something that only a person can answer"


@dataclass(frozen=True, slots=True)
class Policy:
    """How a run is conducted. All times in seconds.

    `last_looks`: fetches that must find no file before an ended agent is called crashed. `lost_after`: how long one
    may be unseen while others are seen, `outage_after` while nobody is. `screen_pause`: between two looks at the
    screens. `remind_tries`: how often a reminder that did not arrive is sent; `prompt_tries`: a prompt, before another
    agent is made. `limited_many`: so many agents that a service turns away, and a third of all, slow the launching.
    `smoke_deadline`: how long a smoke agent may take, `smoke_idle` of it with its turn ended. `error_tries`: a test
    that meets the same unexpected error of ours so often is given up. `leave_when_paused`: where nobody is there to say
    go (batch), a run that rests is left. `budget_usd` overrules the plan's.
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
    pulls_at_once: int = 4
    stop_batch: int = 10
    stops_at_once: int = 2
    stop_tries: int = 3
    launch_retries: int = 2
    lost_retries: int = 1
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
    cluster_window: int = 10
    cluster_alike: int = 5
    limited_many: int = 3
    leave_when_paused: bool = False
    budget_usd: float | None = None


class Do(StrEnum):
    """What to do now."""

    NOTHING = "nothing"
    PULL = "pull"
    REMIND = "remind"
    NOTICE = "notice"
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about a test. `end`: how it ends if a fetch finds no outcome; None while it may still come.

    `text`: the reason of a notice, or why it is given up. `kind`: what a noticed agent waits for.
    """

    do: Do
    end: End | None = None
    text: str = ""
    kind: Kind | None = None


_NOTHING = Advice(Do.NOTHING)


def advise(
    row: RunRow, seen: Seen, policy: Policy, *, worked: float, timeout: float, unseen: float, lost_after: float,
    reminded: float, is_asked_to_stop: bool,
) -> Advice:  # fmt: skip
    """What to do about a test that is worked on. `worked`, `unseen`, `reminded`: seconds since launch, sight, words.

    `lost_after`: how long it may be unseen.
    """
    end, text = _end(seen, worked >= timeout, is_asked_to_stop)
    match seen.life:
        case Life.LOST:
            return Advice(Do.GIVE_UP, End.LOST, seen.says or "its host is gone")
        case Life.UNSEEN:
            if unseen >= lost_after:
                return Advice(Do.GIVE_UP, End.LOST, seen.says or f"nothing was seen of it for {lost_after:g} s")
            if is_asked_to_stop and unseen >= policy.look_deadline:
                return Advice(Do.GIVE_UP, End.STOPPED, f"it was stopped as asked, out of sight: {seen.says}")
            return _NOTHING
        case Life.ABSENT:
            return Advice(Do.GIVE_UP, End.STOPPED, "it was destroyed by somebody else")
        case _:
            pass
    if end is not None:
        return Advice(Do.PULL, end, text)
    # A fetch that a conductor began and did not live to judge is begun again.
    if row.phase is Phase.PULLING or (seen.outcome and seen.outcome != row.stamp):
        return Advice(Do.PULL)
    if row.is_whole:
        return Advice(Do.PULL, End.UNREADABLE)  # its outcome is whole, and its branch still cannot be used
    return _attend(row, seen, policy, reminded)


def _end(seen: Seen, is_late: bool, is_asked_to_stop: bool) -> tuple[End | None, str]:
    """How it ends if no outcome is found now, None while it may still write one."""
    if seen.life is Life.EXITED:
        return End.CRASH, "its program ended without an outcome"
    if seen.life is Life.STOPPED:
        return End.STOPPED, "it was stopped by somebody else"
    if is_asked_to_stop:
        return End.STOPPED, "it was stopped as asked"
    if is_late:
        return End.TIMEOUT, "its time was up"
    return None, ""


def _attend(row: RunRow, seen: Seen, policy: Policy, reminded: float) -> Advice:
    kind: Kind | None
    match seen.life:
        case Life.ASKS:
            reason, kind = seen.says or ASKS, seen.kind or Kind.QUESTION
        case _ if row.unsure:  # a reminder must not be the first words that it gets
            reason, kind = UNSURE, Kind.TURN_ENDED
        case Life.TURN_ENDED if not row.is_reminded:
            return Advice(Do.REMIND)
        case Life.TURN_ENDED if reminded < policy.reminder_patience and not seen.needs_you:
            return _NOTHING
        case Life.TURN_ENDED:
            reason, kind = seen.says or TURN_ENDED, seen.kind or Kind.TURN_ENDED
        case _:
            reason, kind = "", None
    return _NOTHING if row.attention == reason else Advice(Do.NOTICE, text=reason, kind=kind)


def pause_after(misses: int, policy: Policy) -> float:
    """How long to wait before the next fetch, after so many that brought nothing."""
    return min(policy.pull_pause * 2.0 ** min(misses - 1, 16), policy.longest_pull_pause)
