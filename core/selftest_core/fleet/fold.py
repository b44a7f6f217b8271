"""Fold of the fleet: observations in, one state of all agents out, with the evidence for it.

Pure: no clock, no IO. Observations may come late, twice or out of order: what counts is when each source was asked. The
newest answer of each source is kept, so a failed source removes nothing; only a complete answer of mngr, or for this
machine the probe, removes an agent. Rows are made by `selftest_core.fleet.rows`, from rules in `fleet.state_rules`.

It must not raise on anything that an observation can hold: names, labels and titles are an agent's own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, assert_never

from selftest_core.agents import LOCAL_PROVIDER, Agent, AgentKey, Host
from selftest_core.fleet.explain import explain
from selftest_core.fleet.fleet_state import Fleet, ListedAgent
from selftest_core.fleet.observations import (
    Listed,
    ListFailed,
    LocalAgent,
    Metered,
    Probed,
    Remembered,
    RememberedAgent,
)
from selftest_core.fleet.problems import (
    ALL,
    PROBE,
    Failure,
    LostServer,
    failure_of_errors,
    failure_of_list,
    lanes_of,
    problems_of,
)
from selftest_core.fleet.rows import with_rows
from selftest_core.fleet.view import FleetView, LaneStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.fleet.observations import ListingError, Observation

__all__ = ["Fleet", "apply", "to_remember", "view"]

_NONE: Mapping[Any, Any] = MappingProxyType({})
_NEVER = -math.inf


def apply(fleet: Fleet, observation: Observation) -> Fleet:
    """Return the fleet with one more observation; `fleet` itself is not changed."""
    match observation:
        case Probed():
            return _after_probe(fleet, observation)
        case Listed():
            return _after_list(fleet, observation)
        case ListFailed():
            return _after_failure(fleet, observation)
        case Remembered():
            return _after_remembering(fleet, observation)
        case Metered():
            return with_rows(replace(fleet, usages=observation.usages), fleet)
        case _:
            assert_never(observation)


def view(fleet: Fleet, now: float) -> FleetView:
    """Return the view at `now`. Unchanged rows are the same objects as in the view before."""
    return FleetView(
        at=now,
        rows=fleet.rows,
        sessions=fleet.sessions,
        servers=fleet.probed.servers if fleet.probed is not None else (),
        problems=problems_of(fleet.failures, fleet.probed, fleet.lost),
        lanes=lanes_of(fleet.lanes),
        expecting=_expecting(fleet),
        has_local_answer=fleet.probed is not None or LOCAL_PROVIDER in fleet.complete,
        explain=lambda key: explain(fleet, key),
    )


def to_remember(fleet: Fleet) -> tuple[RememberedAgent, ...]:
    """List every agent with the time of its answer, for a later process to show until it has its own answers."""
    remembered = []
    for row in fleet.rows:
        listed = fleet.listed.get(row.key)
        if row.stale_since is not None:
            as_of = row.stale_since
        elif fleet.probed is not None and row.source == "probe":
            as_of = fleet.probed.at
        else:
            as_of = listed.at if listed is not None else _NEVER
        if math.isfinite(as_of):
            remembered.append(RememberedAgent(row.agent, as_of))
    return tuple(remembered)


def _expecting(fleet: Fleet) -> frozenset[str]:
    """Return the providers, or "remote", whose first answer has not come yet."""
    expecting = set()
    if fleet.probed is None and not {LOCAL_PROVIDER, ALL} & (fleet.complete.keys() | fleet.failures.keys()):
        expecting.add(LOCAL_PROVIDER)
    if not (ALL in fleet.complete or ALL in fleet.failures):
        expecting.add("remote")
    answered = fleet.complete.keys() | fleet.failures.keys() | fleet.empty.keys()
    if ALL not in fleet.failures:
        expecting.update(
            listed.agent.host.provider
            for listed in fleet.listed.values()
            if listed.is_remembered
            and listed.agent.host.provider not in answered
            and listed.agent.host.provider != LOCAL_PROVIDER
        )
    return frozenset(expecting)


# The probe


def _after_probe(fleet: Fleet, probed: Probed) -> Fleet:
    before = fleet.probed
    if before is not None and not probed.at >= before.at:
        return fleet
    is_same_host = before is not None and before.host_id == probed.host_id
    known = fleet.local if is_same_host else _NONE
    local: dict[str, LocalAgent] = {}
    for agent in probed.agents:
        old = known.get(agent.id)
        local[agent.id] = old if old is not None and old == agent else agent
    unreadable_since: dict[str, float] = {}
    for unreadable in probed.unreadable:
        identity = unreadable.agent_id
        if identity in local or identity not in known or before is None:
            continue
        local[identity] = known[identity]
        unreadable_since[identity] = fleet.unreadable_since.get(identity, before.at)
    lanes = {**fleet.lanes, PROBE: LaneStatus(PROBE, answered_at=probed.at, seconds=probed.seconds)}
    after = replace(
        fleet,
        local=local,
        unreadable_since=unreadable_since,
        probed=probed,
        lanes=lanes,
        lost=_lost_servers(fleet, probed, local) if is_same_host else (),
    )
    return with_rows(after, fleet)


def _lost_servers(fleet: Fleet, probed: Probed, local: Mapping[str, LocalAgent]) -> tuple[LostServer, ...]:
    """List servers that ended with two or more agents since the last look, and earlier ones whose agents are still
    down.

    One agent is no sign: stopping the last agent ends its server too.
    """
    living = {server.socket for server in probed.servers if server.sessions and not server.error}
    lost = {
        server.socket: server.agents
        for server in fleet.lost
        if server.socket not in living and any(_is_down(local.get(key.agent_id)) for key in server.agents)
    }
    gone: dict[str, set[AgentKey]] = {}
    for identity, agent in fleet.local.items():
        if agent.session is not None and agent.session.socket not in living and _is_down(local.get(identity)):
            gone.setdefault(agent.session.socket, set()).add(AgentKey(probed.host_id, identity))
    for socket, keys in gone.items():
        if len(keys) > 1:
            lost[socket] = frozenset(keys) | lost.get(socket, frozenset())
    return tuple(LostServer(socket, lost[socket]) for socket in sorted(lost))


def _is_down(agent: LocalAgent | None) -> bool:
    return agent is not None and agent.session is None


# The list


def _after_list(fleet: Fleet, listed: Listed) -> Fleet:
    start = listed.at - max(listed.seconds, 0.0)
    failed = _errors_by_lane(fleet, listed)
    known = dict(fleet.listed)
    for agent in listed.agents:
        old = known.get(agent.key)
        if old is None or old.is_remembered or start >= old.start:
            known[agent.key] = ListedAgent(_without_clock_changes(agent, old), start, listed.at)
    complete = dict(fleet.complete)
    for lane in _completed(fleet, listed, failed):
        complete[lane] = max(start, complete.get(lane, _NEVER))
    empty = dict(fleet.empty)
    if listed.provider is not None and not listed.agents and not failed:
        empty[listed.provider] = max(start, empty.get(listed.provider, _NEVER))
    gone = {key for key, one in known.items() if _is_gone(one, complete)}
    local = fleet.local
    if gone:
        known = {key: one for key, one in known.items() if key not in gone}
        if fleet.probed is not None and start > fleet.probed.at:
            host_id = fleet.probed.host_id
            local = {name: agent for name, agent in local.items() if AgentKey(host_id, name) not in gone}
    failures = {
        lane: failure
        for lane, failure in fleet.failures.items()
        if failure.start >= complete.get(lane, _NEVER) and not _is_over(lane, failure, listed, failed, start)
    }
    for lane, errors in failed.items():
        if start >= max(complete.get(lane, _NEVER), failures[lane].start if lane in failures else _NEVER):
            failures[lane] = failure_of_errors(lane, errors, start, listed.at)
    after = replace(
        fleet,
        listed=known,
        local=local,
        complete=complete,
        empty=empty,
        failures=failures,
        lanes=_lanes_after(fleet, listed, failed),
    )
    return with_rows(after, fleet)


def _is_gone(listed: ListedAgent, complete: Mapping[str, float]) -> bool:
    """True if a later complete answer of its provider does not have the agent."""
    since = complete.get(listed.agent.host.provider)
    return since is not None and (listed.is_remembered or listed.start < since)


def _is_over(lane: str, failure: Failure, listed: Listed, failed: Mapping[str, Any], start: float) -> bool:
    """True if an unfiltered answer came without this failure, which may be of a host that is not known."""
    return listed.provider is None and ALL not in failed and lane not in failed and failure.start < start


def _errors_by_lane(fleet: Fleet, listed: Listed) -> dict[str, list[ListingError]]:
    """Group errors by the lane that they affect: a provider, an unknown host, or all."""
    lanes: dict[str, list[ListingError]] = {}
    for error in listed.errors:
        lanes.setdefault(_lane_of(error, fleet, listed), []).append(error)
    return lanes


def _lane_of(error: ListingError, fleet: Fleet, listed: Listed) -> str:
    if error.provider:
        return error.provider
    if listed.provider is not None:
        return listed.provider
    agents = [*listed.agents, *(known.agent for known in fleet.listed.values())]
    if error.host_id is not None:
        if fleet.probed is not None and fleet.probed.host_id == error.host_id:
            return LOCAL_PROVIDER
        providers = (agent.host.provider for agent in agents if agent.host.id == error.host_id)
        return next(providers, f"host {error.host_id}")
    if error.agent_id is not None:
        return next((agent.host.provider for agent in agents if agent.id == error.agent_id), ALL)
    return ALL


def _completed(fleet: Fleet, listed: Listed, failed: Mapping[str, Any]) -> set[str]:
    """Return the providers all of whose agents are in this answer."""
    if ALL in failed:
        return set()
    if listed.provider is None:
        known = {each.agent.host.provider for each in fleet.listed.values()}
        known |= {agent.host.provider for agent in listed.agents} | fleet.complete.keys() | {ALL, LOCAL_PROVIDER}
        return known - failed.keys()
    if listed.provider in failed:
        return set()
    is_proof = (
        bool(listed.agents)
        or listed.provider == LOCAL_PROVIDER
        or all(each.agent.host.provider != listed.provider for each in fleet.listed.values())
    )
    return {listed.provider} if is_proof else set()


def _without_clock_changes(agent: Agent, old: ListedAgent | None) -> Agent:
    """Return the earlier agent where only clocks differ: mngr computes idle seconds and boot times anew each time."""
    if old is None:
        return agent
    before = old.agent
    if before == agent:
        return before
    host = agent.host
    if host != before.host and _same_boot(host, before.host):
        host = before.host
    still = replace(agent, idle_seconds=before.idle_seconds, host=host)
    return before if still == before else replace(agent, host=host)


def _same_boot(host: Host, before: Host) -> bool:
    if host.boot_time is None or before.boot_time is None or abs(host.boot_time - before.boot_time) > 5.0:
        return False
    return replace(host, boot_time=before.boot_time) == before


def _lanes_after(fleet: Fleet, listed: Listed, failed: Mapping[str, Any]) -> dict[str, LaneStatus]:
    lanes = dict(fleet.lanes)
    asked = {listed.provider or ALL}
    if listed.provider is None:
        asked |= {agent.host.provider for agent in listed.agents} | failed.keys()
        asked |= {lane for lane in lanes if lane != PROBE}
    else:
        asked |= failed.keys()
    for lane in asked:
        old = lanes.get(lane) or LaneStatus(lane)
        if listed.at < max(old.answered_at or _NEVER, old.failed_at or _NEVER):
            continue
        if lane in failed:
            lanes[lane] = replace(old, failed_at=listed.at)
        else:
            seconds = listed.seconds if lane == (listed.provider or ALL) else old.seconds
            lanes[lane] = LaneStatus(lane, answered_at=listed.at, seconds=seconds)
    return lanes


def _after_failure(fleet: Fleet, failed: ListFailed) -> Fleet:
    failure = failure_of_list(failed)
    lane = failure.lane
    old = fleet.failures.get(lane)
    if failure.start < fleet.complete.get(lane, _NEVER) or (old is not None and failure.start < old.start):
        return fleet
    status = fleet.lanes.get(lane) or LaneStatus(lane)
    after = replace(
        fleet,
        failures={**fleet.failures, lane: failure},
        lanes={**fleet.lanes, lane: replace(status, failed_at=failed.at, seconds=failed.seconds)},
    )
    return with_rows(after, fleet)


def _after_remembering(fleet: Fleet, remembered: Remembered) -> Fleet:
    known = dict(fleet.listed)
    for each in remembered.agents:
        as_of = min(each.as_of, remembered.at)
        old = known.get(each.agent.key)
        if old is not None and (not old.is_remembered or old.start >= as_of):
            continue
        listed = ListedAgent(each.agent, as_of, as_of, is_remembered=True)
        if not _is_gone(listed, fleet.complete):
            known[each.agent.key] = listed
    return with_rows(replace(fleet, listed=known), fleet)
