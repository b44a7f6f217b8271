"""What was seen, when, and by whom: the facts that `selftest_core.fleet.fleet` folds. Values only.

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
    """One error that `mngr list` reported beside its agents.

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
    """One whole answer of `mngr list`. `provider` None: unfiltered, every provider asked.

    `at` is when the answer was there; it was asked at `at - seconds`, and may be as old as that.
    """

    at: float
    provider: str | None
    agents: tuple[Agent, ...]
    errors: tuple[ListingError, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ListFailed:
    """`mngr list` gave no answer at all (missing, broken, killed, over its deadline). Asked at `at - seconds`."""

    at: float
    provider: str | None
    title: str
    detail: str = ""
    hint: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TmuxSession:
    """One session of a server. `agent_id` is mngr's stamp on its own sessions, None on any other."""

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
    """One tmux server that was asked. `is_default`: the one that mngr finds when TMUX is unset."""

    socket: str
    is_default: bool
    sessions: tuple[TmuxSession, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class LocalAgent:
    """What the probe sees of one local agent.

    `state` is None where the probe cannot tell (agent types whose process it does not know): mngr's state stands.
    `says` are the reasons in words, for `explain`. `condition`: what it does or waits for, by the agent program's own
    files or mngr's markers, None where neither tells. `exit_status` is what a wrapper of ours wrote, None elsewhere.
    """

    id: str
    name: str
    type: str
    state: State | None
    says: tuple[str, ...]
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

    A problem is a line that says what is wrong, and where it helps a second line that says what to do. `reminders`: of
    each run whose folder is known here, the agents that had their reminder, and when.
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
    """An agent of an earlier answer, and when that answer came."""

    agent: Agent
    as_of: float


@dataclass(frozen=True, slots=True)
class Remembered:
    """What an earlier process of ours last knew, read from the state folder."""

    at: float
    agents: tuple[RememberedAgent, ...]


@dataclass(frozen=True, slots=True)
class Metered:
    """What the agents of this machine have used until now, by agent id. Agents that are missing used nothing."""

    at: float
    usages: Mapping[str, Usage]


type Observation = Listed | ListFailed | Probed | Remembered | Metered
