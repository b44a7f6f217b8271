"""Local probe: the state of every agent of this machine in milliseconds, without mngr.

It joins mngr's files, the sessions of every tmux server of this user, and the process table, and applies the rules of
`fleet.state_rules`; None leaves the state to mngr. Unchanged facts are neither read nor judged again. It never raises
for the failure of one agent or one server: that is in `problems`, `unreadable`, or the agent's `notes`.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.agent_types.condition import ASKING, BUSY
from selftest_core.agent_types.own_files import OwnFiles
from selftest_core.agents import State
from selftest_core.errors import ToolError
from selftest_core.fleet.observations import LocalAgent, Probed
from selftest_core.fleet.sources.reminders import ReminderReader
from selftest_core.fleet.sources.tmux_servers import Server, TmuxServers
from selftest_core.fleet.state_rules import (
    DEAD_PANE,
    LocalState,
    has_markers,
    program_of,
    state_by_processes,
    with_own_file,
)
from selftest_core.frozen import dataclass
from selftest_core.tools.mngr_files import AgentFiles, AgentFolder, prefix_of
from selftest_core.tools.process_table import ProcessTable, process_reader
from selftest_core.tools.tmux import Pane, SessionRef, tmux_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from selftest_core.agent_types.condition import Condition

_WINDOW = "agent"
_NONE_BELOW: tuple[tuple[int, str], ...] = ()
_SETTLING = 2.0
"""Seconds after its creation or start in which an agent that seems stopped or done may still be starting."""


class _Found:
    """A tmux session of an agent. `is_stamped`: found by mngr's stamp, else by its name."""

    __slots__ = ("is_stamped", "own", "panes", "primary", "ref")

    def __init__(self, ref: SessionRef, panes: tuple[Pane, ...], is_stamped: bool) -> None:
        self.ref = ref
        self.panes = panes
        self.is_stamped = is_stamped
        # The pane of mngr's rules: the first one of the window "agent", else of the first window.
        self.primary = next((pane for pane in panes if pane.window == _WINDOW), panes[0])
        # The pane in which the agent was started: the one for keys.
        stamped = self.primary.agent_pane
        self.own = next((pane for pane in panes if pane.pane_id == stamped), self.primary)


@dataclass(frozen=True, slots=True)
class _Seen:
    """All facts from which a `LocalAgent` is made; equal ones make equal agents."""

    folder: AgentFolder
    sessions: tuple[tuple[SessionRef, tuple[Pane, ...]], ...] = ()
    shell: str = ""
    below: tuple[tuple[int, str], ...] = _NONE_BELOW
    blind: str = ""
    own: Condition | None = None
    has_begun: bool = False
    acted_at: float | None = None
    wrote_at: float | None = None
    pane_pid: int = 0


class Probe:
    """Reader of all local agents and tmux servers of this user. For one thread; keeps caches between looks."""

    def __init__(self, environ: Mapping[str, str], sockets: Sequence[str] = ()) -> None:
        self._environ = dict(environ)
        self._files = AgentFiles(environ)
        self._own = OwnFiles(environ)
        self._reminders = ReminderReader(environ)
        self._servers = TmuxServers(environ, sockets)
        self._reader = process_reader()
        self._made: dict[str, tuple[_Seen, LocalAgent]] = {}
        self._pids: frozenset[int] = frozenset()
        self._pane_pids: dict[int, Pane] = {}
        self._unmade: tuple[str, ...] = ()
        self._watched: tuple[tuple[tuple[str, bool, bool], ...], tuple[Path, ...]] = ((), ())

    @property
    def pids(self) -> frozenset[int]:
        """The processes whose end changes a state: each agent's main process, or its pane's."""
        return self._pids

    def watched_paths(self) -> tuple[Path, ...]:
        """List the folders in which a change calls for a new look, each to be watched without its subfolders.

        Only folders that existed at the last look. The `activity` folder is listed only for an agent without a session:
        with one, mngr writes a heartbeat there.
        """
        agents_dir = self._files.agents_dir
        # Built only after a change: making a path is slow, and this is called at every look.
        agents = (
            *(
                (agent_id, made[1].session is not None, made[0].own is not None)
                for agent_id, made in self._made.items()
            ),
            *((agent_id, True, False) for agent_id in self._unmade),
        )
        if agents != self._watched[0]:
            folders = [agents_dir / agent_id for agent_id in self._made]
            starts = [agents_dir / agent_id / "activity" for agent_id, has_session, _ in agents if not has_session]
            unmade = [agents_dir / agent_id for agent_id in self._unmade]
            own = [Path(each) for agent_id, made in self._made.items() if (each := self._own_folder(agent_id, made[0]))]
            self._watched = (agents, (*folders, *(each for each in (*starts, *unmade, *own) if each.is_dir())))
        roots = (_nearest(self._files.host_dir), _nearest(agents_dir), _nearest(tmux_folder(self._environ)))
        return (*dict.fromkeys(roots), *self._watched[1])

    def _own_folder(self, agent_id: str, seen: _Seen) -> str:
        """The folder of the program's own file about the agent; "" if there is none."""
        if seen.own is None:
            return ""
        program, _ = program_of(seen.folder.data.type, ((seen.pane_pid, seen.shell), *seen.below))
        return self._own.watched_folder(program, f"{self._files.host_dir}/agents/{agent_id}")

    def look(self, now: float) -> Probed:
        """Look once, at the time `now`. Blocks for some milliseconds; five seconds for a server that hangs."""
        began = time.perf_counter()
        idle = frozenset(agent_id for agent_id, (_, agent) in self._made.items() if agent.session is not None)
        folders = self._files.look(now, idle)
        self._unmade = (*folders.making, *(each.agent_id for each in folders.unreadable))
        servers, tmux_trouble = self._servers.ask(now)
        problems = [*folders.problems]
        if tmux_trouble:
            problems.append(tmux_trouble)
        try:
            table = self._reader.read(self._changed(servers))
        except ToolError as error:
            table = ProcessTable()
            problems.append("\n".join(filter(None, (error.title, error.hint))))
        silent = "; ".join(f"{server.socket}: {server.error}" for server in servers if server.error)
        blind = tmux_trouble.partition("\n")[0] or silent
        agents = self._join(folders.agents, servers, table, blind, now)
        shared = Counter(agent.work_dir for agent in agents)
        return Probed(
            at=now,
            host_id=folders.host_id,
            host_name="localhost",
            agents=tuple(self._with_end(agent, now, shared[agent.work_dir] == 1) for agent in agents),
            servers=tuple(self._servers.observation(server) for server in servers),
            problems=tuple(problems),
            unreadable=folders.unreadable,
            seconds=time.perf_counter() - began,
            reminders=self._reminders.read(),
        )

    def _changed(self, servers: Iterable[Server]) -> frozenset[int]:
        """List the processes of changed panes: their descendants may have changed too."""
        before = self._pane_pids
        self._pane_pids = {pane.pid: pane for server in servers for panes in server.panes.values() for pane in panes}
        return frozenset(pid for pid, pane in self._pane_pids.items() if before.get(pid) is not pane)

    def _join(
        self, folders: Sequence[AgentFolder], servers: Sequence[Server], table: ProcessTable, blind: str, now: float
    ) -> list[LocalAgent]:
        prefix = prefix_of(self._environ, self._files.host_dir)
        by_stamp, by_name = _sessions(servers)
        default = servers[0].socket if servers else ""
        looked: dict[str, tuple[_Seen, list[_Found]]] = {}
        for folder in folders:
            data = folder.data
            found = by_stamp.get(data.id, []) + by_name.get(f"{prefix}{data.name}", [])
            if not found:
                looked[data.id] = (_Seen(folder, blind=blind), found)
                continue
            pane_pid = found[0].primary.pid
            shell, below = table.names.get(pane_pid, ""), table.named_descendants(pane_pid)
            sessions = tuple((each.ref, each.panes) for each in found)
            looked[data.id] = (self._with_own(_Seen(folder, sessions, shell, below, pane_pid=pane_pid)), found)
        self._look_at_screens(looked, now)
        agents, pids = [], []
        before, self._made = self._made, {}
        for agent_id, (seen, found) in looked.items():
            kept = before.get(agent_id)
            agent = kept[1] if kept is not None and kept[0] == seen else _agent(seen, found, default)
            self._made[agent_id] = (seen, agent)
            agents.append(agent)
            if found:
                pids.append(agent.pid or found[0].own.pid)
        self._pids = frozenset(pids)
        return agents

    def _with_own(self, seen: _Seen) -> _Seen:
        """Add the condition from the program's own file, and what that needs from mngr's files."""
        data = seen.folder.data
        program, pid = program_of(data.type, ((seen.pane_pid, seen.shell), *seen.below))
        if not program:
            return seen
        agent_dir = f"{self._files.host_dir}/agents/{data.id}"
        own = self._own.condition(program, agent_dir, pid)
        has_begun = pid is None and self._own.has_begun(program, agent_dir, seen.folder.started_at)
        acted_at = self._own.acted_at(agent_dir) if own is None and has_markers(data.type) else None
        wrote_at = self._own.wrote_at(agent_dir) if pid is None else None
        return replace(seen, own=own, has_begun=has_begun, acted_at=acted_at, wrote_at=wrote_at)

    def _look_at_screens(self, looked: dict[str, tuple[_Seen, list[_Found]]], now: float) -> None:
        """Capture the screens of agents that seem to work and write nothing: they may be retrying."""
        busy = {
            f"{self._files.host_dir}/agents/{agent_id}": found[0].ref
            for agent_id, (seen, found) in looked.items()
            if seen.own is not None and seen.own.kind in BUSY and seen.folder.data.type != "codex"
        }
        if busy and self._own.look_at_screens(busy, now):
            for agent_id, (seen, found) in looked.items():
                if f"{self._files.host_dir}/agents/{agent_id}" in busy:
                    looked[agent_id] = (self._with_own(seen), found)

    def _with_end(self, agent: LocalAgent, now: float, has_own_work_dir: bool) -> LocalAgent:
        """Add the exit status from a wrapper, and drop a state that is only passing."""
        if agent.state in (State.RUNNING, State.WAITING):
            return agent
        status = self._files.exit_status(agent.work_dir) if agent.work_dir and has_own_work_dir else None
        if status is not None:
            notes = (*agent.notes, f"its wrapper wrote exit status {status}")
            agent = replace(agent, exit_status=status, notes=notes)
        return _unless_settling(agent, now)


def _sessions(servers: Iterable[Server]) -> tuple[dict[str, list[_Found]], dict[str, list[_Found]]]:
    """Index the sessions: with an agent's stamp by its id, without one by their names."""
    by_stamp: dict[str, list[_Found]] = {}
    by_name: dict[str, list[_Found]] = {}
    for server in servers:
        for name, panes in server.panes.items():
            stamp = panes[0].agent_id
            found = _Found(SessionRef(server.socket, name), panes, bool(stamp))
            (by_stamp if stamp else by_name).setdefault(stamp or name, []).append(found)
    return by_stamp, by_name


def _agent(seen: _Seen, found: Sequence[_Found], default: str) -> LocalAgent:
    """Make the agent from its facts."""
    folder, data = seen.folder, seen.folder.data
    notes = [data.trouble] if data.trouble else []
    chosen = found[0] if found else None
    if chosen is None:
        state = LocalState(State.STOPPED, None, "no tmux server of this user has a session of it")
        if seen.blind:
            reason = f"no session of it was found, but not every tmux server answered ({seen.blind})"
            state = LocalState(None, None, reason)
    else:
        how = "stamped with its id" if chosen.is_stamped else "named after it"
        notes.append(f"session {chosen.ref.name} ({how}) on the tmux server {chosen.ref.socket}")
        if chosen.ref.socket != default:
            notes.append("not mngr's default server: mngr shows it as STOPPED unless TMUX points there")
        if len(found) > 1:
            others = ", ".join(f"{each.ref.name} on {each.ref.socket}" for each in found[1:])
            notes.append(f"other sessions that claim to be it: {others}")
        state = state_by_processes(
            data.type,
            data.command,
            chosen.primary,
            seen.shell,
            seen.below,
            is_active=folder.is_active,
            is_blocked=folder.has_permission_marker,
            has_begun=seen.has_begun,
        )
    condition = None
    if chosen is not None:
        state, condition = with_own_file(
            state,
            seen.own,
            data.type,
            is_active=folder.is_active,
            is_blocked=folder.has_permission_marker,
            has_had_a_turn=seen.acted_at is not None and seen.acted_at >= (folder.started_at or 0.0),
            since=seen.wrote_at if state.state is State.DONE else seen.acted_at,
        )
    if condition is not None:
        notes.append(f"{condition.source}: {condition.quote}")
    return LocalAgent(
        id=data.id,
        name=data.name,
        type=data.type,
        state=state.state,
        notes=(*notes, state.reason),
        command=data.command,
        work_dir=data.work_dir,
        branch=data.branch,
        created_at=data.created_at,
        started_at=folder.started_at,
        pid=state.pid,
        labels=data.labels,
        session=chosen.ref if chosen else None,
        pane_id=chosen.own.pane_id if chosen else None,
        other_sessions=tuple(each.ref for each in found[1:]),
        activity_at=chosen.own.window_activity if chosen else None,
        waits_for_permission=condition is not None and condition.kind in ASKING,
        bell=chosen is not None and any(pane.bell for pane in chosen.panes),
        title=chosen.own.title if chosen else "",
        condition=condition,
    )


def _unless_settling(agent: LocalAgent, now: float) -> LocalAgent:
    """Drop a state that may only be passing: mngr writes an agent's files, then makes its session, then types its
    command.

    An exit status and a dead pane are final.
    """
    began = max(agent.created_at or 0.0, agent.started_at or 0.0)
    is_passing = agent.state is State.STOPPED or (agent.state is State.DONE and agent.exit_status is None)
    if not is_passing or not 0.0 <= now - began < _SETTLING or DEAD_PANE in agent.notes:
        return agent
    return replace(agent, state=None, notes=(*agent.notes, "but it was created or started a moment ago"))


def _nearest(path: Path) -> Path:
    """Return the folder, or the nearest existing one above it, in which it would appear."""
    return next((each for each in (path, *path.parents) if each.is_dir()), path)
