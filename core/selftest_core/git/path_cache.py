"""Cherry-picks onto a tree in memory: `git merge-tree` for whole trees, or path by path with a cache.

`WholeTree` merges whole trees. It is slow and simple: what is published is verified with it.

`PathTree` gives the same results faster. For most paths of a change three ids are compared:

    base   ours   theirs   result
    ----   ----   ------   ------
    A      A      B        B             only the change edits the file
    A      B      B        B             both made the same edit
    A      B      C        merge of the three contents, by git as trees with that one file, cached by the three ids
    -      -      B        B             a new file, in a folder that no rename can have touched
    A      A      -        -             a deletion, in a change that adds nothing

Everything else (possible renames, folders that appear or vanish, links, submodules) is a merge of whole trees. Picks
are cached by the ids of the tree and the change, so after one decision git is asked about little or nothing.

The cache holds pure functions of ids: emptying it changes no result. This module knows no reviews: a change is a pair
of trees (before, after), and the caller decides what becomes of a conflict.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from selftest_core.frozen import dataclass
from selftest_core.git.objects import TREE_MODE, Commit, encode_commit, is_oid, object_id
from selftest_core.git.trees import LiveTree, TreeReader, parts_of, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.git.merges import Conflict, Merger
    from selftest_core.git.object_store import ObjectStore
    from selftest_core.git.trees import Entry, Parts

type Edits = tuple[tuple[Parts, Entry | None], ...]
"""Paths and what they hold afterwards, None if the file is deleted."""
type ChangedTrees = tuple[str, str]
"""A change as two tree ids: before and after it."""

_MOST_PICKS = 60_000
_MOST_CONTENTS = 60_000
_MOST_TREES = 64
_ABSENT_MODE = "000000"
_FILE_MODES = (b"100644", b"100755")
_NAME = b"selftest-tui-path"


@dataclass(frozen=True, slots=True)
class Pick:
    """One change picked onto one tree, not applied yet: `edits` without the paths in conflict.

    `tree` is the id of the tree after the edits, None if it was not computed yet. `key` finds the pick in the cache,
    None if it is not cached.
    """

    edits: Edits
    conflicts: tuple[Conflict, ...] = ()
    tree: str | None = None
    key: tuple[str, str, str] | None = None


class PickTree(Protocol):
    """A tree that changes are picked onto, one after the other."""

    def pick(self, change: ChangedTrees) -> Pick:
        """Merge a change with the tree, and leave the tree as it is."""
        ...

    def apply(self, pick: Pick, resolved: Edits = ()) -> bool:
        """Apply a pick, and `resolved` for its paths in conflict. Returns whether the tree changed."""
        ...

    def commit(self, parent: str, author: bytes, committer: bytes, message: bytes) -> str:
        """Make a commit of the tree on top of `parent` and return its id."""
        ...

    def finish(self) -> str:
        """Return the id of the tree, at the end of a branch."""
        ...


class WholeTree:
    """Picks by merges of whole trees. All objects are stored."""

    def __init__(self, store: ObjectStore, merger: Merger, tree: str) -> None:
        self._store = store
        self._merger = merger
        self._tree = tree

    def pick(self, change: ChangedTrees) -> Pick:
        """Merge a change with the tree."""
        before, after = change
        merged = self._merger.merge(before, self._tree, after)
        return Pick((), merged.conflicts, merged.tree)

    def apply(self, pick: Pick, resolved: Edits = ()) -> bool:
        """Apply a pick. Returns whether the tree changed."""
        assert pick.tree is not None
        tree = pick.tree
        if resolved:
            live = LiveTree(TreeReader(self._store), tree)
            for parts, entry in resolved:
                live.put(parts, entry)
            tree = live.flush()
        is_changed = tree != self._tree
        self._tree = tree
        return is_changed

    def commit(self, parent: str, author: bytes, committer: bytes, message: bytes) -> str:
        """Store a commit of the tree and return its id."""
        return self._store.write_commit(Commit(self._tree, (parent,), author, committer, message))

    def finish(self) -> str:
        """Return the id of the tree."""
        return self._tree


@dataclass(frozen=True, slots=True)
class _PathEdit:
    """One path of a change."""

    parts: Parts
    before: Entry | None
    after: Entry | None


@dataclass(frozen=True, slots=True)
class _ContentMerge:
    """The merge of three contents of one file. Both None: only a merge of whole trees can tell."""

    entry: Entry | None
    conflict: Conflict | None


class PathCache:
    """Everything that picks onto the trees of one store have in common: changed paths, merged contents, picks."""

    def __init__(self, store: ObjectStore, merger: Merger) -> None:
        self.store = store
        self.merger = merger
        self.reader = TreeReader(store)
        self.picks: dict[tuple[str, str, str], Pick] = {}
        self.commits: dict[tuple[str, str, bytes, bytes], str] = {}
        self.edited: dict[str, Mapping[Parts, Entry | None]] = {}
        """By the id of a finished tree: the paths that picks edited, and what they hold in it."""
        self._changes: dict[ChangedTrees, tuple[_PathEdit, ...]] = {}
        self._contents: dict[tuple[Entry, Entry, Entry], _ContentMerge] = {}

    def start(self, tree: str, changes: Sequence[ChangedTrees], *, stored: bool) -> PathTree:
        """Return a tree for these changes to be picked onto; their paths are read by one process.

        Not `stored`: trees and commits get their ids, and are not written.
        """
        self._load(changes)
        return PathTree(self, tree, stored=stored)

    def start_trial(self, tree: str, changes: Sequence[ChangedTrees]) -> PathTree:
        """Return a tree for a branch that is thrown away: its picks are not cached, so few trees need an id."""
        self._load(changes)
        return PathTree(self, tree, stored=False, is_trial=True)

    def edits_of(self, change: ChangedTrees) -> tuple[_PathEdit, ...]:
        """The paths of a change."""
        if change not in self._changes:
            self._load([change])
        return self._changes[change]

    def keep_pick(self, pick: Pick) -> None:
        """Cache a pick. A full cache is emptied: the branch in use fills it again."""
        assert pick.key is not None
        if len(self.picks) >= _MOST_PICKS:
            self.picks.clear()
        self.picks[pick.key] = pick

    def keep_edited(self, tree: str, edited: Mapping[Parts, Entry | None]) -> None:
        """Remember the paths in which a finished tree differs from the one it started from."""
        self.edited.pop(tree, None)
        self.edited[tree] = edited
        if len(self.edited) > _MOST_TREES:
            del self.edited[next(iter(self.edited))]

    def merge_content(self, base: Entry, ours: Entry, theirs: Entry) -> _ContentMerge:
        """Merge three contents of one file, whatever its path."""
        key = (base, ours, theirs)
        known = self._contents.get(key)
        if known is None:
            if len(self._contents) >= _MOST_CONTENTS:
                self._contents.clear()
            known = self._contents[key] = self._merge_content(key)
        return known

    def _merge_content(self, contents: tuple[Entry, Entry, Entry]) -> _ContentMerge:
        base, ours, theirs = (
            self.store.write(b"tree", mode + b" " + _NAME + b"\0" + bytes.fromhex(oid)) for mode, oid in contents
        )
        merged = self.merger.merge(base, ours, theirs)
        if merged.is_clean:
            return _ContentMerge(self.reader.find(merged.tree, (_NAME,)), None)
        conflict = merged.conflicts[0]
        is_this_file = len(merged.conflicts) == 1 and conflict.path.encode() == _NAME
        return _ContentMerge(None, conflict if is_this_file else None)

    def _load(self, changes: Sequence[ChangedTrees]) -> None:
        missing = [change for change in dict.fromkeys(changes) if change not in self._changes]
        if missing:
            self._changes.update(_read_changes(self.store, missing))


class PathTree:
    """Picks path by path, through the cache."""

    def __init__(self, cache: PathCache, tree: str, *, stored: bool, is_trial: bool = False) -> None:
        self._cache = cache
        self._store = cache.store
        self._live_tree = LiveTree(cache.reader, tree)
        # Edits that the tree in memory does not have yet. Cached picks need no tree in memory at all.
        self._pending: list[Edits] = []
        self._edited: dict[Parts, Entry | None] = {}
        # None if edits were applied since the id was computed.
        self._id: str | None = tree
        self._is_stored = stored
        self._is_trial = is_trial

    def pick(self, change: ChangedTrees) -> Pick:
        """Merge a change with the tree; a cached result costs one look-up."""
        if self._is_trial:
            return self._pick_by_path(change) or self._pick_whole(change)
        key = (self._tree_id(), *change)
        pick = self._cache.picks.get(key)
        if pick is None:
            pick = replace(self._pick_by_path(change) or self._pick_whole(change), key=key)
            self._cache.keep_pick(pick)
        return pick

    def apply(self, pick: Pick, resolved: Edits = ()) -> bool:
        """Apply a pick. Returns whether the tree changed."""
        edits = pick.edits
        if resolved:
            live = self._live
            edits = (*edits, *(edit for edit in resolved if live.find(edit[0]) != edit[1]))
        if not edits:
            return False
        self._pending.append(edits)
        self._edited.update(edits)
        self._id = None if resolved else pick.tree
        if pick.key is not None and pick.tree is None and not resolved:
            self._cache.keep_pick(replace(pick, tree=self._tree_id()))
        return True

    def commit(self, parent: str, author: bytes, committer: bytes, message: bytes) -> str:
        """Return the id of a commit of the tree, which is written where this tree is `stored`."""
        tree = self._tree_id()
        if self._is_stored:
            self._live.flush(self._store.write_later)
            return self._store.write_later(
                b"commit", encode_commit(Commit(tree, (parent,), author, committer, message))
            )
        known = self._cache.commits
        key = (tree, parent, author, message)
        oid = known.get(key)
        if oid is None:
            if len(known) >= _MOST_PICKS:
                known.clear()
            oid = object_id(b"commit", encode_commit(Commit(tree, (parent,), author, committer, message)))
            known[key] = oid
        return oid

    def finish(self) -> str:
        """Return the id of the tree, and remember which paths were edited for counting its lines.

        The commits that were made are stored by that.
        """
        tree = self._tree_id()
        if self._is_stored:
            self._store.write_waiting()
        self._cache.keep_edited(tree, self._edited)
        return tree

    @property
    def _live(self) -> LiveTree:
        for edits in self._pending:
            for parts, entry in edits:
                self._live_tree.put(parts, entry)
        self._pending.clear()
        return self._live_tree

    def _tree_id(self) -> str:
        if self._id is None:
            self._id = self._live.seal()
        return self._id

    def _pick_by_path(self, change: ChangedTrees) -> Pick | None:
        """Apply the table of the module's docstring to each path; None if whole trees must be merged."""
        paths = self._cache.edits_of(change)
        has_additions = any(path.before is None for path in paths)
        edits: list[tuple[Parts, Entry | None]] = []
        conflicts: list[Conflict] = []
        live = self._live
        for path in paths:
            base, theirs = path.before, path.after
            ours = live.find(path.parts)
            if not _are_files(base, ours, theirs):
                return None
            if base is None:
                if ours is not None or theirs is None or self._may_be_renamed(change, path.parts):
                    return None
                edits.append((path.parts, theirs))
            elif theirs is None:
                # Beside an addition it may be half of a rename; against an edit it is a conflict of another kind.
                if has_additions or ours != base:
                    return None
                edits.append((path.parts, None))
            elif ours is None:
                return None
            elif ours == base:
                edits.append((path.parts, theirs))
            elif ours != theirs:
                content = self._cache.merge_content(base, ours, theirs)
                if content.conflict is not None:
                    conflicts.append(_at_path(content.conflict, path_of(path.parts)))
                elif content.entry is None:
                    return None
                elif content.entry != ours:
                    edits.append((path.parts, content.entry))
        return Pick(tuple(edits), tuple(sorted(conflicts, key=lambda conflict: conflict.path)))

    def _may_be_renamed(self, change: ChangedTrees, parts: Parts) -> bool:
        """True for a new file in a folder that this tree may have renamed, or replaced by a file."""
        for depth in range(1, len(parts)):
            ours = self._live.find(parts[:depth])
            if ours is None:
                # The folder was there before the change and is not here: it may have been renamed.
                return self._cache.reader.find(change[0], parts[:depth]) is not None
            if ours[0] != TREE_MODE:
                return True
        return False

    def _pick_whole(self, change: ChangedTrees) -> Pick:
        """Merge whole trees, and compare the result with this tree."""
        before, after = change
        own = self._live.flush()
        self._store.write_waiting()  # folders that an earlier commit flushed
        merged = self._cache.merger.merge(before, own, after)
        in_conflict = {parts_of(conflict.path) for conflict in merged.conflicts}
        edits = (edit for edit in self._cache.reader.changes(own, merged.tree) if edit[0] not in in_conflict)
        # Deletions first: a file may take the place of a folder.
        return Pick(tuple(sorted(edits, key=lambda edit: edit[1] is not None)), merged.conflicts)


def _are_files(*entries: Entry | None) -> bool:
    return all(entry is None or entry[0] in _FILE_MODES for entry in entries)


def _at_path(conflict: Conflict, path: str) -> Conflict:
    """The conflict of a single file, with the path that the file really has."""
    name = _NAME.decode()
    return replace(conflict, path=path, messages=tuple(text.replace(name, path) for text in conflict.messages))


def _read_changes(store: ObjectStore, changes: Sequence[ChangedTrees]) -> dict[ChangedTrees, tuple[_PathEdit, ...]]:
    """Read the paths by which two trees differ, for many pairs by one process, without looking for renames."""
    if not all(is_oid(oid) for change in changes for oid in change):
        raise ValueError("only full object ids may reach git")
    pairs = "".join(f"{before} {after}\n" for before, after in changes)
    out = store.git.ask("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", text=pairs)
    found: dict[ChangedTrees, list[_PathEdit]] = {change: [] for change in changes}
    current: list[_PathEdit] = []
    words = iter(out.split("\0"))
    for word in words:
        # The line that names a pair ends in a newline, not in NUL.
        while word and not word.startswith(":"):
            head, _, word = word.partition("\n")
            before, _, after = head.partition(" ")
            current = found[before, after]
        if word:
            old_mode, new_mode, old, new, _ = word[1:].split(" ")
            parts = parts_of(next(words))
            current.append(_PathEdit(parts, _entry(old_mode, old), _entry(new_mode, new)))
    return {change: tuple(edits) for change, edits in found.items()}


def _entry(mode: str, oid: str) -> Entry | None:
    return None if mode == _ABSENT_MODE else (mode.encode(), oid)
