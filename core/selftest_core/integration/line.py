"""The line: a pure fold of base, items in order and decisions into one linear branch.

The same base, items, order, decisions and resolutions always give the same commit ids: the committer is ours and its
date is the author's. A commit in conflict is held out of the line and the rest goes on; one that changes nothing any
more is void. Nothing in here knows git: trees are merged and commits written through a port.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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


def lay(
    objects: Objects,
    base: str,
    base_tree: str,
    items: Sequence[Item],
    decisions: Mapping[str, Decision],
    *,
    joint: Sequence[Item] = (),
) -> Line:
    """Lay the items in their order, those decided as revert left out; an item without a decision is undecided.

    `joint` items come first and become one commit together, yet each is merged, held or dropped by itself, so that
    reverting one leaves all others as they are.
    """
    ground = _Ground(objects, base, base_tree, decisions)
    members = [ground.put(item) for item in joint]
    laid = [member for member in members if member.status is Status.LAID]
    if laid:
        commit = ground.commit(_joint_author(laid), joint_message([member.item for member in laid]))
        members = [replace(one, commit=commit) if one.status is Status.LAID else one for one in members]
    for item in items:
        placed = ground.put(item)
        if placed.status is Status.LAID:
            placed = replace(placed, commit=ground.commit(item.author, item.message))
        members.append(placed)
    return Line(base, ground.tip, ground.tree, tuple(members))


class _Ground:
    """What the next item is laid on."""

    def __init__(self, objects: Objects, base: str, tree: str, decisions: Mapping[str, Decision]) -> None:
        self._objects = objects
        self._decisions = decisions
        self.tip = base
        self.tree = tree

    def put(self, item: Item) -> Laid:
        if self._decisions.get(item.oid, Decision.UNDECIDED) is Decision.REVERT:
            return Laid(item, Status.DROPPED)
        merged = self._objects.merge(item.base_tree, self.tree, item.tree)
        if not merged.is_clean:
            return Laid(item, Status.HELD, None, merged.conflicts)
        if merged.tree == self.tree:
            return Laid(item, Status.VOID)
        self.tree = merged.tree
        return Laid(item, Status.LAID)

    def commit(self, author: bytes, message: bytes) -> str:
        # The committer's date is the author's: the same decisions must give the same ids on any day and machine.
        date = b" ".join(author.split()[-2:])
        made = Commit(self.tree, (self.tip,), author, COMMITTER + b" " + date, message)
        self.tip = self._objects.write_commit(made)
        return self.tip


def joint_message(items: Sequence[Item]) -> bytes:
    """The message of the joint commit: each member's subject, and everybody credited once."""
    count = len(items)
    what = "change" if count == 1 else "changes"
    lines = [f"Tests, docs and build files: {count} {what}".encode(), b""]
    lines += [b"- " + item.message.lstrip(b"\n").split(b"\n", 1)[0].strip() for item in items]
    authors = dict.fromkeys(item.author.rpartition(b">")[0] + b">" for item in items)
    credited = [line for item in items for line in item.message.splitlines() if line.startswith(b"Co-authored-by: ")]
    people = dict.fromkeys([*(b"Co-authored-by: " + author for author in authors), *credited])
    return b"\n".join([*lines, b"", *people]) + b"\n"


def _joint_author(laid: Sequence[Laid]) -> bytes:
    """Ours, dated as the newest member: the time must come from the members, not from a clock."""
    newest = max(laid, key=lambda one: (int(one.item.author.split()[-2]), one.item.oid))
    return COMMITTER + b" " + b" ".join(newest.item.author.split()[-2:])
