"""Rows: changes of several agents that say the same in other words, of which one is chosen.

A change joins a row when it arrives, by its fingerprint and those of the first members, and stays there: what arrives
later moves nothing. Decisions may take a member out of its row, or join rows (`selftest_core.review.decisions`).
"""

from __future__ import annotations

from collections import defaultdict
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.commit_changes import read_changes
from selftest_core.git.objects import trailers
from selftest_core.review.changes.fingerprints import Fingerprint, fingerprint
from selftest_core.review.changes.kinds import kind_of_commit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from selftest_core.git.object_store import ObjectStore
    from selftest_core.review.changes.collect_changes import Change, Source

_BEST_FIRST = ("passed", "unknown", "flaky", "failed")
APART = "apart"
"""Takes a change out of its row."""


@dataclass(frozen=True, slots=True)
class Row:
    """Distinct changes with one intent. `members` and `chosen` are oids of changes, in the order of their arrival.

    `id`: the commit that arrived first, which stays the same when another one with the same patch arrives. Only the
    chosen member is applied.
    """

    id: str
    members: tuple[str, ...]
    chosen: str

    @property
    def others(self) -> tuple[str, ...]:
        """The members that are not chosen."""
        return tuple(oid for oid in self.members if oid != self.chosen)


def group_changes(
    store: ObjectStore,
    changes: Sequence[Change],
    arrived: Mapping[str, int],
    verdicts: Mapping[str, str] = MappingProxyType({}),
    *,
    is_linear: bool = False,
) -> tuple[Row, ...]:
    """Group changes into rows, in the order of their arrival; the chosen one of each is the default.

    `arrived`: by commit, the number of the look at the branches that found it; 0 where it is missing. The commits of
    one branch (`is_linear`) are steps of one work, so each has a row of its own.
    """
    first = {change.oid: _first(change, arrived) for change in changes}
    in_order = sorted(changes, key=lambda change: _place(first[change.oid], arrived))
    rows: list[list[Change]] = []
    found = {} if is_linear else _fingerprints(store, in_order, first)
    before = _times_before(in_order, first, found)
    leaders: defaultdict[tuple[str, int], list[tuple[Fingerprint, list[Change]]]] = defaultdict(list)
    for change in in_order:
        mark = found.get(change.oid)
        if mark is None:
            rows.append([change])
            continue
        known = leaders[mark.key, before[change.oid]]
        row = next((members for leader, members in known if mark.says_the_same(leader)), None)
        if row is None:
            row = []
            rows.append(row)
            known.append((mark, row))
        row.append(change)
    return tuple(
        Row(first[members[0].oid].oid, tuple(one.oid for one in members), default_choice(members, verdicts))
        for members in rows
    )


def choose_rows(
    changes: Sequence[Change],
    rows: Sequence[Row],
    choices: Sequence[tuple[str, str]],
    kept: AbstractSet[str],
    reverted: AbstractSet[str],
    *,
    is_strict: bool,
) -> Iterator[Row]:
    """Split and join rows as decided, and choose a member of each.

    `choices`: a member and the chosen one of its row, or `APART`; `kept`, `reverted`: members that a person decided on.
    One that is kept is chosen, and of two such members each has a row of its own. What is reverted is not chosen while
    there is another. Raises UsageError for contradictions; not `is_strict`: the last choice counts.
    """
    by_oid = {change.oid: change for change in changes}
    apart = {oid for oid, chosen in choices if chosen == APART}
    wished = [(oid, chosen) for oid, chosen in choices if chosen != APART]
    ids = {row.members[0]: row.id for row in rows}
    single = {row.chosen: row for row in rows if len(row.members) == 1}
    best = {row.chosen for row in rows}
    groups = {oid: [oid] for oid in by_oid}
    for row in rows:
        members = [oid for oid in row.members if oid not in apart]
        groups.update(dict.fromkeys(members, members))
    for oid, chosen in wished:
        one, other = groups[oid], groups[chosen]
        if one is not other and apart.isdisjoint((oid, chosen)):
            one += other
            groups.update(dict.fromkeys(other, one))
    wishes: dict[int, str] = {}
    for oid, chosen in wished:
        group = groups[oid]
        is_apart, before = group is not groups[chosen], wishes.get(id(group), chosen)
        if is_strict and is_apart:
            raise UsageError(f"{chosen} is chosen instead of {oid}", "One of them is apart from the others.")
        if is_strict and before != chosen:
            raise UsageError(f"Two choices in one row: {before} and {chosen}", "They say the same. Choose one of them.")
        if not is_apart:
            wishes[id(group)] = chosen
    for group in {id(one): one for one in groups.values()}.values():
        if len(group) == 1:
            yield single.get(group[0]) or Row(ids.get(group[0], group[0]), (group[0],), group[0])
            continue
        left = [oid for oid in group if oid in kept] or [oid for oid in group if oid not in reverted] or group
        chosen = wishes.get(id(group)) or default_choice(
            [by_oid[oid] for oid in left if oid in best] or [by_oid[oid] for oid in left]
        )
        alone = [oid for oid in group if oid in kept and oid != chosen]
        yield from (Row(ids.get(oid, oid), (oid,), oid) for oid in alone)
        together = tuple(oid for oid in group if oid not in alone)
        yield Row(ids.get(together[0], together[0]), together, chosen)


def default_choice(members: Sequence[Change], verdicts: Mapping[str, str] = MappingProxyType({})) -> str:
    """Choose the member with the best verdict, that weakens no test, with the fewest lines, that arrived first.

    `verdicts` by any source. One that only earlier attempts made is chosen last.
    """

    def key(change: Change) -> tuple[bool, int, bool, int]:
        worst = max(_BEST_FIRST.index(verdicts.get(source.oid, "unknown")) for source in change.sources)
        return change.is_earlier, worst, bool(change.weakenings), change.lines

    return min(members, key=key).oid


def _first(change: Change, arrived: Mapping[str, int]) -> Source:
    return min(change.sources, key=lambda source: _place(source, arrived))


def _place(source: Source, arrived: Mapping[str, int]) -> tuple[int, int, str]:
    return (arrived.get(source.oid, 0), source.position, source.oid)


def _fingerprints(store: ObjectStore, changes: Sequence[Change], first: Mapping[str, Source]) -> dict[str, Fingerprint]:
    """Make the fingerprints of changes that touch the same files, from the sources that arrived first."""
    # The picked source of a change may be another one after an arrival, and its row must stay.
    other = {change.oid: first[change.oid].oid for change in changes if first[change.oid].oid != change.oid}
    read = read_changes(store.git, list(dict.fromkeys(other.values())))
    paths = {change.oid: read[other[change.oid]] if change.oid in other else change.paths for change in changes}
    touching: defaultdict[tuple[str, ...], list[Change]] = defaultdict(list)
    for change in changes:
        if paths[change.oid]:
            touching[tuple(path.path for path in paths[change.oid])].append(change)
    found = {}
    for same in touching.values():
        for change in same if len(same) > 1 else ():
            commit = first[change.oid].commit
            kind = kind_of_commit(commit.subject, trailers(commit.text), (one.path for one in paths[change.oid]))
            found[change.oid] = fingerprint(kind, paths[change.oid], lambda oid: store.read(oid)[1])
    return found


def _times_before(
    changes: Sequence[Change], first: Mapping[str, Source], found: Mapping[str, Fingerprint]
) -> dict[str, int]:
    """Count the earlier changes of the same agent with the same fingerprint: a next try is no alternative."""
    made: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for change in changes:
        if change.oid in found:
            for source in change.sources:
                made[source.agent, found[change.oid].key].append(source.position)
    return {
        oid: sum(position < first[oid].position for position in made[first[oid].agent, mark.key])
        for oid, mark in found.items()
    }
