"""In which order changes are laid, with the reason of each place in words.

Tests, docs and build files come first, together; then each implementation fix: by the importance that its agent
stated, by how many agents made the same change, by size, and by id, so that the order is the same every time.
The order of the commits within a branch is never broken: what builds on a change comes after it.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.integration.gathering import Change

LEVELS = ("critical", "high", "normal", "low")


@dataclass(frozen=True, slots=True)
class Ranked:
    """A change at its place. `why` is said beside it."""

    change: Change
    why: str


def rank(changes: Sequence[Change]) -> tuple[Ranked, ...]:
    """Put changes in order. `changes` of one agent keep theirs, whatever their rank."""
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
    keys = [_key(change) for change in changes]
    ready = [(keys[index], index) for index, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    ranked: list[Ranked] = []
    while ready:
        _, index = heapq.heappop(ready)
        ranked.append(Ranked(changes[index], _why(changes[index])))
        for later in after[index]:
            waiting[later] -= 1
            if not waiting[later]:
                heapq.heappush(ready, (keys[later], later))
    return tuple(ranked)


def _needed(change: Change, changes: Sequence[Change], branches: Mapping[str, list[tuple[int, int]]]) -> set[int]:
    """The changes that stand before the laid source in its own branch, of the same half of the line.

    Positions grow along a branch and each change is laid from the source that stands earliest anywhere, so these
    constraints never form a circle.
    """
    laid = next(source for source in change.sources if source.oid == change.oid)
    earlier = (index for position, index in branches[laid.agent] if position < laid.position)
    return {index for index in earlier if changes[index].kind.is_implementation <= change.kind.is_implementation}


def _level(change: Change) -> int:
    stated = [LEVELS.index(said) for source in change.sources if (said := (source.importance or "").lower()) in LEVELS]
    return min(stated, default=LEVELS.index("normal"))


def _key(change: Change) -> tuple[bool, int, int, int, str]:
    return (change.kind.is_implementation, _level(change), -len(change.agents), len(change.paths), change.oid)


def _why(change: Change) -> str:
    agents = len(change.agents)
    paths = len(change.paths)
    parts = [
        f"{LEVELS[_level(change)]} importance",
        f"{agents} agent{'s' if agents != 1 else ''}",
        f"{paths} file{'s' if paths != 1 else ''}",
    ]
    return ", ".join(parts)
