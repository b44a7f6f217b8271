"""Rows of the fleet: which agents exist, one row for each merged from its sources, and how old each answer is.

A thousand agents are looked at every second, so a row is made anew only when one of the objects behind it is another
one, and is otherwise kept as the same object. Pure, like everything in the fold. The state itself is decided by
`selftest_core.fleet.state_rules`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.agent_types.condition import BUSY, MNGR, PERMISSIONS
from selftest_core.agents import LOCAL_PROVIDER, Agent, AgentKey, Host, State
from selftest_core.fleet.attention import AgentFacts, attention_of
from selftest_core.fleet.fleet_state import Entry, Fleet, ListedAgent, RowContext, StateChange
from selftest_core.fleet.problems import ALL
from selftest_core.fleet.state_rules import merged_condition, merged_state
from selftest_core.fleet.view import Category, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.agent_types.condition import Condition
    from selftest_core.fleet.observations import LocalAgent, TmuxSession

CHANGES_KEPT = 1_000
"""The last changes of state of all agents together, for the evidence: some of each agent would grow for hours."""
_NEVER = -math.inf
_STARTING_SECONDS = 3.0
"""An agent that only the probe knows counts as starting for this long."""
_IDLE_STEP = 5.0
"""Seconds. Activity is rounded down to this, so that an agent that prints all the time is not a new row each look."""
REMINDER_PATIENCE = 120.0
"""Seconds after a reminder in which an agent may begin its turn, before its last end counts again."""
_UNREADABLE = "its data.json cannot be read"


def with_rows(fleet: Fleet, before: Fleet) -> Fleet:
    """Make the rows of `fleet`; each unchanged one is the same object as in `before`."""
    probed = fleet.probed
    defaults = {server.socket for server in probed.servers if server.is_default} if probed is not None else set()
    machine = _machine(fleet)
    entries: dict[AgentKey, Entry] = {}
    changed: list[StateChange] = []
    is_same = is_ordered = True
    for key, local in _present(fleet):
        listed = fleet.listed.get(key)
        old = before.entries.get(key)
        context = _context(fleet, listed, local, defaults)
        if (usage := fleet.usages.get(key.agent_id)) is not None:
            context = context._replace(usage=usage)
        listed_agent = listed.agent if listed is not None else None
        is_remembered = listed is not None and listed.is_remembered
        if (
            old is not None
            and old.listed is listed_agent
            and old.local is local
            and old.is_remembered == is_remembered
            and old.context == context
        ):
            entries[key] = old
            continue
        old_row = old.row if old is not None else None
        is_listed_the_same = old is not None and old.listed is listed_agent
        row = _merged_row(listed, local, machine, context, old_row, is_listed_the_same=is_listed_the_same)
        entries[key] = Entry(listed_agent, is_remembered, local, context, row)
        if row is not old_row:
            is_same = False
            is_ordered = is_ordered and old_row is not None and _by_creation(old_row) == _by_creation(row)
            if old_row is not None and old_row.agent.state is not row.agent.state:
                at = probed.at if row.source == "probe" and probed is not None else (listed.at if listed else _NEVER)
                changed.append(StateChange(row.key, at, row.source, old_row.agent.state, row.agent.state))
    is_everyone = len(entries) == len(before.entries)
    if is_same and is_everyone:
        rows = before.rows
    elif is_ordered and is_everyone:
        rows = tuple(entries[row.key].row for row in before.rows)
    else:
        rows = tuple(sorted((entry.row for entry in entries.values()), key=_by_creation))
    return replace(
        fleet,
        entries=entries,
        rows=rows,
        changes=(*fleet.changes, *changed)[-CHANGES_KEPT:] if changed else fleet.changes,
        sessions=before.sessions if fleet.local is before.local and probed is before.probed else _other_sessions(fleet),
    )


def significant_states(rows: tuple[Row, ...]) -> list[object]:
    """Return what must differ for a change to count: which agents, in which state, and which need the user."""
    return [(row.key, row.agent.state, row.attention) for row in rows]


# The agents that exist, and the context of each


def _present(fleet: Fleet) -> Iterator[tuple[AgentKey, LocalAgent | None]]:
    """Iterate over the agents that exist: those of the probe, and those that mngr listed after the probe looked."""
    probed = fleet.probed
    if probed is None:
        yield from ((key, None) for key in fleet.listed)
        return
    for identity, local in fleet.local.items():
        yield AgentKey(probed.host_id, identity), local
    unreadable = {agent.agent_id for agent in probed.unreadable}
    for key, listed in fleet.listed.items():
        if key.host_id != probed.host_id or (
            key.agent_id not in fleet.local and (listed.start > probed.at or key.agent_id in unreadable)
        ):
            yield key, None


def _context(fleet: Fleet, listed: ListedAgent | None, local: LocalAgent | None, defaults: set[str]) -> RowContext:
    labels = local.labels if local is not None else listed.agent.labels if listed is not None else {}
    identity = local.id if local is not None else listed.agent.id if listed is not None else ""
    is_in_known_run, is_reminded = _reminder(fleet, labels.get("selftest_run", ""), identity, local, listed)
    if local is None:
        assert listed is not None
        stale_since, problem = _staleness(fleet, listed)
        if (
            fleet.probed is not None
            and listed.agent.host.id == fleet.probed.host_id
            and listed.start <= fleet.probed.at
        ):
            stale_since, problem = listed.at, _UNREADABLE
        return RowContext(
            stale_since=stale_since, host_problem=problem, is_in_known_run=is_in_known_run, is_reminded=is_reminded
        )
    assert fleet.probed is not None
    on_default = local.session is None or not defaults or local.session.socket in defaults
    list_is_newer = (
        listed is not None
        and listed.start > fleet.probed.at
        and not listed.is_remembered
        and listed.agent.state is not local.state
    )
    if local.id in fleet.unreadable_since:
        since = fleet.unreadable_since[local.id]
        return RowContext(list_is_newer, on_default, since, _UNREADABLE, is_in_known_run, is_reminded)
    stale_since = None
    if local.state is None and listed is not None and not listed.is_remembered and local.session is not None:
        stale_since = _staleness(fleet, listed)[0]
    is_starting = (
        listed is None
        and local.exit_status is None
        and local.created_at is not None
        and 0.0 <= fleet.probed.at - local.created_at < _STARTING_SECONDS
    )
    is_blind = local.session is None and any(server.error for server in fleet.probed.servers)
    return RowContext(
        list_is_newer, on_default, stale_since, None, is_in_known_run, is_reminded, is_starting, is_blind
    )  # fmt: skip


def _reminder(
    fleet: Fleet, run: str, agent_id: str, local: LocalAgent | None, listed: ListedAgent | None
) -> tuple[bool, bool]:
    """Return whether a known run has the agent, and whether its turn has ended again after its one reminder."""
    reminders = fleet.probed.reminders if fleet.probed is not None else {}
    if not run or run not in reminders:
        return False, False
    reminded_at = reminders[run].get(agent_id)
    if reminded_at is None:
        return True, False
    condition = local.condition if local is not None else None
    ended_at = (
        condition.since if condition is not None else listed.agent.agent_activity_at if listed is not None else None
    )
    assert fleet.probed is not None
    has_ended_since = ended_at is not None and ended_at > reminded_at
    return True, has_ended_since or fleet.probed.at - reminded_at >= REMINDER_PATIENCE


def _staleness(fleet: Fleet, listed: ListedAgent) -> tuple[float | None, str | None]:
    """Return since when mngr's answer on an agent is old, None while it is fresh, and why, where a source failed."""
    provider = listed.agent.host.provider
    if _failed_since(fleet, provider, listed.start):
        where = listed.agent.host.name or provider
        if provider == LOCAL_PROVIDER:
            return listed.at, "mngr cannot read its host"
        return listed.at, f"its host {where} ({provider}) does not answer"
    if _failed_since(fleet, ALL, listed.start):
        return listed.at, "mngr does not answer for its host"
    if listed.is_remembered or fleet.empty.get(provider, _NEVER) > listed.start:
        return listed.at, None
    return None, None


def _failed_since(fleet: Fleet, lane: str, start: float) -> bool:
    failure = fleet.failures.get(lane)
    return failure is not None and failure.start > start


def _machine(fleet: Fleet) -> Host | None:
    """Return this machine as mngr described it, else as the probe names it; None before the first look."""
    if fleet.probed is None:
        return None
    host_id = fleet.probed.host_id
    for key in fleet.listed:
        if key.host_id == host_id:
            return fleet.listed[key].agent.host
    return Host(id=host_id, name=fleet.probed.host_name, provider=LOCAL_PROVIDER)


# One row


def _merged_row(
    listed: ListedAgent | None,
    local: LocalAgent | None,
    machine: Host | None,
    context: RowContext,
    old: Row | None,
    *,
    is_listed_the_same: bool,
) -> Row:
    """Merge the sources of one agent into its row; return `old`, the same object, if nothing changed.

    `machine` is the host of a local agent that mngr has not listed yet. `is_listed_the_same`: mngr's values are the
    object from which `old` was made.
    """
    state, source = merged_state(listed, local, context)
    if local is None:
        assert listed is not None, "an agent without any source has no row"
        agent = listed.agent
    elif listed is not None:
        before = old.agent if old is not None and is_listed_the_same else None
        agent = _merged_agent(listed.agent, local, state, source, before)
    else:
        assert machine is not None, "an agent of the probe has a host"
        agent = _unlisted_agent(local, machine, state)
    if old is not None and agent is not old.agent and agent == old.agent:
        agent = old.agent
    exit_status = local.exit_status if local is not None else None
    condition = merged_condition(agent, source, local, listed)
    category, attention = attention_of(
        AgentFacts(
            agent=agent,
            condition=condition,
            is_in_known_run=context.is_in_known_run,
            is_reminded=context.is_reminded,
            bell=local is not None and local.bell,
            exit_status=exit_status,
            host_problem=context.host_problem,
        )
    )
    row = Row(
        agent=agent,
        category=category,
        source=source,
        attention=attention,
        stale_since=context.stale_since,
        session=local.session if local is not None else None,
        pane_id=local.pane_id if local is not None else None,
        idle_since=_idle_since(agent, local, category, condition),
        title=local.title if local is not None else "",
        exit_status=exit_status,
        usage=context.usage,
        condition=condition,
    )
    return old if row == old and old is not None else row


def _unlisted_agent(local: LocalAgent, host: Host, state: State) -> Agent:
    """Make the agent from the probe alone: mngr has not listed it yet."""
    return Agent(
        id=local.id,
        name=local.name,
        type=local.type,
        host=host,
        state=state,
        state_word=state.value,
        command=local.command,
        work_dir=local.work_dir,
        branch=local.branch,
        created_at=local.created_at,
        started_at=local.started_at,
        pid=local.pid if _is_live(state) else None,
        waiting_reason=PERMISSIONS if local.waits_for_permission else None,
        labels=local.labels,
    )


def _merged_agent(agent: Agent, local: LocalAgent, state: State, source: str, before: Agent | None) -> Agent:
    """Replace fields of mngr's agent that the probe knows better. The source of a field never depends on the time.

    `before`, an earlier result for the same answer of mngr, is returned if nothing changed.
    """
    fields = {
        "name": local.name or agent.name,
        "type": local.type or agent.type,
        "state": state,
        "state_word": agent.state_word if source == "mngr" or agent.state is state else state.value,
        "command": local.command or agent.command,
        "work_dir": local.work_dir or agent.work_dir,
        "branch": agent.branch if agent.branch is not None else local.branch,
        "created_at": agent.created_at if agent.created_at is not None else local.created_at,
        "started_at": local.started_at if local.started_at is not None else agent.started_at,
        "pid": (local.pid if local.pid is not None else agent.pid) if _is_live(state) else None,
        "waiting_reason": _waiting_reason(agent, local, state, source),
        "labels": local.labels,
    }
    for same in (before, agent):
        if same is not None and all(getattr(same, name) == value for name, value in fields.items()):
            return same
    return replace(agent, **fields)  # type: ignore[arg-type]  # each value has its field's type


def _is_live(state: State) -> bool:
    return state is not State.STOPPED and state is not State.DONE


def _waiting_reason(agent: Agent, local: LocalAgent, state: State, source: str) -> str | None:
    if local.waits_for_permission:
        return PERMISSIONS
    if state is not State.WAITING:
        return None
    if source == "probe" and local.state is not None and agent.waiting_reason == PERMISSIONS:
        return None
    return agent.waiting_reason


def _idle_since(
    agent: Agent, local: LocalAgent | None, category: Category, condition: Condition | None = None
) -> float | None:
    """Return since when the agent waits, seconds since the epoch; None while it works and if it is not known.

    Its own file has the exact time. Else it is the time of its last activity: a blinking dialog counts as activity.
    """
    is_exact = condition is not None and condition.source != MNGR and condition.kind not in BUSY
    if condition is not None and condition.since is not None and is_exact:
        return condition.since
    if category in (Category.WORKING, Category.STOPPED):
        return None
    known = [
        instant
        for instant in (local.activity_at if local is not None else None, agent.agent_activity_at)
        if instant is not None and math.isfinite(instant)
    ]
    return math.floor(max(known) / _IDLE_STEP) * _IDLE_STEP if known else None


# All rows


def _by_creation(row: Row) -> tuple[float, str, AgentKey]:
    created = row.agent.created_at
    return (created if created is not None and math.isfinite(created) else math.inf, row.agent.name, row.key)


def _other_sessions(fleet: Fleet) -> tuple[TmuxSession, ...]:
    """List the tmux sessions without a row: the user's own, and second sessions of an agent."""
    if fleet.probed is None:
        return ()
    taken = {local.session for local in fleet.local.values() if local.session is not None}
    servers = sorted(fleet.probed.servers, key=lambda server: (not server.is_default, server.socket))
    return tuple(
        session
        for server in servers
        for session in sorted(server.sessions, key=lambda session: session.ref.name)
        if session.ref not in taken
    )
