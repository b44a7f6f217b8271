"""tmux: the sockets of its servers, commands to them, and parsers of their answers.

Every server is addressed by the absolute path of its socket, never by TMUX or a default, so that no session of somebody
else is meant by accident. One `list-panes -a` reads a whole server. Agents can write names, titles and options, so the
fields are framed by a separator that is cut out of every field which could contain it.

Two ways lead to tmux. `Tmux` runs one command with a deadline, batched where many answers are needed: for probes, keys
and everything that a user waits for. `make_session` uses libtmux, imported when a session is made: that is rare, and
libtmux builds and checks the command (figures in docs/decisions/34-libtmux.md). Only `make_session` may start a server.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import stat
import threading
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from selftest_core.errors import RefusedError, ToolFailedError, ToolMissingError, ToolOutputError
from selftest_core.frozen import dataclass
from selftest_core.tools import process
from selftest_core.tools.installing import install_hint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TIMEOUT = 5.0
"""Seconds for one command; a healthy server answers in milliseconds."""

AGENT_ID_OPTION = "@mngr_agent_id"
AGENT_PANE_OPTION = "@mngr_agent_pane"

# Every tmux prints this separator unchanged; 3.4 and later escape some control characters.
SEPARATOR = "␞"
_CUT_OUT = f"s/[{''.join(map(chr, range(1, 32)))}\x7f]|{SEPARATOR}/ /:"

_SAFE_FIELDS = (
    "session_id", "session_created", "session_activity", "session_attached", "session_windows",
    "window_index", "window_active", "window_activity", "window_bell_flag",
    "pane_id", "pane_active", "pane_dead", "pane_pid",
)  # fmt: skip
# Fields that a program or a user can set to anything.
_FREE_FIELDS = ("session_name", "window_name", "pane_current_command", AGENT_ID_OPTION, AGENT_PANE_OPTION, "pane_title")
_COUNT = len(_SAFE_FIELDS) + 2 * len(_FREE_FIELDS)

# The lengths of the free fields come before all of them, where no field can reach: a line that was forged with a
# separator or a line end in a field does not fit. Only then all are read again with both cut out by tmux itself, which
# costs the server a regular expression for each field.
PANE_FORMAT = SEPARATOR.join(
    (*(f"#{{{name}}}" for name in _SAFE_FIELDS), *(f"#{{n:{name}}}" for name in _FREE_FIELDS),
     *(f"#{{{name}}}" for name in _FREE_FIELDS))
)  # fmt: skip
CUT_PANE_FORMAT = SEPARATOR.join(
    (*(f"#{{{name}}}" for name in _SAFE_FIELDS), *("" for _ in _FREE_FIELDS),
     *(f"#{{{_CUT_OUT}{name}}}" for name in _FREE_FIELDS))
)  # fmt: skip

_LIBTMUX_LOCK = threading.Lock()
_GONE = ("no server running", "error connecting", "lost server", "server exited", "no such file", "connection refused")


class SessionRef(NamedTuple):
    """A tmux session: the socket of its server (absolute path), and its name there."""

    socket: str
    name: str


@dataclass(frozen=True, slots=True)
class Pane:
    """One pane of `list-panes -a`. Times are seconds since the epoch; `agent_pane` is mngr's stamp."""

    session_id: str
    session_created: float
    session_activity: float
    session_attached: int
    session_windows: int
    window_index: int
    window_is_active: bool
    window_activity: float
    bell: bool
    pane_id: str
    is_active: bool
    is_dead: bool
    pid: int
    agent_pane: str
    session: str
    window: str
    command: str
    agent_id: str
    title: str


def require_tmux(environ: Mapping[str, str]) -> None:
    """Raise ToolMissingError if there is no tmux on PATH."""
    import shutil  # with all that unpacks archives: an import of the core does not wait for it

    path = environ.get("PATH", os.defpath)
    if shutil.which("tmux", path=path) is None:
        where = f"No `tmux` on the PATH {path}"
        raise ToolMissingError("tmux is not installed", where, install_hint("tmux"), argv=("tmux",))


def tmux_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of this user's sockets, as tmux finds it: in TMUX_TMPDIR if that exists, else in /tmp."""
    for base in (environ.get("TMUX_TMPDIR", ""), "/tmp"):
        if base and Path(base).is_dir():
            return Path(base).resolve() / f"tmux-{os.getuid()}"
    return Path("/tmp") / f"tmux-{os.getuid()}"


def default_socket(environ: Mapping[str, str]) -> str:
    """Return the default server's socket: mngr's, when TMUX is unset."""
    return str(tmux_folder(environ) / "default")


def own_server(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the socket of the tmux that we run in and our pane's id ("" if unknown); None outside tmux."""
    socket = environ.get("TMUX", "").rpartition(",")[0].rpartition(",")[0]
    return (socket, environ.get("TMUX_PANE", "")) if socket else None


def sockets_of(environ: Mapping[str, str], named: Sequence[str] = ()) -> tuple[str, ...]:
    """Return all sockets of this user: the default first, then the folder's, the one that we run in, and those named.

    A name without a slash is one in the folder (tmux -L), else a path (tmux -S). A socket may have no server.
    """
    folder = tmux_folder(environ)
    found: dict[str, None] = {str(folder / "default"): None}
    with contextlib.suppress(OSError):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                    found[entry.path] = None
    own = own_server(environ)
    for path in (*((own[0],) if own else ()), *named):
        whole = Path(path).expanduser() if "/" in path else folder / path
        with contextlib.suppress(OSError):
            whole = whole.resolve()
        found[str(whole)] = None
    return tuple(found)


def parse_panes(text: str, known: dict[str, Pane] | None = None) -> tuple[Pane, ...]:
    """Parse the output of `list-panes -a -F` with PANE_FORMAT or CUT_PANE_FORMAT, in its order.

    `known`: a cache of panes by line, updated here. Raises ToolOutputError if a line has a wrong number of fields or
    a field a wrong length.
    """
    lines = [line for line in text.split("\n") if line]
    before = known or {}
    panes = {line: before.get(line) or _parse_pane(line) for line in lines}
    if known is not None:
        known.clear()
        known.update(panes)
    return tuple(panes[line] for line in lines)


def _parse_pane(line: str) -> Pane:
    parts = line.split(SEPARATOR)
    safe, lengths, free = parts[:13], parts[13:19], parts[19:]
    try:
        if len(parts) != _COUNT:
            raise ValueError("wrong number of fields")
        if any(length and int(length) != len(text.encode()) for length, text in zip(lengths, free, strict=True)):
            raise ValueError("a field has another length than tmux reports")
        return Pane(
            session_id=safe[0],
            session_created=_number(safe[1]),
            session_activity=_number(safe[2]),
            session_attached=int(_number(safe[3])),
            session_windows=int(_number(safe[4])),
            window_index=int(safe[5]),
            window_is_active=safe[6] == "1",
            window_activity=_number(safe[7]),
            bell=safe[8] == "1",
            pane_id=safe[9],
            is_active=safe[10] == "1",
            is_dead=safe[11] == "1",
            pid=int(_number(safe[12])),
            session=free[0],
            window=free[1],
            command=free[2],
            agent_id=free[3],
            agent_pane=free[4],
            title=free[5],
        )
    except ValueError as error:
        detail = f"list-panes printed {line[:200]!r}: {error}"
        raise ToolOutputError("tmux answered something unexpected", detail) from error


def _number(text: str) -> float:
    return float(text) if text else 0.0


def is_gone(message: str) -> bool:
    """True if tmux's error means that no server runs."""
    return any(words in message.lower() for words in _GONE)


def tmux_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of our tmux clients: without TMUX, since the socket is always given."""
    return {name: value for name, value in environ.items() if name not in ("TMUX", "TMUX_PANE")}


def exact_session(name: str) -> str:
    """Return the target of exactly this session, not of one whose name has this prefix."""
    return f"={name}"


def quote(word: str) -> str:
    """Quote a word of a tmux command list, as `source-file` and a binding's text parse it.

    Everything within single quotes is literal; single quotes themselves stand in double quotes.
    """
    return "'" + word.replace("'", "'\"'\"'") + "'" if word else "''"


def escaped(word: str) -> str:
    """Escape a word of a client's argv: a semicolon at its end would end the command."""
    return word[:-1] + "\\;" if word.endswith(";") else word


@dataclass(frozen=True, slots=True)
class Tmux:
    """One server, by its socket. `environ`: the environment of its clients."""

    socket: str
    environ: Mapping[str, str] | None = None

    def argv(self, *arguments: str) -> tuple[str, ...]:
        """Build a client's argv: UTF-8 (-u), and without starting a server (-N), as some commands would."""
        return ("tmux", "-u", "-N", "-S", self.socket, *arguments)

    def ask(
        self, *arguments: str, timeout: float = TIMEOUT, text: str | None = None, limit: int = process.OUTPUT_LIMIT
    ) -> process.Completed:
        """Run a command and return its output, failed or not. Raises ToolMissingError, ToolTimeoutError."""
        return process.run(
            self.argv(*arguments),
            timeout=timeout,
            cwd=Path("/"),
            env=tmux_environment(os.environ if self.environ is None else self.environ),
            input=text,
            limit=limit,
        )

    def run(self, *arguments: str, timeout: float = TIMEOUT, text: str | None = None) -> str:
        """Run a command and return what it prints. Raises ToolFailedError."""
        done = self.ask(*arguments, timeout=timeout, text=text)
        if not done.ok:
            raise failure(self.socket, done)
        return done.stdout

    def panes(self, timeout: float = TIMEOUT, known: dict[str, Pane] | None = None) -> tuple[Pane, ...]:
        """Read every pane of every session; `known` as for `parse_panes`. Raises ToolFailedError without a server."""
        try:
            return parse_panes(self.run("list-panes", "-a", "-F", PANE_FORMAT, timeout=timeout), known)
        except ToolOutputError:
            return parse_panes(self.run("list-panes", "-a", "-F", CUT_PANE_FORMAT, timeout=timeout), known)


def failure(socket: str, done: process.Completed) -> ToolFailedError:
    """Make the error for a client's non-zero exit status."""
    if is_gone(done.stderr):
        title, hint = f"The tmux server {Path(socket).name} is gone", "Its sessions ended with it."
    elif "can't find" in done.stderr:
        title, hint = "The tmux session is gone", "It ended, or was renamed, a moment ago."
    else:
        title, hint = f"tmux could not do that ({Path(socket).name})", ""
    detail = done.stderr.strip()[-2000:]
    return ToolFailedError(title, detail, hint, argv=done.argv, exit_status=done.exit_status, stderr=done.stderr)


def make_session(
    socket: str,
    name: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    folder: Path,
    window: str = "",
    size: tuple[int, int] = (80, 24),
    options: Mapping[str, str] = MappingProxyType({}),
    window_options: Mapping[str, str] = MappingProxyType({}),
    timeout: float = 30.0,
) -> None:
    """Make a detached session that runs a program, and start a server if none runs. Uses libtmux.

    `environ`: of the tmux client, and so of a server that is started here. `folder`: the program's. `size`: columns and
    lines. The options are set right after the program has started. One thread at a time gets in, since libtmux takes
    TMUX out of `os.environ` meanwhile. Raises RefusedError if a session of this name exists, ToolFailedError.
    """
    # It asks standard output for its encoding when it is imported, and the one of a Textual app has none.
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
        from libtmux import Server
        from libtmux.common import tmux_cmd
        from libtmux.exc import LibTmuxException, TmuxSessionExists

    class Command(tmux_cmd):
        """A command of libtmux, run as all our programs are: with a deadline, an environment and a closed stdin."""

        def __init__(self, *arguments: object) -> None:
            self.cmd = ["tmux", "-u", "-S", socket, *map(str, arguments)]
            done = process.run(self.cmd, timeout=timeout, cwd=Path("/"), env=tmux_environment(environ))
            self.returncode, self.stdout, self.stderr = done.exit_status, done.stdout.splitlines(), []
            if done.stderr:
                self.stderr = done.stderr.splitlines()

    class OwnServer(Server):
        def cmd(self, cmd: str, *args: Any, target: str | int | None = None) -> tmux_cmd:
            return Command(cmd, *(() if target is None else ("-t", target)), *args)

    command = escaped(f"exec {shlex.join(argv)}")
    try:
        with _LIBTMUX_LOCK:
            session = OwnServer(socket_path=socket).new_session(
                name, start_directory=escaped(str(folder)), window_name=window, window_command=command,
                x=size[0], y=size[1],
            )  # fmt: skip
        for option, value in options.items():
            session.set_option(option, value)
        for option, value in window_options.items():
            session.cmd("set-option", "-w", option, value)
    except TmuxSessionExists as error:
        hint = f"Look at it: `tmux -S {socket} attach -t ={name}`."
        raise RefusedError(f"There is another tmux session {name}", str(error), hint) from error
    except LibTmuxException as error:
        title = f"tmux could not make the session {name}"
        raise ToolFailedError(title, str(error), argv=("tmux", "new-session"), stderr=str(error)) from error
