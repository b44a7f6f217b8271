"""Rules that decide the state of one agent: RUNNING, WAITING, DONE, STOPPED, REPLACED or UNKNOWN. Pure functions.

For an agent of this machine, in this order:

1. `state_by_processes`: mngr's own rules, applied to its pane, the processes below it, and mngr's marker files.
2. `with_own_file`: the file of the agent's own program, if it has one (`agent_types.condition`), overrides 1.
3. `merged_state`: the choice between the result (the probe's) and mngr's answer.

For any other agent mngr's answer is the state. None means: this rule cannot tell, the next source decides.
`merged_condition` decides in the same way what an agent waits for; `fleet.attention` decides who needs the user.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.agent_types.condition import (
    BUSY,
    CODEX,
    PERMISSIONS,
    Condition,
    Kind,
    first_known,
    from_mngr,
    local_condition,
)
from selftest_core.agents import State
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.agents import Agent
    from selftest_core.fleet.fleet_state import ListedAgent, RowContext
    from selftest_core.fleet.observations import LocalAgent
    from selftest_core.tools.tmux import Pane

DEAD_PANE = "its pane is dead"
_SHELLS = frozenset({"bash", "sh", "zsh", "fish", "dash", "ksh", "tcsh", "csh"})
# The process of each type: the first word of its command for "command" types, a fixed name for these.
_PROCESS_OF_TYPE = {"claude": "claude", "codex": "codex"}
_MARKED_TYPES = frozenset({"claude"})
_COMMAND_TYPES = frozenset({"command", "headless_command"})
_LIVE_STATES = (State.RUNNING, State.WAITING)


# Agent types


def is_known(agent_type: str) -> bool:
    """True for the agent types whose process we know."""
    return agent_type in _COMMAND_TYPES or agent_type in _PROCESS_OF_TYPE


def has_markers(agent_type: str) -> bool:
    """True for the agent types that mngr marks as active and idle by their hooks."""
    return agent_type in _MARKED_TYPES


def is_plain_command(agent_type: str) -> bool:
    """True for agents that take no turns: `command`, and every headless type."""
    return agent_type == "command" or agent_type.startswith("headless")


def expected_process(agent_type: str, command: str) -> str:
    """Return the name of the agent's process, as `ps` shows it; "" if it is not known."""
    if agent_type in _PROCESS_OF_TYPE:
        return _PROCESS_OF_TYPE[agent_type]
    words = command.lstrip("( ").split()
    return words[0].rpartition("/")[2] if words else ""


def program_of(agent_type: str, below: Sequence[tuple[int, str]]) -> tuple[str, int | None]:
    """Find the program that keeps files about the agent, "" for none, and its process among those `below` the pane.

    An unknown type is Claude Code where Claude Code runs in it.
    """
    if agent_type in _COMMAND_TYPES:
        return "", None
    program = _PROCESS_OF_TYPE.get(agent_type, "claude")
    pid = next((pid for pid, name in below if name == program), None)
    return (program if pid is not None or agent_type in _PROCESS_OF_TYPE else ""), pid


# 1. Processes and markers


@dataclass(frozen=True, slots=True)
class LocalState:
    """The state by local sources, None if they cannot tell; the id of the main process; the reason in words."""

    state: State | None
    pid: int | None
    reason: str


def state_by_processes(
    agent_type: str,
    command: str,
    pane: Pane,
    shell: str,
    below: Sequence[tuple[int, str]],
    *,
    is_active: bool,
    is_blocked: bool,
    has_begun: bool = False,
) -> LocalState:
    """Decide the state of an agent that has a tmux session, by the rules of mngr.

    `shell` is the name of the pane's own process, `below` are pid and name of its descendants, nearest first;
    `is_active` and `is_blocked` are mngr's marker files. `has_begun`: the agent's program ran since its start.
    """
    if pane.is_dead:
        return LocalState(State.DONE, None, DEAD_PANE)
    expected = expected_process(agent_type, command)
    found = next((pid for pid, name in below if name == expected), None)
    pid = pane.pid if shell == expected else found
    if pane.command == expected or found is not None:
        running = f"{expected} runs" + (f" as process {pid}" if pid else "")
        if not is_known(agent_type) or agent_type == "codex":
            return LocalState(None, pid, f"{running}; only mngr knows whether {agent_type} waits")
        if is_active and not (is_blocked and has_markers(agent_type)):
            return LocalState(State.RUNNING, pid, f"{running}, and it is marked as active")
        blocked = "blocked on a dialog" if is_active else "not marked active"
        return LocalState(State.WAITING, pid, f"{running}, {blocked}")
    others = [name for _, name in below if name not in _SHELLS]
    shown = pane.command[:60]
    if pane.command in _SHELLS and (agent_type in _COMMAND_TYPES or not others or has_begun):
        return LocalState(State.DONE, None, f"{expected or 'its program'} has ended, {shown} is in the foreground")
    if agent_type not in _COMMAND_TYPES:
        return LocalState(None, None, f"{shown} is in the foreground; only mngr knows what that means for {agent_type}")
    if not others and shell in _SHELLS:
        return LocalState(State.DONE, None, f"{expected} has ended, only a shell is left")
    return LocalState(State.REPLACED, None, f"{expected} is not running, {shown} is in its place")


# 2. The file of the agent's own program


def with_own_file(
    found: LocalState,
    own: Condition | None,
    agent_type: str,
    *,
    is_active: bool,
    is_blocked: bool,
    has_had_a_turn: bool,
    since: float | None,
) -> tuple[LocalState, Condition | None]:
    """Override the state by `own`, the condition from the program's own file, and return the local condition too.

    `since`: when the agent last acted, or when its program ended.
    """
    condition = local_condition(
        found.state,
        own,
        has_markers=has_markers(agent_type),
        is_active=is_active,
        is_blocked=is_blocked,
        has_had_a_turn=has_had_a_turn,
        since=since,
    )
    if condition is not None and condition is own:
        found = replace(found, state=condition.state)
    return found, condition


# 3. The probe or mngr


def merged_state(listed: ListedAgent | None, local: LocalAgent | None, context: RowContext) -> tuple[State, str]:
    """Choose between the probe and mngr: the state, and its source ("probe", "mngr", "remembered").

    The probe is newer and sees every tmux server; mngr decides where the probe cannot tell, and where mngr was asked
    later and can see the agent's server.
    """
    if local is None:
        assert listed is not None
        return listed.agent.state, "remembered" if listed.is_remembered else "mngr"
    if context.is_starting and (local.session is None or local.state is State.DONE):
        # While mngr creates an agent it has no session yet, and then a shell in which its program does not run yet.
        return State.UNKNOWN, "probe"
    by_mngr = listed.agent.state if listed is not None and not listed.is_remembered else None
    if local.state is None:
        if local.session is None and context.is_blind:
            # Its session may be on the server that did not answer, which mngr may not ask either.
            return (State.UNKNOWN, "probe") if by_mngr in (None, State.STOPPED) else (by_mngr, "mngr")
        if by_mngr is None:
            return (State.STOPPED if local.session is None else State.UNKNOWN), "probe"
        if local.session is None and not context.list_is_newer:
            return State.STOPPED, "mngr" if by_mngr is State.STOPPED else "probe"
        if local.session is not None and by_mngr is State.STOPPED:
            return State.UNKNOWN, "probe"
        return by_mngr, "mngr"
    if by_mngr is None or by_mngr is local.state:
        return local.state, "probe"
    if by_mngr in _LIVE_STATES and local.state in _LIVE_STATES and local.condition is not None:
        # The program's own file and mngr's markers are more exact than mngr's answer, however new that is.
        return local.state, "probe"
    if by_mngr is State.STOPPED and local.session is not None:
        # It has a session: mngr did not find it, or it ended just now, which the next look will see.
        return local.state, "probe"
    if context.list_is_newer and (local.session is None or context.on_default_server):
        return by_mngr, "mngr"
    return local.state, "probe"


def merged_condition(
    agent: Agent, source: str, local: LocalAgent | None, listed: ListedAgent | None
) -> Condition | None:
    """Choose the condition: the probe's from files, else mngr's. `agent` and `source` are already merged."""
    found = local.condition if local is not None and source == "probe" else None
    if found is None and local is not None and local.waits_for_permission:
        found = Condition(Kind.PERMISSION, "", None, "mngr's markers", "permissions_waiting")
    if found is not None and (found.kind not in BUSY or not _asks_by_mngr(found, listed)):
        return found
    by_mngr = from_mngr(
        agent.state if found is None else State.WAITING,
        PERMISSIONS if found is not None else agent.waiting_reason,
        has_had_a_turn=_has_acted(agent),
        since=agent.agent_activity_at,
    )
    if by_mngr is not None and is_plain_command(agent.type) and by_mngr.kind is not Kind.PERMISSION:
        return found
    return first_known(by_mngr, found)


def _asks_by_mngr(found: Condition, listed: ListedAgent | None) -> bool:
    """True if mngr reports a permission prompt of Codex: its rollout does not tell of questions."""
    return (
        found.source == CODEX
        and listed is not None
        and not listed.is_remembered
        and listed.agent.waiting_reason == PERMISSIONS
        and listed.start > (found.since or math.inf)
    )


def _has_acted(agent: Agent) -> bool:
    """True if an interactive agent did something since its start: else it waits for its very first message."""
    if is_plain_command(agent.type) or agent.agent_activity_at is None:
        return False
    return agent.started_at is None or agent.agent_activity_at >= agent.started_at


def is_known_without_mngr(source: str, condition: Condition | None) -> bool:
    """True if the probe knows the state. Only mngr knows of an approval that a working Codex asks for."""
    asks_unseen = condition is not None and condition.source == CODEX and condition.kind is Kind.WORKING
    return source == "probe" and not asks_unseen
