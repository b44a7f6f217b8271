"""Which notifications are due, from the fleet as it is seen over time. Pure: the time is given.

An agent is announced when it comes to need a person, or needs them for another reason than before; what was so when
we began is not news. Agents that need the same thing are one cluster, and a cluster is announced once a minute at
most: those that come meanwhile are announced together when the minute is over, if they still need somebody.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from selftest_core.fleet.attention import is_archived
from selftest_core.fleet.clusters import signature
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.agents import AgentKey
    from selftest_core.fleet.view import FleetView, Row

SECONDS_OF_A_CLUSTER = 60.0
_MOST_NAMES = 3
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Notification:
    """Agents that came to need the same thing. `cluster`: what they have in common; `reason`: one agent's words."""

    cluster: str
    reason: str
    names: tuple[str, ...]

    @property
    def says(self) -> str:
        """One harmless line for a person."""
        shown = ", ".join(map(_harmless, self.names[:_MOST_NAMES]))
        more = f" and {len(self.names) - _MOST_NAMES} more" if len(self.names) > _MOST_NAMES else ""
        return f"{shown}{more}: {_harmless(self.reason)}"[:_LONGEST]


@dataclass(frozen=True, slots=True)
class Announced:
    """What is remembered from view to view. `needs`: the reason of each agent that needs somebody; `open`: those of
    them that are to be announced; `last`: when each cluster was; `is_complete`: every source has answered once."""

    needs: Mapping[AgentKey, str] = field(default_factory=dict)
    open: frozenset[AgentKey] = frozenset()
    last: Mapping[str, float] = field(default_factory=dict)
    seen: frozenset[AgentKey] = frozenset()
    is_complete: bool = False


def see(before: Announced, view: FleetView) -> Announced:
    """Take in a view. An agent whose source is silent counts as it was."""
    if not view.has_local_answer:
        return before
    needs = {row.key: _need(row, before) for row in view.rows}
    known = {key: need for key, need in needs.items() if need}
    changed = {
        key
        for key, need in known.items()
        if before.needs.get(key) != need and (key in before.seen or before.is_complete)
    }
    still = {key for key in before.open if key in known}
    return replace(
        before,
        needs=known,
        open=frozenset(changed | still),
        seen=before.seen | needs.keys(),
        is_complete=before.is_complete or not view.expecting,
    )


def due(before: Announced, view: FleetView, now: float) -> tuple[Announced, tuple[Notification, ...]]:
    """The notifications that are to be made now (`now`: seconds, monotonic), and what is remembered behind them."""
    last = {cluster: at for cluster, at in before.last.items() if now - at < SECONDS_OF_A_CLUSTER}
    clusters: dict[str, list[Row]] = {}
    for row in view.rows:
        if row.key in before.open:
            cluster = signature(before.needs[row.key]) or before.needs[row.key]
            if cluster not in last:
                clusters.setdefault(cluster, []).append(row)
    told = {row.key for rows in clusters.values() for row in rows}
    made = tuple(
        Notification(cluster, before.needs[rows[0].key], tuple(row.agent.name for row in rows))
        for cluster, rows in clusters.items()
    )
    return replace(before, open=before.open - told, last={**last, **dict.fromkeys(clusters, now)}), made


def _need(row: Row, before: Announced) -> str:
    if is_archived(row.agent):
        return ""
    if row.stale_since is not None:
        return before.needs.get(row.key, "")
    return row.attention or ""


def _harmless(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST]).split())
