"""What scenes are put together from: hosts, agents, looks, lists and sessions, each a plain observation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER, Agent, Host, Ssh, State
from selftest_core.fleet.fold import Fleet, apply, view
from selftest_core.fleet.observations import Listed, LocalAgent, Probed, TmuxServer, TmuxSession
from selftest_core.tools.tmux import SessionRef

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from selftest_core.fleet.observations import Observation
    from selftest_core.fleet.view import FleetView, Row

NOW = 1_795_253_700.0
"""2026-11-21 09:35:00 UTC."""
SOCKET = "/tmp/tmux-1000/default"
OTHER_SOCKET = "/tmp/tmux-1000/work"
RUN = "20261121-0931"

LOCAL = Host(id="host-12705af9626e47c29cba3e8a4d8c3a80", name="localhost", provider=LOCAL_PROVIDER, state="RUNNING")
MODAL = Host(
    id="host-5b1f0c9d7a3e4f2286c1d94e07ab3c55",
    name="st-7f-sandbox",
    provider="modal",
    state="RUNNING",
    ssh=Ssh("ssh -p 40022 root@r432.modal.host", "root", "r432.modal.host", 40022),
    image="debian-slim",
)
BOX = Host(
    id="host-c0ffee11223344556677889900aabbcc",
    name="build-1",
    provider="boxes",
    state="RUNNING",
    ssh=Ssh("ssh -p 22 dev@build-1.internal", "dev", "build-1.internal", 22),
)

TOPICS = (
    ("login", ("redirect", "limit", "remember", "two-factor", "logout", "guest", "locked", "reset")),
    ("cart", ("empty", "tax", "coupon", "remove", "merge", "shipping", "rounding", "limit")),
    ("pay", ("card", "refund", "timeout", "retry", "currency", "receipt", "webhook", "partial")),
    ("search", ("fuzzy", "paging", "empty", "ranking", "accents", "filters", "sort", "cache")),
    ("api", ("rate", "auth", "schema", "etag", "errors", "batch", "cors", "version")),
    ("export", ("csv", "pdf", "unicode", "large", "dates", "columns", "zip", "resume")),
)


@dataclass(frozen=True)
class Scene:
    """A fleet with all that it was made of."""

    observations: tuple[Observation, ...]
    fleet: Fleet
    view: FleetView

    def and_then(self, *observations: Observation, now: float | None = None) -> Scene:
        """This scene after some more observations."""
        fleet = self.fleet
        for observation in observations:
            fleet = apply(fleet, observation)
        at = self.view.at if now is None else now
        return Scene((*self.observations, *observations), fleet, view(fleet, at))

    @property
    def probed(self) -> Probed:
        """The last look of the probe."""
        return next(seen for seen in reversed(self.observations) if isinstance(seen, Probed))

    def row(self, name: str) -> Row:
        """The only row of that name."""
        (row,) = [row for row in self.view.rows if row.agent.name == name]
        return row


def scene(*observations: Observation, now: float = NOW) -> Scene:
    """What the fold makes of these observations."""
    return Scene((), Fleet(), view(Fleet(), now)).and_then(*observations)


def agent_id(number: int) -> str:
    """An id as mngr makes them."""
    return f"agent-{number:032x}"


def an_agent(
    number: int,
    name: str,
    state: State = State.WAITING,
    *,
    host: Host = LOCAL,
    type: str = "command",  # noqa: A002 - the field's own name
    test: str | None = None,
    age: float = 600.0,
    acted: float | None = None,
    waiting_reason: str | None = None,
    labels: Mapping[str, str] = MappingProxyType({}),
) -> Agent:
    """What mngr says of one agent that started `age` seconds ago and last acted `acted` seconds ago."""
    said = dict(labels)
    if test is not None:
        said = {"project": "api", "selftest_run": RUN, "selftest_role": "tester", "selftest_test": test, **said}
    return Agent(
        id=agent_id(number),
        name=name,
        type=type,
        host=host,
        state=state,
        state_word=state.value,
        command="claude" if type == "claude" else "/home/dev/api/scripts/tester.sh",
        work_dir=f"/home/dev/.mngr/worktrees/{name}-{number:08x}",
        branch=f"mngr/{name}",
        created_at=NOW - age,
        started_at=NOW - age,
        pid=4000 + number if state in (State.RUNNING, State.WAITING) else None,
        user_activity_at=None,
        agent_activity_at=None if acted is None else NOW - acted,
        idle_seconds=acted,
        idle_mode="IO",
        waiting_reason=waiting_reason,
        labels=MappingProxyType(said),
    )


def a_look(
    agent: Agent,
    *,
    socket: str = SOCKET,
    acted: float | None = 4.0,
    exit_status: int | None = None,
    bell: bool = False,
    title: str = "",
    waits_for_permission: bool = False,
    says: tuple[str, ...] = (),
) -> LocalAgent:
    """What the probe sees of a local agent that is as mngr says."""
    has_session = agent.state is not State.STOPPED
    return LocalAgent(
        id=agent.id,
        name=agent.name,
        type=agent.type,
        state=agent.state,
        notes=says or ((_SAYS[agent.state],) if agent.state in _SAYS else ()),
        command=agent.command,
        work_dir=agent.work_dir,
        branch=agent.branch,
        created_at=agent.created_at,
        started_at=agent.started_at,
        pid=agent.pid,
        labels=agent.labels,
        session=SessionRef(socket, f"mngr-{agent.name}") if has_session else None,
        pane_id=f"%{int(agent.id[6:], 16) % 10_000}" if has_session else None,
        activity_at=None if acted is None else NOW - acted,
        waits_for_permission=waits_for_permission,
        bell=bell,
        title=title,
        exit_status=exit_status,
    )


_SAYS = {
    State.RUNNING: "its process lives and the active marker is there",
    State.WAITING: "its process lives and no active marker is there",
    State.DONE: "a shell is in the foreground and its process is gone",
    State.STOPPED: "no tmux server of this user has its session",
    State.REPLACED: "another program is in the foreground",
}


def a_session(name: str, socket: str = OTHER_SOCKET, agent: str | None = None, command: str = "zsh") -> TmuxSession:
    """One tmux session."""
    return TmuxSession(
        ref=SessionRef(socket, name),
        session_id=f"${sum(map(ord, name))}",
        created_at=NOW - 7200,
        activity_at=NOW - 90,
        windows=2,
        attached=0,
        agent_id=agent,
        command=command,
        title=name,
    )


def a_probe(
    looks: Sequence[LocalAgent], others: Iterable[TmuxSession] = (), *, at: float = NOW - 0.4, **more: object
) -> Probed:
    """One look of the probe: the sessions of these agents, and others."""
    own = [
        a_session(look.session.name, look.session.socket, look.id, "bash") for look in looks if look.session is not None
    ]
    sessions = [*own, *others]
    sockets = sorted({SOCKET, *(session.ref.socket for session in sessions)})
    servers = tuple(
        TmuxServer(socket, socket == SOCKET, tuple(found for found in sessions if found.ref.socket == socket))
        for socket in sockets
    )
    probed = Probed(at=at, host_id=LOCAL.id, host_name=LOCAL.name, agents=tuple(looks), servers=servers, seconds=0.02)
    return replace(probed, **more)  # type: ignore[arg-type]


def a_list(agents: Iterable[Agent], *, at: float = NOW - 3.0, provider: str | None = None, **more: object) -> Listed:
    """One answer of `mngr list` that took 0.9 s."""
    listed = Listed(at=at, provider=provider, agents=tuple(agents), seconds=0.9)
    return replace(listed, **more)  # type: ignore[arg-type]
