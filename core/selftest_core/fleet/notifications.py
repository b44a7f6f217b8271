"""Notifications that are due, from successive views of the fleet. Pure: the time is given.

An agent is announced when it begins to need the user, or needs one for another reason; needs that existed at the start
are not announced. Agents with the same need are one cluster, announced once a minute at most: those that come in
between are announced together after the minute, if they still need the user.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import lru_cache
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
    """Agents that began to need the same. `cluster`: the signature that they share; `reason`: of one of them."""

    cluster: str
    reason: str
    names: tuple[str, ...]

    @property
    def line(self) -> str:
        """One line for people, without control characters."""
        shown = ", ".join(map(_harmless, self.names[:_MOST_NAMES]))
        more = f" and {len(self.names) - _MOST_NAMES} more" if len(self.names) > _MOST_NAMES else ""
        return f"{shown}{more}: {_harmless(self.reason)}"[:_LONGEST]


@dataclass(frozen=True, slots=True)
class Announced:
    """State between two views. `needs`: the reason of each agent that needs the user; `open`: those of them that are
    still to be announced; `last`: when each cluster was announced; `is_complete`: every source has answered once;
    `seen`: the agents of all views before that."""

    needs: Mapping[AgentKey, str] = field(default_factory=dict)
    open: frozenset[AgentKey] = frozenset()
    last: Mapping[str, float] = field(default_factory=dict)
    seen: frozenset[AgentKey] = frozenset()
    is_complete: bool = False


def see(before: Announced, view: FleetView) -> Announced:
    """Note the needs of a view. An agent whose source does not answer keeps its need."""
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
    is_complete = before.is_complete or not view.expecting
    return replace(
        before,
        needs=known,
        open=frozenset(changed | still),
        seen=frozenset() if is_complete else before.seen | needs.keys(),
        is_complete=is_complete,
    )


def due(before: Announced, view: FleetView, now: float) -> tuple[Announced, tuple[Notification, ...]]:
    """Return the state after, and the notifications to show now (`now`: seconds, monotonic)."""
    last = {cluster: at for cluster, at in before.last.items() if now - at < SECONDS_OF_A_CLUSTER}
    clusters: dict[str, list[Row]] = {}
    for row in view.rows:
        if row.key in before.open:
            cluster = _cluster(before.needs[row.key])
            if cluster not in last:
                clusters.setdefault(cluster, []).append(row)
    announced = {row.key for rows in clusters.values() for row in rows}
    made = tuple(
        Notification(cluster, before.needs[rows[0].key], tuple(row.agent.name for row in rows))
        for cluster, rows in clusters.items()
    )
    return replace(before, open=before.open - announced, last={**last, **dict.fromkeys(clusters, now)}), made


@lru_cache(maxsize=1024)
def _cluster(need: str) -> str:
    """Return the signature of a need. Cached: what is held back is looked at again with each view, for a minute."""
    return signature(need) or need


def _need(row: Row, before: Announced) -> str:
    if is_archived(row.agent):
        return ""
    if row.stale_since is not None:
        return before.needs.get(row.key, "")
    return row.attention or ""


def _harmless(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST]).split())
