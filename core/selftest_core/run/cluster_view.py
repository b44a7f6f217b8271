"""The clusters of a run: tests that share one cause, with times, hosts and evidence. Pure.

Four kinds: failed and blocked tests, which have ended; and agents that need the user for the same reason or are rate
limited, which can be sent a message. Each test is in at most one cluster.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.agent_types.condition import ASKING, Kind, urgency
from selftest_core.agents import AgentKey
from selftest_core.fleet.clusters import signature
from selftest_core.frozen import dataclass
from selftest_core.run.conduct.circuit_breaker import cluster_key
from selftest_core.run.events import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.actions.agent_actions import Target
    from selftest_core.run.fold import Run, RunRow

ASKING_STAGE = "waiting"
LIMITED_STAGE = "limited"


class ClusterKind(StrEnum):
    """The kind of a cluster. The agents of the last two still run."""

    FAILED = "failed"
    BLOCKED = "blocked"
    ASKING = "asking"
    LIMITED = "limited"


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """Tests with one cause. `key` stays the same in a run.

    `stage`: `launch`, `collection`, `test`, `work`, `pull`, `blocked`; `waiting` or `limited` for agents that run.
    `first_at`, `last_at`: seconds since the epoch, None if unknown. `hosts`: `provider host-id`, each once, of tests
    that had a host. `evidence`: the newest member's whole text, untrusted. `title`: what running agents wait for, from
    the newest; empty for ended tests. `is_pausing`: launching is paused because of it. `is_accepted`: a user accepted
    it.
    """

    key: str
    kind: ClusterKind
    stage: str
    signature: str
    members: tuple[RunRow, ...]
    first_at: float | None
    last_at: float | None
    hosts: tuple[str, ...]
    evidence: str
    title: str = ""
    is_pausing: bool = False
    is_accepted: bool = False

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The members' tests, in the order of joining the cluster."""
        return tuple(row.planned.node_id for row in self.members)


def cluster_rows(run: Run) -> tuple[ClusterRow, ...]:
    """List all clusters: the one that pauses the run first, then those that wait for the user, then by size."""
    place = {name: number for number, name in enumerate(run.order)}
    found: dict[tuple[ClusterKind, str, str], list[RunRow]] = {}
    for row in sorted(run.rows.values(), key=lambda one: place.get(one.name, len(place))):
        told = _kind(row)
        if told is not None:
            found.setdefault(told, []).append(row)
    made = [_cluster(run, kind, stage, told, rows) for (kind, stage, told), rows in found.items()]
    return tuple(sorted(made, key=_urgency))


def unreachable_reason(row: RunRow) -> str:
    """Return why this test's agent cannot be messaged now; empty if it can."""
    if row.phase is Phase.WAITING:
        return "it has no agent yet"
    if row.phase in (Phase.STOPPING, Phase.ENDED):
        return "its agent has ended"
    if row.member is None or not row.member.host_id:
        return "its agent is being launched"
    return ""


def message_targets(rows: Iterable[RunRow]) -> tuple[Target, ...]:
    """Return the agents of these tests that can be messaged, as targets for `actions.agent_actions.steer`."""
    from selftest_core.actions.agent_actions import Target

    members = [row.member for row in rows if not unreachable_reason(row) and row.member is not None]
    return tuple(Target(AgentKey(one.host_id, one.agent_id), one.address, one.name, one.provider) for one in members)


def _urgency(one: ClusterRow) -> tuple[bool, int, float, int]:
    """Sort the cluster that pauses the run first, then those that wait for the user by cost and time, then by size."""
    if one.kind is not ClusterKind.ASKING:
        return not one.is_pausing, urgency(None) + 1, 0.0, -len(one.members)
    kinds = (Kind(row.asks) if row.asks in Kind else None for row in one.members)
    return not one.is_pausing, min(map(urgency, kinds)), one.first_at or math.inf, -len(one.members)


def _kind(row: RunRow) -> tuple[ClusterKind, str, str] | None:
    if row.end is not None and row.end.group.is_clustered:
        kind = ClusterKind.FAILED if row.end.is_failure else ClusterKind.BLOCKED
        return kind, row.stage, row.signature
    if row.end is None and row.attention:
        # One answer fits all of a cluster only if they ask the same: of dialogs, word by word.
        asked = row.attention if row.asks in ASKING else signature(row.attention)
        return ClusterKind.ASKING, ASKING_STAGE, asked
    if row.end is None and row.limited:
        return ClusterKind.LIMITED, LIMITED_STAGE, signature(row.limited)
    return None


def _cluster(run: Run, kind: ClusterKind, stage: str, told: str, rows: list[RunRow]) -> ClusterRow:
    key = cluster_key(stage, told)
    times = [at for row in rows if (at := _seen_at(row)) is not None]
    newest = rows[-1]
    return ClusterRow(
        key, kind, stage, told, tuple(rows),
        first_at=min(times, default=None),
        last_at=max(times, default=None),
        hosts=tuple(dict.fromkeys(_host(row) for row in rows if row.member is not None and row.member.host_id)),
        evidence=newest.text or newest.attention or newest.limited,
        title="" if newest.end is not None else newest.attention or newest.limited,
        is_pausing=run.paused_by == "cluster" and run.paused_signature == key,
        is_accepted=key in run.accepted,
    )  # fmt: skip


def _seen_at(row: RunRow) -> float | None:
    return row.ended_at if row.end is not None else row.noticed_at if row.attention else row.limited_at


def _host(row: RunRow) -> str:
    return f"{row.member.provider} {row.member.host_id}" if row.member is not None else ""
