"""The fleet as a fold: observations in, one truth out, with the evidence for it.

Pure: no clock, no IO. Observations may come late, twice or out of order: what counts is when each was asked. What
is kept is the newest word of each source, so a source that fails takes nothing away; only a complete answer of
mngr, or for this machine the probe, can say that an agent is gone.

It must not raise on anything that an observation can hold: names, labels and titles are an agent's own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, assert_never

from selftest_core.agents import LOCAL_PROVIDER, Agent, AgentKey, Host
from selftest_core.fleet.explain import explain
from selftest_core.fleet.fleet_state import Fleet
from selftest_core.fleet.merge_state import Told
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
    """The fleet after one more observation; `fleet` itself stays as it was."""
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
    """What is shown at `now`. Rows in which nothing changed are the same objects as in the view before."""
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
    """What a later process may show until it has answers of its own: every row, and how old its word is."""
    remembered = []
    for row in fleet.rows:
        told = fleet.told.get(row.key)
        if row.stale_since is not None:
            as_of = row.stale_since
        elif fleet.probed is not None and row.source == "probe":
            as_of = fleet.probed.at
        else:
            as_of = told.at if told is not None else _NEVER
        if math.isfinite(as_of):
            remembered.append(RememberedAgent(row.agent, as_of))
    return tuple(remembered)


def _expecting(fleet: Fleet) -> frozenset[str]:
    expecting = set()
    if fleet.probed is None and not {LOCAL_PROVIDER, ALL} & (fleet.complete.keys() | fleet.failures.keys()):
        expecting.add(LOCAL_PROVIDER)
    if not (ALL in fleet.complete or ALL in fleet.failures):
        expecting.add("remote")
    answered = fleet.complete.keys() | fleet.failures.keys() | fleet.silent.keys()
    if ALL not in fleet.failures:
        expecting.update(
            told.agent.host.provider
            for told in fleet.told.values()
            if told.is_remembered
            and told.agent.host.provider not in answered
            and told.agent.host.provider != LOCAL_PROVIDER
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
    held: dict[str, float] = {}
    for unreadable in probed.unreadable:
        identity = unreadable.agent_id
        if identity in local or identity not in known or before is None:
            continue
        local[identity] = known[identity]
        held[identity] = fleet.held_since.get(identity, before.at)
    lanes = {**fleet.lanes, PROBE: LaneStatus(PROBE, answered_at=probed.at, seconds=probed.seconds)}
    after = replace(
        fleet,
        local=local,
        held_since=held,
        probed=probed,
        lanes=lanes,
        lost=_lost_servers(fleet, probed, local) if is_same_host else (),
    )
    return with_rows(after, fleet)


def _lost_servers(fleet: Fleet, probed: Probed, local: Mapping[str, LocalAgent]) -> tuple[LostServer, ...]:
    """Servers that ended with two or more agents since the last look, and those of before whose agents are down still.

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
    told = dict(fleet.told)
    for agent in listed.agents:
        old = told.get(agent.key)
        if old is None or old.is_remembered or start >= old.start:
            told[agent.key] = Told(_settled(agent, old), start, listed.at)
    complete = dict(fleet.complete)
    for lane in _completed(fleet, listed, failed):
        complete[lane] = max(start, complete.get(lane, _NEVER))
    silent = dict(fleet.silent)
    if listed.provider is not None and not listed.agents and not failed:
        silent[listed.provider] = max(start, silent.get(listed.provider, _NEVER))
    gone = {key for key, word in told.items() if _is_over(word, complete)}
    local = fleet.local
    if gone:
        told = {key: word for key, word in told.items() if key not in gone}
        if fleet.probed is not None and start > fleet.probed.at:
            host_id = fleet.probed.host_id
            local = {name: agent for name, agent in local.items() if AgentKey(host_id, name) not in gone}
    failures = {
        lane: failure
        for lane, failure in fleet.failures.items()
        if failure.start >= complete.get(lane, _NEVER) and not _is_mended(lane, failure, listed, failed, start)
    }
    for lane, errors in failed.items():
        if start >= max(complete.get(lane, _NEVER), failures[lane].start if lane in failures else _NEVER):
            failures[lane] = failure_of_errors(lane, errors, start, listed.at)
    after = replace(
        fleet,
        told=told,
        local=local,
        complete=complete,
        silent=silent,
        failures=failures,
        lanes=_lanes_after(fleet, listed, failed),
    )
    return with_rows(after, fleet)


def _is_over(word: Told, complete: Mapping[str, float]) -> bool:
    since = complete.get(word.agent.host.provider)
    return since is not None and (word.is_remembered or word.start < since)


def _is_mended(lane: str, failure: Failure, listed: Listed, failed: Mapping[str, Any], start: float) -> bool:
    """True where an unfiltered answer speaks well of what failed before, a host that nobody knows included."""
    return listed.provider is None and ALL not in failed and lane not in failed and failure.start < start


def _errors_by_lane(fleet: Fleet, listed: Listed) -> dict[str, list[ListingError]]:
    """The errors by what they put in doubt: a provider, a host that we know nothing of, or everything asked."""
    lanes: dict[str, list[ListingError]] = {}
    for error in listed.errors:
        lanes.setdefault(_lane_of(error, fleet, listed), []).append(error)
    return lanes


def _lane_of(error: ListingError, fleet: Fleet, listed: Listed) -> str:
    if error.provider:
        return error.provider
    if listed.provider is not None:
        return listed.provider
    agents = [*listed.agents, *(told.agent for told in fleet.told.values())]
    if error.host_id is not None:
        if fleet.probed is not None and fleet.probed.host_id == error.host_id:
            return LOCAL_PROVIDER
        providers = (agent.host.provider for agent in agents if agent.host.id == error.host_id)
        return next(providers, f"host {error.host_id}")
    if error.agent_id is not None:
        return next((agent.host.provider for agent in agents if agent.id == error.agent_id), ALL)
    return ALL


def _completed(fleet: Fleet, listed: Listed, failed: Mapping[str, Any]) -> set[str]:
    """The providers whose every agent is in this answer."""
    if ALL in failed:
        return set()
    if listed.provider is None:
        known = {told.agent.host.provider for told in fleet.told.values()}
        known |= {agent.host.provider for agent in listed.agents} | fleet.complete.keys() | {ALL, LOCAL_PROVIDER}
        return known - failed.keys()
    if listed.provider in failed:
        return set()
    is_proof = (
        bool(listed.agents)
        or listed.provider == LOCAL_PROVIDER
        or all(told.agent.host.provider != listed.provider for told in fleet.told.values())
    )
    return {listed.provider} if is_proof else set()


def _settled(agent: Agent, old: Told | None) -> Agent:
    """The agent as told before where only clocks moved: mngr works idle seconds and boot times out anew each time."""
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
    told = dict(fleet.told)
    for word in remembered.agents:
        as_of = min(word.as_of, remembered.at)
        old = told.get(word.agent.key)
        if old is not None and (not old.is_remembered or old.start >= as_of):
            continue
        fresh = Told(word.agent, as_of, as_of, is_remembered=True)
        if not _is_over(fresh, fleet.complete):
            told[word.agent.key] = fresh
    return with_rows(replace(fleet, told=told), fleet)
