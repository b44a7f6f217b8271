"""Changes as a person shaped them: split into parts by file or hunk, and with messages of their own.

The parts of a change are commits in the review's own repository, one on top of the other: the first on the parent of
the change, the last with the tree of the change, so that together they are the change. The same split of the same
commit always gives the same ids. Each part is a change like others; a part may be split again.

A hunk is named by `Hunk.id`, which depends on its removed and added lines only. Binary files, links, submodules and
changes of modes have no hunks here, and renamed files are a deleted and an added one: they are split by file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.diffs import compare_trees
from selftest_core.git.objects import Commit
from selftest_core.git.trees import LiveTree, TreeReader, parts_of, path_of
from selftest_core.review.changes.collect_changes import Change, Part, Source, make_changes
from selftest_core.review.changes.messages import reworded_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from selftest_core.git.diffs import FileDiff
    from selftest_core.git.object_store import ObjectStore
    from selftest_core.git.patches import Hunk
    from selftest_core.git.trees import Entry
    from selftest_core.review.changes.ranking import Ranked

_MOST_NAMED = 8
_MOST_KNOWN = 512


@dataclass(frozen=True, slots=True)
class PartSpec:
    """One part of a split: whole files, what is left of them, and single hunks by path."""

    files: tuple[str, ...] = ()
    hunks: tuple[tuple[str, tuple[str, ...]], ...] = ()


type Split = tuple[PartSpec, ...]
"""The parts of a split, without the rest, which is the last part."""


class UnfitSplitError(UsageError):
    """A split that does not fit its change. `oid`: the change, as the split names it."""

    def __init__(self, oid: str, title: str, detail: str = "") -> None:
        super().__init__(f"{oid} cannot be split so: {title}", detail, "Look at its diff again, and split it anew.")
        self.oid = oid


def parse_split(value: object) -> Split:
    """Parse a split from JSON. Raises ValueError."""
    if not isinstance(value, list) or not value:
        raise ValueError("a split is a list of parts")
    return tuple(_parse_part(one) for one in value)


def _parse_part(value: object) -> PartSpec:
    if not isinstance(value, dict) or not value or not value.keys() <= {"files", "hunks"}:
        raise ValueError('a part is {"files": [path]} or {"hunks": {path: [hunk id]}}')
    files, hunks = value.get("files", []), value.get("hunks", {})
    if not _is_list_of_texts(files) or not isinstance(hunks, dict) or not all(map(_is_list_of_texts, hunks.values())):
        raise ValueError("files is a list of paths, and hunks has a list of hunk ids for each path")
    if not files and not any(hunks.values()):
        raise ValueError("a part has no file and no hunk")
    return PartSpec(tuple(files), tuple((path, tuple(ids)) for path, ids in hunks.items()))


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def split_json(split: Split) -> list[dict[str, Any]]:
    """Convert a split to JSON, which `parse_split` reads."""
    return [
        ({"files": list(part.files)} if part.files else {})
        | ({"hunks": {path: list(ids) for path, ids in part.hunks}} if part.hunks else {})
        for part in split
    ]


class Shapes:
    """Shapes the changes of one review. What was split before is kept: the same split gives the same changes."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._parts: dict[tuple[tuple[Source, ...], Split], tuple[Change, ...]] = {}
        self._last: tuple[object, object, object, tuple[Ranked, ...]] | None = None

    def shape(
        self,
        ranked: tuple[Ranked, ...],
        splits: Mapping[str, Split],
        messages_of: Callable[[Sequence[Change]], Mapping[str, str]],
    ) -> tuple[Ranked, ...]:
        """Split the changes that `splits` names by any source, and put the messages of `messages_of` in place.

        Raises UnfitSplitError for a split that does not fit its change. Splits of other changes are ignored.
        """
        whole = tuple(part for one in ranked for part in self._split(one, splits)) if splits else ranked
        messages = messages_of([one.change for one in whole])
        if not splits and not messages:
            return ranked
        before = self._last
        if before is not None and before[0] is ranked and before[1:3] == (splits, messages):
            return before[3]
        made = tuple(
            replace(one, change=_reworded(one.change, messages[one.change.oid])) if one.change.oid in messages else one
            for one in whole
        )
        self._last = ranked, splits, messages, made
        return made

    def _split(self, one: Ranked, splits: Mapping[str, Split]) -> Iterator[Ranked]:
        named = [source.oid for source in one.change.sources if source.oid in splits]
        if not named:
            yield one
            return
        if any(splits[oid] != splits[named[0]] for oid in named):
            raise UnfitSplitError(named[0], "it is split in two ways", "Two commits of the same change.")
        for part in self._parts_of(one.change, splits[named[0]], named[0]):
            yield from self._split(replace(one, change=part), splits)

    def _parts_of(self, change: Change, split: Split, named: str) -> tuple[Change, ...]:
        key = (change.sources, split)
        if key not in self._parts:
            if len(self._parts) >= _MOST_KNOWN:
                self._parts.clear()
            self._parts[key] = _make_parts(self._store, change, split, named)
        return self._parts[key]


def _reworded(change: Change, text: str) -> Change:
    message = reworded_message(change.item.message, text)
    return replace(change, item=replace(change.item, message=message), is_reworded=True)


def _make_parts(store: ObjectStore, change: Change, split: Split, named: str) -> tuple[Change, ...]:
    """Split each commit of a change, and make a change of the first parts of all, of the second ones, and so on."""
    stacks: dict[str, list[Source]] = {}
    for source in change.sources:
        if source.oid not in stacks:
            stacks[source.oid] = list(_stack(store, source, split, named))
    groups = [
        [replace(stacks[source.oid][number], agent=source.agent, position=source.position) for source in change.sources]
        for number in range(len(stacks[change.oid]))
    ]
    picked = next(number for number, source in enumerate(change.sources) if source.oid == change.oid)
    above = (tuple(dict.fromkeys(source.oid for source in change.sources)), *(change.part.above if change.part else ()))
    made = make_changes(store, groups, picked)
    return tuple(replace(part, part=Part(change.oid, number, len(made), above)) for number, part in enumerate(made, 1))


def _stack(store: ObjectStore, source: Source, split: Split, named: str) -> Iterator[Source]:
    commit = source.commit
    base = store.tree_of(commit.parents[0]) if commit.parents else store.empty_tree()
    parents = commit.parents[:1]
    for tree in _trees(store, base, commit.tree, split, named):
        made = Commit(tree, parents, commit.author, commit.committer, commit.message, commit.headers)
        oid = store.write_commit(made)
        parents = (oid,)
        yield replace(source, oid=oid, commit=made)


def _trees(store: ObjectStore, base: str, tree: str, split: Split, named: str) -> list[str]:
    """Compute the tree of each part, with the parts before it; the last one is `tree`."""
    reader = TreeReader(store)
    entries = {path_of(parts): entry for parts, entry in reader.changes(base, tree)}
    files = {file.name: file for file in compare_trees(store, base, tree, is_plain=True)}
    left: dict[str, set[str]] = {path: _hunk_ids(files.get(path)) for path in entries}
    whole: set[str] = set()
    trees: list[str] = []
    for number, part in enumerate(split, 1):
        for path in part.files:
            if path not in entries or path in whole:
                why = "an earlier part has it" if path in whole else "the change leaves it as it is"
                raise UnfitSplitError(named, f"part {number} names the file {path!r}: {why}")
            whole.add(path)
        for path, ids in part.hunks:
            _check(named, number, path, ids, left.get(path), files.get(path), is_taken=path in whole)
            left[path] -= set(ids)
            if not left[path]:
                whole.add(path)
        live = LiveTree(reader, base)
        # Deletions first: a file may take the place of a folder.
        for path, entry in sorted(entries.items(), key=lambda one: one[1] is not None):
            if path in whole:
                live.put(parts_of(path), entry)
        for path, missing in left.items():
            file = files.get(path)
            if path not in whole and file is not None and missing != _hunk_ids(file):
                live.put(parts_of(path), _in_part(store, reader, base, path, entries[path], file, missing))
        trees.append(live.flush())
        if trees[-1] == (base if number == 1 else trees[-2]):
            raise UnfitSplitError(named, f"part {number} changes nothing")
    if trees[-1] != tree:
        trees.append(tree)
    if len(trees) < 2:
        raise UnfitSplitError(named, "one part has all of it", "Leave at least one file or hunk for the rest.")
    return trees


def _check(
    named: str, number: int, path: str, ids: Sequence[str], left: set[str] | None, file: FileDiff | None, *,
    is_taken: bool,
) -> None:  # fmt: skip
    """Refuse hunks that the file does not have, or that an earlier part has."""
    known = _hunk_ids(file)
    if left is None:
        raise UnfitSplitError(named, f"part {number} names {path!r}: the change leaves it as it is")
    if not known:
        raise UnfitSplitError(named, f"{path!r} has no hunks", "It is split by file: a link, a mode, or not text.")
    for place, oid in enumerate(ids):
        if oid not in known:
            hunks = file.hunks if file is not None else ()
            listed = "\n".join(f"{one.id}: -{one.old_start} +{one.new_start}" for one in hunks[:_MOST_NAMED])
            raise UnfitSplitError(named, f"{path!r} has no hunk {oid!r}", f"Its hunks, with their lines:\n{listed}")
        if oid not in left or is_taken or oid in ids[:place]:
            raise UnfitSplitError(named, f"the hunk {oid} of {path!r} is in two parts")


def _hunk_ids(file: FileDiff | None) -> set[str]:
    """The ids of the hunks by which a file can be split, none where it can be split as a whole only."""
    return {hunk.id for hunk in file.hunks} if file is not None and file.has_parts else set()


def _in_part(
    store: ObjectStore, reader: TreeReader, base: str, path: str, after: Entry | None, file: FileDiff, left: set[str]
) -> Entry:
    """Store a file with all its hunks but those that are left."""
    before = reader.find(base, parts_of(path))
    assert before is not None, "an added or deleted file has one hunk, so no part of it"
    assert after is not None, "an added or deleted file has one hunk, so no part of it"
    old, new = (_lines(store.read(entry[1])[1]) for entry in (before, after))
    body = b"".join(_with_hunks(old, new, [hunk for hunk in file.hunks if hunk.id not in left]))
    return before[0], store.write(b"blob", body)


def _with_hunks(old: list[bytes], new: list[bytes], hunks: Sequence[Hunk]) -> Iterator[bytes]:
    """Apply hunks to the lines of a file."""
    at = 0
    for hunk in hunks:
        # The start of an empty side is the line before it.
        start = hunk.old_start - 1 if hunk.old_count else hunk.old_start
        new_start = hunk.new_start - 1 if hunk.new_count else hunk.new_start
        yield from old[at:start]
        yield from new[new_start : new_start + hunk.new_count]
        at = start + hunk.old_count
    yield from old[at:]


def _lines(body: bytes) -> list[bytes]:
    """Split at newlines only, as git does, and keep them: CRLF and a last line without one stay as they are."""
    lines = [line + b"\n" for line in body.split(b"\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines
