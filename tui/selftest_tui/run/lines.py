"""Lines of a run's table: clusters with their tests first, then the other tests by state. Pure, without a clock.

Every test is in exactly one group. Rows are the run's own objects, so unchanged lines are compared by identity.
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING

from selftest_core.fleet.clusters import significant
from selftest_core.frozen import dataclass
from selftest_core.run.cluster_view import ClusterKind, cluster_rows
from selftest_core.run.events import Phase
from selftest_core.run.fold import RunRow
from selftest_core.run.outcome.claims import ClaimResult
from selftest_core.run.outcome.ends import CLAIMED_GREEN, End, Group
from selftest_tui.run import words as run_words
from selftest_tui.shared import present
from selftest_tui.shared.filter import Language, facts, hyphenated

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from selftest_core.run.cluster_view import ClusterRow
    from selftest_core.run.fold import Run
    from selftest_tui.shared.filter import Facts

type RunLine = RunGroup | RunRow
type InOrder = Callable[[tuple[RunRow, ...]], tuple[RunRow, ...]]

_TAIL = 8_000
_VERIFIED: dict[str, str] = {
    ClaimResult.PASSED: "verified",
    ClaimResult.FLAKY: "verified as flaky",
    ClaimResult.UNKNOWN: "not verified",
}
_OF_STATE: dict[Phase | Group, run_words.Look] = {
    Phase.WORKING: run_words.look_of(Phase.WORKING),
    Phase.WAITING: run_words.look_of(Phase.WAITING),
    **{group: look for group, look in run_words.GROUPS.items() if not group.is_clustered},
}
"""The groups of tests outside of clusters, in order."""


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The title line of a group. `cluster` is None if the group is a state."""

    key: str
    sign: str
    title: str
    style: str
    members: tuple[RunRow, ...]
    cluster: ClusterRow | None = None
    is_folded: bool = False


@dataclass(frozen=True, slots=True)
class RunLines:
    """The lines, top first. `places`: indexes of lines by key; `group_of`: group keys by test."""

    lines: tuple[RunLine, ...] = ()
    places: dict[str, int] = field(default_factory=dict)
    group_of: dict[str, str] = field(default_factory=dict)
    groups: dict[str, RunGroup] = field(default_factory=dict)


def key_of(line: RunLine) -> str:
    """Return the key of a line, which stays the same while the line changes."""
    return f"group {line.key}" if isinstance(line, RunGroup) else line.name


FILTER = Language(
    states=tuple(
        dict.fromkeys(
            map(hyphenated, ("needs you", "limited", "failed", CLAIMED_GREEN, *run_words.WORDS.values(), *End, *Phase))
        )
    ),
    fields=("test", "file", "agent", "host", "provider", "text"),
)
"""The filter of a run: states are the phases and outcomes of tests, as shown and as the journal has them."""


def facts_of(row: RunRow) -> Facts:
    """Return the searchable facts of a test."""
    how = how_of(row)
    states: list[str] = [how, run_words.WORDS[how], row.phase]
    states += ["failed"] if isinstance(how, End) and how.is_failure else []
    states += ["needs you"] if row.attention and row.end is None else []
    states += [CLAIMED_GREEN] if row.verified == ClaimResult.FAILED else []
    states += ["limited"] if row.limited and row.end is None else []
    member, text = row.member, row.text[:400]
    agent = member.name if member is not None else row.name
    fields = {
        "test": (row.planned.node_id,), "file": (file_of(row),), "agent": (agent,),
        "host": (member.host_id if member is not None else "",), "text": (row.attention, text),
        "provider": (member.provider if member is not None else "",),
    }  # fmt: skip
    return facts((row.planned.node_id, row.name, state_word(row), row.attention, text), states, fields)


def lay_out(
    run: Run,
    *,
    folded: Collection[str] = (),
    matching: Collection[str] | None = None,
    only_open: bool = False,
    in_order: InOrder = tuple,
) -> RunLines:
    """Return the lines of a run. `matching`: names of the tests that the filter shows, None for all.

    `only_open`: only tests of clusters. `in_order` sorts the tests of a group.
    """
    groups: list[RunGroup] = []
    taken: set[str] = set()
    for cluster in cluster_rows(run):
        taken.update(row.name for row in cluster.members)
        groups.append(_of_cluster(cluster))
    if not only_open:
        groups += _of_states([row for row in run.rows.values() if row.name not in taken])
    lines: list[RunLine] = []
    found = RunLines(places={}, group_of={}, groups={})
    for group in groups:
        members = group.members
        if matching is not None:
            members = tuple(row for row in members if row.name in matching)
        if not members:
            continue
        members = in_order(members)
        is_folded = group.key in folded and matching is None
        shown = RunGroup(group.key, group.sign, group.title, group.style, members, group.cluster, is_folded)
        found.groups[group.key] = shown
        found.places[key_of(shown)] = len(lines)
        lines.append(shown)
        for row in members:
            found.group_of[row.name] = group.key
            if not is_folded:
                found.places[row.name] = len(lines)
                lines.append(row)
    return RunLines(tuple(lines), found.places, found.group_of, found.groups)


def _of_cluster(cluster: ClusterRow) -> RunGroup:
    sign, style = run_words.CLUSTER_SIGNS[cluster.kind], run_words.CLUSTER_STYLES[cluster.kind]
    return RunGroup(cluster.key, sign, cluster_title(cluster), style, cluster.members, cluster)


def cluster_title(cluster: ClusterRow) -> str:
    """Return the title of a cluster, made harmless."""
    told = present.clean(cluster.title or cluster.signature)
    match cluster.kind:
        case ClusterKind.ASKING:
            return told or "needs you"
        case ClusterKind.LIMITED:
            return f"rate limited: {told}" if told else "rate limited"
        case ClusterKind.BLOCKED:
            return told or "blocked, without a reason"
        case ClusterKind.FAILED:
            return told or "failed without a message"


def _of_states(rows: list[RunRow]) -> list[RunGroup]:
    found: dict[Phase | Group, list[RunRow]] = {state: [] for state in _OF_STATE}
    for row in rows:
        found[_state(row)].append(row)
    return [
        RunGroup(look.word, look.symbol, look.word, look.style, tuple(found[state]))
        for state, look in _OF_STATE.items()
        if found[state]
    ]


def _state(row: RunRow) -> Phase | Group:
    if row.end is not None and row.phase is Phase.ENDED:
        return row.end.group
    return Phase.WAITING if row.phase is Phase.WAITING else Phase.WORKING


def file_of(row: RunRow) -> str:
    """The file of a test, empty for the task of another role, which has a brief."""
    return "" if row.planned.brief else row.planned.node_id.partition("::")[0]


def how_of(row: RunRow) -> End | Phase:
    """Return the end of a test once it is known, else its phase."""
    return row.end if row.end is not None else row.phase


def state_word(row: RunRow) -> str:
    """Return the state of a test in one or two words."""
    word = CLAIMED_GREEN if row.verified == ClaimResult.FAILED else run_words.WORDS[how_of(row)]
    if row.end is None and row.answer is not None:
        return f"{word}, answered"
    if row.is_verifying:
        return f"{word}, verifying"
    if row.end is not None and row.phase is Phase.STOPPING:
        return f"{word}, stopping"
    return f"{word}, {_VERIFIED[row.verified]}" if row.verified in _VERIFIED else word


def said_of(row: RunRow) -> str:
    """Return the state of a test and its reason, in one harmless line."""
    if row.end is None and row.attention:
        return present.clean(row.attention)
    word = state_word(row)
    more = (row.limited or row.missed) if row.end is None else _gist(row)
    return present.clean(f"{word}: {more}" if more else word)


def outcome_of(row: RunRow) -> str:
    """Return the outcome of a test that has ended, with its symbol, in one harmless line; empty before its end."""
    return f"{run_words.look_of(row.end).symbol} {said_of(row)}" if row.end is not None else ""


def _gist(row: RunRow) -> str:
    """Return the line of a failure that its cluster is named after, else the number of commits."""
    if row.end is not None and not row.end.group.is_open:
        doubt = row.verified_reason if row.verified in (ClaimResult.FLAKY, ClaimResult.UNKNOWN) else ""
        return doubt or (present.plural(row.commits, "commit") if row.commits else "")
    return _significant(row.text[-_TAIL:])


@lru_cache(maxsize=2_048)
def _significant(text: str) -> str:
    return significant(text)


def changed_places(before: RunLines, after: RunLines) -> Iterator[int]:
    """Yield the indexes of lines that look different now, and of lines that are gone."""
    for place, line in enumerate(after.lines):
        if place >= len(before.lines) or not _looks_same(before.lines[place], line):
            yield place
    yield from range(len(after.lines), len(before.lines))


def _looks_same(before: RunLine, now: RunLine) -> bool:
    if isinstance(before, RunGroup) and isinstance(now, RunGroup):
        return _look(before) == _look(now)
    return before is now


def _look(group: RunGroup) -> tuple[object, ...]:
    cluster = group.cluster
    marks = None if cluster is None else (cluster.stage, cluster.is_pausing, cluster.is_accepted)
    return group.sign, group.title, group.style, len(group.members), group.is_folded, marks
