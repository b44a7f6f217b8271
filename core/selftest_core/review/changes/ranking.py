"""The ranking of changes, with a reason for each.

Tests, docs and build files come first, then implementation fixes. Each half is sorted by stated importance, number of
agents with the same change, tests fixed (verified where they were, else as claimed), later changes that build on it,
few changes of other agents in its files, size, and id. The order of commits within a branch is kept.

Only reports and counts are used: real dependencies and conflicts are known of a line, which needs an order first.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.review.changes.collect_changes import Change

LEVELS = ("critical", "high", "normal", "low")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Ranked:
    """A change at its place, with the reason."""

    change: Change
    why: str


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims of an agent beside its commits: their importance, and the tests that it fixed.

    `is_verified`: the tests are not claimed, but what our own run of them showed.
    """

    importance: str | None = None
    turned_green: tuple[str, ...] = ()
    is_verified: bool = False


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts that rank a change. Counts: agents, tests, changes on top of it or in its files, files, lines."""

    level: int
    votes: int
    turned_green: int
    built_on: int
    meets: int
    files: int
    lines: int
    is_verified: bool

    @property
    def key(self) -> tuple[int, ...]:
        """The sort key."""
        return (self.level, -self.votes, -self.turned_green, -self.built_on, self.meets, self.files, self.lines)

    @property
    def why(self) -> str:
        """The facts as text, without zeros."""
        parts = [f"{LEVELS[self.level]} importance", _count(self.votes, "agent")]
        if self.turned_green:
            parts.append(
                f"{_count(self.turned_green, 'test')} fixed{', verified' if self.is_verified else ' as claimed'}"
            )
        if self.built_on:
            parts.append(f"{_count(self.built_on, 'later change')} on top")
        if self.meets:
            parts.append(f"{_count(self.meets, 'other change')} in its files")
        return ", ".join([*parts, _count(self.files, "file"), _count(self.lines, "line")])


def rank(changes: Sequence[Change], claims: Mapping[str, Claims] = _NOTHING) -> tuple[Ranked, ...]:
    """Rank changes. The changes of one agent keep their order; `claims` by agent."""
    branches: dict[str, list[tuple[int, int]]] = {}
    for index, change in enumerate(changes):
        for source in change.sources:
            branches.setdefault(source.agent, []).append((source.position, index))
    before = [_needed(change, changes, branches) for change in changes]
    after: list[list[int]] = [[] for _ in changes]
    for index, needed in enumerate(before):
        for other in needed:
            after[other].append(index)
    waiting = [len(needed) for needed in before]
    facts = _facts(changes, branches, claims)
    keys = [(change.kind.is_implementation, one.key, change.oid) for change, one in zip(changes, facts, strict=True)]
    ready = [(keys[index], index) for index, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    ranked: list[Ranked] = []
    while ready:
        _, index = heapq.heappop(ready)
        ranked.append(Ranked(changes[index], facts[index].why))
        for later in after[index]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (keys[later], later))
    return tuple(ranked)


def _needed(change: Change, changes: Sequence[Change], branches: Mapping[str, list[tuple[int, int]]]) -> set[int]:
    """The changes before this one in its branch, of the same half.

    Positions grow along a branch, and each change uses the source with the smallest position anywhere, so these
    constraints never form a cycle.
    """
    picked = next(source for source in change.sources if source.oid == change.oid)
    earlier = (index for position, index in branches[picked.agent] if position < picked.position)
    return {index for index in earlier if changes[index].kind.is_implementation <= change.kind.is_implementation}


def _facts(
    changes: Sequence[Change], branches: Mapping[str, list[tuple[int, int]]], claims: Mapping[str, Claims]
) -> list[_Facts]:
    touching: defaultdict[str, set[int]] = defaultdict(set)
    for index, change in enumerate(changes):
        for path in change.paths:
            touching[path.path].add(index)
    found = []
    for index, change in enumerate(changes):
        agents = set(change.agents)
        beside = {other for path in change.paths for other in touching[path.path]} - {index}
        own = {source.agent: source.position for source in reversed(change.sources)}
        later = {other for agent, at in own.items() for position, other in branches[agent] if position > at}
        turned_green = {test for agent in agents if agent in claims for test in claims[agent].turned_green}
        found.append(
            _Facts(
                level=_level(change),
                votes=len(agents),
                turned_green=len(turned_green) if change.kind.is_implementation else 0,
                built_on=len(beside & later),
                meets=sum(agents.isdisjoint(changes[other].agents) for other in beside),
                files=len(change.paths),
                lines=change.lines,
                is_verified=all(claims[agent].is_verified for agent in agents if agent in claims),
            )
        )
    return found


def _level(change: Change) -> int:
    stated = ((source.importance or "").lower() for source in change.sources)
    return min((LEVELS.index(level) for level in stated if level in LEVELS), default=LEVELS.index("normal"))


def _count(count: int, word: str) -> str:
    return f"{count} {word if count == 1 else word + 's'}"
