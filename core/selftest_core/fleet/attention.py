"""Which agents need a person, and why in words: pure rules over one agent as it stands.

Why here and not in the screen: `list --json`, the screen, the demo and later a run's report must agree.
A plain command agent is WAITING for its whole life, so waiting alone is never a reason; neither is an agent that
has only just started and has had no turn yet. Reasons hold no durations: a screen adds them from `idle_since`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from selftest_core.agent_types.condition import ASKING, ENDED_TURN, MNGR, Kind, reason, urgency
from selftest_core.agents import State
from selftest_core.fleet.state_rules import is_known
from selftest_core.fleet.view import Category

if TYPE_CHECKING:
    from selftest_core.agent_types.condition import Condition
    from selftest_core.agents import Agent, Host
    from selftest_core.fleet.view import Row

ARCHIVED_LABEL = "archived_at"
AFTER_REMINDER = "it ended its turn without an outcome, after one reminder"
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
    """One agent as it stands, with what else was seen of it. `host_silence`: why its host's word is old, or None.

    `is_run_s`: the run that it belongs to is known here, so that its conductor has the first word when a turn ends;
    `is_reminded`: it has had that word, and its turn has ended since.
    """

    agent: Agent
    condition: Condition | None = None
    is_run_s: bool = False
    is_reminded: bool = False
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


def cost_of_waiting(row: Row) -> tuple[int, float]:
    """The place of an agent among those of its group: what costs most to wait for first, then what waits longest."""
    if row.attention is None:
        return urgency(None) + 1, math.inf
    kind = row.condition.kind if row.condition is not None else None
    return urgency(kind), row.idle_since if row.idle_since is not None else math.inf


def _failure(standing: Standing) -> str | None:
    if standing.agent.state is State.DONE:
        if standing.exit_status:
            return f"ended with exit status {standing.exit_status}"
        if standing.condition is not None and standing.condition.kind is Kind.CRASHED:
            return reason(standing.condition)
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
    condition = standing.condition
    if condition is not None and _needs_a_person(condition, standing):
        if condition.kind is Kind.TURN_ENDED and standing.is_reminded:
            return AFTER_REMINDER
        said = reason(condition)
        return said if is_known(agent.type) or condition.source != MNGR else f"{said}, as mngr says"
    # tmux keeps the bell until somebody looks, so one that works again has gone on by itself.
    if standing.bell and agent.state is State.WAITING:
        return "rang the bell"
    return None


def _needs_a_person(condition: Condition, standing: Standing) -> bool:
    """True for a dialog, and for a turn that ended; of a run's agent only after its reminder."""
    if condition.kind in ASKING:
        return True
    if condition.kind is Kind.INTERRUPTED:
        return True
    return condition.kind in ENDED_TURN and (standing.is_reminded or not standing.is_run_s)
