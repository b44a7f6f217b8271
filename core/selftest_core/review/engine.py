"""The engine of a review: one object store, merges and counts on top of it, and everything that is cached.

Decisions are applied again and again with small differences. What one application computes (picks, merges, lines,
simulated drops) is kept here for the next. Emptying it changes no result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from selftest_core.git.line_counts import LineCounter
from selftest_core.git.merges import Merger
from selftest_core.git.object_store import ObjectStore
from selftest_core.git.path_cache import PathCache, WholeTree
from selftest_core.review.changes.parts import Shapes
from selftest_core.review.dependencies import DropCache

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.git.path_cache import PickTree
    from selftest_core.review.candidate_branch import Item, Line


class Engine:
    """Builds candidate branches for one review. For one thread at a time."""

    def __init__(self, store: ObjectStore, *, is_plain: bool = False) -> None:
        self.store = store
        self.merger = Merger(store)
        self.lines: dict[object, Line] = {}
        """Lines that were built without storing them, by everything that determines them."""
        self.drops = DropCache()
        self.shapes = Shapes(store)
        self._paths = None if is_plain else PathCache(store, self.merger)
        self._counter = LineCounter(store)

    @classmethod
    def open(cls, folder: Path, source: Path, environ: Mapping[str, str], *, is_plain: bool = False) -> Self:
        """Open the engine on its repository at `folder`, made where it is missing, over git folder `source`.

        `is_plain`: merge whole trees, cache no paths, store everything. Raises RefusedError as `ObjectStore.open` does.
        """
        return cls(ObjectStore.open(folder, source, environ), is_plain=is_plain)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes; the repository stays."""
        self.merger.close()
        self._counter.close()
        self.store.close()

    def start(self, tree: str, items: Sequence[Item], *, stored: bool) -> PickTree:
        """Return a tree that these items are about to be picked onto. Not `stored`: ids are computed, not written.

        Raises RefusedError where a partial clone lacks folders of this tree.
        """
        self.store.require_complete(tree)
        if self._paths is None:
            return WholeTree(self.store, self.merger, tree)
        return self._paths.start(tree, [(item.base_tree, item.tree) for item in items], stored=stored)

    def start_trial(self, tree: str, items: Sequence[Item]) -> PickTree:
        """Return the same for a branch that is thrown away."""
        if self._paths is None:
            return WholeTree(self.store, self.merger, tree)
        return self._paths.start_trial(tree, [(item.base_tree, item.tree) for item in items])

    def count_lines(self, before: str, after: str) -> tuple[int, int]:
        """Count the lines added and removed between two trees; `after` may be a line's tree that was never stored."""
        return self._counter.count(before, after, None if self._paths is None else self._paths.edited.get(after))
