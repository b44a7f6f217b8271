"""The rules by which mngr calls an agent waiting, running, done or replaced: pure, and the same as mngr's.

mngr looks at the agent's first pane, at the processes below it, and at two marker files. Where the rules need more
than that (what another type of agent runs, whether it waits for somebody), the answer is None: mngr's word stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.agents import State
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.tools.tmux import Pane

DEAD_PANE = "its pane is dead"
_SHELLS = frozenset({"bash", "sh", "zsh", "fish", "dash", "ksh", "tcsh", "csh"})
# The process that each type runs: for "command" types the first word of the command, for these a fixed name.
_PROCESS_OF_TYPE = {"claude": "claude", "codex": "codex"}
_MARKED_TYPES = frozenset({"claude"})
_COMMAND_TYPES = frozenset({"command", "headless_command"})


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


def is_known(agent_type: str) -> bool:
    """True for the agent types whose process we know."""
    return agent_type in _COMMAND_TYPES or agent_type in _PROCESS_OF_TYPE


def has_markers(agent_type: str) -> bool:
    """True for the agent types that mngr marks as active and idle by their own hooks."""
    return agent_type in _MARKED_TYPES


def program_of(agent_type: str, below: Sequence[tuple[int, str]]) -> tuple[str, int | None]:
    """The program whose own files tell of the agent, "" where there is none, and its process.

    A type that we do not know is Claude Code where that is what runs in it.
    """
    if agent_type in _COMMAND_TYPES:
        return "", None
    program = _PROCESS_OF_TYPE.get(agent_type, "claude")
    pid = next((pid for pid, name in below if name == program), None)
    return (program if pid is not None or agent_type in _PROCESS_OF_TYPE else ""), pid


def judge(
    agent_type: str,
    command: str,
    pane: Pane,
    shell: str,
    below: Sequence[tuple[int, str]],
    *,
    is_active: bool,
    is_blocked: bool,
    has_begun: bool = False,
) -> Judged:
    """The state of an agent whose session is there.

    `shell` is the name of the pane's own process, `below` are pid and name of its descendants, nearest first;
    `is_active` and `is_blocked` are mngr's marker files. `has_begun`: the agent's program surely ran since its start.
    """
    if pane.is_dead:
        return Judged(State.DONE, None, DEAD_PANE)
    expected = expected_process(agent_type, command)
    found = next((pid for pid, name in below if name == expected), None)
    pid = pane.pid if shell == expected else found
    if pane.command == expected or found is not None:
        running = f"{expected} runs" + (f" as process {pid}" if pid else "")
        if not is_known(agent_type) or agent_type == "codex":
            return Judged(None, pid, f"{running}; whether it waits for somebody is for mngr to say ({agent_type})")
        if is_active and not (is_blocked and has_markers(agent_type)):
            return Judged(State.RUNNING, pid, f"{running}, and it is marked as active")
        return Judged(
            State.WAITING, pid, f"{running}, " + ("blocked on a dialog" if is_active else "not marked active")
        )
    others = [name for _, name in below if name not in _SHELLS]
    shown = pane.command[:60]
    if pane.command in _SHELLS and (agent_type in _COMMAND_TYPES or not others or has_begun):
        return Judged(State.DONE, None, f"{expected or 'its program'} has ended, {shown} is in the foreground")
    if agent_type not in _COMMAND_TYPES:
        return Judged(None, None, f"{shown} is in the foreground; what that means for {agent_type} is for mngr to say")
    if not others and shell in _SHELLS:
        return Judged(State.DONE, None, f"{expected} has ended, only a shell is left")
    return Judged(State.REPLACED, None, f"{expected} is not running, {shown} is in its place")
