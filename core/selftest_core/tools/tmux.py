"""tmux: where its servers are, the argv to ask them, and what their answers mean.

Every server is asked by the absolute path of its socket, never through TMUX or a default, so that nobody's own
session is meant by accident. One `list-panes -a` tells everything about one server. Names, titles and options are
written by agents: the answer's framing is a separator that is cut out of every field which could hold it.
It must not start a server, which some of tmux's questions (list-keys) would do by themselves.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from selftest_core.errors import ToolFailedError, ToolMissingError, ToolOutputError
from selftest_core.frozen import dataclass
from selftest_core.tools import process
from selftest_core.tools.installing import install_hint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TIMEOUT = 5.0
"""Seconds for one question to a server; a healthy one answers in milliseconds."""

AGENT_ID_OPTION = "@mngr_agent_id"
AGENT_PANE_OPTION = "@mngr_agent_pane"

# A printable separator passes every tmux unchanged; control characters do not (3.4 and later escape some of them).
SEPARATOR = "␞"
_CUT_OUT = f"s/[{''.join(map(chr, range(1, 32)))}\x7f]|{SEPARATOR}/ /:"

_SAFE_FIELDS = (
    "session_id", "session_created", "session_activity", "session_attached", "session_windows",
    "window_index", "window_active", "window_activity", "window_bell_flag",
    "pane_id", "pane_active", "pane_dead", "pane_pid",
)  # fmt: skip
# What a program or a person can set to anything.
_FREE_FIELDS = ("session_name", "window_name", "pane_current_command", AGENT_ID_OPTION, AGENT_PANE_OPTION, "pane_title")
_COUNT = len(_SAFE_FIELDS) + 2 * len(_FREE_FIELDS)

# The length of each free field comes before all of them, where none can reach it: a line that was forged by means of
# a separator or a line end in a field cannot fit. Only if one does not fit, all are asked for again with those cut
# out by tmux itself, which costs its server a regular expression for each field.
PANE_FORMAT = SEPARATOR.join(
    (*(f"#{{{name}}}" for name in _SAFE_FIELDS), *(f"#{{n:{name}}}" for name in _FREE_FIELDS),
     *(f"#{{{name}}}" for name in _FREE_FIELDS))
)  # fmt: skip
CUT_PANE_FORMAT = SEPARATOR.join(
    (*(f"#{{{name}}}" for name in _SAFE_FIELDS), *("" for _ in _FREE_FIELDS),
     *(f"#{{{_CUT_OUT}{name}}}" for name in _FREE_FIELDS))
)  # fmt: skip

_GONE = ("no server running", "error connecting", "lost server", "server exited", "no such file", "connection refused")


class SessionRef(NamedTuple):
    """A tmux session: the socket of its server (absolute path), and its name there."""

    socket: str
    name: str


@dataclass(frozen=True, slots=True)
class Pane:
    """One pane as `list-panes -a` tells. Times are seconds since the epoch; `agent_pane` is mngr's stamp."""

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
    """Raise ToolMissingError where there is no tmux on PATH."""
    import shutil  # with all that unpacks archives: an import of the core does not wait for it

    path = environ.get("PATH", os.defpath)
    if shutil.which("tmux", path=path) is None:
        where = f"`tmux` was looked for on {path}"
        raise ToolMissingError("tmux is not installed", where, install_hint("tmux"), argv=("tmux",))


def tmux_folder(environ: Mapping[str, str]) -> Path:
    """The folder of this user's sockets, as tmux finds it: TMUX_TMPDIR if that exists, else /tmp; links resolved."""
    for base in (environ.get("TMUX_TMPDIR", ""), "/tmp"):
        if base and Path(base).is_dir():
            return Path(base).resolve() / f"tmux-{os.getuid()}"
    return Path("/tmp") / f"tmux-{os.getuid()}"


def default_socket(environ: Mapping[str, str]) -> str:
    """The server that a program finds which was told nothing: mngr's, when TMUX is unset."""
    return str(tmux_folder(environ) / "default")


def own_server(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The socket of the tmux that we run in, and our pane's id ("" if unknown); None outside tmux."""
    socket = environ.get("TMUX", "").rpartition(",")[0].rpartition(",")[0]
    return (socket, environ.get("TMUX_PANE", "")) if socket else None


def sockets_of(environ: Mapping[str, str], named: Sequence[str] = ()) -> tuple[str, ...]:
    """Every socket of this user: mngr's default first, then the folder's, the one that we run in, and those named.

    A name without a slash is one in the folder (tmux -L), else a path (tmux -S). Whether a server answers there is
    not asked.
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
    """What `list-panes -a -F` printed with PANE_FORMAT or CUT_PANE_FORMAT, in its order.

    `known` holds the panes by line from the last time, and is brought up to date. Raises ToolOutputError where a line
    does not fit, by its number of fields or by a field's length.
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
            raise ValueError("not as many fields as asked for")
        if any(length and int(length) != len(text.encode()) for length, text in zip(lengths, free, strict=True)):
            raise ValueError("a field of another length than tmux says")
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
    """True where tmux's complaint means that no server is there (any more)."""
    said = message.lower()
    return any(words in said for words in _GONE)


def tmux_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for a tmux client of ours: without TMUX, since the socket is always said."""
    return {name: value for name, value in environ.items() if name not in ("TMUX", "TMUX_PANE")}


def exact_session(name: str) -> str:
    """The target that means this session alone, never one whose name begins alike."""
    return f"={name}"


def quote(word: str) -> str:
    """One word of a tmux command list, as `source-file` and a binding's text read it.

    Single quotes take everything literally except themselves, which are put between double quotes.
    """
    return "'" + word.replace("'", "'\"'\"'") + "'" if word else "''"


def escaped(word: str) -> str:
    """A word of a client's argv that it does not take for the end of a command: it looks for a semicolon at its end."""
    return word[:-1] + "\\;" if word.endswith(";") else word


@dataclass(frozen=True, slots=True)
class Tmux:
    """One server, by its socket. `environ` is what its clients are run with."""

    socket: str
    environ: Mapping[str, str] | None = None

    def argv(self, *arguments: str) -> tuple[str, ...]:
        """The whole argv of a client that asks this server: UTF-8 (-u), and never starting one (-N), as some would."""
        return ("tmux", "-u", "-N", "-S", self.socket, *arguments)

    def ask(
        self, *arguments: str, timeout: float = TIMEOUT, text: str | None = None, limit: int = process.OUTPUT_LIMIT
    ) -> process.Completed:
        """Run a command and return what came, success or not; raises ToolMissingError and ToolTimeoutError."""
        return process.run(
            self.argv(*arguments),
            timeout=timeout,
            cwd=Path("/"),
            env=tmux_environment(os.environ if self.environ is None else self.environ),
            input=text,
            limit=limit,
        )

    def run(self, *arguments: str, timeout: float = TIMEOUT, text: str | None = None) -> str:
        """What a command prints. Raises ToolFailedError where it fails, saying so if the server is gone."""
        done = self.ask(*arguments, timeout=timeout, text=text)
        if not done.ok:
            raise failure(self.socket, done)
        return done.stdout

    def panes(self, timeout: float = TIMEOUT, known: dict[str, Pane] | None = None) -> tuple[Pane, ...]:
        """Every pane of every session; `known` as for `parse_panes`. Raises ToolFailedError where no server answers."""
        try:
            return parse_panes(self.run("list-panes", "-a", "-F", PANE_FORMAT, timeout=timeout), known)
        except ToolOutputError:
            return parse_panes(self.run("list-panes", "-a", "-F", CUT_PANE_FORMAT, timeout=timeout), known)


def failure(socket: str, done: process.Completed) -> ToolFailedError:
    """The error behind a client's non-zero exit, told for a person."""
    if is_gone(done.stderr):
        title, hint = f"The tmux server {Path(socket).name} is gone", "Its sessions ended with it."
    elif "can't find" in done.stderr:
        title, hint = "The tmux session is gone", "It ended, or was renamed, a moment ago."
    else:
        title, hint = f"tmux could not do that ({Path(socket).name})", ""
    detail = done.stderr.strip()[-2000:]
    return ToolFailedError(title, detail, hint, argv=done.argv, exit_status=done.exit_status, stderr=done.stderr)
