"""Laying path by path: what most changes need of a merge is three comparisons of ids, and the rest is remembered.

A change that git could see a rename in, or that meets folders which came or went, is given to git whole, as is
anything else that is not a file on both sides: the rest of a tree does not matter to what is left. Two edits of one
file are merged by git too, but as trees of that file alone, so that the answer holds wherever the same three contents
meet again. So laying a line anew after one decision asks git about little or nothing.

All that is kept here is a pure function of ids; throwing it away changes no result. What is published is proved
without it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.git.objects import TREE_MODE, Commit, encode_commit, is_oid, object_id
from selftest_core.git.trees import LiveTree, TreeReader, parts_of, path_of
from selftest_core.review.candidate_branch import Placing, Status
from selftest_core.review.resolutions import settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from selftest_core.git.engine import Engine
    from selftest_core.git.merge_tree import Conflict, Side
    from selftest_core.git.trees import Entry, Parts
    from selftest_core.review.candidate_branch import Item
    from selftest_core.review.resolutions import Answer, Answers

type Delta = tuple[tuple[Parts, Entry | None], ...]
"""Files and what they have afterwards, None where they go."""

_MOST_STEPS = 60_000
_MOST_CONTENTS = 60_000
_MOST_LINES = 64
_NOTHING = "000000"
_FILES = (b"100644", b"100755")
_NAME = b"selftest-tui-path"
_LAID = Placing(Status.LAID)
_VOID = Placing(Status.VOID)


@dataclass(frozen=True, slots=True)
class _Change:
    parts: Parts
    before: Entry | None
    after: Entry | None


@dataclass(frozen=True, slots=True)
class _Step:
    """What putting one item on one tree comes to. `delta` leaves out what is in conflict; `after`: the tree then."""

    delta: Delta
    conflicts: tuple[Conflict, ...] = ()
    after: str | None = None


@dataclass(frozen=True, slots=True)
class _Content:
    """Three contents of one file, merged; None: git did not see a file's conflict in it."""

    entry: Entry | None
    conflict: Conflict | None


class PathCache:
    """What one engine remembers of paths, contents and steps."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.reader = TreeReader(engine)
        self.steps: dict[tuple[str, str, str], _Step] = {}
        self.commits: dict[tuple[str, str, bytes, bytes], str] = {}
        self._changes: dict[tuple[str, str], tuple[_Change, ...]] = {}
        self._contents: dict[tuple[Entry, Entry, Entry], _Content] = {}
        # The files of the trees that were laid last, and what they have there.
        self.laid: dict[str, dict[Parts, Entry | None]] = {}

    def stand_on(self, tree: str, items: Sequence[Item], *, stored: bool) -> PathGround:
        """The ground that these items are about to be put on; their changes are read in one go."""
        wanted = dict.fromkeys((item.base_tree, item.tree) for item in items)
        missing = [pair for pair in wanted if pair not in self._changes]
        if missing:
            self._changes.update(_read_changes(self.engine, missing))
        return PathGround(self, tree, stored=stored)

    def try_on(self, tree: str, items: Sequence[Item]) -> PathGround:
        """The same for a line that nobody keeps: no step of it is remembered, so few trees need an id."""
        ground = self.stand_on(tree, items, stored=False)
        ground.is_kept = False
        return ground

    def changes(self, item: Item) -> tuple[_Change, ...]:
        """What an item changes, path by path."""
        key = (item.base_tree, item.tree)
        if key not in self._changes:
            self._changes.update(_read_changes(self.engine, [key]))
        return self._changes[key]

    def remember(self, key: tuple[str, str, str], step: _Step) -> None:
        """Keep a step; when there are very many, the oldest line is as good as none."""
        if len(self.steps) >= _MOST_STEPS:
            self.steps.clear()
        self.steps[key] = step

    def merge_content(self, before: Entry, ours: Entry, theirs: Entry) -> _Content:
        """Merge three contents of one file; its path does not matter to that."""
        key = (before, ours, theirs)
        known = self._contents.get(key)
        if known is None:
            if len(self._contents) >= _MOST_CONTENTS:
                self._contents.clear()
            known = self._contents[key] = self._merge_content(before, ours, theirs)
        return known

    def _merge_content(self, before: Entry, ours: Entry, theirs: Entry) -> _Content:
        trees = [
            self.engine.write(b"tree", mode + b" " + _NAME + b"\0" + bytes.fromhex(oid))
            for mode, oid in (before, ours, theirs)
        ]
        merged = self.engine.merger.merge(*trees)
        if merged.is_clean:
            return _Content(self.reader.find(merged.tree, (_NAME,)), None)
        conflict = merged.conflicts[0]
        is_plain = len(merged.conflicts) == 1 and conflict.path.encode() == _NAME
        return _Content(None, conflict if is_plain else None)


class PathGround:
    """A tree that items are put on. `stored`: its trees and commits are written, not only given their ids."""

    def __init__(self, cache: PathCache, tree: str, *, stored: bool) -> None:
        self._cache = cache
        self._engine = cache.engine
        self._tree_now = LiveTree(cache.reader, tree)
        self._tree: str | None = tree
        self._is_stored = stored
        self._overlay: dict[Parts, Entry | None] = {}
        # Remembered steps that the tree in memory does not have yet: most lines begin as another one did.
        self._waiting: list[Delta] = []
        self.is_kept = True

    def put(self, item: Item, answers: Answers) -> Placing:
        """Put a change on top, where it can be."""
        if not self.is_kept:
            return self._try(item, answers)
        before = self.seal()
        key = (before, item.base_tree, item.tree)
        step = self._cache.steps.get(key)
        if step is None:
            step = self._whole(item, before) if (picked := self._pick(item)) is None else picked
            self._cache.remember(key, step)
        delta = step.delta
        settled: tuple[Answer, ...] = ()
        if step.conflicts:
            found = settle(step.conflicts, answers, self._engine.unite)
            if found is None:
                return Placing(Status.HELD, step.conflicts)
            settled = found
            delta = (*delta, *self._settled(step.conflicts, settled))
        self._apply(delta)
        self._tree = step.after if delta and not settled else None if delta else before
        if self.seal() == before:
            return Placing(Status.VOID, (), settled) if settled else _VOID
        if settled:
            return Placing(Status.LAID, (), settled)
        if step.after is None:
            self._cache.remember(key, replace(step, after=self.seal()))
        return _LAID

    def _try(self, item: Item, answers: Answers) -> Placing:
        """The same without a tree's id for each step."""
        step = self._pick(item)
        if step is None:
            step = self._whole(item, self.seal())
        delta = step.delta
        if step.conflicts:
            settled = settle(step.conflicts, answers, self._engine.unite)
            if settled is None:
                return Placing(Status.HELD, step.conflicts)
            answered = self._settled(step.conflicts, settled)
            delta = (*delta, *(one for one in answered if self._live.find(one[0]) != one[1]))
        self._apply(delta)
        self._tree = None if delta else self._tree
        return Placing(Status.LAID if delta else Status.VOID)

    def _apply(self, delta: Delta) -> None:
        self._waiting.append(delta)
        self._overlay.update(delta)

    @property
    def _live(self) -> LiveTree:
        for delta in self._waiting:
            for parts, entry in delta:
                self._tree_now.put(parts, entry)
        self._waiting.clear()
        return self._tree_now

    def seal(self) -> str:
        """The id of the tree as it is now."""
        if self._tree is None:
            self._tree = self._live.seal()
        return self._tree

    def finish(self) -> str:
        """The id of the tree at the end of a line, which is remembered with the files that were changed."""
        laid = self._cache.laid
        tree = self.seal()
        laid.pop(tree, None)
        laid[tree] = self._overlay
        if len(laid) > _MOST_LINES:
            del laid[next(iter(laid))]
        return tree

    def commit(self, parent: str, author: bytes, committer: bytes, message: bytes) -> str:
        """The id of a commit of the tree as it is now."""
        tree = self.seal()
        if self._is_stored:
            self._live.flush()
            return self._engine.write_commit(Commit(tree, (parent,), author, committer, message))
        known = self._cache.commits
        key = (tree, parent, author, message)
        oid = known.get(key)
        if oid is None:
            if len(known) >= _MOST_STEPS:
                known.clear()
            oid = object_id(b"commit", encode_commit(Commit(tree, (parent,), author, committer, message)))
            known[key] = oid
        return oid

    def _pick(self, item: Item) -> _Step | None:
        """What a change comes to, path by path; None where that is for git to say."""
        changes = self._cache.changes(item)
        has_additions = any(change.before is None for change in changes)
        delta: list[tuple[Parts, Entry | None]] = []
        conflicts: list[Conflict] = []
        live = self._live
        for change in changes:
            before, after = change.before, change.after
            ours = live.find(change.parts)
            if not _is_file_or_nothing(before, ours, after):
                return None
            if before is None:
                if ours is not None or after is None or self._may_have_moved(item, change.parts):
                    return None
                delta.append((change.parts, after))
            elif after is None:
                # Beside an addition it may be half of a rename; against an edit it is a conflict of its own kind.
                if has_additions or ours != before:
                    return None
                delta.append((change.parts, None))
            elif ours is None:
                return None
            elif ours == before:
                delta.append((change.parts, after))
            elif ours != after:
                content = self._cache.merge_content(before, ours, after)
                if content.conflict is not None:
                    conflicts.append(_placed(content.conflict, path_of(change.parts)))
                elif content.entry is None:
                    return None
                elif content.entry != ours:
                    delta.append((change.parts, content.entry))
        return _Step(tuple(delta), tuple(sorted(conflicts, key=lambda conflict: conflict.path)))

    def _may_have_moved(self, item: Item, parts: Parts) -> bool:
        """True where a new file stands in a folder that the line does not have, or behind a file: git may know why."""
        for depth in range(1, len(parts)):
            ours = self._live.find(parts[:depth])
            if ours is None:
                # A folder that the change was made beside and that is gone here may have been renamed.
                return self._cache.reader.find(item.base_tree, parts[:depth]) is not None
            if ours[0] != TREE_MODE:
                return True
        return False

    def _whole(self, item: Item, before: str) -> _Step:
        """The same, of whole trees by git."""
        self._live.flush()
        merged = self._engine.merge(item.base_tree, before, item.tree)
        held = {parts_of(conflict.path) for conflict in merged.conflicts}
        changed = self._cache.reader.changes(before, merged.tree)
        # What goes is taken away first: a file may stand where a folder was.
        delta = sorted(
            (change for change in changed if change[0] not in held), key=lambda change: change[1] is not None
        )
        return _Step(tuple(delta), merged.conflicts)

    def _settled(
        self, conflicts: Iterable[Conflict], answers: Iterable[Answer]
    ) -> Iterator[tuple[Parts, Entry | None]]:
        for conflict, answer in zip(conflicts, answers, strict=True):
            result = answer.result
            if result is not None and answer.content is not None:
                self._engine.write(b"blob", answer.content)
            yield parts_of(conflict.path), None if result is None else (result.mode.encode(), result.oid)


def _is_file_or_nothing(*entries: Entry | None) -> bool:
    return all(entry is None or entry[0] in _FILES for entry in entries)


def _placed(conflict: Conflict, path: str) -> Conflict:
    """A conflict of a lone file, told of the path that it is at."""
    name = _NAME.decode()
    return replace(conflict, path=path, says=tuple(word.replace(name, path) for word in conflict.says))


def _read_changes(engine: Engine, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[_Change, ...]]:
    """The paths by which two trees differ, for many pairs; renames are not looked for."""
    if not all(is_oid(oid) for pair in pairs for oid in pair):
        raise ValueError("only full object ids may reach git")
    asked = "".join(f"{before} {after}\n" for before, after in pairs)
    out = engine.git.ask("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", text=asked)
    found: dict[tuple[str, str], list[_Change]] = {pair: [] for pair in pairs}
    current: list[_Change] = []
    words = iter(out.split("\0"))
    for word in words:
        # A pair's own line is not ended by NUL, even here.
        while word and not word.startswith(":"):
            head, _, word = word.partition("\n")
            before, _, after = head.partition(" ")
            current = found[before, after]
        if word:
            old_mode, new_mode, old, new, _ = word[1:].split(" ")
            parts = parts_of(next(words))
            current.append(_Change(parts, _entry(old_mode, old), _entry(new_mode, new)))
    return {pair: tuple(changes) for pair, changes in found.items()}


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == _NOTHING else (mode.encode(), oid)


class PlainGround:
    """The same without remembering anything: every item is a merge of whole trees by git. What is published is
    proved on this.
    """

    def __init__(self, engine: Engine, tree: str) -> None:
        self._engine = engine
        self._tree = tree

    def put(self, item: Item, answers: Answers) -> Placing:
        """Put a change on top, where it can be."""
        merged = self._engine.merge(item.base_tree, self._tree, item.tree)
        tree = merged.tree
        settled: tuple[Answer, ...] = ()
        if not merged.is_clean:
            found = settle(merged.conflicts, answers, self._engine.unite)
            if found is None:
                return Placing(Status.HELD, merged.conflicts)
            settled = found
            tree = self._with_answers(merged.tree, merged.conflicts, settled)
        if tree == self._tree:
            return Placing(Status.VOID, (), settled)
        self._tree = tree
        return Placing(Status.LAID, (), settled)

    def seal(self) -> str:
        """The id of the tree as it is now."""
        return self._tree

    def finish(self) -> str:
        """The same."""
        return self._tree

    def commit(self, parent: str, author: bytes, committer: bytes, message: bytes) -> str:
        """Store a commit of it."""
        return self._engine.write_commit(Commit(self._tree, (parent,), author, committer, message))

    def _with_answers(self, tree: str, conflicts: Sequence[Conflict], answers: Sequence[Answer]) -> str:
        live = LiveTree(TreeReader(self._engine), tree)
        for conflict, answer in zip(conflicts, answers, strict=True):
            result: Side | None = answer.result
            if answer.content is not None:
                self._engine.write(b"blob", answer.content)
            live.put(parts_of(conflict.path), None if result is None else (result.mode.encode(), result.oid))
        return live.flush()
