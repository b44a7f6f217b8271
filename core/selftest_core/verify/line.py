"""The trees of a review's line that verification asks for: prefixes, selections, and the base with the new tests."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.git.command import Git
from selftest_core.review.candidate_branch import Status, build_line
from selftest_core.review.changes.kinds import Kind, kind_of_path
from selftest_core.review.resolutions import answers_of
from selftest_core.verify.schedule import Item

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.engine import Engine
    from selftest_core.verify.ownership import Owned


class ReviewLine:
    """The applied changes of a review, as `schedule.Line`. For the thread that has the engine."""

    def __init__(self, engine: Engine, reviewed: Reviewed, own_trees: Mapping[str, str]) -> None:
        laid = {one.item.oid for one in reviewed.line.items if one.status is Status.LAID}
        self.changes = tuple(change for change in reviewed.order if change.oid in laid)
        self.items: Sequence[Item] = ()
        self._engine = engine
        self._own_trees = own_trees
        self._base = reviewed.plan.base
        self._base_tree = engine.store.tree_of(reviewed.plan.base)
        self._answers = answers_of(reviewed.decisions.resolutions.values())
        self._trees: dict[tuple[int, ...], str | None] = {}

    def assign(self, owned: Mapping[str, Owned]) -> None:
        """Take in which tests each change owns."""
        self.items = tuple(_item(change, owned[change.oid], self._own_trees) for change in self.changes)

    def prefix(self, count: int) -> str:
        """Return the tree with the first `count` changes."""
        tree = self.only(range(count))
        assert tree is not None  # they are all applied on the candidate, in this order
        return tree

    def only(self, places: Sequence[int]) -> str | None:
        """Return the tree of the base with these changes, in this order; None where they conflict."""
        key = tuple(places)
        if key not in self._trees:
            items = [self.changes[place].item for place in key]
            line = build_line(self._engine, self._base, self._base_tree, items, {}, answers=self._answers)
            is_whole = all(one.status is not Status.HELD for one in line.items)
            self._trees[key] = line.tree if is_whole else None
        return self._trees[key]

    def before(self) -> str:
        """Return the tree of the base with the test files of the candidate that any change touches."""
        paths = {one.path for change in self.changes for one in change.paths if kind_of_path(one.path) is Kind.TEST}
        return with_files_of(self._engine.store.git, self._base_tree, self.prefix(len(self.changes)), paths)


def with_files_of(git: Git, tree: str, other: str, paths: set[str]) -> str:
    """Return `tree` with these files as they are in `other`; a file that is not there goes."""
    if not paths:
        return tree
    with tempfile.TemporaryDirectory(dir=git.git_dir, prefix="index-") as folder:
        own = Git(git.git_dir, {})
        own.environment = {**git.environment, "GIT_INDEX_FILE": str(Path(folder) / "index")}
        own.ask("read-tree", tree)
        listed = own.ask("ls-tree", "-r", "-z", other)
        entries = {path: words for words, _, path in (line.partition("\t") for line in listed.split("\0") if line)}
        lines = []
        for path in sorted(paths):
            if path in entries:
                mode, _, oid = entries[path].split()
                lines.append(f"{mode} {oid}\t{path}")
            else:
                lines.append(f"0 {'0' * 40}\t{path}")
        own.ask("update-index", "-z", "--index-info", text="".join(f"{line}\0" for line in lines))
        return own.ask("write-tree").strip()


def _item(change: Change, owned: Owned, own_trees: Mapping[str, str]) -> Item:
    claimed = frozenset(test for test, is_green in owned.claimed.items() if is_green)
    own = [own_trees[agent] for agent in change.agents if agent in own_trees]
    return Item(change.oid, owned.own, claimed, own[0] if own else None)
