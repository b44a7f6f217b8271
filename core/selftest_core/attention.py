"""Which agents need a person, and why in words: pure rules over one agent as it stands.

Why here and not in the screen: `list --json`, the screen, the demo and later a run's report must agree.
A plain command agent is WAITING for its whole life, so waiting alone is never a reason; neither is an agent that
has only just started and has had no turn yet. Reasons hold no durations: a screen adds them from `idle_since`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from selftest_core.agents import State
from selftest_core.view import Category

if TYPE_CHECKING:
    from selftest_core.agents import Agent, Host

ARCHIVED_LABEL = "archived_at"
PERMISSIONS = "PERMISSIONS"
END_OF_TURN = "END_OF_TURN"
_FAILED_HOST_STATES = frozenset({"FAILED", "CRASHED"})
_LIVE = frozenset({State.RUNNING, State.WAITING, State.REPLACED, State.RUNNING_UNKNOWN_AGENT_TYPE, State.UNKNOWN})

_CATEGORY_OF_STATE = {
    State.RUNNING: Category.WORKING,
    State.RUNNING_UNKNOWN_AGENT_TYPE: Category.WORKING,
    State.WAITING: Category.WAITING,
    State.DONE: Category.DONE,
    State.STOPPED: Category.STOPPED,
    State.REPLACED: Category.UNKNOWN,
    State.UNKNOWN: Category.UNKNOWN,
}


class Standing(NamedTuple):
    """One agent as it stands, with what else was seen of it. `host_silence`: why its host's word is old, or None."""

    agent: Agent
    waits_for_permission: bool = False
    has_had_a_turn: bool = False
    bell: bool = False
    exit_status: int | None = None
    host_silence: str | None = None


def is_plain_command(agent_type: str) -> bool:
    """True for agents that take no turns: `command`, and every headless type."""
    return agent_type == "command" or agent_type.startswith("headless")


def is_archived(agent: Agent) -> bool:
    """True where its person has put it away."""
    return bool(agent.labels.get(ARCHIVED_LABEL))


def judge(standing: Standing) -> tuple[Category, str | None]:
    """The group that an agent belongs to, and why it needs a person (None where it does not).

    A host that is silent is a reason of its own, yet leaves the group of the last known state as it was:
    those agents may well work on.
    """
    agent = standing.agent
    category = _CATEGORY_OF_STATE[agent.state]
    if is_archived(agent):
        return category, None
    failure = _failure(standing)
    if failure:
        return Category.FAILED, failure
    need = _need(standing)
    if need:
        return Category.NEEDS_YOU, need
    return category, standing.host_silence


def _failure(standing: Standing) -> str | None:
    if standing.agent.state is State.DONE and standing.exit_status:
        return f"ended with exit status {standing.exit_status}"
    return _host_failure(standing.agent.host)


def _host_failure(host: Host) -> str | None:
    if host.state not in _FAILED_HOST_STATES:
        return None
    return f"its host failed: {host.failure_reason}" if host.failure_reason else f"its host is {host.state}"


def _need(standing: Standing) -> str | None:
    agent = standing.agent
    if agent.host.state == "UNAUTHENTICATED":
        return "its host needs you to log in"
    if agent.state not in _LIVE:
        return None
    if standing.waits_for_permission or (agent.state is State.WAITING and agent.waiting_reason == PERMISSIONS):
        return "waits for permission"
    if agent.state is State.WAITING and not is_plain_command(agent.type) and standing.has_had_a_turn:
        return "its turn ended"
    # tmux keeps the bell until somebody looks, so one that works again has gone on by itself.
    if standing.bell and agent.state is State.WAITING:
        return "rang the bell"
    return None
