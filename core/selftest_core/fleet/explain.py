"""Why a row says what it says: which source said what and when, newest first, and whose word was taken.

Pure. The words are the sources' own (and so untrusted text); nothing is decided here, only told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from selftest_core.agents import AgentKey, State
from selftest_core.fleet.problems import ALL
from selftest_core.fleet.view import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.fleet.fleet_state import Fleet
    from selftest_core.fleet.merge_state import Told
    from selftest_core.fleet.observations import LocalAgent
    from selftest_core.fleet.view import Row


class Changed(NamedTuple):
    """A state that gave way to another, at the time of the answer that said so."""

    at: float
    source: str
    before: State
    after: State


def explain(fleet: Fleet, key: AgentKey) -> tuple[Evidence, ...]:
    """The evidence behind the row of `key`, newest first; nothing for an agent that is not in the fleet."""
    entry = fleet.entries.get(key)
    if entry is None:
        return ()
    local = fleet.local.get(key.agent_id) if fleet.probed and fleet.probed.host_id == key.host_id else None
    told = fleet.told.get(key)
    lines = [
        *_of_probe(fleet, entry.row, local, told),
        *_of_mngr(fleet, entry.row, told),
        *(
            Evidence(change.source, change.at, f"{change.before} became {change.after}")
            for change in reversed(fleet.changes.get(key, ()))
        ),
    ]
    return tuple(sorted(lines, key=lambda line: line.at, reverse=True))


def _of_probe(fleet: Fleet, row: Row, local: LocalAgent | None, told: Told | None) -> Iterator[Evidence]:
    if fleet.probed is None:
        return
    if local is None:
        if row.agent.host.id == fleet.probed.host_id:
            yield Evidence("probe", fleet.probed.at, "has not seen it: mngr's answer is newer than the last look")
        return
    held_since = fleet.held_since.get(local.id)
    at = fleet.probed.at if held_since is None else held_since
    if held_since is not None:
        yield Evidence("probe", fleet.probed.at, "cannot read its data.json; kept as it was last seen")
    stands = row.source == "probe"
    said = "; ".join(local.says)
    if local.state is None:
        is_blind = fleet.entries[row.key].circumstances.is_blind
        word = "no state" if local.session is not None or is_blind else "its tmux session is gone"
        yield Evidence("probe", at, f"{word}: {said}" if said else word, stands)
        if stands and row.agent.state is State.UNKNOWN and local.session is not None:
            yield Evidence("probe", at, "it has a tmux session, so it is not stopped; its type says no more than that")
    else:
        yield Evidence("probe", at, f"{local.state}: {said}" if said else str(local.state), stands)
    if fleet.entries[row.key].circumstances.is_starting and row.agent.state is State.UNKNOWN:
        yield Evidence("probe", at, "it has only just been made, so it may not run yet")
    if local.session is not None and not _on_default_server(fleet, local):
        remark = f"its tmux session is on {local.session.socket}, a server on which mngr does not look by itself"
        if told is not None and told.agent.state is State.STOPPED and row.agent.state is not State.STOPPED:
            remark += "; that is why mngr says STOPPED"
        yield Evidence("probe", at, remark)
    elif _is_contradicted(row, local, told):
        remark = "mngr says STOPPED, but its tmux session is there: both disagree, and who has the session is believed"
        yield Evidence("probe", at, remark)
    if row.condition is not None and local.condition is row.condition:
        said = f"{row.condition.kind}, by {row.condition.source} ({row.condition.says})"
        yield Evidence("probe", at if row.condition.since is None else min(row.condition.since, at), said, stands)
    for other in local.other_sessions:
        yield Evidence("probe", at, f"a second session {other.name} of it is on {other.socket}")
    if row.exit_status is not None:
        yield Evidence("probe", at, f"its command left exit status {row.exit_status}")


def _of_mngr(fleet: Fleet, row: Row, told: Told | None) -> Iterator[Evidence]:
    if told is None:
        yield from ()
    else:
        word = told.agent.state_word or str(told.agent.state)
        if told.agent.waiting_reason:
            word += f" ({told.agent.waiting_reason})"
        source = "remembered" if told.is_remembered else "mngr"
        yield Evidence(source, told.at, word, stands=row.source == source)
    provider = row.agent.host.provider
    since = told.start if told is not None else float("-inf")
    for lane in (provider, ALL):
        failure = fleet.failures.get(lane)
        if failure is not None and failure.start > since:
            kept = "; kept as it was last seen" if row.stale_since is not None else ""
            yield Evidence("mngr", failure.at, f"{failure.title}{kept}")
    silent = fleet.silent.get(provider)
    if silent is not None and silent > since:
        yield Evidence("mngr", silent, f"told of no agent of {provider}; kept until a list of all providers agrees")
    if row.agent.host.failure_reason and told is not None:
        yield Evidence("mngr", told.at, f"its host failed: {row.agent.host.failure_reason}")


def _is_contradicted(row: Row, local: LocalAgent, told: Told | None) -> bool:
    """True where mngr says STOPPED of an agent that has a session, and was asked after it started."""
    return (
        told is not None
        and local.session is not None
        and not told.is_remembered
        and told.agent.state is State.STOPPED
        and row.agent.state is not State.STOPPED
        and (local.started_at is None or told.start > local.started_at)
    )


def _on_default_server(fleet: Fleet, local: LocalAgent) -> bool:
    assert fleet.probed is not None
    assert local.session is not None
    defaults = [server.socket for server in fleet.probed.servers if server.is_default]
    return not defaults or local.session.socket in defaults
