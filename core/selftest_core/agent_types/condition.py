"""Condition of an agent: its activity or what it waits for, and the source of that. Pure functions.

Sources, best first: the file of the agent's own program (Claude Code's sessions file, Codex's rollout), mngr's marker
files, mngr's answer. The first source that knows decides. The first two are for agents of this machine;
`selftest_core.fleet.state_rules` combines all three, for the fleet, `list`, and a run's crew.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.agents import State
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from selftest_core.agent_types.claude_status import ClaudeSession
    from selftest_core.agent_types.claude_turns import LastTurn

PERMISSIONS = "PERMISSIONS"
"""The reason for which an agent waits, in mngr's words."""
MNGR = "mngr"
CODEX = "Codex's rollout"
_CLAUDE = "Claude Code's sessions file"
_MARKERS = "mngr's markers"
_LONGEST = 300


class Kind(StrEnum):
    """Activities, and reasons to wait. `READY`: it has had no turn since it started."""

    WORKING = "working"
    COMPACTING = "compacting"
    RETRYING = "retrying"
    READY = "ready"
    PERMISSION = "permission"
    QUESTION = "question"
    PLAN = "plan"
    DIALOG = "dialog"
    ERROR = "error"
    TURN_ENDED = "turn ended"
    INTERRUPTED = "interrupted"
    CRASHED = "crashed"


BUSY = frozenset({Kind.WORKING, Kind.COMPACTING, Kind.RETRYING})
ASKING = frozenset({Kind.PERMISSION, Kind.QUESTION, Kind.PLAN, Kind.DIALOG})
"""A dialog is open: the agent can do nothing until a user answers."""
ENDED_TURN = frozenset({Kind.ERROR, Kind.TURN_ENDED, Kind.INTERRUPTED})
"""Its turn is over: the agent waits for a message."""


@dataclass(frozen=True, slots=True)
class Condition:
    """An agent's activity, or what it waits for. `text`: its question or its error; untrusted, one line.

    `since`: seconds since the epoch, None if it is not known. `source`: "Claude Code's sessions file", "mngr's
    markers", "mngr" …; `quote`: its words, for `explain`.
    """

    kind: Kind
    text: str = ""
    since: float | None = None
    source: str = ""
    quote: str = ""

    @property
    def state(self) -> State:
        """The state in mngr's terms."""
        if self.kind is Kind.CRASHED:
            return State.DONE
        return State.RUNNING if self.kind in BUSY else State.WAITING


def first_known(*conditions: Condition | None) -> Condition | None:
    """Return the first one that is known."""
    return next((condition for condition in conditions if condition is not None), None)


def reason(condition: Condition) -> str:
    """Describe why a user is needed, or what else is worth a note; empty for the rest."""
    text = condition.text
    match condition.kind:
        case Kind.PERMISSION:
            return f"asks for permission: {text}" if text else "waits for permission"
        case Kind.QUESTION:
            return f"asks: {text}" if text else "asks a question"
        case Kind.PLAN:
            return "asks to approve its plan"
        case Kind.DIALOG:
            return f"waits at a dialog: {text}" if text else "waits at a dialog"
        case Kind.ERROR:
            return text or "its turn ended with an error"
        case Kind.TURN_ENDED:
            return "its turn ended"
        case Kind.INTERRUPTED:
            return "its turn was interrupted"
        case Kind.CRASHED:
            return "crashed in the middle of a turn"
        case Kind.RETRYING:
            return f"retrying: {text}" if text else "retrying"
        case Kind.COMPACTING:
            return "compacting its conversation"
        case _:
            return ""


def urgency(kind: Kind | None) -> int:
    """Rank by what waiting costs: 0 for dialogs, 1 for errors, 2 for ended turns and the rest."""
    if kind in ASKING:
        return 0
    if kind in (Kind.ERROR, Kind.CRASHED):
        return 1
    return 2


def one_line(text: str) -> str:
    """Make one bounded line without control characters from text of an agent."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * _LONGEST]).split())
    line = line.encode("utf-8", "replace").decode()
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


_APPROVES = {"ExitPlanMode": Kind.PLAN, "AskUserQuestion": Kind.QUESTION}


def from_claude(
    session: ClaudeSession | None, turn: LastTurn, *, is_compacting: bool = False, retry: str = ""
) -> Condition | None:
    """Read the condition from Claude Code's sessions file; None if it has no status.

    `turn`: the last turn of its conversation. `is_compacting`: mngr's marker. `retry`: the line of its screen about a
    request that is retried.
    """
    if session is None:
        return None
    quote = f"{session.status} ({session.waiting_for})" if session.waiting_for else session.status

    def found(kind: Kind, text: str = "") -> Condition:
        return Condition(kind, one_line(text), session.since, _CLAUDE, quote)

    match session.status:
        case "busy" if is_compacting:
            return found(Kind.COMPACTING)
        case "busy" if retry:
            return found(Kind.RETRYING, retry)
        case "busy":
            return found(Kind.WORKING)
        case "waiting":
            if turn.asked_tool in _APPROVES:
                return found(_APPROVES[turn.asked_tool], turn.asked)
            if session.waiting_for == "permission prompt":
                return found(Kind.PERMISSION, turn.asked)
            if session.waiting_for == "input needed":
                return found(Kind.QUESTION, turn.asked)
            return found(Kind.DIALOG, "" if session.waiting_for == "dialog open" else session.waiting_for)
        case "idle":
            if not turn.is_there or (turn.at is not None and turn.at < session.started_at):
                return found(Kind.READY)
            if turn.error:
                return found(Kind.ERROR, turn.error)
            return found(Kind.INTERRUPTED if turn.is_interrupted else Kind.TURN_ENDED)
        case _:
            return None


def from_markers(*, is_active: bool, is_blocked: bool, has_had_a_turn: bool, since: float | None) -> Condition:
    """Read the condition from mngr's marker files of an agent whose program runs."""
    quote = ", ".join(name for name, there in (("active", is_active), ("permissions_waiting", is_blocked)) if there)
    if is_blocked and is_active:
        kind = Kind.PERMISSION
    elif is_active:
        kind = Kind.WORKING
    else:
        kind = Kind.TURN_ENDED if has_had_a_turn else Kind.READY
    return Condition(kind, "", None if kind is Kind.WORKING else since, _MARKERS, quote or "not active")


def local_condition(
    state: State | None,
    own: Condition | None,
    *,
    has_markers: bool,
    is_active: bool,
    is_blocked: bool,
    has_had_a_turn: bool = False,
    since: float | None = None,
) -> Condition | None:
    """Decide the condition of an agent of this machine; None if no local source knows.

    `state` is by its processes; `own` is from its program's file. `has_markers`: mngr's hooks mark its turns, as
    `is_active` and `is_blocked`. `since`: when mngr's hooks last marked activity.
    """
    if state is State.DONE:
        was_in_turn = own.kind in BUSY if own is not None else has_markers and is_active
        if not was_in_turn:
            return None
        return Condition(Kind.CRASHED, "", since, _MARKERS, "active, and its program has gone")
    if state in (State.STOPPED, State.REPLACED):
        return None
    if own is not None:
        return own
    if has_markers and state is not None:
        return from_markers(is_active=is_active, is_blocked=is_blocked, has_had_a_turn=has_had_a_turn, since=since)
    if is_active and is_blocked:
        return Condition(Kind.PERMISSION, "", since, _MARKERS, "active, permissions_waiting")
    return None


def from_mngr(
    state: State, waiting_reason: str | None, *, has_had_a_turn: bool, since: float | None
) -> Condition | None:
    """Read the condition from mngr's answer; None if it has no more than a state."""
    quote = f"{state} ({waiting_reason})" if waiting_reason else str(state)
    if state is State.RUNNING:
        return Condition(Kind.WORKING, "", None, MNGR, quote)
    if state is not State.WAITING:
        return None
    if waiting_reason == PERMISSIONS:
        return Condition(Kind.PERMISSION, "", since, MNGR, quote)
    return Condition(Kind.TURN_ENDED if has_had_a_turn else Kind.READY, "", since, MNGR, quote)
