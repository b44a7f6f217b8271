"""Answer the probes of all local agents of one `mngr list` from one listing of tmux and one of ps.

mngr starts a shell with tmux, awk, tmux and head, and one with ps, for each local agent. For a host that it reaches by
ssh it asks tmux and ps once, and so does this. The server loads it into mngr's interpreter, so only the standard
library is used. It replaces one method of mngr's hosts, which runs a command: the two commands of a probe are answered
where the listing leaves no doubt. Every other command is run, and so are both commands of an agent with two sessions,
or without one window of its name, and those of all agents while a line of the listing is odd. For an agent without a
session mngr asks tmux once more; where it has one by now, mngr probes it again, and those commands are run.
"""

from __future__ import annotations

import re
import secrets
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PROCESSES = "ps -e -o pid=,ppid=,comm= 2>/dev/null"
"""mngr's command that lists processes, the second one of a probe."""
PROBE = re.compile(
    re.escape("session=$(tmux list-sessions -F '#{@mngr_agent_id}|#{session_name}' 2>/dev/null | awk -F'|' -v id=")
    + r"(?P<id>agent-[0-9a-f]{32})"
    + re.escape(""" '$1 == id {print $2; exit}'); [ -n "$session" ] || session=""")
    + r"(?P<session>\w[\w-]*)"
    + re.escape('; tmux list-panes -t "=$session:"')
    + r"(?P<window>[A-Za-z][\w-]*)"
    + re.escape(" -F '#{pane_dead}|#{pane_current_command}|#{pane_pid}' 2>/dev/null | head -n 1"),
    re.ASCII,
)
"""mngr's command that finds the terminal of an agent: in the session with its id, else in the one of its name."""
FIELDS = (
    "#{@mngr_agent_id}", "#{session_name}", "#{window_name}", "#{window_id}",
    "#{pane_dead}", "#{pane_current_command}", "#{pane_pid}",
)  # fmt: skip
_TIMEOUT = 5.0
"""Seconds; mngr's own, for each command of a probe."""


class _Kept(threading.local):
    """The state of one thread, since mngr lists hosts side by side."""

    listing: Listing | None = None
    """Used to the end of the call: what mngr itself says of its first agent is as old by then."""
    agent = ""
    """The agent that was probed last."""
    processes: Any = None
    """The answer to the second command of its probe, where the first one was answered from the listing."""


def share_probes(host: Any) -> None:
    """Answer probes from listings in this class of hosts, in this process."""
    run: Callable[..., Any] = host.execute_idempotent_command
    kept = _Kept()

    def execute(self: Any, command: str, *arguments: Any, **options: Any) -> Any:
        is_plain = self.is_local and not arguments and options.keys() <= {"timeout_seconds"}
        if is_plain and command == PROCESSES and kept.processes is not None:
            processes, kept.processes = kept.processes, None
            return processes
        if is_plain and (probe := PROBE.fullmatch(command)):
            kept.processes = None
            agent, session, window = probe.group("id", "session", "window")
            is_again, kept.agent = agent == kept.agent, agent
            if kept.listing is None:
                kept.listing = Listing(lambda command: run(self, command, timeout_seconds=_TIMEOUT))
            terminal = kept.listing.terminal(agent, session, window)
            if terminal is not None and not is_again:
                kept.processes = kept.listing.processes
                return type(kept.processes)(stdout=terminal, stderr="", success=True)
        return run(self, command, *arguments, **options)

    host.execute_idempotent_command = execute


class Listing:
    """The terminals of the tmux server, then the processes of the machine, which those of the terminals are among."""

    def __init__(self, run: Callable[[str], Any]) -> None:
        """Make it with `run`, which runs a command on the host and returns mngr's result of it."""
        # A program chooses how it is called, also with line breaks: only whoever knows the mark can write a line.
        mark = secrets.token_hex(8)
        # tmux ends with 1 where no server runs.
        panes = run(f"tmux list-panes -a -F '{'|'.join((mark, *FIELDS))}' 2>/dev/null || [ $? = 1 ]")
        self.processes = run(PROCESSES)
        self._sessions: dict[str, set[str]] = {}
        """The names of the sessions with an agent's id."""
        self._windows: dict[tuple[str, str], set[str]] = {}
        """The ids of the windows of this name in a session."""
        self._panes: dict[str, str] = {}
        """The first pane of each window: whether it is dead, its program, and its process, as mngr asks for them."""
        self._names: set[str] = set()
        lines = [line.split("|") for line in panes.stdout.split("\n")] if panes.stdout else []
        has_answers = panes.success and self.processes.success
        self._is_odd = not has_answers or any(len(line) != 8 or line[0] != mark for line in lines)
        if not self._is_odd:
            for _, agent, session, window, window_id, *pane in lines:
                self._names.add(session)
                self._sessions.setdefault(agent, set()).add(session)
                self._windows.setdefault((session, window), set()).add(window_id)
                self._panes.setdefault(window_id, "|".join(pane))

    def terminal(self, agent: str, session: str, window: str) -> str | None:
        """Return what mngr's probe prints for an agent, with the name of its session. None where that is in doubt."""
        if self._is_odd:
            return None
        sessions = self._sessions.get(agent, {session})
        if self._names.isdisjoint(sessions):
            return ""
        windows = self._windows.get((min(sessions), window), set())
        return self._panes[min(windows)] if len(sessions) == len(windows) == 1 else None
