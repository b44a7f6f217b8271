"""Attach to a session: the command that shows it on the user's terminal, and the warning before it.

Outside tmux the terminal is given to a tmux client. Inside tmux a new window of the user's own session runs that
client, so that the supervisor stays visible: switching the user's client would detach them when the agent ends, and
linking the agent's window would let them close it. A remote agent is reached by its host's ssh command. TMUX is not
passed on, since a client would refuse to nest. This module only plans; `terminal` runs.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from selftest_core.errors import RefusedError, ToolError, UsageError
from selftest_core.fleet.observations import TmuxSession
from selftest_core.frozen import dataclass
from selftest_core.tools.mngr_files import host_dir_of, prefix_of
from selftest_core.tools.panes import pane_target
from selftest_core.tools.tmux import SessionRef, Tmux, escaped, exact_session, own_server, tmux_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.agents import Ssh
    from selftest_core.fleet.view import Row

_DEFAULT_PREFIX_KEY = "C-b"
_QUESTION_TIMEOUT = 5.0
_WELCOME = re.compile(r"^(client-attached\[\d+\]) display-popup .*Welcome to your first agent!", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class AttachPlan:
    """The command to run. `kind` "hand over": on our terminal until it ends; "window": opens a window and returns.

    `warning`: what happens, and how to come back. `socket` is the server that will get the user's keys, and `session`
    the one shown there; None on another host.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    kind: Literal["hand over", "window"]
    warning: str
    title: str = ""
    socket: str | None = None
    session: SessionRef | None = None


def plan_attach(what: Row | TmuxSession | SessionRef, environ: Mapping[str, str]) -> AttachPlan:
    """Plan how to attach to an agent or a session. Raises RefusedError with the reason if that is not possible."""
    if isinstance(what, SessionRef):
        return _local(what, what.name, environ)
    if isinstance(what, TmuxSession):
        return _local(what.ref, what.ref.name, environ, others=what.attached)
    agent = what.agent
    if what.session is not None:
        return _local(what.session, agent.name, environ)
    if agent.host.is_local:
        raise RefusedError(
            f"{agent.name} has no tmux session", "It is stopped, so there is nothing to attach to.", "Start it first."
        )
    if agent.host.ssh is None:
        raise RefusedError(
            f"{agent.name} cannot be reached",
            f"mngr gives no ssh command for its host {agent.host.name} ({agent.host.state or 'state unknown'}).",
            f"Try `mngr connect {shlex.quote(agent.name)}`.",
        )
    return _remote(agent.host.ssh, f"{prefix_of(environ, host_dir_of(environ))}{agent.name}", agent.name, environ)


def attach_argv(ref: SessionRef, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Build the command of a client for a session of this machine.

    mngr's welcome is taken away, a popup at the first attach to the first agent: what is typed meanwhile is lost in it,
    and where `sh` is dash, it closes before it can be seen. `AttachPlan.warning` says how to come back.
    """
    tmux = shutil.which("tmux", path=environ.get("PATH")) or "tmux"
    there = ("-t", escaped(pane_target(ref, None)))
    welcome = _WELCOME.search(_answer(ref.socket, environ, "show-hooks", *there, "client-attached"))
    before = ("set-hook", "-u", *there, welcome[1], ";") if welcome else ()
    return (tmux, "-u", "-N", "-S", ref.socket, *before, "attach-session", "-t", escaped(exact_session(ref.name)))


def ssh_argv(ssh: Ssh, session: str) -> tuple[str, ...]:
    """Build the command of a client for a session of another host.

    Two shells parse it: ours, for which `ssh.command` is written, and an unknown one on the host, which gets a single
    `sh -c`. A TERM that the host does not know is replaced by a common one.
    """
    script = (
        "tput longname >/dev/null 2>&1 || { TERM=xterm-256color; export TERM; }; "
        f"exec tmux -u attach-session -t {shlex.quote(exact_session(session))}"
    )
    there = f"exec sh -c {shlex.quote(script)}"
    return ("/bin/sh", "-c", f"{ssh.command} -t {shlex.quote(there)}")


def new_window_argv(
    own: tuple[str, str], name: str, inner: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Build the command for a new window after our own (`own`: as from `own_server`) that runs `inner` without TMUX.

    The place is given by ids: a session's name may look like anything, and a pane's id is no target for a window.
    """
    where = _answer(own[0], environ, *_at(own), "#{session_id}:#{window_id}")
    behind = ("-a", "-t", where) if where else ()
    command = ("env", "-u", "TMUX", "-u", "TMUX_PANE", *inner)
    return ("tmux", "-u", "-N", "-S", own[0], "new-window", *behind, "-n", *map(escaped, (name, *command)))


def _local(ref: SessionRef, name: str, environ: Mapping[str, str], others: int = 0) -> AttachPlan:
    own = own_server(environ)
    if (
        own is not None
        and _is_same(own[0], ref.socket)
        and _answer(own[0], environ, *_at(own), "#{session_name}") == ref.name
    ):
        raise RefusedError(f"You are in {ref.name} already", "A session cannot be attached within itself.")
    shared = "Another client is attached too: you share its size and its keys. " if others else ""
    return _placed(attach_argv(ref, environ), name, environ, shared, _prefix_key(ref.socket, environ), ref)


def _remote(ssh: Ssh, session: str, name: str, environ: Mapping[str, str]) -> AttachPlan:
    if not ssh.command.strip():
        raise UsageError(f"{name} cannot be reached", "mngr gives an empty ssh command for its host.")
    far = "On another host, over ssh. "
    return _placed(ssh_argv(ssh, session), name, environ, far, _DEFAULT_PREFIX_KEY, None)


def _placed(
    inner: tuple[str, ...], name: str, environ: Mapping[str, str], note: str, key: str, ref: SessionRef | None
) -> AttachPlan:
    env = tmux_environment(environ)
    own = own_server(environ)
    socket = ref.socket if ref else None
    if own is None:
        warning = f"{note}Your terminal shows {name} until you detach with {key} d; the agent continues."
        return AttachPlan(inner, env, "hand over", warning, name, socket, ref)
    outer = _prefix_key(own[0], environ)
    detach = f"{outer} {key} d" if outer != key else f"{key} {key} d"
    warning = (
        f"{note}{name} opens in a new window of your tmux, beside this one. Come back with {outer} l, "
        f"leave it with {detach}; closing that window only detaches."
    )
    return AttachPlan(
        new_window_argv(own, _window_name(name), inner, environ), env, "window", warning, name, socket, ref
    )


def _window_name(name: str) -> str:
    """Remove characters that tmux would read as a format or cannot show."""
    return "".join(char for char in name if char.isprintable() and char != "#")[:40] or "agent"


def _is_same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _at(own: tuple[str, str]) -> tuple[str, ...]:
    """Build the start of a `display-message` about our own pane."""
    return ("display-message", "-p", *(("-t", own[1]) if own[1] else ()))


def _prefix_key(socket: str, environ: Mapping[str, str]) -> str:
    return _answer(socket, environ, "show-options", "-gv", "prefix") or _DEFAULT_PREFIX_KEY


def _answer(socket: str, environ: Mapping[str, str], *arguments: str) -> str:
    """Ask a server something that only improves a text; "" for no answer."""
    try:
        return Tmux(socket, environ).run(*arguments, timeout=_QUESTION_TIMEOUT).strip()
    except ToolError:
        return ""
