"""The candidate branch ("line"): a fold of base, changes in order, decisions and resolutions into commits.

Each change is cherry-picked onto the tree so far. A change in conflict is left out and the rest goes on; a change that
changes nothing becomes no commit. The same input always gives the same commit ids: the committer is fixed, and the
committer date is the author date. git is reached through a port (`PickEngine`) only.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from selftest_core.frozen import dataclass
from selftest_core.git.trees import parts_of
from selftest_core.review.changes.messages import joint_message, squashed_message
from selftest_core.review.resolutions import NO_ANSWERS, resolve_conflicts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.git.merges import Conflict, Merger
    from selftest_core.git.object_store import ObjectStore
    from selftest_core.git.path_cache import Edits, PickTree
    from selftest_core.review.resolutions import Answer, Answers

COMMITTER = b"selftest-tui <selftest-tui@localhost>"


class Decision(StrEnum):
    """A person's decision on a change. Undecided changes are applied, so that they can be tested, and not published."""

    KEEP = "keep"
    REVERT = "revert"
    UNDECIDED = "undecided"


class Status(StrEnum):
    """The result of picking a change: applied, in conflict, no change (empty), or left out because it is reverted."""

    LAID = "laid"
    HELD = "held"
    VOID = "void"
    DROPPED = "dropped"

    @property
    def label(self) -> str:
        """The standard term, for people; the values are stable words of the JSON."""
        return {"laid": "applied", "held": "in conflict", "void": "empty", "dropped": "reverted"}[self.value]


@dataclass(frozen=True, slots=True)
class Item:
    """A change that can be picked: the difference of two trees, with author and message.

    `oid` identifies it for ever: the commit id of its first source.
    """

    oid: str
    base_tree: str
    tree: str
    author: bytes
    message: bytes


@dataclass(frozen=True, slots=True)
class Squash:
    """Items that share one commit. Each is picked by itself, so that reverting one leaves the others as they are.

    `is_joint`: the commit of tests, docs and build files. `text`: its message as a person wrote it, None: made of those
    of its items.
    """

    items: tuple[Item, ...]
    is_joint: bool = False
    text: str | None = None


type Entry = Item | Squash
"""Contents of one commit of the branch."""


@dataclass(frozen=True, slots=True)
class LineItem:
    """An item on the branch: its status, the commit made of it, its unresolved conflicts, or the answers used."""

    item: Item
    status: Status
    commit: str | None = None
    conflicts: tuple[Conflict, ...] = ()
    answers: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """The branch: `tip` is its last commit (the base where nothing is applied) and `tree` the tree of that commit.

    `entries`: what it was built from, whose items are `items`.
    """

    base: str
    tip: str
    tree: str
    items: tuple[LineItem, ...]
    entries: tuple[Entry, ...] = ()

    @property
    def joint_commit(self) -> str:
        """The id of the joint commit of tests, docs and build files, "" where none of its items is applied."""
        joint = {
            item.oid for entry in self.entries if isinstance(entry, Squash) and entry.is_joint for item in entry.items
        }
        return next((one.commit for one in self.items if one.commit and one.item.oid in joint), "")


@dataclass(frozen=True, slots=True)
class PickResult:
    """The result of one pick: its status, the conflicts that stopped it, or the answers that resolved them."""

    status: Status
    conflicts: tuple[Conflict, ...] = ()
    answers: tuple[Answer, ...] = ()


_LAID = PickResult(Status.LAID)
_VOID = PickResult(Status.VOID)
_DROPPED = PickResult(Status.DROPPED)


class PickEngine(Protocol):
    """The operations of git that building a branch needs."""

    @property
    def store(self) -> ObjectStore:
        """The object store that resolved contents are written to."""
        ...

    @property
    def merger(self) -> Merger:
        """Merges texts."""
        ...

    def start(self, tree: str, items: Sequence[Item], *, stored: bool) -> PickTree:
        """Return a tree that these items are about to be picked onto."""
        ...


def build_line(
    engine: PickEngine,
    base: str,
    base_tree: str,
    entries: Sequence[Entry],
    decisions: Mapping[str, Decision],
    *,
    answers: Answers = NO_ANSWERS,
    stored: bool = True,
) -> Line:
    """Pick the items in their order, without those that are reverted; items without a decision are undecided.

    `answers` resolve conflicts. Not `stored`: only ids are computed, and `store_line` writes the objects.
    """
    tree = engine.start(base_tree, items_of(entries), stored=stored)
    tip = base
    line: list[LineItem] = []
    for entry in entries:
        items = items_of([entry])
        results = [(item, _pick_unless_reverted(engine, tree, item, decisions, answers)) for item in items]
        laid = [item for item, result in results if result.status is Status.LAID]
        if laid:
            tip = _commit(tree, tip, *_author_and_message(entry, laid))
        line += [_line_item(item, result, tip) for item, result in results]
    return Line(base, tip, tree.finish(), tuple(line), tuple(entries))


def items_of(entries: Sequence[Entry]) -> list[Item]:
    """The items of entries, in the order in which they are picked."""
    return [item for entry in entries for item in (entry.items if isinstance(entry, Squash) else (entry,))]


def store_line(engine: PickEngine, line: Line, base_tree: str) -> None:
    """Write the commits and trees of a line that was built without storing them.

    Raises RuntimeError where building it again gives another line, which would be a defect.
    """
    out = {one.item.oid: Decision.REVERT for one in line.items if one.status is not Status.LAID}
    answers = {answer.meeting: answer for one in line.items for answer in one.answers}
    again = build_line(engine, line.base, base_tree, line.entries, out, answers=answers)
    if again.tip != line.tip:
        raise RuntimeError("building the branch again gave another branch")


def pick_item(engine: PickEngine, tree: PickTree, item: Item, answers: Answers) -> PickResult:
    """Cherry-pick one item, with these answers to its conflicts."""
    pick = tree.pick((item.base_tree, item.tree))
    if not pick.conflicts:
        return _LAID if tree.apply(pick) else _VOID
    found = resolve_conflicts(pick.conflicts, answers, engine.merger.union)
    if found is None:
        return PickResult(Status.HELD, pick.conflicts)
    is_changed = tree.apply(pick, _edits(engine.store, pick.conflicts, found))
    return PickResult(Status.LAID if is_changed else Status.VOID, (), found)


def _edits(store: ObjectStore, conflicts: Sequence[Conflict], answers: Sequence[Answer]) -> Edits:
    """Store the resolved contents, and return what the paths in conflict hold then."""
    edits = []
    for conflict, answer in zip(conflicts, answers, strict=True):
        result = answer.result
        if result is not None and answer.content is not None:
            store.write(b"blob", answer.content)
        edits.append((parts_of(conflict.path), None if result is None else (result.mode.encode(), result.oid)))
    return tuple(edits)


def _pick_unless_reverted(
    engine: PickEngine, tree: PickTree, item: Item, decisions: Mapping[str, Decision], answers: Answers
) -> PickResult:
    is_reverted = decisions.get(item.oid) is Decision.REVERT
    return _DROPPED if is_reverted else pick_item(engine, tree, item, answers)


def _line_item(item: Item, result: PickResult, tip: str) -> LineItem:
    commit = tip if result.status is Status.LAID else None
    return LineItem(item, result.status, commit, result.conflicts, result.answers)


def _commit(tree: PickTree, tip: str, author: bytes, message: bytes) -> str:
    # The committer date is the author date: the same decisions must give the same ids on any day and machine.
    date = b" ".join(author.rsplit(maxsplit=2)[-2:])
    return tree.commit(tip, author, COMMITTER + b" " + date, message)


def _author_and_message(entry: Entry, laid: Sequence[Item]) -> tuple[bytes, bytes]:
    """The author and the message of the commit of an entry, of which these items are applied."""
    if not isinstance(entry, Squash):
        return entry.author, entry.message
    messages, authors = [item.message for item in laid], [item.author for item in laid]
    if entry.is_joint:
        return _joint_author(laid), joint_message(messages, authors)
    return authors[0], squashed_message(messages, authors, entry.text)


def _joint_author(items: Sequence[Item]) -> bytes:
    """The fixed committer, dated as the newest item: the time must come from the items, not from a clock."""
    newest = max(items, key=lambda item: (int(item.author.split()[-2]), item.oid))
    return COMMITTER + b" " + b" ".join(newest.author.split()[-2:])
