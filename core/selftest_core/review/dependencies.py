"""Dependencies between changes: which changes a drop would put in conflict, and which conflicts it would resolve.

Each drop is simulated by picking again without that item, since estimates are wrong too often. Items can only matter to
each other when they touch a common path, or a folder that one of them emptied or replaced by a file: picking within
such a group keeps three hundred simulations cheap. A simulation depends on nothing but its group, so after a decision
only one group is simulated again. The search can be stopped in the middle, and goes on from there when called again.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from selftest_core.frozen import dataclass
from selftest_core.review.candidate_branch import Decision, PickEngine, Status, pick_item
from selftest_core.review.resolutions import NO_ANSWERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from selftest_core.git.commit_changes import PathChange
    from selftest_core.git.path_cache import PickTree
    from selftest_core.review.candidate_branch import Item
    from selftest_core.review.resolutions import Answers

type Drops = dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
"""By the item that was dropped: the items that are in conflict then, and those that no longer are."""

_MOST_GROUPS = 2_000
_MOST_ORDERS = 64


@dataclass(frozen=True, slots=True)
class Dependents:
    """For each applied item: the later items that need it, and the items whose conflicts its drop resolves (oids).

    `is_whole` is off where the search was stopped early.
    """

    needed_by: Mapping[str, tuple[str, ...]]
    lets_in: Mapping[str, tuple[str, ...]]
    is_whole: bool = True


class DropCache:
    """Simulated drops by group, and groups by order of the items."""

    def __init__(self) -> None:
        self._drops: dict[tuple[object, ...], Drops] = {}
        self._groups: dict[tuple[str, ...], list[list[Item]]] = {}

    def drops(self, key: tuple[object, ...]) -> Drops:
        """Return the drops of a group, to be added to."""
        if key not in self._drops and len(self._drops) >= _MOST_GROUPS:
            self._drops.clear()
        return self._drops.setdefault(key, {})

    def groups(self, items: Sequence[Item], paths: Mapping[str, Sequence[PathChange]]) -> list[list[Item]]:
        """Return the groups of items that can matter to each other, the smallest first."""
        order = tuple(item.oid for item in items)
        groups = self._groups.get(order)
        if groups is None:
            if len(self._groups) >= _MOST_ORDERS:
                self._groups.clear()
            groups = self._groups[order] = sorted(_related(items, paths), key=len)
        return groups


class TrialEngine(PickEngine, Protocol):
    """The operations of git that simulations need."""

    @property
    def drops(self) -> DropCache:
        """Simulated drops so far."""
        ...

    def start_trial(self, tree: str, items: Sequence[Item]) -> PickTree:
        """Return a tree for a branch that is thrown away."""
        ...


def find_dependents(
    engine: TrialEngine,
    base_tree: str,
    items: Sequence[Item],
    decisions: Mapping[str, Decision],
    paths: Mapping[str, Sequence[PathChange]],
    *,
    answers: Answers = NO_ANSWERS,
    should_stop: Callable[[], bool] | None = None,
) -> Dependents:
    """Simulate the drop of each item, within its group."""
    needed_by: dict[str, tuple[str, ...]] = {}
    lets_in: dict[str, tuple[str, ...]] = {}
    answered = frozenset(answers.values())
    is_whole = True
    for group in engine.drops.groups(items, paths):
        reverted = frozenset(item.oid for item in group if decisions.get(item.oid) is Decision.REVERT)
        drops = engine.drops.drops((base_tree, tuple((item.oid, item.tree) for item in group), reverted, answered))
        simulated = _simulate(engine, base_tree, group, reverted, answers, drops)
        while is_whole:
            if should_stop is not None and should_stop():
                is_whole = False
            elif next(simulated, None) is None:
                break
        for oid, (broken, freed) in drops.items():
            if broken:
                needed_by[oid] = broken
            if freed:
                lets_in[oid] = freed
    return Dependents(needed_by, lets_in, is_whole)


def _simulate(
    engine: TrialEngine,
    base_tree: str,
    group: Sequence[Item],
    reverted: frozenset[str],
    answers: Answers,
    drops: Drops,
) -> Iterator[str]:
    """Drop one item after the other, and add the results to `drops`; yields each item that was not there yet."""
    wanted = [item.oid for item in group if item.oid not in reverted]
    if all(oid in drops for oid in wanted):
        return
    before = _pick_all(engine, base_tree, group, reverted, answers)
    for oid in wanted:
        if oid in drops:
            continue
        broken: list[str] = []
        freed: list[str] = []
        if before[oid] is Status.LAID:
            after = _pick_all(engine, base_tree, group, reverted | {oid}, answers)
            for item in group:
                change = (before[item.oid], after[item.oid])
                if change == (Status.LAID, Status.HELD):
                    broken.append(item.oid)
                elif change == (Status.HELD, Status.LAID):
                    freed.append(item.oid)
        drops[oid] = (tuple(broken), tuple(freed))
        yield oid


def _pick_all(
    engine: TrialEngine, base_tree: str, group: Sequence[Item], reverted: frozenset[str], answers: Answers
) -> dict[str, Status]:
    tree = engine.start_trial(base_tree, group)
    return {
        item.oid: Status.DROPPED if item.oid in reverted else pick_item(engine, tree, item, answers).status
        for item in group
    }


def _related(items: Sequence[Item], paths: Mapping[str, Sequence[PathChange]]) -> list[list[Item]]:
    """Group the items that share a path, directly or through others, in their order; single items are left out."""
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
                # git may take this deletion for a renamed folder, and move what others add to that folder.
                for folder in _folders(change.path):
                    parent[root(index)] = root(emptied.setdefault(folder, index))
    for index, item in enumerate(items):
        for change in paths[item.oid]:
            if change.before is None:
                for folder in _folders(change.path):
                    # A folder that another item replaced by a file, or moved away.
                    for other in (touched.get(folder), emptied.get(folder)):
                        if other is not None:
                            parent[root(index)] = root(other)
    groups: defaultdict[int, list[Item]] = defaultdict(list)
    for index, item in enumerate(items):
        groups[root(index)].append(item)
    return [group for group in groups.values() if len(group) > 1]


def _folders(path: str) -> list[str]:
    """The folders above a path, without the top one, which contains everything."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
