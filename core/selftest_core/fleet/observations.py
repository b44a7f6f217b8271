"""Observations: the answers of sources, each with its time, that `selftest_core.fleet.fold` folds. Values only.

Times are seconds since the epoch, UTC, of the machine that observed.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.agent_types.condition import Condition
    from selftest_core.agents import Agent, State
    from selftest_core.tools.mngr_files import UnreadableAgent
    from selftest_core.tools.tmux import SessionRef
    from selftest_core.usage.tokens import Usage

_NO_LABELS: Mapping[str, str] = MappingProxyType({})
_NO_REMINDERS: Mapping[str, Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ListingError:
    """One error in an answer of `mngr list`.

    It names a provider, or a host (one broken data.json hides every agent of that host), or an agent, or nothing.
    """

    provider: str | None
    message: str
    hint: str = ""
    is_unreachable: bool = False
    host_id: str | None = None
    agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """One complete answer of `mngr list`. `provider` None: every provider was asked.

    It came at `at`; it was asked at `at - seconds`, and its data may be that old.
    """

    at: float
    provider: str | None
    agents: tuple[Agent, ...]
    errors: tuple[ListingError, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ListFailed:
    """A `mngr list` without an answer: missing, broken, killed, or over its deadline. Asked at `at - seconds`."""

    at: float
    provider: str | None
    title: str
    detail: str = ""
    hint: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TmuxSession:
    """One session of a server. `agent_id`: mngr's stamp on its sessions, None on others."""

    ref: SessionRef
    session_id: str
    created_at: float
    activity_at: float
    windows: int
    attached: int
    agent_id: str | None = None
    command: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class TmuxServer:
    """One tmux server. `is_default`: the one that mngr asks while TMUX is unset."""

    socket: str
    is_default: bool
    sessions: tuple[TmuxSession, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class LocalAgent:
    """One local agent by the probe.

    `state` is None if the probe cannot tell (agent types whose process it does not know): mngr's state is used.
    `notes`: the reasons in words, for `explain`. `condition`: by the program's own files or mngr's markers, None where
    neither tells. `exit_status`: written by a wrapper of ours, None elsewhere.
    """

    id: str
    name: str
    type: str
    state: State | None
    notes: tuple[str, ...]
    command: str = ""
    work_dir: str = ""
    branch: str | None = None
    created_at: float | None = None
    started_at: float | None = None
    pid: int | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    session: SessionRef | None = None
    pane_id: str | None = None
    other_sessions: tuple[SessionRef, ...] = ()
    activity_at: float | None = None
    waits_for_permission: bool = False
    bell: bool = False
    title: str = ""
    exit_status: int | None = None
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Probed:
    """One look of the local probe: every agent folder and every tmux server of this user.

    A problem is one line, with what to do on a second one where that helps. `reminders`: by known run and agent id, the
    time of the agent's reminder.
    """

    at: float
    host_id: str
    host_name: str
    agents: tuple[LocalAgent, ...]
    servers: tuple[TmuxServer, ...]
    problems: tuple[str, ...] = ()
    unreadable: tuple[UnreadableAgent, ...] = ()
    seconds: float = 0.0
    reminders: Mapping[str, Mapping[str, float]] = field(default_factory=lambda: _NO_REMINDERS)


@dataclass(frozen=True, slots=True)
class RememberedAgent:
    """An agent of an earlier answer, and the time of that answer."""

    agent: Agent
    as_of: float


@dataclass(frozen=True, slots=True)
class Remembered:
    """The agents that an earlier process saved in the state folder."""

    at: float
    agents: tuple[RememberedAgent, ...]


@dataclass(frozen=True, slots=True)
class Metered:
    """Tokens and cost of this machine's agents until now, by agent id. A missing agent used nothing."""

    at: float
    usages: Mapping[str, Usage]


type Observation = Listed | ListFailed | Probed | Remembered | Metered
