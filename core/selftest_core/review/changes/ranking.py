"""The ranking of changes, with a reason for each.

Tests, docs and build files come first, then implementation fixes. Each half is sorted by stated importance, number of
agents with the same change, tests fixed (verified where they were, else as claimed), later changes that build on it,
few changes of other agents in its files, size, and id. The order of commits within a branch is kept, and the members
of a row stay together: all its agents speak for it.

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
    """The facts that rank a row. Counts: texts, agents, tests, changes on top of it or in its files, files, lines."""

    level: int
    texts: int
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
        texts = f"{_count(self.texts, 'text')} of " if self.texts > 1 else ""
        parts = [f"{LEVELS[self.level]} importance", texts + _count(self.votes, "agent")]
        if self.turned_green:
            parts.append(
                f"{_count(self.turned_green, 'test')} fixed{', verified' if self.is_verified else ' as claimed'}"
            )
        if self.built_on:
            parts.append(f"{_count(self.built_on, 'later change')} on top")
        if self.meets:
            parts.append(f"{_count(self.meets, 'other change')} in its files")
        return ", ".join([*parts, _count(self.files, "file"), _count(self.lines, "line")])


def rank(
    changes: Sequence[Change], claims: Mapping[str, Claims] = _NOTHING, rows: Sequence[Sequence[str]] = ()
) -> tuple[Ranked, ...]:
    """Rank changes. The changes of one agent keep their order; `claims` by agent.

    `rows`: oids of changes that say the same; a change that is in none has a row of its own.
    """
    grouped = {oid: number for number, row in enumerate(rows) for oid in row}
    members: defaultdict[int, list[int]] = defaultdict(list)
    for index, change in enumerate(changes):
        members[grouped.get(change.oid, len(rows) + index)].append(index)
    units = list(members.values())
    row_of = {index: number for number, unit in enumerate(units) for index in unit}
    branches: dict[str, list[tuple[int, int]]] = {}
    for index, change in enumerate(changes):
        for source in change.sources:
            branches.setdefault(source.agent, []).append((source.position, index))
    needed = [
        {row_of[other] for index in unit for other in _needed(changes[index], changes, branches)} - {number}
        for number, unit in enumerate(units)
    ]
    after: list[list[int]] = [[] for _ in units]
    for number, others in enumerate(needed):
        for other in others:
            after[other].append(number)
    waiting = [len(others) for others in needed]
    facts = _facts(changes, units, branches, claims)
    keys = [
        (changes[unit[0]].kind.is_implementation, one.key, min(changes[index].oid for index in unit))
        for unit, one in zip(units, facts, strict=True)
    ]
    ready = [(keys[number], number) for number, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    left = dict.fromkeys(number for number, count in enumerate(waiting) if count)
    ranked: list[Ranked] = []
    while ready or left:
        if not ready:
            # Two agents made the same two changes, each in another order: one of the rows comes first.
            number = min(left, key=lambda one: (waiting[one], keys[one]))
            waiting[number] = 0
            del left[number]
            ready.append((keys[number], number))
        _, number = heapq.heappop(ready)
        ranked += [Ranked(changes[index], facts[number].why) for index in units[number]]
        for later in after[number]:
            waiting[later] -= 1
            if not waiting[later] and later in left:
                del left[later]
                heapq.heappush(ready, (keys[later], later))
    return tuple(ranked)


def hot_files(changes: Sequence[Change]) -> dict[str, int]:
    """Count the agents that changed each path, where more than one did: the most first, then by path."""
    agents: defaultdict[str, set[str]] = defaultdict(set)
    for change in changes:
        for path in change.paths:
            agents[path.path].update(change.agents)
    counts = {path: len(by) for path, by in agents.items() if len(by) > 1}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _needed(change: Change, changes: Sequence[Change], branches: Mapping[str, list[tuple[int, int]]]) -> set[int]:
    """The changes before this one in its branch, of the same half.

    Positions grow along a branch, and each change uses the source with the smallest position anywhere, so these
    constraints never form a cycle between changes; they may between rows.
    """
    picked = next(source for source in change.sources if source.oid == change.oid)
    earlier = (index for position, index in branches[picked.agent] if position < picked.position)
    return {index for index in earlier if changes[index].kind.is_implementation <= change.kind.is_implementation}


def _facts(
    changes: Sequence[Change],
    units: Sequence[Sequence[int]],
    branches: Mapping[str, list[tuple[int, int]]],
    claims: Mapping[str, Claims],
) -> list[_Facts]:
    """Find the facts of each row, a list of indexes of changes."""
    touching: defaultdict[str, set[int]] = defaultdict(set)
    for index, change in enumerate(changes):
        for path in change.paths:
            touching[path.path].add(index)
    found = []
    for unit in units:
        members = [changes[index] for index in unit]
        agents = {agent for change in members for agent in change.agents}
        beside = {other for change in members for path in change.paths for other in touching[path.path]} - set(unit)
        own = {source.agent: source.position for change in members for source in reversed(change.sources)}
        later = {other for agent, at in own.items() for position, other in branches[agent] if position > at}
        turned_green = {test for agent in agents if agent in claims for test in claims[agent].turned_green}
        smallest = min(members, key=lambda change: change.lines)
        found.append(
            _Facts(
                level=min(_level(change) for change in members),
                texts=len(members),
                votes=len(agents),
                turned_green=len(turned_green) if smallest.kind.is_implementation else 0,
                built_on=len(beside & later),
                meets=sum(agents.isdisjoint(changes[other].agents) for other in beside),
                files=len(smallest.paths),
                lines=smallest.lines,
                is_verified=all(claims[agent].is_verified for agent in agents if agent in claims),
            )
        )
    return found


def _level(change: Change) -> int:
    stated = ((source.importance or "").lower() for source in change.sources)
    return min((LEVELS.index(level) for level in stated if level in LEVELS), default=LEVELS.index("normal"))


def _count(count: int, word: str) -> str:
    return f"{count} {word if count == 1 else word + 's'}"
