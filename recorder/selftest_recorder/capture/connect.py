"""Command `selftest-tui-connect`: a connect command for mngr that records the user's attach to an agent.

    mngr config set --scope user commands.connect.connect_command selftest-tui-connect

mngr replaces itself by it and names the agent in the environment. asciinema (run as a program, never imported: it is
GPL) records an ordinary attach, into the folder that SELFTEST_RECORDINGS names, else into that of the agent's run, else
into the user's state folder. Without asciinema the user is attached without a recording, and told so.

Without a terminal, as in a test, it attaches read-only until the agent's session ends or a signal comes. It ends by
detaching its own client, since asciinema ignores SIGTERM and SIGHUP, and leaves half a line after SIGKILL. It must not
start an agent, nor overwrite a recording.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.config import load_config
from selftest_core.errors import SelftestError, ToolError, ToolMissingError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.paths import state_folder
from selftest_core.run.crew.recording import LIVE
from selftest_core.run.log_lines import plain
from selftest_core.run.store import run_folders
from selftest_core.tools import process
from selftest_core.tools.tmux import Tmux, exact_session, sockets_of
from selftest_recorder.cast.writer import mask_file
from selftest_recorder.onhost.masking import USUAL_PATTERNS, make_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import FrameType

    from selftest_recorder.onhost.masking import Secrets

FOLDER_VARIABLE = "SELFTEST_RECORDINGS"
_ASKED = "#{window_width} #{window_height} #{status} #{@mngr_agent_id}"
_ENDING = 60.0
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
# Resets the modes that a killed program may have left: alternate screen, hidden cursor, mouse, paste, colours.
_BACK = "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>\x1b[m"


@dataclass(frozen=True, slots=True)
class Connection:
    """The agent to connect to. `socket`: of its tmux server, "" for an agent on another host.

    `size`: columns and rows of the client; another size would change that of the session.
    """

    agent: str
    session: str
    socket: str = ""
    agent_id: str = ""
    size: tuple[int, int] = (120, 40)


def main(argv: Sequence[str] | None = None) -> int:
    """Attach and record; return the exit status of the attach."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in ("-h", "--help"):
        sys.stdout.write(__doc__ or "")
        return 0
    try:
        return connect(find_connection(words, os.environ), dict(os.environ), Path.cwd())
    except SelftestError as error:
        for line in filter(None, (error.title, *error.detail.splitlines(), error.hint)):
            sys.stderr.write(f"selftest-tui-connect: {plain(line)}\n")
        return error.exit_status


def find_connection(words: Sequence[str], environ: Mapping[str, str]) -> Connection:
    """Find the agent that mngr, or the user by one argument, names. Raises UsageError for an unknown session."""
    named = words[0] if len(words) == 1 else ""
    session = f"mngr-{named}" if named else environ.get("MNGR_SESSION_NAME", "")
    agent = named or environ.get("MNGR_AGENT_NAME", "") or session
    if not session or len(words) > 1:
        hint = "mngr runs it: `mngr connect AGENT --connect-command selftest-tui-connect`. By hand: the agent's name."
        raise UsageError("No agent is given to connect to", "", hint)
    if environ.get("MNGR_HOST_IS_LOCAL", "true").lower() == "false":
        return Connection(agent, session)
    for socket in sockets_of(environ):
        with contextlib.suppress(ToolError):
            target = f"{exact_session(session)}:"
            done = Tmux(socket, environ).ask("display-message", "-p", "-t", target, _ASKED)
            if done.ok:
                width, height, status, agent_id = done.stdout.rstrip("\n").split(" ", 3)
                bars = int(status) if status.isdecimal() else int(status == "on")
                return Connection(agent, session, socket, agent_id, (int(width), int(height) + bars))
    raise UsageError(f"There is no tmux session {session}", "The agent is stopped, or has another name.")


def connect(connection: Connection, environ: Mapping[str, str], cwd: Path) -> int:
    """Attach the terminal, or read-only without one, and record it."""
    asciinema = _find_asciinema(environ)
    has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if asciinema is None:
        sys.stderr.write("selftest-tui-connect: asciinema is not installed, so nothing is recorded\n")
        if not has_terminal:
            raise ToolMissingError("asciinema is not installed", "", "pip install 'selftest-tui[asciinema]'")
        return process.call_interactive(["/bin/sh", "-c", _attach(connection)], env=_own(environ))
    secrets = _secrets(environ, cwd)
    path = _place(connection, environ)
    with tempfile.TemporaryDirectory(prefix="selftest-connect-") as passing:
        own = _own(environ) | {"ASCIINEMA_CONFIG_HOME": passing}
        tty = Path(passing) / "tty"
        command = f"tty >{shlex.quote(str(tty))}; {_attach(connection, looks_on=not has_terminal)}"
        argv = [str(asciinema), "rec", "-q", "-t", plain(connection.agent), "-c", command, str(path)]
        if has_terminal:
            status = _with_terminal(argv, own, connection, tty)
        else:
            argv[2:2] = ["--cols", str(connection.size[0]), "--rows", str(connection.size[1])]
            status = _without_terminal(argv, own, connection, tty)
    if path.exists():
        path.chmod(0o600)
        mask_file(path, secrets)
    return status


def _with_terminal(argv: Sequence[str], environ: Mapping[str, str], connection: Connection, tty: Path) -> int:
    with _terminal_given_back() as was_cut_off, _detaching_on_signals(connection, tty, environ):
        status = process.call_interactive(argv, env=environ)
        was_cut_off.append(status < 0)
    return status


def _without_terminal(argv: Sequence[str], environ: Mapping[str, str], connection: Connection, tty: Path) -> int:
    running = process.spawn(argv, cwd=Path("/"), env=environ)
    with _detaching_on_signals(connection, tty, environ, signal.SIGINT) as signalled:
        while running.poll() is None and not signalled:
            time.sleep(0.05)
    # Detach again: a signal may have come before the client existed.
    deadline = time.monotonic() + _ENDING
    while running.poll() is None and time.monotonic() < deadline:
        _detach(connection, tty, environ)
        time.sleep(0.05)
    return running.end()


@contextlib.contextmanager
def _detaching_on_signals(
    connection: Connection, tty: Path, environ: Mapping[str, str], *more: signal.Signals
) -> Iterator[list[int]]:
    """Detach our client on signals, which are collected in the list."""
    heard: list[int] = []

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        _detach(connection, tty, environ)

    before: dict[int, Any] = {number: signal.signal(number, hear) for number in (*_SIGNALS, *more)}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _detach(connection: Connection, tty: Path, environ: Mapping[str, str]) -> None:
    """Detach our own client only."""
    with contextlib.suppress(OSError, ToolError):
        name = tty.read_text(encoding="utf-8").strip()
        if name and connection.socket:
            Tmux(connection.socket, environ).ask("detach-client", "-t", name)


@contextlib.contextmanager
def _terminal_given_back() -> Iterator[list[bool]]:
    """Restore the terminal at the end. The list holds False if its program ended by itself."""
    was_cut_off: list[bool] = []
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    try:
        yield was_cut_off
    finally:
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(handle, termios.TCSADRAIN, before)
            if was_cut_off != [False]:
                sys.stdout.write(_BACK)
                sys.stdout.flush()


def _attach(connection: Connection, *, looks_on: bool = False) -> str:
    """Return the shell command that shows the session; of a remote agent it is mngr's own connect."""
    if not connection.socket:
        return f"exec mngr connect --no-start {shlex.quote(connection.agent)}"
    flags = ["-f", "read-only,ignore-size"] if looks_on else []
    words = ["tmux", "-u", "-S", connection.socket, "attach-session", *flags, "-t", exact_session(connection.session)]
    return f"exec {shlex.join(words)}"


def _own(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the attach: outside of tmux, with TERM and UTF-8, which asciinema requires."""
    own = {name: value for name, value in environ.items() if name not in ("TMUX", "TMUX_PANE")}
    if not own.get("TERM") or own["TERM"] == "dumb":
        own["TERM"] = "xterm-256color"
    named = own.get("LC_ALL") or own.get("LC_CTYPE") or own.get("LANG") or ""
    if "utf" not in named.lower():
        own["LC_ALL"] = "C.UTF-8"
    return own


def _find_asciinema(environ: Mapping[str, str]) -> Path | None:
    """Return asciinema from our own environment, else from PATH."""
    beside = Path(sys.executable).parent / "asciinema"
    if beside.is_file():
        return beside
    found = shutil.which("asciinema", path=environ.get("PATH", os.defpath))
    return Path(found) if found else None


def _secrets(environ: Mapping[str, str], cwd: Path) -> Secrets:
    config = load_config(cwd, environ)
    values = [environ[name] for name in (*config.env, *config.mask_env) if environ.get(name)]
    return make_secrets(values, (*USUAL_PATTERNS, *config.mask_patterns))


def _place(connection: Connection, environ: Mapping[str, str]) -> Path:
    """Return a new file name, and create its folder. Raises UsageError."""
    folder = _folder(connection, environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"The folder for recordings cannot be made: {folder}", error.strerror or str(error)) from error
    stem = _UNSAFE.sub("-", connection.agent).strip("-.")[:60] or "agent"
    when = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return folder / f"{stem}-attach-{when}-{os.getpid()}.cast"


def _folder(connection: Connection, environ: Mapping[str, str]) -> Path:
    named = environ.get(FOLDER_VARIABLE, "")
    if named:
        return Path(named).expanduser().absolute()
    for folder in run_folders(environ) if connection.agent_id else ():
        with contextlib.suppress(SelftestError, OSError):
            for row in folder.read().rows.values():
                members = [retry.member for retry in row.retries] + ([row.member] if row.member else [])
                if any(member.agent_id == connection.agent_id for member in members):
                    return folder.path / LIVE
    return state_folder(environ) / "recordings"


if __name__ == "__main__":
    sys.exit(main())
