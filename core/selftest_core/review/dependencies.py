"""Who needs whom: what dropping one item of the line would break, and what it would let in.

The fold is the truth, so a drop is simulated by laying again without the item. Only items that touch a path in
common, or a folder that one of them emptied or put a file in the place of, can matter to each other: laying just
those keeps three hundred simulations cheap. A simulation depends on nothing but its group, so after one decision
only the group that it is in is simulated anew; the rest is remembered. Somebody who waits may stop it in the middle:
what was found so far stands, and asking again goes on from there.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from selftest_core.frozen import dataclass
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.resolutions import NO_ANSWERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from selftest_core.git.commit_changes import PathChange
    from selftest_core.review.candidate_branch import Ground, Item
    from selftest_core.review.resolutions import Answers

type Simulations = dict[tuple[object, ...], dict[str, tuple[tuple[str, ...], tuple[str, ...]]]]
"""By group, and in it by the item that was dropped: the items that broke, and those that were let in."""

_MOST_GROUPS = 2_000
_MOST_ORDERS = 64


@dataclass(frozen=True, slots=True)
class Dependents:
    """For each laid item: the later ones that need it, and the held ones that its drop would let in (oids).

    `is_whole` is off where somebody stopped before all was found.
    """

    needed_by: Mapping[str, tuple[str, ...]]
    lets_in: Mapping[str, tuple[str, ...]]
    is_whole: bool = True


class Simulated(Protocol):
    """What simulating needs of git."""

    simulations: Simulations
    related: dict[tuple[str, ...], list[list[Item]]]

    def try_on(self, tree: str, items: Sequence[Item]) -> Ground:
        """A ground for laying that nobody keeps."""
        ...


def find_dependents(
    objects: Simulated,
    base_tree: str,
    items: Sequence[Item],
    decisions: Mapping[str, Decision],
    paths: Mapping[str, Sequence[PathChange]],
    *,
    answers: Answers = NO_ANSWERS,
    should_stop: Callable[[], bool] | None = None,
) -> Dependents:
    """Simulate the drop of each item, within the items that it can matter to."""
    needed_by: dict[str, tuple[str, ...]] = {}
    lets_in: dict[str, tuple[str, ...]] = {}
    known = objects.simulations
    answered = frozenset(answers.values())
    is_whole = True
    order = tuple(item.oid for item in items)
    groups = objects.related.get(order)
    if groups is None:
        if len(objects.related) >= _MOST_ORDERS:
            objects.related.clear()
        groups = objects.related[order] = sorted(_related(items, paths), key=len)
    for group in groups:
        reverted = frozenset(item.oid for item in group if decisions.get(item.oid) is Decision.REVERT)
        key = (base_tree, tuple((item.oid, item.tree) for item in group), reverted, answered)
        if key not in known and len(known) >= _MOST_GROUPS:
            known.clear()
        found = known.setdefault(key, {})
        simulated = _simulate(objects, base_tree, group, reverted, answers, found)
        while is_whole:
            if should_stop is not None and should_stop():
                is_whole = False
            elif next(simulated, None) is None:
                break
        for oid, (broken, freed) in found.items():
            if broken:
                needed_by[oid] = broken
            if freed:
                lets_in[oid] = freed
    return Dependents(needed_by, lets_in, is_whole)


def _simulate(
    objects: Simulated,
    base_tree: str,
    group: Sequence[Item],
    reverted: frozenset[str],
    answers: Answers,
    found: dict[str, tuple[tuple[str, ...], tuple[str, ...]]],
) -> Iterator[str]:
    """Drop one item after the other, adding to `found`; yields each that was not there yet."""
    dropped = [item.oid for item in group if item.oid not in reverted]
    if all(oid in found for oid in dropped):
        return
    before = _statuses(objects.try_on(base_tree, group), group, reverted, answers)
    for oid in dropped:
        if oid in found:
            continue
        broken: list[str] = []
        freed: list[str] = []
        if before[oid] is Status.LAID:
            after = _statuses(objects.try_on(base_tree, group), group, reverted | {oid}, answers)
            for item in group:
                change = (before[item.oid], after[item.oid])
                if change == (Status.LAID, Status.HELD):
                    broken.append(item.oid)
                elif change == (Status.HELD, Status.LAID):
                    freed.append(item.oid)
        found[oid] = (tuple(broken), tuple(freed))
        yield oid


def _statuses(ground: Ground, items: Sequence[Item], reverted: frozenset[str], answers: Answers) -> dict[str, Status]:
    return {item.oid: Status.DROPPED if item.oid in reverted else ground.put(item, answers).status for item in items}


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
