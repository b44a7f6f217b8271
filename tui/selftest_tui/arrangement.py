"""How the fleet is laid out in lines: grouped, sorted, filtered, folded. Pure; no widget, no clock.

Lines are the rows and sessions of the view themselves, so that "nothing changed in this line" is an `is`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.agents import AgentKey, State
from selftest_core.observations import SessionRef, TmuxSession
from selftest_core.view import Category, FleetView, Row
from selftest_tui import present

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

OTHER_SESSIONS = "other tmux sessions"
NONE_OF_IT = "none"
_OWN_LABELS = ("selftest_", "project")


class GroupBy(StrEnum):
    """What `g` offers. LABEL goes with a label's name."""

    ATTENTION = "attention"
    STATE = "state"
    HOST = "host"
    PROJECT = "project"
    RUN = "run"
    LABEL = "label"
    NOTHING = "nothing"


class SortBy(StrEnum):
    """What `o` offers. URGENCY: what has waited longest first where it needs a person, else by name."""

    URGENCY = "urgency"
    NAME = "name"
    RUNNING = "running time"
    IDLE = "idle time"
    CREATED = "newest"


@dataclass(frozen=True, slots=True)
class Arrangement:
    """All choices of layout. `folded`: keys of the groups that are closed."""

    group: GroupBy = GroupBy.ATTENTION
    label: str = ""
    sort: SortBy = SortBy.URGENCY
    query: str = ""
    only_me: bool = False
    folded: frozenset[str] = frozenset()

    def fold(self, group: str, closed: bool) -> Arrangement:
        """The same with one group closed or open."""
        return replace(self, folded=self.folded | {group} if closed else self.folded - {group})

    @property
    def grouped_by(self) -> str:
        """In words, for the frame."""
        return f"label {self.label}" if self.group is GroupBy.LABEL else self.group.value


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
    """The lines in order. `needing`: the keys of the agents that need a person, folded ones too, in that order."""

    lines: tuple[Line, ...] = ()
    needing: tuple[AgentKey, ...] = ()
    shown: int = 0
    agents: int = 0
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

    With a filter no group is folded: a hit must never be invisible.
    """
    rows = [
        row
        for row in view.rows
        if (matching is None or row.key in matching) and (not how.only_me or row.attention is not None)
    ]
    sessions = [] if how.only_me else [one for one in view.sessions if matching is None or one.ref in matching]
    rows.sort(key=_sorting(how.sort))
    sessions.sort(key=lambda one: (one.ref.name, one.ref.socket))
    grouped: dict[str, list[Row]] = {}
    if how.group is GroupBy.NOTHING:
        groups: list[tuple[str, list[Row]]] = [("", rows)]
    else:
        name_of = _grouping(how)
        for row in rows:
            grouped.setdefault(name_of(row), []).append(row)
        groups = [(name, grouped[name]) for name in _in_order(grouped, how.group)]

    lines: list[Line] = []
    group_of: dict[LineKey, str] = {}
    needing: list[AgentKey] = []

    def add(name: str, members: Iterable[Row] | Iterable[TmuxSession], count: int, category: Category | None) -> None:
        key = f"{how.group}:{how.label}:{name}" if name != OTHER_SESSIONS else OTHER_SESSIONS
        is_folded = key in how.folded and matching is None
        if name:
            lines.append(Group(key, name, count, is_folded, category))
            group_of.update((key_of(member), key) for member in members)
        if not is_folded:
            lines.extend(members)

    for name, members in groups:
        add(name, members, len(members), Category(name) if how.group is GroupBy.ATTENTION and name else None)
        needing += [row.key for row in members if row.attention is not None]
    if sessions:
        add(OTHER_SESSIONS, sessions, len(sessions), None)
    places = {key_of(line): place for place, line in enumerate(lines)}
    return Arranged(tuple(lines), tuple(needing), len(rows), len(view.rows), places, group_of)


_LAST = float("inf")


def _sorting(sort: SortBy) -> Callable[[Row], tuple[float, str, str]]:
    def urgency(row: Row) -> tuple[float, str, str]:
        waits = row.attention is not None and row.idle_since is not None
        return (row.idle_since or 0.0) if waits else _LAST, row.agent.name, row.agent.host.id

    def name(row: Row) -> tuple[float, str, str]:
        return 0.0, row.agent.name, row.agent.host.id

    def running(row: Row) -> tuple[float, str, str]:
        began = row.agent.started_at or row.agent.created_at
        return (_LAST if began is None else began), row.agent.name, row.agent.host.id

    def idle(row: Row) -> tuple[float, str, str]:
        return (_LAST if row.idle_since is None else row.idle_since), row.agent.name, row.agent.host.id

    def created(row: Row) -> tuple[float, str, str]:
        return -(row.agent.created_at or 0.0), row.agent.name, row.agent.host.id

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
