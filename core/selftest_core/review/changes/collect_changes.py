"""Changes collected from branches: every commit of every branch, identical commits as one change that credits all.

Two commits are identical when they change the same files from the same content to the same content, or when they have
the same patch at any place. Nothing is dropped: a change names all its sources.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING

from selftest_core.collect.judges import CHANGES_JUDGE, decides_tests
from selftest_core.collect.tester_aware import KNOWS_TESTER, find_tester_aware
from selftest_core.errors import ToolError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.commit_changes import PathChange, missing_contents, read_changes
from selftest_core.git.objects import Commit, is_oid, trailers
from selftest_core.git.unsafe_paths import cautions, forbidden_path
from selftest_core.review.candidate_branch import Item
from selftest_core.review.changes.kinds import Kind, kind_of_commit, kind_of_path
from selftest_core.review.changes.weakened_settings import find_weakened_settings, is_settings_file
from selftest_core.review.changes.weakening import Weakening, find_lost_examples, find_weakenings, with_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from selftest_core.git.merges import Side
    from selftest_core.git.object_store import ObjectStore


_LARGEST_TEST_FILE = 1024 * 1024
"""Bytes; a larger file is not compared."""
_TOO_LARGE = "\0too large"
_MOST_PLACES = 50
"""Places of one change that know of tests."""


EARLIER = " (earlier)"


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch to review: its agent (or its own name), and the id of its last commit.

    The name of a branch that an earlier attempt of a run left ends with `EARLIER`, which no name of git can.
    `alternative_of`: the change whose row it joins, where an agent proposed it instead of that row's; else empty.
    """

    agent: str
    tip: str
    alternative_of: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """One commit of one branch. `position` counts from 0 in its branch; `importance` as stated, or None."""

    oid: str
    agent: str
    position: int
    commit: Commit
    importance: str | None = None

    @property
    def is_earlier(self) -> bool:
        """True for a commit of an attempt that another one replaced."""
        return self.agent.endswith(EARLIER)


@dataclass(frozen=True, slots=True)
class Part:
    """The place of a part in the change that was split: `of` is that change, `number` counts from 1 to `count`.

    `above`: the ids that name that change, then those of the one that it is a part of itself, and so on.
    """

    of: str
    number: int
    count: int
    above: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One distinct change. `sources` in the order of the branches; `item` is the source that is picked.

    `lines`: the number of lines that it adds and removes. `weakenings`: places where it makes a test easier to pass.
    `is_reworded`: a person wrote the message of `item`. `part`: None for a whole change; the sources of a part are its
    own commits.

    The rest follows from these, and is kept since each decision asks for it many times. `names`: the ids that name the
    change in decisions: its own, then those of the changes that it is a part of, nearest first. `oids`: all of these.
    """

    item: Item
    sources: tuple[Source, ...]
    kind: Kind
    paths: tuple[PathChange, ...]
    lines: int = 0
    weakenings: tuple[Weakening, ...] = ()
    is_reworded: bool = False
    part: Part | None = None
    names: tuple[tuple[str, ...], ...] = field(init=False, repr=False, compare=False)
    oids: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        own = tuple(dict.fromkeys(source.oid for source in self.sources))
        names = (own, *self.part.above) if self.part is not None else (own,)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "oids", tuple(oid for level in names for oid in level))

    @property
    def original_oids(self) -> tuple[str, ...]:
        """The commits of agents that made it, or that it is a part of."""
        return self.names[-1]

    @property
    def cautions(self) -> tuple[str, ...]:
        """Warnings before it is kept, with its paths, not yet safe to show."""
        return (*(_caution(one) for one in self.weakenings), *cautions(self.paths))

    @property
    def oid(self) -> str:
        """The id of the change: the commit id of the picked source."""
        return self.item.oid

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that made it, each once."""
        return tuple(dict.fromkeys(source.agent for source in self.sources))

    @property
    def is_earlier(self) -> bool:
        """True where only earlier attempts made it, which others replaced: it is dropped unless a person keeps it."""
        return all(source.is_earlier for source in self.sources)

    @property
    def commit(self) -> Commit:
        """The commit of the picked source, with the message that a person wrote instead, if one did."""
        commit = next(source.commit for source in self.sources if source.oid == self.oid)
        return replace(commit, message=self.item.message) if self.is_reworded else commit

    @property
    def subject(self) -> str:
        """The subject, not yet safe to show."""
        return self.commit.subject


def _caution(one: Weakening) -> str:
    return (
        f"{one.place}: {one.what}" if one.what.startswith(KNOWS_TESTER) else f"weakens a test: {one.place}: {one.what}"
    )


@dataclass(frozen=True, slots=True)
class _Patch:
    """A patch: `id` is equal for the same patch at another place, empty for binaries; `lines` added and removed."""

    id: str
    lines: int


@dataclass(frozen=True, slots=True)
class Collected:
    """All distinct changes in order of appearance, and branches that could not be read, each with the reason."""

    base: str
    changes: tuple[Change, ...]
    left_out: tuple[tuple[str, str], ...] = ()


def _read_parents(store: ObjectStore, base: str, branches: Sequence[Branch]) -> dict[str, list[str]]:
    """Read the parents of all commits that the base does not have, with one process."""
    text = "".join(f"{oid}\n" for oid in [*dict.fromkeys(branch.tip for branch in branches), f"^{base}"])
    out = store.git.ask("rev-list", "--parents", "--stdin", text=text) if branches else ""
    return {oid: parents for oid, *parents in (line.split() for line in out.splitlines())}


def _read_branch(store: ObjectStore, branch: Branch, parents_of: Mapping[str, Sequence[str]]) -> tuple[Source, ...]:
    """Read the commits of a branch that the base does not have, oldest first.

    Raises UsageError for a merge commit (its changes depend on the side) and for a shallow history.
    """
    chain = [branch.tip] if branch.tip in parents_of else []
    while chain and len(parents_of[chain[-1]]) == 1 and parents_of[chain[-1]][0] in parents_of:
        chain.append(parents_of[chain[-1]][0])
    chain.reverse()
    sources: list[Source] = []
    for oid, commit in zip(chain, store.commits(chain), strict=True):
        parents = parents_of[oid]
        if len(parents) > 1:
            hint = "Rebase it onto its base first: `git rebase BASE BRANCH`."
            raise UsageError(f"{branch.agent} has a merge commit", f"{oid} has {len(parents)} parents.", hint)
        if commit.parents and not parents:
            hint = "Fetch the rest first: `git fetch --unshallow`."
            raise UsageError(f"The history of {branch.agent} is incomplete (a shallow clone)", f"at commit {oid}", hint)
        stated = {name.lower(): value for name, value in trailers(commit.text)}
        sources.append(Source(oid, branch.agent, len(sources), commit, stated.get("importance")))
    return tuple(sources)


def collect_changes(store: ObjectStore, base: str, branches: Sequence[Branch]) -> Collected:
    """Read all branches and collapse identical commits. A branch that cannot be read is left out with the reason."""
    try:
        return _collect(store, base, branches)
    except _MALFORMED:
        # All are read with the same few calls of git, which one malformed object ends: read each alone to find it.
        if not all(map(store.has, [branch.tip for branch in branches])):
            raise  # git has dropped what was reviewed
        good: list[Branch] = []
        left_out: list[tuple[str, str]] = []
        for branch in branches:
            try:
                _collect(store, base, [branch])
                good.append(branch)
            except _MALFORMED as error:
                left_out.append((branch.agent, f"its commits cannot be read: {_reason(error)}"))
        if not left_out:
            raise
        collected = _collect(store, base, good) if good else Collected(base, ())
        return replace(collected, left_out=(*left_out, *collected.left_out))


_MALFORMED = (ToolError, ValueError, LookupError, RecursionError)
"""Errors by which an object that git or we cannot read shows itself."""


def _reason(error: Exception) -> str:
    if isinstance(error, ToolError):
        return (error.detail or error.title).splitlines()[-1][:300]
    return f"a malformed object ({type(error).__name__})"


def _collect(store: ObjectStore, base: str, branches: Sequence[Branch]) -> Collected:
    found: list[Source] = []
    left_out: list[tuple[str, str]] = []
    parents_of = _read_parents(store, base, branches)
    for branch in branches:
        try:
            found += _read_branch(store, branch, parents_of)
        except UsageError as error:
            left_out.append((branch.agent, f"{error.title}: {error.detail}"))
    paths = read_changes(store.git, list(dict.fromkeys(source.oid for source in found)))
    missing = missing_contents(store.git, (change for changes in paths.values() for change in changes))
    for source in found:
        lost = [
            one.path for one in paths[source.oid] if missing & {side.oid for side in (one.before, one.after) if side}
        ]
        if lost and source.agent not in dict(left_out):
            why = f"{source.oid}: the contents of {lost[0]!r} are missing (a partial clone): `git fetch --refetch`"
            left_out.append((source.agent, why))
        path = forbidden_path(paths[source.oid])
        if path and source.agent not in dict(left_out):
            left_out.append((source.agent, f"{source.oid} has a path that no checkout may write: {path!r}"))
    refused = {agent for agent, _ in left_out}
    found = [source for source in found if source.agent not in refused]
    paths = {source.oid: paths[source.oid] for source in found}
    patches = _patches(store, list(paths))
    changes = tuple(
        # The source with the fewest commits before it depends least on its branch.
        _change(store, sources, min(sources, key=lambda source: (source.position, source.oid)), paths, patches)
        for sources in map(_of_last_attempts, _groups(found, paths, patches))
    )
    return Collected(base, changes, tuple(left_out))


def _of_last_attempts(sources: list[Source]) -> list[Source]:
    """Leave out the sources of earlier attempts, unless nothing else makes the change."""
    return [source for source in sources if not source.is_earlier] or sources


def _groups(
    sources: Sequence[Source], paths: Mapping[str, tuple[PathChange, ...]], patches: Mapping[str, _Patch]
) -> list[list[Source]]:
    """Group the sources that make the same change, in the order of the first of each.

    A branch that makes a change, reverts it and makes it again has three changes: its second time is identical only to
    the second time of another branch. A commit without changes is identical to none.
    """
    times: Counter[tuple[str, object]] = Counter()
    leader: dict[object, int] = {}
    groups: list[list[Source]] = []
    for source in sources:
        touched = paths[source.oid]
        signs: list[object] = [touched or source.oid]
        patch = patches[source.oid].id
        if touched and patch:
            # A patch id does not include modes, so they are compared too.
            signs.append((patch, tuple((one.path, _mode(one.before), _mode(one.after)) for one in touched)))
        keys: list[object] = [(sign, times[source.agent, sign]) for sign in signs]
        times.update((source.agent, sign) for sign in signs)
        place = next((leader[key] for key in keys if key in leader), len(groups))
        if place == len(groups):
            groups.append([])
        for key in keys:
            leader.setdefault(key, place)
        groups[place].append(source)
    return groups


def _mode(side: Side | None) -> str | None:
    return None if side is None else side.mode


def _patches(store: ObjectStore, oids: Sequence[str]) -> dict[str, _Patch]:
    """Read the patch id of each commit, and the number of lines that it adds and removes.

    A commit with a binary file has no patch id: it is compared by contents only.
    """
    if not oids:
        return {}
    patches = store.git.ask(
        "diff-tree", "--stdin", "-p", "--root", "--no-renames", "--full-index", "--no-textconv", "--no-ext-diff",
        text="".join(f"{oid}\n" for oid in oids),
    )  # fmt: skip
    binary: set[str] = set()
    counts = dict.fromkeys(oids, 0)
    current = ""
    is_content = False
    for line in patches.split("\n"):
        # Content follows `+`, `-` or a space, so text of an agent cannot imitate these lines.
        if is_oid(line):
            current = line
        elif line.startswith("Binary files "):
            binary.add(current)
        elif line.startswith(("diff ", "@@ ")):
            is_content = line.startswith("@")
        elif is_content and line.startswith(("+", "-")):
            counts[current] += 1
    out = store.git.ask("patch-id", "--stable", text=patches)
    ids = {oid: patch for patch, oid in (line.split() for line in out.splitlines()) if oid not in binary}
    return {oid: _Patch(ids.get(oid, ""), counts[oid]) for oid in oids}


def make_changes(store: ObjectStore, groups: Sequence[Sequence[Source]], picked: int) -> list[Change]:
    """Make a change of each group of sources, with the kind that its paths have. `picked`: the number of its source."""
    oids = list(dict.fromkeys(source.oid for group in groups for source in group))
    paths, patches = read_changes(store.git, oids), _patches(store, oids)
    made = [_change(store, group, group[picked], paths, patches) for group in groups]
    return [replace(one, kind=kind_of_commit("", (), (path.path for path in one.paths))) for one in made]


def _change(
    store: ObjectStore,
    sources: Sequence[Source],
    picked: Source,
    paths: Mapping[str, tuple[PathChange, ...]],
    patches: Mapping[str, _Patch],
) -> Change:
    commit = picked.commit
    base = store.tree_of(commit.parents[0]) if commit.parents else store.empty_tree()
    touched = paths[picked.oid]
    kind = kind_of_commit(commit.subject, trailers(commit.text), (change.path for change in touched))
    item = Item(picked.oid, base, commit.tree, commit.author, _message(picked, sources))
    return Change(item, tuple(sources), kind, touched, patches[picked.oid].lines, _weakenings(store, touched))


def files_that_decide(store: ObjectStore, paths: Iterable[PathChange]) -> tuple[str, ...]:
    """List the files of a change by which it can change how tests are run."""
    return tuple(
        one.path
        for one in paths
        if decides_tests(
            one.path, functools.partial(_text, store, one.before), functools.partial(_text, store, one.after)
        )
    )


def _weakenings(store: ObjectStore, paths: Sequence[PathChange]) -> tuple[Weakening, ...]:
    """Compare the Python test files of a commit, and name what decides how tests are run."""
    deciding = tuple(Weakening(path, 1, CHANGES_JUDGE) for path in files_that_decide(store, paths))
    files = {
        one.path: (_text(store, one.before), _text(store, one.after))
        for one in paths
        if is_settings_file(one.path)
        or (
            one.path.endswith(".py")
            and (kind_of_path(one.path) is Kind.TEST or one.path.rpartition("/")[2] == "conftest.py")
        )
    }
    large = [path for path, (before, _) in files.items() if before is _TOO_LARGE]
    unseen = tuple(Weakening(path, 1, "too large to be compared") for path in large)
    small = {path: texts for path, texts in files.items() if path not in large}
    settings = {path: small.pop(path) for path in list(small) if is_settings_file(path)}
    found = (*unseen, *find_weakenings(small), *find_weakened_settings(settings)) if files else ()
    found += tuple(place for one in paths for place in _lost_examples(store, one))
    # What is weakened there is told with its line, and not once more.
    told = {one.path for one in found}
    return (*found, *(one for one in deciding if one.path not in told), *_tester_aware(store, paths))


def _lost_examples(store: ObjectStore, path: PathChange) -> tuple[Weakening, ...]:
    before = _text(store, path.before) if path.path.endswith((".py", ".md", ".rst", ".txt")) else None
    if before is None or ">>> " not in before:
        return ()
    after = _text(store, path.after)
    return tuple(with_lines(one, before, after) for one in find_lost_examples(path.path, before, after))


def _tester_aware(store: ObjectStore, paths: Sequence[PathChange]) -> Iterator[Weakening]:
    """Name the places where Python of the product could know that it is tested."""
    files = {
        one.path: (_text(store, one.before), _text(store, one.after))
        for one in paths
        if one.path.endswith((".py", ".pyw")) and kind_of_path(one.path) is not Kind.TEST and one.after is not None
    }
    # A file that moved away is here for what was in it.
    gone = (
        {one.path: (_text(store, one.before), None) for one in paths if one.after is None and one.path.endswith(".py")}
        if files
        else {}
    )
    for path, line, what in itertools.islice(find_tester_aware({**gone, **files}), _MOST_PLACES):
        found = Weakening(path, line, f"{KNOWS_TESTER}: {what}")
        yield with_lines(found, None, files[path][1])


def _text(store: ObjectStore, side: Side | None) -> str | None:
    if side is None or not side.mode.startswith("100"):
        return None
    body = store.read(side.oid)[1]
    return body.decode("utf-8", "replace") if len(body) <= _LARGEST_TEST_FILE else _TOO_LARGE


def _message(picked: Source, sources: Sequence[Source]) -> bytes:
    """The message of the picked source, with the authors of the other sources credited."""
    own = picked.commit.author.rpartition(b">")[0] + b">"
    others = dict.fromkeys(source.commit.author.rpartition(b">")[0] + b">" for source in sources)
    message = picked.commit.message.rstrip(b"\n")
    lines = [b"Co-authored-by: " + other for other in others if other != own]
    lines = [line for line in lines if line not in message]
    if not lines:
        return picked.commit.message
    gap = b"\n" if trailers(picked.commit.text) else b"\n\n"
    return message + gap + b"\n".join(lines) + b"\n"
