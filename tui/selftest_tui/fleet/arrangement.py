"""The arrangement of the fleet in lines: grouped, sorted, filtered, folded. Pure; no clock.

Lines are the rows and sessions of the view themselves, so that an unchanged line is recognised with `is`.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.agent_types.condition import Kind
from selftest_core.agents import AgentKey, State
from selftest_core.fleet.attention import cost_of_waiting
from selftest_core.fleet.observations import TmuxSession
from selftest_core.fleet.view import Category, FleetView, Row
from selftest_core.frozen import dataclass
from selftest_tui.fleet.columns import COLUMNS
from selftest_tui.shared import present
from selftest_tui.shared.filter import Language, facts, hyphenated
from selftest_tui.shared.present import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from selftest_core.tools.tmux import SessionRef
    from selftest_tui.shared.filter import Facts
    from selftest_tui.shared.widgets.columns import Sort

OLD_AFTER = 24 * 3_600.0
"""Seconds after its end from which an agent of a run is old."""
OTHER_SESSIONS = "other tmux sessions"
NONE_OF_IT = "none"
_OWN_LABELS = ("selftest_", "project")


class GroupBy(StrEnum):
    """The choices of grouping. LABEL comes with a label's name."""

    ATTENTION = "attention"
    STATE = "state"
    HOST = "host"
    PROJECT = "project"
    RUN = "run"
    LABEL = "label"
    NOTHING = "nothing"


class SortBy(StrEnum):
    """The choices of order. URGENCY: dialogs, then errors, then ended turns; the longest wait first."""

    URGENCY = "urgency"
    NAME = "name"
    RUNNING = "running time"
    IDLE = "idle time"
    CREATED = "newest"


@dataclass(frozen=True, slots=True)
class Arrangement:
    """All choices of layout. `hides_old`: without agents of old runs. `folded`: keys of the groups that are closed.

    `by_column`: sorts by a column, and by `sort` where that is alike.
    """

    group: GroupBy = GroupBy.ATTENTION
    label: str = ""
    sort: SortBy = SortBy.URGENCY
    by_column: Sort | None = None
    query: str = ""
    only_me: bool = False
    hides_old: bool = False
    folded: frozenset[str] = frozenset()

    def fold(self, group: str, closed: bool) -> Arrangement:
        """Return this arrangement with one group closed or open."""
        return replace(self, folded=self.folded | {group} if closed else self.folded - {group})

    @property
    def grouped_by(self) -> str:
        """The grouping in words."""
        return f"label {self.label}" if self.group is GroupBy.LABEL else self.group.value

    @property
    def sorted_by(self) -> str:
        """The order in words."""
        if self.by_column is None:
            return self.sort.value
        title = next(one.title for one in COLUMNS.columns if one.name == self.by_column.column)
        return f"column {title}, reversed" if self.by_column.is_reversed else f"column {title}"

    @property
    def words(self) -> str:
        """The choices as the title of the frame."""
        words = ["agents", f"group: {self.grouped_by}"]
        words += [f"sort: {self.sorted_by}"] if self.sorted_by != SortBy.URGENCY.value else []
        words += ["only what needs you"] if self.only_me else []
        words += [f"/{self.query}"] if self.query else []
        return " ─ ".join(words)


@dataclass(frozen=True, slots=True)
class Group:
    """The line above a group. `key` is stable over refreshes; `category` where the group is one."""

    key: str
    title: str
    count: int
    is_folded: bool
    category: Category | None = None


type Line = Row | TmuxSession | Group
type LineKey = AgentKey | SessionRef | str


@dataclass(frozen=True, slots=True)
class Arranged:
    """The lines in order. `needing`: the keys of the agents that need the user, folded ones too, in that order.

    `hidden`: how many agents of old runs are left out.
    """

    lines: tuple[Line, ...] = ()
    needing: tuple[AgentKey, ...] = ()
    shown: int = 0
    agents: int = 0
    hidden: int = 0
    places: dict[LineKey, int] = field(default_factory=dict, compare=False)
    group_of: dict[LineKey, str] = field(default_factory=dict, compare=False)


def key_of(line: Line) -> LineKey:
    """The identity of a line."""
    return line.ref if isinstance(line, TmuxSession) else line.key


def labels_of(view: FleetView) -> tuple[str, ...]:
    """The label names that agents carry, ours and mngr's own left out, sorted."""
    return tuple(sorted({name for row in view.rows for name in row.agent.labels if not name.startswith(_OWN_LABELS)}))


def arrange(view: FleetView, how: Arrangement, matching: Collection[LineKey] | None = None) -> Arranged:
    """The lines of `view`. `matching`: the keys that the filter lets through, None for all.

    With a filter no group is folded and no old agent is hidden: a hit must never be invisible.
    """
    rows = [(row.key, row) for row in view.rows if not how.only_me or row.attention is not None]
    if matching is not None:
        rows = [pair for pair in rows if pair[0] in matching]
    hidden = 0
    if how.hides_old and matching is None:
        recent = [pair for pair in rows if not is_old(pair[1], view.at)]
        hidden, rows = len(rows) - len(recent), recent
    sorting = _sorting(how.sort)
    rows.sort(key=lambda pair: sorting(pair[1]))
    if how.by_column is not None:
        rows = COLUMNS.in_order(rows, how.by_column, view.at)
    made = _Layout(how, may_fold=matching is None)
    if how.group is GroupBy.NOTHING:
        made.add("", rows)
    else:
        name_of = _grouping(how)
        grouped: dict[str, list[tuple[AgentKey, Row]]] = {}
        for pair in rows:
            grouped.setdefault(name_of(pair[1]), []).append(pair)
        for name in _in_order(grouped, how.group):
            made.add(name, grouped[name], Category(name) if how.group is GroupBy.ATTENTION else None)
    sessions = [] if how.only_me else [one for one in view.sessions if matching is None or one.ref in matching]
    if sessions:
        others = [(one.ref, one) for one in sorted(sessions, key=lambda one: one.ref[::-1])]
        made.add(OTHER_SESSIONS, COLUMNS.in_order(others, how.by_column, view.at) if how.by_column else others)
    return Arranged(
        tuple(made.lines), tuple(made.needing), len(rows), len(view.rows), hidden, made.places, made.group_of
    )


def is_old(row: Row, now: float) -> bool:
    """Return whether the agent's run ended more than a day ago, and it needs the user at most for its failure."""
    if row.category not in ENDED or not row.agent.run or row.stale_since is not None:
        return False
    agent = row.agent
    moments = (row.idle_since, agent.agent_activity_at, agent.user_activity_at, agent.started_at, agent.created_at)
    known = [moment for moment in moments if moment is not None]
    return bool(known) and now - max(known) > OLD_AFTER


class _Layout:
    """The lines with their places, made in one pass: there may be a thousand rows."""

    def __init__(self, how: Arrangement, *, may_fold: bool) -> None:
        self.lines: list[Line] = []
        self.needing: list[AgentKey] = []
        self.places: dict[LineKey, int] = {}
        self.group_of: dict[LineKey, str] = {}
        self._how = how
        self._may_fold = may_fold

    def add(
        self,
        name: str,
        members: Sequence[tuple[LineKey, Row | TmuxSession]],
        category: Category | None = None,
    ) -> None:
        """Add a group with its members; without a name only the members."""
        how = self._how
        group = f"{how.group}:{how.label}:{name}" if name != OTHER_SESSIONS else OTHER_SESSIONS
        is_folded = group in how.folded and self._may_fold
        if name:
            self.places[group] = len(self.lines)
            self.lines.append(Group(group, name, len(members), is_folded, category))
            self.group_of.update((key, group) for key, _ in members)
        if not is_folded:
            for place, (key, _) in enumerate(members, start=len(self.lines)):
                self.places[key] = place
            self.lines.extend(line for _, line in members)
        self.needing += [row.key for _, row in members if isinstance(row, Row) and row.attention is not None]


FILTER = Language(
    states=tuple(dict.fromkeys(map(hyphenated, (*Category, *State, *Kind, "ended", "stale", "session")))),
    fields=("name", "test", "branch", "host", "provider", "type", "project", "run", "dir"),
    has_labels=True,
)
"""The filter of the fleet: states are the groups of attention, mngr's states and what an agent does or waits for."""


def facts_of(line: Row | TmuxSession) -> Facts:
    """The searchable facts of an agent or a session."""
    if isinstance(line, TmuxSession):
        return facts((line.ref.name, line.title, line.command), ("session",), {"name": (line.ref.name,)})
    agent = line.agent
    states: list[str] = [line.category, agent.state]
    states += [line.condition.kind] if line.condition is not None else []
    states += ["ended"] if present.has_ended_somehow(line) else []
    states += ["stale"] if line.stale_since is not None else []
    test, branch = agent.test or "", agent.branch or ""
    parts = [agent.name, test, branch, agent.host.name, agent.host.provider, agent.type]
    parts += [line.outcome] if line.outcome else []
    parts += [f"{name}={value}" for name, value in agent.labels.items() if name != "selftest_test"]
    fields = {
        "name": (agent.name,), "test": (test,), "branch": (branch,), "host": (agent.host.name,),
        "provider": (agent.host.provider,), "type": (agent.type,), "project": (agent.project or "",),
        "run": (agent.run or "",), "dir": (agent.work_dir,),
    }  # fmt: skip
    return facts(parts, states, fields, agent.labels)


def items_of(view: FleetView) -> Iterable[tuple[LineKey, Row | TmuxSession]]:
    """List all rows and sessions that the filter searches, by key."""
    yield from ((row.key, row) for row in view.rows)
    yield from ((session.ref, session) for session in view.sessions)


_LAST = float("inf")


def _sorting(sort: SortBy) -> Callable[[Row], tuple[float, float, str, str]]:
    def urgency(row: Row) -> tuple[float, float, str, str]:
        return *cost_of_waiting(row), row.agent.name, row.agent.host.id

    def name(row: Row) -> tuple[float, float, str, str]:
        return 0.0, 0.0, row.agent.name, row.agent.host.id

    def running(row: Row) -> tuple[float, float, str, str]:
        began = row.agent.started_at or row.agent.created_at
        return 0.0, (_LAST if began is None else began), row.agent.name, row.agent.host.id

    def idle(row: Row) -> tuple[float, float, str, str]:
        return 0.0, (_LAST if row.idle_since is None else row.idle_since), row.agent.name, row.agent.host.id

    def created(row: Row) -> tuple[float, float, str, str]:
        return 0.0, -(row.agent.created_at or 0.0), row.agent.name, row.agent.host.id

    return {
        SortBy.URGENCY: urgency,
        SortBy.NAME: name,
        SortBy.RUNNING: running,
        SortBy.IDLE: idle,
        SortBy.CREATED: created,
    }[sort]


def _grouping(how: Arrangement) -> Callable[[Row], str]:
    def state(row: Row) -> str:
        return row.agent.state_word if row.agent.state is State.UNKNOWN else row.agent.state.value

    ways: dict[GroupBy, Callable[[Row], str]] = {
        GroupBy.ATTENTION: lambda row: row.category.value,
        GroupBy.STATE: state,
        GroupBy.HOST: lambda row: present.host_name(row.agent),
        GroupBy.PROJECT: lambda row: row.agent.project or NONE_OF_IT,
        GroupBy.RUN: lambda row: row.agent.run or NONE_OF_IT,
        GroupBy.LABEL: lambda row: row.agent.labels.get(how.label) or NONE_OF_IT,
    }
    return ways[how.group]


def _in_order(names: Iterable[str], group: GroupBy) -> list[str]:
    if group is GroupBy.ATTENTION:
        order = [category.value for category in Category]
    elif group is GroupBy.STATE:
        order = [state.value for state in State]
    else:
        order = []
    return sorted(
        names, key=lambda name: (order.index(name) if name in order else len(order), name == NONE_OF_IT, name)
    )


# cursor and scroll position after a change of the lines: the line under the cursor stays at its place on the screen


def place_of_cursor(before: Arranged, after: Arranged, cursor: int) -> int:
    """Return the new position of the cursor: its line, else its folded group, else the nearest line, below first."""
    lines = before.lines
    if not lines or not after.lines:
        return 0
    cursor = min(cursor, len(lines) - 1)
    key = key_of(lines[cursor])
    if key in after.places:
        return after.places[key]
    if key in after.group_of:
        return after.places.get(after.group_of[key], 0)
    for line in (*lines[cursor + 1 :], *reversed(lines[:cursor])):
        place = after.places.get(key_of(line))
        if place is not None and not isinstance(line, Group):
            return place
    return min(cursor, len(after.lines) - 1)


def first_line(before: Arranged, after: Arranged, cursor_before: int, cursor: int, top: int, page: int) -> int:
    """Return the first of `page` lines to show; `top`: the first line until now.

    At the very top it stays there while the cursor is visible: agents that newly need the user appear there.
    """
    is_seen = top <= cursor_before < top + page
    if top == 0 and (not is_seen or cursor < page):
        wanted = 0
    elif is_seen:
        wanted = cursor - (cursor_before - top)
    else:
        place = after.places.get(key_of(before.lines[top])) if top < len(before.lines) else None
        wanted = top if place is None else place
    return max(0, min(wanted, len(after.lines) - page))


def next_needing(arranged: Arranged, cursor: int, step: int, *, is_on_agent: bool) -> AgentKey | None:
    """Return the next (1) or previous (-1) agent that needs the user, wrapping around; folded groups are included."""
    needing = arranged.needing

    def rank(number: int) -> tuple[int, int]:
        place = arranged.places.get(needing[number])
        return (place, 0) if place is not None else (arranged.places[arranged.group_of[needing[number]]], 1 + number)

    here = (cursor, 0 if is_on_agent else -1)
    if not needing:
        return None
    if step > 0:
        return next((key for number, key in enumerate(needing) if rank(number) > here), needing[0])
    return next((key for number, key in reversed([*enumerate(needing)]) if rank(number) < here), needing[-1])


def is_same(before: Line | None, now: Line | None) -> bool:
    """True if nothing in the line changed. Unchanged rows are the same object; comparing them by value is slow."""
    return before is now or (before == now and not isinstance(now, Row))


def changed_places(before: Arranged, after: Arranged) -> Iterator[int]:
    """The places whose line has changed, those that became empty included."""
    for place, line in enumerate(after.lines):
        if place >= len(before.lines) or not is_same(before.lines[place], line):
            yield place
    yield from range(len(after.lines), len(before.lines))
