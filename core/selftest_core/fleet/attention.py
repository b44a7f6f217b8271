"""Attention: which agents need the user, and the reason in words. Pure rules over one agent.

`list --json`, the screen, the demo and the report of a run use the same rules. A plain command agent is WAITING all the
time, so WAITING alone is no reason; neither is an agent that has just started and has had no turn yet. Reasons have no
durations: a screen adds them from `idle_since`.
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


class AgentFacts(NamedTuple):
    """One agent in its merged state, and what else is known of it. `host_problem`: why its host's answer is old.

    `is_in_known_run`: it belongs to a run whose conductor reminds it once when a turn ends. `is_reminded`: it was
    reminded, and its turn has ended again.
    """

    agent: Agent
    condition: Condition | None = None
    is_in_known_run: bool = False
    is_reminded: bool = False
    bell: bool = False
    exit_status: int | None = None
    host_problem: str | None = None


def is_archived(agent: Agent) -> bool:
    """True if a user has archived it."""
    return bool(agent.labels.get(ARCHIVED_LABEL))


def attention_of(facts: AgentFacts) -> tuple[Category, str | None]:
    """Return the agent's category, and why it needs the user, None if it does not.

    A host that does not answer is a reason too, but does not change the category: its agents may be working.
    """
    agent = facts.agent
    category = _CATEGORY_OF_STATE[agent.state]
    if is_archived(agent):
        return category, None
    failure = _failure(facts)
    if failure:
        return Category.FAILED, failure
    need = _need(facts)
    if need:
        return Category.NEEDS_YOU, need
    return category, facts.host_problem


def cost_of_waiting(row: Row) -> tuple[int, float]:
    """Sort key within a category: first the agents whose waiting costs most, then those that wait longest."""
    if row.attention is None:
        return urgency(None) + 1, math.inf
    kind = row.condition.kind if row.condition is not None else None
    return urgency(kind), row.idle_since if row.idle_since is not None else math.inf


def _failure(facts: AgentFacts) -> str | None:
    if facts.agent.state is State.DONE:
        if facts.exit_status:
            return f"ended with exit status {facts.exit_status}"
        if facts.condition is not None and facts.condition.kind is Kind.CRASHED:
            return reason(facts.condition)
    return _host_failure(facts.agent.host)


def _host_failure(host: Host) -> str | None:
    if host.state not in _FAILED_HOST_STATES:
        return None
    return f"its host failed: {host.failure_reason}" if host.failure_reason else f"its host is {host.state}"


def _need(facts: AgentFacts) -> str | None:
    agent = facts.agent
    if agent.host.state == "UNAUTHENTICATED":
        return "its host needs you to log in"
    if agent.state not in _LIVE:
        return None
    condition = facts.condition
    if condition is not None and _needs_a_person(condition, facts):
        if condition.kind is Kind.TURN_ENDED and facts.is_reminded:
            return AFTER_REMINDER
        why = reason(condition)
        return why if is_known(agent.type) or condition.source != MNGR else f"{why} (reported by mngr)"
    # tmux keeps the bell until somebody looks, so an agent that works again needs nobody.
    if facts.bell and agent.state is State.WAITING:
        return "rang the bell"
    return None


def _needs_a_person(condition: Condition, facts: AgentFacts) -> bool:
    """True for a dialog, and for a turn that ended; of a run's agent only after its reminder."""
    if condition.kind in ASKING:
        return True
    if condition.kind is Kind.INTERRUPTED:
        return True
    return condition.kind in ENDED_TURN and (facts.is_reminded or not facts.is_in_known_run)
