"""The tmux session of a conductor: start it, find it, and read its last output.

tmux keeps the conductor running when the screen is closed; opening the run again finds it by the run's name. The
session is on the server that the user works in, else on mngr's. A failed conductor leaves its dead pane to be read,
and the next one replaces it.

The environment, secrets included, reaches the conductor through a pipe that only this user can open and that is read
once: not through argv, which everybody can list, nor a file, nor tmux, which passes its environment to every later
session and so to every agent. A server that is started here gets only the variables of a login.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.errors import RefusedError, SelftestError, ToolError, ToolFailedError, ToolTimeoutError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.run.conduct.conductor_process import already_conducted, starter_message
from selftest_core.tools.tmux import (
    SEPARATOR,
    Tmux,
    default_socket,
    exact_session,
    make_session,
    own_server,
    sockets_of,
    tmux_folder,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.store import RunFolder

PREFIX = "selftest-"
PROGRAM = "selftest_core.run.conduct.conductor_process"
PATIENCE = 120.0
"""Seconds in which a conductor must begin, which includes packing the clone of a large repository."""
FOLDER_OPTION = "@selftest_folder"
_STEP = 0.05
_TRIES = 50
_SERVER_ENDS = ("server exited", "lost server")
"""Errors of a tmux client that connects while the server ends."""
_LOOK_AFTER = 1.0
_SIZE = (160, 48)
_FROM_A_LOGIN = frozenset(
    {"HOME", "PATH", "SHELL", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "MNGR_HOST_DIR"}
)
_FROM_A_LOGIN_PREFIXES = ("LC_", "XDG_", "TMUX_TMPDIR")
_PANE = SEPARATOR.join(("#{pane_dead}", "#{pane_id}", f"#{{{FOLDER_OPTION}}}"))


class ConductorError(SelftestError):
    """A conductor ended before it could begin; `detail` has its last output."""


@dataclass(frozen=True, slots=True)
class ConductorSession:
    """The session of a conductor: `tmux -S SOCKET attach -t =NAME`. `is_dead`: it ended and left its dead pane."""

    socket: str
    name: str
    is_dead: bool = False


def session_name(run: str) -> str:
    """Return the name of a run's session."""
    return f"{PREFIX}{run}"


def find_conductor(folder: RunFolder, environ: Mapping[str, str]) -> ConductorSession | None:
    """Find the session of this run on any of this user's servers; prefer a living one."""
    found = _sessions(folder, environ)
    return next((one for one in found if not one.is_dead), found[0] if found else None)


def start_conductor(
    folder: RunFolder,
    environ: Mapping[str, str],
    *,
    policy: Policy | None = None,
    patience: float = PATIENCE,
    program: str = PROGRAM,
) -> ConductorSession:
    """Start a conductor in a session of its own; return when it has begun and has the journal's lock.

    `program`: the module to run, with the arguments of `selftest_core.run.conduct.conductor_process`.

    Raises RefusedError if the run already has a conductor, ConductorError (or the conductor's error) with its last
    output.
    """
    deadline = time.monotonic() + patience
    _close_dead_sessions(folder, environ, deadline)
    plan = folder.plan()
    own = own_server(environ)
    session = ConductorSession(own[0] if own else default_socket(environ), session_name(folder.run))
    place = Path(tempfile.mkdtemp(prefix="selftest-"))  # 0700
    try:
        pipe = place / "environment"
        os.mkfifo(pipe, 0o600)
        home = Path(plan.repository)
        _make_session(session, folder, home if home.is_dir() else Path("/"), pipe, environ, program)
        _send(pipe, starter_message(environ, policy), session, environ, deadline)
        _await_begin(place / "answer.json", session, environ, deadline)
        return session
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _close_dead_sessions(folder: RunFolder, environ: Mapping[str, str], deadline: float) -> None:
    """Close dead sessions of this run. Raises RefusedError if a conductor runs.

    A living session without the lock belongs to a conductor that is ending or beginning: wait until that is clear.
    """
    while True:
        found = _sessions(folder, environ)
        for old in found:
            if old.is_dead:
                close_session(old, environ)
        if folder.is_conducted():
            raise already_conducted(folder)
        if all(old.is_dead for old in found) or time.monotonic() > deadline:
            return
        time.sleep(_STEP)


def close_session(session: ConductorSession, environ: Mapping[str, str]) -> None:
    """End the session; a gone one is no error."""
    with contextlib.suppress(ToolError):
        Tmux(session.socket, environ).ask("kill-session", "-t", exact_session(session.name))


def last_output(session: ConductorSession, environ: Mapping[str, str]) -> str:
    """Return the last lines of its pane, empty if it is gone."""
    try:
        done = Tmux(session.socket, environ).ask("capture-pane", "-p", "-J", "-t", f"{exact_session(session.name)}:")
    except ToolError:
        return ""
    lines = [line.rstrip() for line in done.stdout.splitlines() if line.strip()] if done.ok else []
    return "\n".join(lines[-20:])


def _sessions(folder: RunFolder, environ: Mapping[str, str]) -> list[ConductorSession]:
    found = []
    for socket in sockets_of(environ):
        try:
            found_pane = _ask(ConductorSession(socket, session_name(folder.run)), environ)
        except ToolTimeoutError:
            continue
        if found_pane is not None and found_pane[1] == _mark(folder):
            found.append(ConductorSession(socket, session_name(folder.run), is_dead=found_pane[0]))
    return found


def _ask(session: ConductorSession, environ: Mapping[str, str]) -> tuple[bool, str] | None:
    """Return whether its pane is dead, and its folder's mark; None without a session. Raises ToolTimeoutError."""
    target = f"{exact_session(session.name)}:"
    try:
        done = Tmux(session.socket, environ).ask("list-panes", "-t", target, "-F", _PANE)
    except ToolTimeoutError:
        raise
    except ToolError:
        return None
    parts = done.stdout.rstrip("\n").split("\n", 1)[0].split(SEPARATOR)
    if not done.ok or len(parts) != 3:
        return None
    return parts[0] == "1", parts[2]


def _mark(folder: RunFolder) -> str:
    """Encode the folder for a tmux option, which would interpret some characters."""
    return os.fsencode(folder.path.resolve()).hex()


def _make_session(
    session: ConductorSession, folder: RunFolder, home: Path, pipe: Path, environ: Mapping[str, str], program: str
) -> None:
    """Start the conductor's program, which waits for the pipe before it does anything."""
    tmux_folder(environ).mkdir(mode=0o700, exist_ok=True)
    login = {
        name: value
        for name, value in environ.items()
        if name in _FROM_A_LOGIN or name.startswith(_FROM_A_LOGIN_PREFIXES)
    }
    for tries_left in reversed(range(_TRIES)):
        try:
            return make_session(
                session.socket, session.name,
                (sys.executable, "-P", "-m", program, str(folder.path.resolve()), "--from", str(pipe)), login,
                folder=home, window="conductor", size=_SIZE,
                options={FOLDER_OPTION: _mark(folder)}, window_options={"remain-on-exit": "failed"},
            )  # fmt: skip
        except ToolFailedError as error:
            # The server's last session was closed just now: the next client starts another server.
            if not tries_left or not any(words in error.stderr for words in _SERVER_ENDS):
                raise
        time.sleep(_STEP)


def _send(pipe: Path, data: bytes, session: ConductorSession, environ: Mapping[str, str], deadline: float) -> None:
    """Write all data once the conductor has opened the pipe; check meanwhile that it lives."""
    handle = -1
    look_at = time.monotonic() + _LOOK_AFTER
    try:
        while True:
            try:
                if handle < 0:
                    handle = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                data = data[os.write(handle, data) :]
                if not data:
                    return
            except BlockingIOError:
                select.select([], [handle], [], _STEP)
            except BrokenPipeError as error:
                raise _failed(session, environ, "it did not read its environment") from error
            except OSError as error:
                if error.errno != errno.ENXIO:  # no reader yet
                    raise
                time.sleep(_STEP)
            look_at = _check_alive(session, environ, deadline, look_at)
    finally:
        if handle >= 0:
            os.close(handle)


def _await_begin(answer: Path, session: ConductorSession, environ: Mapping[str, str], deadline: float) -> None:
    look_at = time.monotonic() + _LOOK_AFTER
    while not answer.is_file():
        time.sleep(_STEP)
        try:
            look_at = _check_alive(session, environ, deadline, look_at)
        except ConductorError:
            if not answer.is_file():  # it may have answered just before it ended
                raise
    document: Any = json.loads(answer.read_text(encoding="utf-8"))
    if document.get("ok") is not True:
        raise _as_error(document)


def _check_alive(session: ConductorSession, environ: Mapping[str, str], deadline: float, look_at: float) -> float:
    """Raise ConductorError if the conductor ended or is too late; return when to check again."""
    now = time.monotonic()
    if now > deadline:
        raise _failed(session, environ, "it did not begin in time")
    if now < look_at:
        return look_at
    try:
        found = _ask(session, environ)
    except ToolTimeoutError:
        return time.monotonic() + _LOOK_AFTER  # its state is not known
    if found is None or found[0]:
        raise _failed(session, environ, "it ended before it began")
    return now + _LOOK_AFTER


def _failed(session: ConductorSession, environ: Mapping[str, str], reason: str) -> ConductorError:
    output = last_output(session, environ)
    attach = f"tmux -S {session.socket} attach -t ={session.name}"
    return ConductorError(
        "The conductor of the run could not be started", "\n".join(filter(None, (reason, output))),
        f"Look at it with `{attach}`, or try again with `selftest-tui resume`.",
    )  # fmt: skip


def _as_error(document: Mapping[str, Any]) -> SelftestError:
    """Return the conductor's error from its answer."""
    title, detail, hint = (str(document.get(name, "")) for name in ("title", "detail", "hint"))
    kind = {RefusedError.exit_status: RefusedError, UsageError.exit_status: ConductorError}
    return kind.get(document.get("exit_status", 2), ConductorError)(title, detail, hint)
