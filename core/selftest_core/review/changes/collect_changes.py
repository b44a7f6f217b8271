"""From branches to changes: every commit of every branch, identical ones collapsed into one with all credited.

Two commits make the same change when they turn the same files from the same content into the same content, or when
their patches are the same wherever they stand. Nothing is dropped here: each source stays named in its change.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.commit_changes import PathChange, missing_contents, read_changes
from selftest_core.git.objects import Commit, is_oid, trailers
from selftest_core.git.unsafe_paths import forbidden_path
from selftest_core.review.candidate_branch import Item
from selftest_core.review.changes.kinds import Kind, kind_of_commit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.git.merges import Side
    from selftest_core.git.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class Branch:
    """One branch to gather: whose it is (an agent, or the branch's own name), and the id of its last commit."""

    agent: str
    tip: str


@dataclass(frozen=True, slots=True)
class Source:
    """One commit of one branch. `position` counts from 0 in its branch; `importance` is None where nobody said."""

    oid: str
    agent: str
    position: int
    commit: Commit
    importance: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One distinct change. `sources` in the order of the branches; `item` is the source that is laid for all.

    `lines`: how many lines of text it adds and removes.
    """

    item: Item
    sources: tuple[Source, ...]
    kind: Kind
    paths: tuple[PathChange, ...]
    lines: int = 0

    @property
    def oid(self) -> str:
        """The id that names it: the source that is laid."""
        return self.item.oid

    @property
    def agents(self) -> tuple[str, ...]:
        """Who made it, each once."""
        return tuple(dict.fromkeys(source.agent for source in self.sources))

    @property
    def subject(self) -> str:
        """The first line of the laid source's message, not yet safe to show."""
        return next(source.commit.subject for source in self.sources if source.oid == self.oid)


@dataclass(frozen=True, slots=True)
class _Patch:
    """`id`: equal for the same patch at another place, empty where there is none to compare; `lines` of it."""

    id: str
    lines: int


@dataclass(frozen=True, slots=True)
class Collected:
    """All distinct changes, in the order in which they were met, and what could not be taken and why."""

    base: str
    changes: tuple[Change, ...]
    left_out: tuple[tuple[str, str], ...] = ()


def read_branch(store: ObjectStore, base: str, branch: Branch) -> tuple[Source, ...]:
    """The commits of a branch that the base does not have, oldest first.

    Raises UsageError for a merge commit (which side is meant cannot be guessed) and for a history that was cut.
    """
    out = store.git.ask("rev-list", "--reverse", "--topo-order", "--parents", branch.tip, f"^{base}")
    sources: list[Source] = []
    for line in out.splitlines():
        oid, *parents = line.split()
        if len(parents) > 1:
            hint = "Rebase it onto its base first: `git rebase BASE BRANCH`."
            raise UsageError(f"{branch.agent} has a merge commit", f"{oid} has {len(parents)} parents.", hint)
        commit = store.commit(oid)
        if commit.parents and not parents:
            hint = "Fetch the rest first: `git fetch --unshallow`."
            raise UsageError(f"The history of {branch.agent} was cut (a shallow clone)", f"at commit {oid}", hint)
        said = {name.lower(): value for name, value in trailers(commit.text)}
        sources.append(Source(oid, branch.agent, len(sources), commit, said.get("importance")))
    return tuple(sources)


def collect_changes(store: ObjectStore, base: str, branches: Sequence[Branch]) -> Collected:
    """Read all branches and collapse identical changes. A branch that cannot be read is left out with its reason."""
    met: list[Source] = []
    left_out: list[tuple[str, str]] = []
    for branch in branches:
        try:
            met += read_branch(store, base, branch)
        except UsageError as error:
            left_out.append((branch.agent, f"{error.title}: {error.detail}"))
    paths = read_changes(store.git, list(dict.fromkeys(source.oid for source in met)))
    missing = missing_contents(store.git, (change for changes in paths.values() for change in changes))
    for source in met:
        lost = [
            one.path for one in paths[source.oid] if missing & {side.oid for side in (one.before, one.after) if side}
        ]
        if lost and source.agent not in dict(left_out):
            why = f"{source.oid}: the contents of {lost[0]!r} are not here (a partial clone): `git fetch --refetch`"
            left_out.append((source.agent, why))
        path = forbidden_path(paths[source.oid])
        if path and source.agent not in dict(left_out):
            left_out.append((source.agent, f"{source.oid} has a path that no checkout may write: {path!r}"))
    refused = {agent for agent, _ in left_out}
    met = [source for source in met if source.agent not in refused]
    paths = {source.oid: paths[source.oid] for source in met}
    patches = _patches(store, list(paths))
    changes = tuple(_change(store, sources, paths, patches) for sources in _groups(met, paths, patches))
    return Collected(base, changes, tuple(left_out))


def _groups(
    sources: Sequence[Source], paths: Mapping[str, tuple[PathChange, ...]], patches: Mapping[str, _Patch]
) -> list[list[Source]]:
    """Sources that make the same change, in the order of the first of each.

    A branch that makes a change, takes it back and makes it again has three changes: its second time is only ever
    the same as somebody's second time. A commit that changes nothing is like no other.
    """
    times: Counter[tuple[str, object]] = Counter()
    leader: dict[object, int] = {}
    groups: list[list[Source]] = []
    for source in sources:
        touched = paths[source.oid]
        signs: list[object] = [touched or source.oid]
        patch = patches[source.oid].id
        if touched and patch:
            # A patch id knows nothing of modes, so they are compared beside it.
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
    """git's patch id of each commit that has a text patch, and how many lines it adds and removes.

    A binary file has no lines to compare, so a commit that touches one is told apart by its contents alone.
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
        # Content is behind `+`, `-` or a space, so nothing that an agent wrote can stand at the start of a line.
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


def _change(
    store: ObjectStore,
    sources: Sequence[Source],
    paths: Mapping[str, tuple[PathChange, ...]],
    patches: Mapping[str, _Patch],
) -> Change:
    # The source with the fewest commits before it needs the least of its own branch.
    laid = min(sources, key=lambda source: (source.position, source.oid))
    commit = laid.commit
    base = store.tree_of(commit.parents[0]) if commit.parents else store.empty_tree()
    touched = paths[laid.oid]
    kind = kind_of_commit(commit.subject, trailers(commit.text), (change.path for change in touched))
    item = Item(laid.oid, base, commit.tree, commit.author, _message(laid, sources))
    return Change(item, tuple(sources), kind, touched, patches[laid.oid].lines)


def _message(laid: Source, sources: Sequence[Source]) -> bytes:
    """The laid source's message, with everybody else who made the same change credited."""
    own = laid.commit.author.rpartition(b">")[0] + b">"
    others = dict.fromkeys(source.commit.author.rpartition(b">")[0] + b">" for source in sources)
    message = laid.commit.message.rstrip(b"\n")
    lines = [b"Co-authored-by: " + other for other in others if other != own]
    lines = [line for line in lines if line not in message]
    if not lines:
        return laid.commit.message
    gap = b"\n" if trailers(laid.commit.text) else b"\n\n"
    return message + gap + b"\n".join(lines) + b"\n"
