"""Agents of this machine, read without mngr: their states by the fleet's probe, screens by tmux, files by the kernel.

`mngr list` takes seconds and `mngr capture` a second for each agent; these reads take milliseconds. The state comes
from the same probe and fold as the fleet's, so a run, the fleet and `list` agree. An agent owns its files: no link is
followed, sizes are capped, and what is not a plain file counts as absent.
"""

from __future__ import annotations

import asyncio
import re
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.agent_types.condition import ASKING, ENDED_TURN, Kind, from_mngr
from selftest_core.agents import LOCAL_PROVIDER, State
from selftest_core.errors import ToolFailedError
from selftest_core.fleet import fold
from selftest_core.fleet.fleet_state import Fleet
from selftest_core.run.crew.crew import OUTCOME, Life, Seen
from selftest_core.run.crew.mngr_commands import OUT
from selftest_core.run.providers import work_dir
from selftest_core.tools.mngr_files import host_dir_of, prefix_of
from selftest_core.tools.panes import screens
from selftest_core.tools.tmux import SessionRef, is_gone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.agent_types.condition import Condition
    from selftest_core.agents import Agent
    from selftest_core.fleet.observations import Listed, Probed
    from selftest_core.fleet.sources.probe import Probe
    from selftest_core.fleet.view import Row
    from selftest_core.run.fold import Member
    from selftest_core.tools.mngr import Mngr

_SCREEN_TIMEOUT = 25.0
_OID = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"ref: (refs/heads/[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)")
_LONGEST_REF_FILE = 1000


class LocalFleet:
    """The fleet's rows of this machine.

    The probe is for one thread, so it has one of its own: a look that was cancelled still finishes there before the
    next one begins. The fold happens in the event loop, without an await within.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._probe: Probe | None = None
        self._fleet = Fleet()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="local fleet")

    async def look(self, listed: Listed | None) -> Mapping[str, Row]:
        """Probe now and return the rows by agent id. `listed`: the newest listing of this machine."""
        probed = await asyncio.get_running_loop().run_in_executor(self._thread, self._look)
        fleet = self._fleet if listed is None else fold.apply(self._fleet, listed)
        self._fleet = fold.apply(fleet, probed)
        return {
            row.agent.id: row
            for row in self._fleet.rows
            if row.agent.host.provider == LOCAL_PROVIDER and row.key.agent_id in self._fleet.local
        }

    def _look(self) -> Probed:
        if self._probe is None:
            from selftest_core.fleet.sources.probe import Probe

            self._probe = Probe(self._environ)
        return self._probe.look(time.time())


def state_of(agent: Agent, row: Row | None, *, has_begun: bool, takes_turns: bool) -> tuple[State, Condition | None]:
    """Return an agent's state and condition: the fleet's for a local agent, else mngr's.

    DONE needs an agent that was seen at work (`has_begun`); STOPPED is taken from mngr only.
    """
    if row is not None:
        state = row.agent.state
        is_early = state is State.DONE and not has_begun
        if not is_early and state not in (State.STOPPED, State.UNKNOWN):
            return state, row.condition
    condition = from_mngr(
        agent.state, agent.waiting_reason, has_had_a_turn=True, since=agent.agent_activity_at
    )  # fmt: skip
    if condition is not None and condition.kind in ENDED_TURN and not takes_turns:
        condition = None
    return agent.state, condition


def life_of(agent: Agent, state: State, condition: Condition | None, *, has_settled: bool) -> Life:
    """Reduce a state to what a run distinguishes. `has_settled`: the agent has waited for some seconds."""
    match state:
        case State.DONE:
            return Life.EXITED
        case State.STOPPED:
            booted, created = agent.host.boot_time, agent.created_at
            # After a reboot of the machine nobody stopped this agent.
            return Life.LOST if booted is not None and created is not None and booted > created else Life.STOPPED
        case State.UNKNOWN:
            return Life.UNSEEN
        case _ if condition is not None and condition.kind in (*ASKING, Kind.INTERRUPTED):
            return Life.ASKS
        case State.WAITING if condition is not None:
            return Life.TURN_ENDED if has_settled else Life.WORKING
        case _:
            return Life.WORKING


async def local_screens(mngr: Mngr, members: Sequence[Member]) -> dict[str, str]:
    """Read the screens with history by agent id, without those of gone sessions. Raises ToolError.

    `mngr capture` would refuse where a program has ended.
    """
    prefix = prefix_of(mngr.environ, host_dir_of(mngr.environ))
    refs = {SessionRef(mngr.default_socket, f"{prefix}{one.name}"): one.agent_id for one in members}
    try:
        texts = await asyncio.to_thread(screens, tuple(refs), environ=mngr.environ, timeout=_SCREEN_TIMEOUT)
    except ToolFailedError as error:
        if not is_gone(error.stderr):
            raise
        return {}  # no server, so no screen
    return {refs[ref]: text.rstrip() for ref, text in texts.items()}


class FreshOutcomes:
    """Finds outcome files of local agents that were not reported yet, while mngr lists.

    A file alone never ends a test: it is fetched and checked. Between two full looks each agent is reported at most
    once, so an agent that writes its file endlessly does not hide others.
    """

    def __init__(self, host_dir: Path) -> None:
        self._host_dir = host_dir
        self._reported: dict[str, str] = {}  # by agent id: the stamp
        self._early: set[str] = set()  # reported since the last full look

    def look(self, members: Sequence[Member]) -> dict[str, Seen]:
        """Return an observation of every member if one of them has a new outcome, else nothing."""
        fresh: dict[str, Seen] = {}
        for member in members:
            is_local = bool(member.host_id) and member.provider == LOCAL_PROVIDER
            if is_local and member.agent_id not in self._early:
                stamp = stamp_of(Path(work_dir(LOCAL_PROVIDER, member, self._host_dir)) / OUT / OUTCOME)
                if stamp and stamp != self._reported.get(member.agent_id):
                    fresh[member.agent_id] = Seen(Life.WORKING, stamp, member.host_id, member.provider)
        if not fresh:
            return {}
        self._early |= fresh.keys()
        self._note(fresh)
        waiting = Seen(Life.UNSEEN, detail="mngr has not answered yet")
        return {member.agent_id: fresh.get(member.agent_id, waiting) for member in members}

    def note_full_look(self, seen: Mapping[str, Seen]) -> None:
        """Note the outcomes that a full look reported."""
        self._early.clear()
        self._note(seen)

    def _note(self, seen: Mapping[str, Seen]) -> None:
        self._reported.update((agent_id, one.outcome) for agent_id, one in seen.items() if one.outcome)


def stamp_of(path: Path) -> str:
    """Return a stamp that changes with the file; empty unless it is a regular file with content."""
    try:
        found = path.lstat()
    except OSError:
        return ""
    return f"{found.st_size}-{found.st_mtime_ns}" if stat.S_ISREG(found.st_mode) and found.st_size else ""


def head_of(work_dir: Path) -> str:
    """Read the checked-out commit of an agent's copy from its files, without running git; empty if it is unclear.

    An agent without commits then needs no call of mngr, which would take a second.
    """
    git_dir = work_dir / ".git"
    if git_dir.is_symlink():
        return ""
    head = _read_line(git_dir / "HEAD")
    ref = _REF.fullmatch(head)
    oid = _read_line(git_dir / ref[1]) if ref else head
    return oid if _OID.fullmatch(oid) else ""


def _read_line(path: Path) -> str:
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST_REF_FILE:
            return ""
        return path.read_text(encoding="ascii").removesuffix("\n")
    except (OSError, ValueError):
        return ""
