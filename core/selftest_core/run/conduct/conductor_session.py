"""The tmux session that a conductor lives in: started, found, and read where it failed.

Quitting the screen leaves the conductor running, since tmux keeps it; opening again finds it by the run's name. The
session is on the server that the person works in, or on the one that mngr uses. A conductor that failed leaves its
dead pane there, to be read; the next one takes its place.

The environment, secrets included, reaches the conductor through a pipe that only this user can open and that is read
once: not through argv, which everybody can list, nor a file, nor tmux, which hands on what it knows to every later
session and so to every agent. A server that has to be started here is given no more than a login would.
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

from selftest_core.errors import RefusedError, SelftestError, ToolError, ToolTimeoutError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.run.conduct.conductor_process import already_conducted, starter_message
from selftest_core.tools import process
from selftest_core.tools.tmux import (
    SEPARATOR,
    Tmux,
    default_socket,
    escaped,
    exact_session,
    failure,
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
"""Seconds in which a conductor must have begun: packing the clone of a large repository is part of it."""
FOLDER_OPTION = "@selftest_folder"
_STEP = 0.05
_TRIES = 50
_LEAVING = ("server exited", "lost server")
"""What tmux says to a client that comes while the server is on its way out."""
_LOOK_AFTER = 1.0
_COLUMNS, _LINES = 160, 48
_FROM_A_LOGIN = frozenset(
    {"HOME", "PATH", "SHELL", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "MNGR_HOST_DIR"}
)
_FROM_A_LOGIN_PREFIXES = ("LC_", "XDG_", "TMUX_TMPDIR")
_PANE = SEPARATOR.join(("#{pane_dead}", "#{pane_id}", f"#{{{FOLDER_OPTION}}}"))


class ConductorError(SelftestError):
    """A conductor ended before it could begin; `detail` has its last words."""


@dataclass(frozen=True, slots=True)
class ConductorSession:
    """Where a conductor lives: `tmux -S SOCKET attach -t =NAME`. `is_dead`: it ended, and its last words stand."""

    socket: str
    name: str
    is_dead: bool = False


def session_name(run: str) -> str:
    """What the session of a run is called."""
    return f"{PREFIX}{run}"


def find_conductor(folder: RunFolder, environ: Mapping[str, str]) -> ConductorSession | None:
    """The session of this run on any of this user's servers; a living one before a dead one."""
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
    """Start a conductor in a session of its own, and return when it has begun: it holds the journal then.

    `program`: the module that is run, which takes the words of `selftest_core.run.conduct.conductor_process`.

    Raises RefusedError where the run has one already, ConductorError (or what it failed with) with its last words.
    """
    deadline = time.monotonic() + patience
    _make_room(folder, environ, deadline)
    plan = folder.plan()
    own = own_server(environ)
    session = ConductorSession(own[0] if own else default_socket(environ), session_name(folder.run))
    place = Path(tempfile.mkdtemp(prefix="selftest-"))  # 0700
    try:
        pipe = place / "environment"
        os.mkfifo(pipe, 0o600)
        home = Path(plan.repository)
        _open_session(session, folder, home if home.is_dir() else Path("/"), pipe, environ, program)
        _send(pipe, starter_message(environ, policy), session, environ, deadline)
        _await_begin(place / "answer.json", session, environ, deadline)
        return session
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _make_room(folder: RunFolder, environ: Mapping[str, str], deadline: float) -> None:
    """Close what ended conductors of this run left. Raises RefusedError where there is one.

    One that has given the journal back has its session for another moment, and one that begins has it before it has
    the journal: which of them it is turns out by itself.
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
    """End the session; one that is gone already is no error."""
    with contextlib.suppress(ToolError):
        Tmux(session.socket, environ).ask("kill-session", "-t", exact_session(session.name))


def last_words(session: ConductorSession, environ: Mapping[str, str]) -> str:
    """What stands in its pane, empty where it is gone."""
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
            said = _ask(ConductorSession(socket, session_name(folder.run)), environ)
        except ToolTimeoutError:
            continue
        if said is not None and said[1] == _mark(folder):
            found.append(ConductorSession(socket, session_name(folder.run), is_dead=said[0]))
    return found


def _ask(session: ConductorSession, environ: Mapping[str, str]) -> tuple[bool, str] | None:
    """Whether its pane is dead, and whose it is; None where there is no such session. Raises ToolTimeoutError."""
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
    """The folder as an option can hold it: some characters would be read as tmux's own."""
    return os.fsencode(folder.path.resolve()).hex()


def _open_session(
    session: ConductorSession, folder: RunFolder, home: Path, pipe: Path, environ: Mapping[str, str], program: str
) -> None:
    words = (sys.executable, "-P", "-m", program, str(folder.path.resolve()), "--from", str(pipe))
    tmux_folder(environ).mkdir(mode=0o700, exist_ok=True)
    # Without -N: where no server runs, this starts one. No shell stands between: several words are a program's argv.
    argv = (
        "tmux", "-u", "-S", session.socket,
        "new-session", "-d", "-s", session.name, "-n", "conductor", "-x", str(_COLUMNS), "-y", str(_LINES),
        "-c", escaped(str(home)), *(escaped(word) for word in words), ";",
        "set-option", "-t", f"{exact_session(session.name)}:", FOLDER_OPTION, _mark(folder), ";",
        "set-option", "-w", "-t", f"{exact_session(session.name)}:", "remain-on-exit", "failed",
    )  # fmt: skip
    login = {
        name: value
        for name, value in environ.items()
        if name in _FROM_A_LOGIN or name.startswith(_FROM_A_LOGIN_PREFIXES)
    }
    for _ in range(_TRIES):
        done = process.run(argv, timeout=30.0, cwd=Path("/"), env=login)
        if done.ok or not any(words in done.stderr for words in _LEAVING):
            break
        time.sleep(_STEP)  # the server's last session was closed just now: the next client starts another server
    if not done.ok and "duplicate session" in done.stderr:
        hint = f"See what it is: `tmux -S {session.socket} attach -t ={session.name}`."
        raise RefusedError(f"There is another tmux session {session.name}", done.stderr.strip(), hint)
    if not done.ok:
        raise failure(session.socket, done)


def _send(pipe: Path, data: bytes, session: ConductorSession, environ: Mapping[str, str], deadline: float) -> None:
    """Write all of it once the conductor has opened the pipe; watches that it lives meanwhile."""
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
                raise _failed(session, environ, "it did not take its environment") from error
            except OSError as error:
                if error.errno != errno.ENXIO:  # nobody reads yet
                    raise
                time.sleep(_STEP)
            look_at = _watch(session, environ, deadline, look_at)
    finally:
        if handle >= 0:
            os.close(handle)


def _await_begin(answer: Path, session: ConductorSession, environ: Mapping[str, str], deadline: float) -> None:
    look_at = time.monotonic() + _LOOK_AFTER
    while not answer.is_file():
        time.sleep(_STEP)
        try:
            look_at = _watch(session, environ, deadline, look_at)
        except ConductorError:
            if not answer.is_file():  # it may have answered just before its end
                raise
    said: Any = json.loads(answer.read_text(encoding="utf-8"))
    if said.get("ok") is not True:
        raise _as_error(said)


def _watch(session: ConductorSession, environ: Mapping[str, str], deadline: float, look_at: float) -> float:
    """Raise ConductorError where it is over with it; returns when to look again."""
    now = time.monotonic()
    if now > deadline:
        raise _failed(session, environ, "it did not begin in time")
    if now < look_at:
        return look_at
    try:
        said = _ask(session, environ)
    except ToolTimeoutError:
        return time.monotonic() + _LOOK_AFTER  # nothing is known of it then
    if said is None or said[0]:
        raise _failed(session, environ, "it ended before it began")
    return now + _LOOK_AFTER


def _failed(session: ConductorSession, environ: Mapping[str, str], why: str) -> ConductorError:
    words = last_words(session, environ)
    attach = f"tmux -S {session.socket} attach -t ={session.name}"
    return ConductorError(
        "The conductor of the run could not be started", "\n".join(filter(None, (why, words))),
        f"`{attach}` shows it where it stands; `selftest-tui resume` tries again.",
    )  # fmt: skip


def _as_error(said: Mapping[str, Any]) -> SelftestError:
    """What the conductor failed with, as the error that it was."""
    title, detail, hint = (str(said.get(name, "")) for name in ("title", "detail", "hint"))
    kind = {RefusedError.exit_status: RefusedError, UsageError.exit_status: ConductorError}
    return kind.get(said.get("exit_status", 2), ConductorError)(title, detail, hint)
