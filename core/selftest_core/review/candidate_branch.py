"""The line: a pure fold of base, items in order and decisions into one linear branch.

The same base, items, order, decisions and resolutions always give the same commit ids: the committer is ours and its
date is the author's. A commit in conflict is held out of the line and the rest goes on; one that changes nothing any
more is void. Nothing in here knows git: trees are merged and commits written through a port.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from selftest_core.frozen import dataclass
from selftest_core.review.resolutions import NO_ANSWERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.git.merge_tree import Conflict
    from selftest_core.review.resolutions import Answer, Answers

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
    """One item's place: its status, the commit made of it, the conflicts that hold it out, or what settled them."""

    item: Item
    status: Status
    commit: str | None = None
    conflicts: tuple[Conflict, ...] = ()
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """The whole line: `tip` is the last commit (the base itself where nothing is laid) and `tree` its tree.

    The first `joint` items are members of the joint commit.
    """

    base: str
    tip: str
    tree: str
    items: tuple[Laid, ...]
    joint: int = 0

    @property
    def joint_commit(self) -> str:
        """The id of the joint commit, "" where none of its members is laid."""
        return next((one.commit for one in self.items[: self.joint] if one.commit), "")


@dataclass(frozen=True, slots=True)
class Placing:
    """What became of an item that was put on the line: laid, void, or held by `conflicts`."""

    status: Status
    conflicts: tuple[Conflict, ...] = ()
    answers: tuple[Answer, ...] = ()


class Ground(Protocol):
    """The tree that items are put on, one after the other."""

    def put(self, item: Item, answers: Answers) -> Placing:
        """Put a change on top where it can be, settled by these answers where it is in conflict."""
        ...

    def seal(self) -> str:
        """The id of the tree as it is now."""
        ...

    def finish(self) -> str:
        """The same, at the end of the line."""
        ...

    def commit(self, parent: str, author: bytes, committer: bytes, message: bytes) -> str:
        """The id of a commit of the tree as it is now; stored where the ground stores what is laid."""
        ...


class Objects(Protocol):
    """What laying needs of git."""

    def stand_on(self, tree: str, items: Sequence[Item], *, stored: bool) -> Ground:
        """A ground that holds this tree, on which these items are about to be put."""
        ...


def lay(
    objects: Objects,
    base: str,
    base_tree: str,
    items: Sequence[Item],
    decisions: Mapping[str, Decision],
    *,
    joint: Sequence[Item] = (),
    answers: Answers = NO_ANSWERS,
    stored: bool = True,
) -> Line:
    """Lay the items in their order, those decided as revert left out; an item without a decision is undecided.

    `joint` items come first and become one commit together, yet each is merged, held or dropped by itself, so that
    reverting one leaves all others as they are. `answers` settle conflicts. Not `stored`: only the ids are worked out,
    which is all that looking at a line needs; `store` writes what is behind them.
    """
    ground = objects.stand_on(base_tree, [*joint, *items], stored=stored)
    tip = base
    placings = [(item, _put(ground, item, decisions, answers)) for item in joint]
    together = [item for item, placing in placings if placing.status is Status.LAID]
    if together:
        tip = _commit(ground, tip, _joint_author(together), joint_message(together))
    members = [_laid(item, placing, tip) for item, placing in placings]
    for item in items:
        placing = _put(ground, item, decisions, answers)
        if placing.status is Status.LAID:
            tip = _commit(ground, tip, item.author, item.message)
        members.append(_laid(item, placing, tip))
    return Line(base, tip, ground.finish(), tuple(members), len(joint))


def store(objects: Objects, line: Line, base_tree: str) -> None:
    """Write the commits and trees of a line that was laid without storing them.

    Raises RuntimeError where laying what is laid again gives another line, which would be our mistake.
    """
    laid = [one.item for one in line.items if one.status is Status.LAID]
    count = sum(one.status is Status.LAID for one in line.items[: line.joint])
    answers = {answer.meeting: answer for one in line.items for answer in one.answers}
    again = lay(objects, line.base, base_tree, laid[count:], {}, joint=laid[:count], answers=answers)
    if again.tip != line.tip:
        raise RuntimeError("laying a line again gave another line")


_DROPPED = Placing(Status.DROPPED)


def _put(ground: Ground, item: Item, decisions: Mapping[str, Decision], answers: Answers) -> Placing:
    is_reverted = decisions.get(item.oid) is Decision.REVERT
    return _DROPPED if is_reverted else ground.put(item, answers)


def _laid(item: Item, placing: Placing, tip: str) -> Laid:
    commit = tip if placing.status is Status.LAID else None
    return Laid(item, placing.status, commit, placing.conflicts, placing.answers)


def _commit(ground: Ground, tip: str, author: bytes, message: bytes) -> str:
    # The committer's date is the author's: the same decisions must give the same ids on any day and machine.
    date = b" ".join(author.rsplit(maxsplit=2)[-2:])
    return ground.commit(tip, author, COMMITTER + b" " + date, message)


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


def _joint_author(items: Sequence[Item]) -> bytes:
    """Ours, dated as the newest member: the time must come from the members, not from a clock."""
    newest = max(items, key=lambda item: (int(item.author.split()[-2]), item.oid))
    return COMMITTER + b" " + b" ".join(newest.author.split()[-2:])
