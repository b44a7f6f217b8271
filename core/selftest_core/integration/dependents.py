"""Who needs whom: what dropping one item of the line would break, and what it would let in.

The fold is the truth, so a drop is simulated by laying again without the item. Only items that touch a path in
common, or a folder that one of them emptied or put a file in the place of, can matter to each other: laying just
those keeps three hundred simulations cheap.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selftest_core.integration.line import Decision, Status, lay

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.integration.changes import PathChange
    from selftest_core.integration.line import Item, Objects


@dataclass(frozen=True, slots=True)
class Dependents:
    """For each laid item: the later ones that need it, and the held ones that its drop would let in (oids)."""

    needed_by: Mapping[str, tuple[str, ...]]
    lets_in: Mapping[str, tuple[str, ...]]


def find_dependents(
    objects: Objects,
    base: str,
    base_tree: str,
    items: Sequence[Item],
    decisions: Mapping[str, Decision],
    paths: Mapping[str, Sequence[PathChange]],
) -> Dependents:
    """Simulate the drop of each item, within the items that it can matter to."""
    needed_by: dict[str, tuple[str, ...]] = {}
    lets_in: dict[str, tuple[str, ...]] = {}
    for group in _related(items, paths):
        before = _statuses(objects, base, base_tree, group, decisions)
        for item in group:
            if before[item.oid] is not Status.LAID:
                continue
            after = _statuses(objects, base, base_tree, group, {**decisions, item.oid: Decision.REVERT})
            broken = [one.oid for one in group if before[one.oid] is Status.LAID and after[one.oid] is Status.HELD]
            freed = [one.oid for one in group if before[one.oid] is Status.HELD and after[one.oid] is Status.LAID]
            if broken:
                needed_by[item.oid] = tuple(broken)
            if freed:
                lets_in[item.oid] = tuple(freed)
    return Dependents(needed_by, lets_in)


def _statuses(
    objects: Objects, base: str, base_tree: str, items: Sequence[Item], decisions: Mapping[str, Decision]
) -> dict[str, Status]:
    line = lay(objects, base, base_tree, (), decisions, joint=items)
    return {placed.item.oid: placed.status for placed in line.items}


def _related(items: Sequence[Item], paths: Mapping[str, Sequence[PathChange]]) -> list[list[Item]]:
    """Items that share a path, directly or through others, in the order of the line. Loners are left out."""
    parent = list(range(len(items)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    touched: dict[str, int] = {}
    emptied: dict[str, int] = {}
    for index, item in enumerate(items):
        for change in paths[item.oid]:
            parent[root(index)] = root(touched.setdefault(change.path, index))
            if change.after is None:
                # git may take what went from here for a renamed folder, and move what others put into it.
                for folder in _folders(change.path):
                    parent[root(index)] = root(emptied.setdefault(folder, index))
    for index, item in enumerate(items):
        for change in paths[item.oid]:
            if change.before is None:
                for folder in _folders(change.path):
                    # A folder that another item has a file in the place of, or moved away.
                    for other in (touched.get(folder), emptied.get(folder)):
                        if other is not None:
                            parent[root(index)] = root(other)
    groups: defaultdict[int, list[Item]] = defaultdict(list)
    for index, item in enumerate(items):
        groups[root(index)].append(item)
    return [group for group in groups.values() if len(group) > 1]


def _folders(path: str) -> list[str]:
    """The folders that a path stands in, the top one excepted: everything stands there."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
