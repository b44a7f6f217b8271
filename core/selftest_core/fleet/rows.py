"""The rows of the fleet, made of what is known: who is there, how old each word is, and which rows are as they were.

A thousand agents are looked at every second, so a row is only made anew when one of the very objects behind it is
another one. Pure, like everything in the fold.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER, AgentKey, Host
from selftest_core.fleet.explain import Changed
from selftest_core.fleet.fleet_state import Entry, Fleet
from selftest_core.fleet.merge_state import Circumstances, Told, stand
from selftest_core.fleet.problems import ALL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from selftest_core.fleet.observations import LocalAgent, TmuxSession
    from selftest_core.fleet.view import Row

_CHANGES_KEPT = 8
_NEVER = -math.inf
_STARTING_SECONDS = 3.0
"""An agent that only the probe knows is being made for this long, unless it says otherwise."""
REMINDER_PATIENCE = 120.0
"""Seconds after a reminder in which an agent may begin its turn, before its last end counts again."""
_UNREADABLE = "its data.json cannot be read"


def with_rows(fleet: Fleet, before: Fleet) -> Fleet:
    """The fleet with its rows made anew, every one that is the same kept as the very object that it was."""
    probed = fleet.probed
    defaults = {server.socket for server in probed.servers if server.is_default} if probed is not None else set()
    machine = _machine(fleet)
    entries: dict[AgentKey, Entry] = {}
    changed: dict[AgentKey, Changed] = {}
    is_same = is_ordered = True
    for key, local in _present(fleet):
        told = fleet.told.get(key)
        old = before.entries.get(key)
        circumstances = _circumstances(fleet, told, local, defaults)
        if (usage := fleet.usages.get(key.agent_id)) is not None:
            circumstances = circumstances._replace(usage=usage)
        word = told.agent if told is not None else None
        is_remembered = told is not None and told.is_remembered
        if (
            old is not None
            and old.told is word
            and old.local is local
            and old.is_remembered == is_remembered
            and old.circumstances == circumstances
        ):
            entries[key] = old
            continue
        old_row = old.row if old is not None else None
        is_told_the_same = old is not None and old.told is word
        row = stand(told, local, machine, circumstances, old_row, is_told_the_same=is_told_the_same)
        entries[key] = Entry(word, is_remembered, local, circumstances, row)
        if row is not old_row:
            is_same = False
            is_ordered = is_ordered and old_row is not None and _by_creation(old_row) == _by_creation(row)
            if old_row is not None and old_row.agent.state is not row.agent.state:
                at = probed.at if row.source == "probe" and probed is not None else (told.at if told else _NEVER)
                changed[key] = Changed(at, row.source, old_row.agent.state, row.agent.state)
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
        changes=_with_changes(fleet.changes, changed, entries),
        sessions=before.sessions if fleet.local is before.local and probed is before.probed else _other_sessions(fleet),
    )


def _present(fleet: Fleet) -> Iterator[tuple[AgentKey, LocalAgent | None]]:
    """Every agent that is there: those that the probe sees, and those that mngr told of later than it looked."""
    probed = fleet.probed
    if probed is None:
        yield from ((key, None) for key in fleet.told)
        return
    for identity, local in fleet.local.items():
        yield AgentKey(probed.host_id, identity), local
    unreadable = {agent.agent_id for agent in probed.unreadable}
    for key, told in fleet.told.items():
        if key.host_id != probed.host_id or (
            key.agent_id not in fleet.local and (told.start > probed.at or key.agent_id in unreadable)
        ):
            yield key, None


def _circumstances(fleet: Fleet, told: Told | None, local: LocalAgent | None, defaults: set[str]) -> Circumstances:
    labels = local.labels if local is not None else told.agent.labels if told is not None else {}
    identity = local.id if local is not None else told.agent.id if told is not None else ""
    is_run_s, is_reminded = _reminder(fleet, labels.get("selftest_run", ""), identity, local, told)
    if local is None:
        assert told is not None
        stale_since, silence = _staleness(fleet, told)
        if fleet.probed is not None and told.agent.host.id == fleet.probed.host_id and told.start <= fleet.probed.at:
            stale_since, silence = told.at, _UNREADABLE
        return Circumstances(stale_since=stale_since, silence=silence, is_run_s=is_run_s, is_reminded=is_reminded)
    assert fleet.probed is not None
    on_default = local.session is None or not defaults or local.session.socket in defaults
    list_is_newer = (
        told is not None
        and told.start > fleet.probed.at
        and not told.is_remembered
        and told.agent.state is not local.state
    )
    if local.id in fleet.held_since:
        return Circumstances(list_is_newer, on_default, fleet.held_since[local.id], _UNREADABLE, is_run_s, is_reminded)
    stale_since = None
    if local.state is None and told is not None and not told.is_remembered and local.session is not None:
        stale_since = _staleness(fleet, told)[0]
    is_starting = (
        told is None
        and local.exit_status is None
        and local.created_at is not None
        and 0.0 <= fleet.probed.at - local.created_at < _STARTING_SECONDS
    )
    is_blind = local.session is None and any(server.error for server in fleet.probed.servers)
    return Circumstances(
        list_is_newer, on_default, stale_since, None, is_run_s, is_reminded, is_starting, is_blind
    )  # fmt: skip


def _reminder(fleet: Fleet, run: str, agent_id: str, local: LocalAgent | None, told: Told | None) -> tuple[bool, bool]:
    """Whether a run that is known here has the agent, and whether its turn has ended again after its one reminder."""
    reminders = fleet.probed.reminders if fleet.probed is not None else {}
    if not run or run not in reminders:
        return False, False
    reminded_at = reminders[run].get(agent_id)
    if reminded_at is None:
        return True, False
    condition = local.condition if local is not None else None
    ended_at = condition.since if condition is not None else told.agent.agent_activity_at if told is not None else None
    assert fleet.probed is not None
    has_ended_since = ended_at is not None and ended_at > reminded_at
    return True, has_ended_since or fleet.probed.at - reminded_at >= REMINDER_PATIENCE


def _staleness(fleet: Fleet, told: Told) -> tuple[float | None, str | None]:
    """Since when mngr's word on an agent is old, and why, where something failed."""
    provider = told.agent.host.provider
    if _failed_since(fleet, provider, told.start):
        where = told.agent.host.name or provider
        if provider == LOCAL_PROVIDER:
            return told.at, "mngr cannot read its host"
        return told.at, f"its host {where} ({provider}) does not answer"
    if _failed_since(fleet, ALL, told.start):
        return told.at, "mngr does not answer for its host"
    if told.is_remembered or fleet.silent.get(provider, _NEVER) > told.start:
        return told.at, None
    return None, None


def _failed_since(fleet: Fleet, lane: str, start: float) -> bool:
    failure = fleet.failures.get(lane)
    return failure is not None and failure.start > start


def _machine(fleet: Fleet) -> Host | None:
    """This machine: as mngr described it, else as the probe names it."""
    if fleet.probed is None:
        return None
    host_id = fleet.probed.host_id
    for key in fleet.told:
        if key.host_id == host_id:
            return fleet.told[key].agent.host
    return Host(id=host_id, name=fleet.probed.host_name, provider=LOCAL_PROVIDER)


def _with_changes(
    known: Mapping[AgentKey, tuple[Changed, ...]],
    changed: Mapping[AgentKey, Changed],
    entries: Mapping[AgentKey, Entry],
) -> Mapping[AgentKey, tuple[Changed, ...]]:
    if not changed and all(key in entries for key in known):
        return known
    kept = {key: changes for key, changes in known.items() if key in entries}
    for key, change in changed.items():
        kept[key] = (*kept.get(key, ()), change)[-_CHANGES_KEPT:]
    return kept


def _by_creation(row: Row) -> tuple[float, str, AgentKey]:
    created = row.agent.created_at
    return (created if created is not None and math.isfinite(created) else math.inf, row.agent.name, row.key)


def _other_sessions(fleet: Fleet) -> tuple[TmuxSession, ...]:
    """The tmux sessions that no agent's row stands for: the person's own, and second sessions of an agent."""
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
