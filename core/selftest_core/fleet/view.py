"""The fleet as it is shown: what `selftest_core.fleet.fleet.view` makes of all observations. Values only.

A row holds no clock: running and idle times are instants (`started_at`, `idle_since`), so that a row in which
nothing changed is equal to, and kept identical (`is`) with, the one before, and a table repaints changes alone.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.agent_types.condition import Condition
    from selftest_core.agents import Agent, AgentKey
    from selftest_core.fleet.observations import TmuxServer, TmuxSession
    from selftest_core.tools.tmux import SessionRef
    from selftest_core.usage.tokens import Usage


class Category(StrEnum):
    """The groups of the attention order, first that which a person must see first."""

    NEEDS_YOU = "needs you"
    FAILED = "failed"
    WORKING = "working"
    WAITING = "waiting"
    DONE = "done"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Row:
    """One agent. `agent.state` is already the state that stands (the probe's where it knows better).

    `attention`: why it needs a person, in words; None where it does not. FAILED rows need attention too.
    `stale_since`: the time of the last good answer when its provider no longer answers, else None.
    `source`: who said the state ("probe", "mngr", "remembered"). `condition`: what it does or waits for, None where
    nothing tells more than the state. `usage`: what it used; None where nobody metered it.
    """

    agent: Agent
    category: Category
    source: str
    attention: str | None = None
    stale_since: float | None = None
    session: SessionRef | None = None
    pane_id: str | None = None
    idle_since: float | None = None
    title: str = ""
    exit_status: int | None = None
    usage: Usage | None = None
    condition: Condition | None = None

    @property
    def key(self) -> AgentKey:
        """The identity of the agent."""
        return self.agent.key


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line of `explain`: who said what, and when. `stands` marks the one whose word was taken."""

    source: str
    at: float
    says: str
    stands: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a banner must say. `key` is stable while the problem lasts (a provider, a server, "mngr")."""

    key: str
    title: str
    detail: str = ""
    hint: str = ""
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """How one source does. `lane`: "probe", "local", "all" or a provider's name."""

    lane: str
    answered_at: float | None = None
    failed_at: float | None = None
    seconds: float = 0.0
    is_running: bool = False


def _no_evidence(key: AgentKey) -> tuple[Evidence, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class FleetView:
    """All that a screen, a JSON line or a report needs, at one moment.

    `rows` in order of creation; `sessions` are the tmux sessions that belong to no agent; `counts` has every
    category; `explain(key)` gives the evidence behind a row, newest first. `expecting` names the providers (or
    "remote") whose first answer is still on its way.
    """

    at: float
    rows: tuple[Row, ...] = ()
    sessions: tuple[TmuxSession, ...] = ()
    servers: tuple[TmuxServer, ...] = ()
    problems: tuple[Problem, ...] = ()
    lanes: tuple[LaneStatus, ...] = ()
    expecting: frozenset[str] = frozenset()
    has_local_answer: bool = False
    explain: Callable[[AgentKey], tuple[Evidence, ...]] = field(default=_no_evidence, compare=False, repr=False)

    @property
    def by_key(self) -> Mapping[AgentKey, Row]:
        """The rows by the identity of their agent."""
        return {row.key: row for row in self.rows}

    @property
    def counts(self) -> Mapping[Category, int]:
        """How many agents each category has, zero included."""
        counted = dict.fromkeys(Category, 0)
        for row in self.rows:
            counted[row.category] += 1
        return counted
