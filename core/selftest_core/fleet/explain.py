"""Evidence for one row: the answers of its sources, newest first, and the one that decided.

Pure; it decides nothing. The answers are untrusted text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.agents import State
from selftest_core.fleet.problems import ALL
from selftest_core.fleet.view import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.agents import AgentKey
    from selftest_core.fleet.fleet_state import Fleet, ListedAgent
    from selftest_core.fleet.observations import LocalAgent
    from selftest_core.fleet.view import Row

_CHANGES_SHOWN = 8


def explain(fleet: Fleet, key: AgentKey) -> tuple[Evidence, ...]:
    """List the evidence for the row of `key`, newest first; empty for an agent that is not in the fleet."""
    entry = fleet.entries.get(key)
    if entry is None:
        return ()
    local = fleet.local.get(key.agent_id) if fleet.probed and fleet.probed.host_id == key.host_id else None
    listed = fleet.listed.get(key)
    lines = [
        *_of_probe(fleet, entry.row, local, listed),
        *_of_mngr(fleet, entry.row, listed),
        *(
            Evidence(change.source, change.at, f"{change.before} became {change.after}")
            for change in reversed([one for one in fleet.changes if one.key == key][-_CHANGES_SHOWN:])
        ),
    ]
    return tuple(sorted(lines, key=lambda line: line.at, reverse=True))


def _of_probe(fleet: Fleet, row: Row, local: LocalAgent | None, listed: ListedAgent | None) -> Iterator[Evidence]:
    if fleet.probed is None:
        return
    if local is None:
        if row.agent.host.id == fleet.probed.host_id:
            yield Evidence("probe", fleet.probed.at, "not seen: mngr's answer is newer than the last look")
        return
    unreadable_since = fleet.unreadable_since.get(local.id)
    at = fleet.probed.at if unreadable_since is None else unreadable_since
    if unreadable_since is not None:
        yield Evidence("probe", fleet.probed.at, "cannot read its data.json; its last state is kept")
    stands = row.source == "probe"
    notes = "; ".join(local.notes)
    if local.state is None:
        is_blind = fleet.entries[row.key].context.is_blind
        word = "no state" if local.session is not None or is_blind else "its tmux session is gone"
        yield Evidence("probe", at, f"{word}: {notes}" if notes else word, stands)
        if stands and row.agent.state is State.UNKNOWN and local.session is not None:
            yield Evidence(
                "probe", at, "it has a tmux session, so it is not stopped; nothing more is known of its type"
            )
    else:
        yield Evidence("probe", at, f"{local.state}: {notes}" if notes else str(local.state), stands)
    if fleet.entries[row.key].context.is_starting and row.agent.state is State.UNKNOWN:
        yield Evidence("probe", at, "it was created a moment ago, so it may not run yet")
    if local.session is not None and not _on_default_server(fleet, local):
        remark = f"its tmux session is on {local.session.socket}, a server that mngr does not ask by default"
        if listed is not None and listed.agent.state is State.STOPPED and row.agent.state is not State.STOPPED:
            remark += "; that is why mngr says STOPPED"
        yield Evidence("probe", at, remark)
    elif _is_contradicted(row, local, listed):
        remark = (
            "mngr says STOPPED, but its tmux session exists: both disagree, and the source with the session decides"
        )
        yield Evidence("probe", at, remark)
    if row.condition is not None and local.condition is row.condition:
        text = f"{row.condition.kind}, by {row.condition.source} ({row.condition.quote})"
        yield Evidence("probe", at if row.condition.since is None else min(row.condition.since, at), text, stands)
    for other in local.other_sessions:
        yield Evidence("probe", at, f"a second session {other.name} of it is on {other.socket}")
    if row.exit_status is not None:
        yield Evidence("probe", at, f"its command left exit status {row.exit_status}")


def _of_mngr(fleet: Fleet, row: Row, listed: ListedAgent | None) -> Iterator[Evidence]:
    if listed is not None:
        word = listed.agent.state_word or str(listed.agent.state)
        if listed.agent.waiting_reason:
            word += f" ({listed.agent.waiting_reason})"
        source = "remembered" if listed.is_remembered else "mngr"
        yield Evidence(source, listed.at, word, stands=row.source == source)
    provider = row.agent.host.provider
    since = listed.start if listed is not None else float("-inf")
    for lane in (provider, ALL):
        failure = fleet.failures.get(lane)
        if failure is not None and failure.start > since:
            kept = "; its last state is kept" if row.stale_since is not None else ""
            yield Evidence("mngr", failure.at, f"{failure.title}{kept}")
    empty = fleet.empty.get(provider)
    if empty is not None and empty > since:
        yield Evidence("mngr", empty, f"listed no agent of {provider}; kept until a list of all providers agrees")
    if row.agent.host.failure_reason and listed is not None:
        yield Evidence("mngr", listed.at, f"its host failed: {row.agent.host.failure_reason}")


def _is_contradicted(row: Row, local: LocalAgent, listed: ListedAgent | None) -> bool:
    """True if mngr says STOPPED of an agent that has a session, and was asked after it started."""
    return (
        listed is not None
        and local.session is not None
        and not listed.is_remembered
        and listed.agent.state is State.STOPPED
        and row.agent.state is not State.STOPPED
        and (local.started_at is None or listed.start > local.started_at)
    )


def _on_default_server(fleet: Fleet, local: LocalAgent) -> bool:
    assert fleet.probed is not None
    assert local.session is not None
    defaults = [server.socket for server in fleet.probed.servers if server.is_default]
    return not defaults or local.session.socket in defaults
