"""The line: a pure fold of base, items in order and decisions into one linear branch.

The same base, items, order, decisions and resolutions always give the same commit ids: the committer is ours and its
date is the author's. A commit in conflict is held out of the line and the rest goes on; one that changes nothing any
more is void. Nothing in here knows git: trees are merged and commits written through a port.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from selftest_core.integration.objects import Commit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.integration.merging import Conflict, Merge

COMMITTER = b"selftest-tui <selftest-tui@localhost>"


class Decision(StrEnum):
    """What a person wants of an item. Undecided is laid, so that it can be seen and tested, and never published."""

    KEEP = "keep"
    REVERT = "revert"
    UNDECIDED = "undecided"


class Status(StrEnum):
    """What became of an item on the line."""

    LAID = "laid"
    HELD = "held"
    VOID = "void"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Item:
    """One change that can be laid: a commit over the tree that it was made on.

    `oid` names it for ever (the first source's commit id); `base_tree` and `tree` are what it changes.
    """

    oid: str
    base_tree: str
    tree: str
    author: bytes
    message: bytes


@dataclass(frozen=True, slots=True)
class Laid:
    """One item's place: its status, the commit made of it, and the conflicts that hold it out."""

    item: Item
    status: Status
    commit: str | None = None
    conflicts: tuple[Conflict, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """The whole line: `tip` is the last commit (the base itself where nothing is laid) and `tree` its tree."""

    base: str
    tip: str
    tree: str
    items: tuple[Laid, ...]


class Objects(Protocol):
    """What laying needs of git."""

    def merge(self, base: str, ours: str, theirs: str) -> Merge:
        """Merge two trees over a third."""
        ...

    def write_commit(self, commit: Commit) -> str:
        """Store a commit and return its id."""
        ...


def lay(objects: Objects, base: str, base_tree: str, items: Sequence[Item], decisions: Mapping[str, Decision]) -> Line:
    """Lay the items in their order, those decided as revert left out; an item without a decision is undecided."""
    tip, tree = base, base_tree
    laid: list[Laid] = []
    for item in items:
        if decisions.get(item.oid, Decision.UNDECIDED) is Decision.REVERT:
            laid.append(Laid(item, Status.DROPPED))
            continue
        merged = objects.merge(item.base_tree, tree, item.tree)
        if not merged.is_clean:
            laid.append(Laid(item, Status.HELD, None, merged.conflicts))
        elif merged.tree == tree:
            laid.append(Laid(item, Status.VOID))
        else:
            tree = merged.tree
            tip = objects.write_commit(_commit(item, tree, tip))
            laid.append(Laid(item, Status.LAID, tip))
    return Line(base, tip, tree, tuple(laid))


def _commit(item: Item, tree: str, parent: str) -> Commit:
    # The committer's date is the author's: the same decisions must give the same ids on any day and machine.
    date = b" ".join(item.author.split()[-2:])
    return Commit(tree, (parent,), item.author, COMMITTER + b" " + date, item.message)
