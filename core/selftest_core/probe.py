"""The local probe: the state of every agent of this machine in milliseconds, without asking mngr.

mngr decides a state from the agent's first pane, the process table and two marker files; so does this, by the same
rules (`judge`), but on every tmux server of this user and with one tmux process per server. What it cannot tell (an
agent type whose process it does not know, a server that hangs) it leaves to mngr by saying None. It never raises for
one agent's or one server's trouble: that is said in `problems` or in the agent's `says`.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from selftest_core.agent_files import AgentFiles, AgentFolder, prefix_of
from selftest_core.agents import State
from selftest_core.errors import ToolError, ToolFailedError, ToolMissingError, ToolTimeoutError
from selftest_core.observations import LocalAgent, Probed, SessionRef, TmuxServer, TmuxSession
from selftest_core.tools.process_table import ProcessTable, process_reader
from selftest_core.tools.tmux import Pane, Tmux, is_gone, own_server, sockets_of, tmux_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_WINDOW = "agent"
_SHELLS = frozenset({"bash", "sh", "zsh", "fish", "dash", "ksh", "tcsh", "csh"})
# The process that each type runs: for "command" types the first word of the command, for these a fixed name.
_PROCESS_OF_TYPE = {"claude": "claude"}
_COMMAND_TYPES = frozenset({"command", "headless_command"})
_DEAD_PANE = "its pane is dead"
_SETTLING = 2.0
"""Seconds after its creation or start in which an agent that seems stopped or done may only be on its way."""
_SERVER_DEADLINE = 5.0
_SERVER_REST = 10.0
"""Seconds before a server that did not answer is asked again: one that hangs must not slow every look."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The state that the rules give, None where they cannot; the main process's id; and why, in words."""

    state: State | None
    pid: int | None
    says: str


def expected_process(agent_type: str, command: str) -> str:
    """The name of the process that is the agent, as `ps` shows it; "" where nothing tells."""
    if agent_type in _PROCESS_OF_TYPE:
        return _PROCESS_OF_TYPE[agent_type]
    words = command.lstrip("( ").split()
    return words[0].rpartition("/")[2] if words else ""


def judge(
    agent_type: str, command: str, pane: Pane, table: ProcessTable, *, is_active: bool, is_blocked: bool
) -> Judged:
    """The state of an agent whose session is there. `is_active`, `is_blocked`: mngr's marker files."""
    if pane.is_dead:
        return Judged(State.DONE, None, _DEAD_PANE)
    expected = expected_process(agent_type, command)
    is_known = agent_type in _COMMAND_TYPES or agent_type in _PROCESS_OF_TYPE
    below = list(table.descendants(pane.pid))
    pid = next((each for each in (pane.pid, *below) if table.names.get(each) == expected), None)
    if pane.command == expected or any(table.names.get(each) == expected for each in below):
        running = f"{expected} runs" + (f" as process {pid}" if pid else "")
        if not is_known and is_active:
            return Judged(None, pid, f"{running}; whether it waits for somebody is for mngr to say ({agent_type})")
        if is_active and not (is_blocked and agent_type in _PROCESS_OF_TYPE):
            return Judged(State.RUNNING, pid, f"{running}, and it is marked as active")
        return Judged(
            State.WAITING, pid, f"{running}, " + ("blocked on a dialog" if is_active else "not marked active")
        )
    others = [name for each in below if (name := table.names.get(each, "")) not in _SHELLS]
    shown = pane.command[:60]
    if pane.command in _SHELLS and (agent_type in _COMMAND_TYPES or not others):
        return Judged(State.DONE, None, f"{expected or 'its program'} has ended, {shown} is in the foreground")
    if agent_type not in _COMMAND_TYPES:
        return Judged(None, None, f"{shown} is in the foreground; what that means for {agent_type} is for mngr to say")
    if not others and table.names.get(pane.pid) in _SHELLS:
        return Judged(State.DONE, None, f"{expected} has ended, only a shell is left")
    return Judged(State.REPLACED, None, f"{expected} is not running, {shown} is in its place")


@dataclass(slots=True)
class _Server:
    """One server's answer, sorted by session. `error` is empty where it answered."""

    socket: str
    panes: dict[str, list[Pane]]
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """A session that is an agent's, and how that is known."""

    server: _Server
    name: str
    is_stamped: bool

    @property
    def ref(self) -> SessionRef:
        return SessionRef(self.server.socket, self.name)

    @property
    def primary(self) -> Pane:
        """The pane that mngr judges by: the first of the window "agent", else of the first window."""
        panes = self.server.panes[self.name]
        return next((pane for pane in panes if pane.window == _WINDOW), panes[0])

    @property
    def own(self) -> Pane:
        """The pane that the agent was started in, else the primary one."""
        stamped = self.primary.agent_pane
        return next((pane for pane in self.server.panes[self.name] if pane.pane_id == stamped), self.primary)


class Probe:
    """Looks at all agents and all tmux servers of this user. For one thread; keeps caches between looks."""

    def __init__(self, environ: Mapping[str, str], sockets: Sequence[str] = ()) -> None:
        self._environ = dict(environ)
        self._named = tuple(sockets)
        self._files = AgentFiles(environ)
        self._reader = process_reader()
        self._resting: dict[str, tuple[float, str]] = {}
        self._pids: frozenset[int] = frozenset()
        self._has_session: dict[str, bool] = {}

    @property
    def pids(self) -> frozenset[int]:
        """The processes whose end changes a state: each agent's own, or where it has none its pane's."""
        return self._pids

    def watched_paths(self) -> tuple[Path, ...]:
        """The folders in which a change means that it is time to look again, each to be watched without those below.

        Only folders that exist. An agent with a session writes a heartbeat into its `activity` folder, so that one is
        named only where there is no session, and a start is what would be written.
        """
        agents_dir = self._files.agents_dir
        folders = [_nearest(self._files.host_dir), agents_dir, _nearest(tmux_folder(self._environ))]
        for agent_id, has_session in self._has_session.items():
            folder = agents_dir / agent_id
            folders += [folder] if has_session else [folder, folder / "activity"]
        return tuple(dict.fromkeys(path for path in folders if path.is_dir()))

    def look(self, now: float) -> Probed:
        """One look, at the time `now`. Blocks for some milliseconds; five seconds for a server that hangs."""
        began = time.perf_counter()
        folders = self._files.look(now)
        servers, tmux_trouble = self._ask_servers(now)
        problems = [*folders.problems]
        if tmux_trouble:
            problems.append(tmux_trouble)
        try:
            table = self._reader.read()
        except ToolError as error:
            table = ProcessTable()
            problems.append("\n".join(filter(None, (error.title, error.hint))))
        blind = tmux_trouble.partition("\n")[0] or "; ".join(
            f"{server.socket}: {server.error}" for server in servers if server.error
        )
        seen = _Seen(servers, prefix_of(self._environ, self._files.host_dir), table, blind)
        shared = Counter(folder.data.work_dir for folder in folders.agents)
        agents = []
        for folder in folders.agents:
            agent = seen.agent(folder)
            if agent.state not in (State.RUNNING, State.WAITING) and agent.work_dir and shared[agent.work_dir] == 1:
                agent = _with_exit_status(agent, self._files.exit_status(agent.work_dir))
            agent = _unless_settling(agent, now)
            agents.append(agent)
        self._pids = frozenset(seen.pids)
        self._has_session = {agent.id: agent.session is not None for agent in agents}
        return Probed(
            at=now,
            host_id=folders.host_id,
            host_name="localhost",
            agents=tuple(agents),
            servers=tuple(_told(server, index == 0) for index, server in enumerate(servers)),
            problems=tuple(problems),
            unreadable=folders.unreadable,
            seconds=time.perf_counter() - began,
        )

    def _ask_servers(self, now: float) -> tuple[list[_Server], str]:
        """What each live server holds, mngr's default first even if nothing runs there; and tmux's own trouble."""
        servers: list[_Server] = []
        own = own_server(self._environ)
        asked_for = {own[0] if own else "", *self._named}
        for index, socket in enumerate(sockets_of(self._environ, self._named)):
            server = _Server(socket, {})
            rest = self._resting.get(socket)
            if rest is not None and now < rest[0]:
                server.error = rest[1]
                servers.append(server)
                continue
            self._resting.pop(socket, None)
            try:
                for pane in Tmux(socket, self._environ).panes(_SERVER_DEADLINE):
                    server.panes.setdefault(pane.session, []).append(pane)
            except ToolMissingError as error:
                return [_Server(socket, {}, error.title)], "\n".join(filter(None, (error.title, error.hint)))
            except ToolTimeoutError:
                server.error = f"it did not answer within {_SERVER_DEADLINE:g} s"
                self._resting[socket] = (now + _SERVER_REST, server.error)
            except ToolFailedError as error:
                if is_gone(error.stderr):
                    if index > 0 and socket not in asked_for:
                        continue
                else:
                    server.error = error.detail or error.title
            except ToolError as error:
                server.error = f"{error.title}: {error.detail}"
            servers.append(server)
        return servers, ""


class _Seen:
    """Everything that one look saw, joined agent by agent."""

    def __init__(self, servers: Sequence[_Server], prefix: str, table: ProcessTable, blind: str) -> None:
        self._prefix = prefix
        self._table = table
        self._blind = blind
        self._default = servers[0].socket if servers else ""
        self._by_stamp: dict[str, list[_Found]] = {}
        self._by_name: dict[str, list[_Found]] = {}
        self.pids: set[int] = set()
        for server in servers:
            for name, panes in server.panes.items():
                stamp = panes[0].agent_id
                if stamp:
                    self._by_stamp.setdefault(stamp, []).append(_Found(server, name, True))
                else:
                    self._by_name.setdefault(name, []).append(_Found(server, name, False))

    def agent(self, folder: AgentFolder) -> LocalAgent:
        """What is true of one agent."""
        data = folder.data
        found = self._by_stamp.get(data.id, []) + self._by_name.get(f"{self._prefix}{data.name}", [])
        says = [data.trouble] if data.trouble else []
        blocked = folder.is_active and folder.has_permission_marker
        if not found:
            state = None if self._blind else State.STOPPED
            if self._blind:
                says.append(f"no session of it was found, but not every tmux server answered ({self._blind})")
            else:
                says.append("no tmux server of this user has a session of it")
            return self._made(folder, Judged(state, None, ""), says, None)
        chosen = found[0]
        how = "stamped with its id" if chosen.is_stamped else "named after it"
        says.append(f"session {chosen.name} ({how}) on the tmux server {chosen.server.socket}")
        if chosen.server.socket != self._default:
            says.append("not mngr's default server: mngr shows it as STOPPED unless TMUX points there")
        if len(found) > 1:
            says.append(f"{len(found) - 1} more sessions claim to be it: see other sessions")
        judged = judge(
            data.type, data.command, chosen.primary, self._table, is_active=folder.is_active, is_blocked=blocked
        )
        says.append(judged.says)
        self.pids.add(judged.pid or chosen.own.pid)
        return self._made(folder, judged, says, chosen, [each.ref for each in found[1:]])

    def _made(
        self,
        folder: AgentFolder,
        judged: Judged,
        says: Sequence[str],
        found: _Found | None,
        others: Sequence[SessionRef] = (),
    ) -> LocalAgent:
        data = folder.data
        panes = found.server.panes[found.name] if found else []
        return LocalAgent(
            id=data.id,
            name=data.name,
            type=data.type,
            state=judged.state,
            says=tuple(says),
            command=data.command,
            work_dir=data.work_dir,
            branch=data.branch,
            created_at=data.created_at,
            started_at=folder.started_at,
            pid=judged.pid,
            labels=data.labels,
            session=found.ref if found else None,
            pane_id=found.own.pane_id if found else None,
            other_sessions=tuple(others),
            activity_at=found.own.window_activity if found else None,
            waits_for_permission=found is not None and folder.is_active and folder.has_permission_marker,
            bell=any(pane.bell for pane in panes),
            title=found.own.title if found else "",
        )


def _with_exit_status(agent: LocalAgent, status: int | None) -> LocalAgent:
    if status is None:
        return agent
    return replace(agent, exit_status=status, says=(*agent.says, f"its wrapper wrote exit status {status}"))


def _unless_settling(agent: LocalAgent, now: float) -> LocalAgent:
    """mngr writes an agent's files, then makes its session, then types its command: no state is to flash by meanwhile.

    An exit status or an end of the pane itself is no such flash.
    """
    began = max(agent.created_at or 0.0, agent.started_at or 0.0)
    is_flash = agent.state is State.STOPPED or (agent.state is State.DONE and agent.exit_status is None)
    if not is_flash or not 0.0 <= now - began < _SETTLING or _DEAD_PANE in agent.says:
        return agent
    return replace(agent, state=None, says=(*agent.says, "but it was made or started a moment ago"))


def _told(server: _Server, is_default: bool) -> TmuxServer:
    sessions = []
    for name, panes in server.panes.items():
        shown = next((pane for pane in panes if pane.window_is_active and pane.is_active), panes[0])
        sessions.append(
            TmuxSession(
                ref=SessionRef(server.socket, name),
                session_id=shown.session_id,
                created_at=shown.session_created,
                activity_at=max(pane.window_activity for pane in panes),
                windows=shown.session_windows,
                attached=shown.session_attached,
                agent_id=shown.agent_id or None,
                command=shown.command,
                title=shown.title,
            )
        )
    return TmuxServer(server.socket, is_default, tuple(sessions), server.error)


def _nearest(path: Path) -> Path:
    """The folder itself, or the nearest one above it that exists: where it would appear."""
    return next((each for each in (path, *path.parents) if each.is_dir()), path)
