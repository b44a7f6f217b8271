"""View of the fleet for screens and JSON, made by `selftest_core.fleet.fold.view`. Values only.

A row has no clock: running and idle times are instants (`started_at`, `idle_since`). So an unchanged row is the same
object as before, and a table repaints only changes.
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
    """Groups of agents, in the order in which a user must see them."""

    NEEDS_YOU = "needs you"
    FAILED = "failed"
    WORKING = "working"
    WAITING = "waiting"
    DONE = "done"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Row:
    """One agent. `agent.state` is the merged state (`fleet.state_rules`).

    `source`: whose state it is ("probe", "mngr", "remembered"). `attention`: why it needs the user, None if it does
    not; FAILED rows need one too. `stale_since`: the time of the last good answer, None while its provider answers.
    `condition`: its activity or what it waits for, None if only the state is known. `usage`: None if it is not
    metered. `outcome`: how its test ended in its run, in words, empty if no run is read.
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
    outcome: str = ""

    @property
    def key(self) -> AgentKey:
        """The identity of the agent."""
        return self.agent.key


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line of `explain`: a source, the time and text of its answer. `stands` marks the one that decided."""

    source: str
    at: float
    text: str
    stands: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem for the banner. `key` is stable while it lasts (a provider, a server, "mngr")."""

    key: str
    title: str
    detail: str = ""
    hint: str = ""
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """Status of one source. `lane`: "probe", "local", "all" or the name of a provider."""

    lane: str
    answered_at: float | None = None
    failed_at: float | None = None
    seconds: float = 0.0
    is_running: bool = False


@dataclass(frozen=True, slots=True)
class ModalCosts:
    """Costs of hosts on Modal. `metered`: USD by host; `usd_per_hour`: of others, from the settings, 0 for unknown."""

    metered: Mapping[str, float] = field(default_factory=dict)
    usd_per_hour: float = 0.0


def _no_evidence(key: AgentKey) -> tuple[Evidence, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class FleetView:
    """The fleet at one moment, for screens, JSON lines and reports.

    `rows` in order of creation; `sessions`: tmux sessions without an agent; `explain(key)`: the evidence for a row,
    newest first; `expecting`: providers, or "remote", whose first answer has not come yet.
    """

    at: float
    rows: tuple[Row, ...] = ()
    sessions: tuple[TmuxSession, ...] = ()
    servers: tuple[TmuxServer, ...] = ()
    problems: tuple[Problem, ...] = ()
    lanes: tuple[LaneStatus, ...] = ()
    expecting: frozenset[str] = frozenset()
    has_local_answer: bool = False
    modal_costs: ModalCosts = field(default_factory=ModalCosts)
    explain: Callable[[AgentKey], tuple[Evidence, ...]] = field(default=_no_evidence, compare=False, repr=False)

    @property
    def by_key(self) -> Mapping[AgentKey, Row]:
        """The rows by the identity of their agent."""
        return {row.key: row for row in self.rows}

    @property
    def counts(self) -> Mapping[Category, int]:
        """The number of agents of every category."""
        counted = dict.fromkeys(Category, 0)
        for row in self.rows:
            counted[row.category] += 1
        return counted
