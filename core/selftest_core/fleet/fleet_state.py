"""Fleet state: the newest answer of each source, and the rows that were made from them. Values only.

`selftest_core.fleet.fold` folds observations into it; `selftest_core.fleet.rows` makes its rows.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.agents import Agent, AgentKey, State
    from selftest_core.fleet.observations import LocalAgent, Probed, TmuxSession
    from selftest_core.fleet.problems import Failure, LostServer
    from selftest_core.fleet.view import LaneStatus, Row
    from selftest_core.usage.tokens import Usage

_NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ListedAgent:
    """An agent in mngr's newest answer: asked at `start`, answered at `at`. `is_remembered`: by an earlier process."""

    agent: Agent
    start: float
    at: float
    is_remembered: bool = False


class RowContext(NamedTuple):
    """Facts on which a row depends beside mngr's and the probe's values of the agent.

    `list_is_newer`: mngr was asked after the probe looked, and they disagree. `on_default_server`: mngr sees its tmux
    server too. `stale_since`: the time of the last good answer, None while it is fresh. `host_problem`: why the answer
    is old, where a user must know. `is_in_known_run`, `is_reminded`: as in `attention.AgentFacts`. `is_starting`: it
    was created a moment ago. `is_blind`: not every tmux server answered, so a missing session may exist. `usage`: None
    if it is not metered.
    """

    list_is_newer: bool = False
    on_default_server: bool = True
    stale_since: float | None = None
    host_problem: str | None = None
    is_in_known_run: bool = False
    is_reminded: bool = False
    is_starting: bool = False
    is_blind: bool = False
    usage: Usage | None = None


class Entry(NamedTuple):
    """A row, and the objects from which it was made: while they are the same objects, the row is kept."""

    listed: Agent | None
    is_remembered: bool
    local: LocalAgent | None
    context: RowContext
    row: Row


class StateChange(NamedTuple):
    """A change of an agent's state, at the time of the answer that reported it."""

    key: AgentKey
    at: float
    source: str
    before: State
    after: State


@dataclass(frozen=True, slots=True)
class Fleet:
    """State of the fleet. `Fleet()` is empty.

    `listed`: each agent in mngr's newest answer. `local`: agents of the probe, by id. `unreadable_since`: local agents
    whose file cannot be read now, and when it last could. `complete`: when each provider was last asked for all its
    agents ("all": any unfiltered answer). `empty`: when a provider last answered without agents, which proves nothing:
    mngr answers so for a provider that it does not know. `failures`: the newest failure of each lane. `lost`: tmux
    servers that ended with their agents. `usages`: by agent id. `changes`: the last ones of all agents, oldest first.
    """

    listed: Mapping[AgentKey, ListedAgent] = _NONE
    local: Mapping[str, LocalAgent] = _NONE
    unreadable_since: Mapping[str, float] = _NONE
    probed: Probed | None = None
    complete: Mapping[str, float] = _NONE
    empty: Mapping[str, float] = _NONE
    failures: Mapping[str, Failure] = _NONE
    lanes: Mapping[str, LaneStatus] = _NONE
    lost: tuple[LostServer, ...] = ()
    usages: Mapping[str, Usage] = _NONE
    changes: tuple[StateChange, ...] = ()
    entries: Mapping[AgentKey, Entry] = field(default=_NONE, repr=False)
    rows: tuple[Row, ...] = ()
    sessions: tuple[TmuxSession, ...] = ()
