"""Session of a program in a terminal of its own: keys go in, the screen comes out.

The terminal is a session of a private tmux server (libtmux), so that tests read what a user would see, and never touch
the user's tmux: own socket, no configuration file, only the environment of the caller. Tests wait for conditions, never
for a time: `patience` only decides when a wait fails.

It knows nothing of the program. The server and the program end with the session.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_recorder.e2e.noop import longest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from libtmux import Pane, Server

PATIENCE = 150.0
"""Seconds after which a wait fails. A deadline, not a measure."""
_LOOK_AGAIN = 0.05
_HOW_IT_ENDED = "#{pane_dead}|#{pane_dead_status}|#{pane_dead_signal}|#{pane_pid}|#{pid}"
_TERM = "screen-256color"
# What a dead pane says of itself would push its first line off the screen (tmux 3.2 knows no way to be quiet).
_OPTIONS = (("remain-on-exit", "on"), ("remain-on-exit-format", ""), ("status", "off"), ("escape-time", "0"))


class Session:
    """A program in one window, made by `open_session`."""

    def __init__(self, server: Server, pane: Pane, tell: Callable[[str, str], None]) -> None:
        self._server = server
        self._pane = pane
        self._tell = tell

    def send_keys(self, *keys: str) -> None:
        """Press keys by tmux's names ("Enter", "C-c", "BTab", "q"), one after another."""
        self._tell("keys", " ".join(keys))
        self._tmux("send-keys", "-t", self._target, "--", *keys)

    def type_text(self, text: str) -> None:
        """Type a text literally, without names of keys."""
        self._tell("text", text)
        self._tmux("send-keys", "-t", self._target, "-l", "--", text)

    def screen(self) -> str:
        """The lines of the terminal, without trailing blanks."""
        return "\n".join(self._tmux("capture-pane", "-p", "-t", self._target))

    def screen_with_colours(self) -> str:
        """The screen with the escape sequences of its colours and styles."""
        return "\n".join(self._tmux("capture-pane", "-p", "-e", "-t", self._target))

    def wait_for(self, wanted: str | re.Pattern[str], patience: float = PATIENCE) -> str:
        """Wait until a text is on the screen (or a pattern is found in it) and return that screen.

        Raises AssertionError with the last screen after `patience` seconds, or when the program ends before.
        """
        found = wanted.search if isinstance(wanted, re.Pattern) else (lambda screen: wanted in screen)
        return self.wait_until(lambda screen: bool(found(screen)), str(wanted), patience)

    def wait_until(self, holds: Callable[[str], bool], what: str, patience: float = PATIENCE) -> str:
        """Wait until a condition on the screen holds and return that screen. `what`: its name, for a failure."""
        patience = longest(patience)
        deadline = time.monotonic() + patience
        while True:
            # Asked before the look: what a program prints as its last is on the screen once it has ended.
            ended = self.exit_status
            screen = self.screen()
            if holds(screen):
                self._tell("screen", screen)
                return screen
            if ended is not None:
                raise AssertionError(f"ended with {ended} before {what!r} came; the screen:\n{screen}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{what!r} did not come in {patience:g} s; the screen:\n{screen}")
            time.sleep(_LOOK_AGAIN)  # tmux has no event for "the screen changed"

    def wait_for_end(self, patience: float = PATIENCE) -> int:
        """Wait until the program has ended and return its exit status, negative for a signal."""
        patience = longest(patience)
        deadline = time.monotonic() + patience
        while (status := self.exit_status) is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"did not end in {patience:g} s; the screen:\n{self.screen()}")
            time.sleep(_LOOK_AGAIN)
        return status

    @property
    def exit_status(self) -> int | None:
        """None while the program runs; then its exit status, negative for a signal."""
        dead, status, number, pid, server = self._ask(_HOW_IT_ENDED).split("|")
        if dead == "1" and not status and not number:
            # The terminal closes before tmux has reaped the program, and tmux 3.3 at times misses the signal to do so.
            if _exists(int(pid)):
                os.kill(int(server), signal.SIGCHLD)
                return None
            _, status, number, *_ = self._ask(_HOW_IT_ENDED).split("|")
        if dead != "1":
            return None
        # tmux 3.2 has no pane_dead_signal: there it stays empty, and a death by signal reads as 0.
        return -int(number) if number else int(status or 0)

    @property
    def has_ended(self) -> bool:
        """True once the program has ended; its last screen can still be read."""
        return self.exit_status is not None

    @property
    def socket(self) -> Path:
        """The private tmux server's socket."""
        assert self._server.socket_path is not None, "the server was made with one"
        return Path(self._server.socket_path)

    @property
    def pid(self) -> int:
        """The program's process."""
        return int(self._ask("#{pane_pid}"))

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        columns, lines = self._ask("#{pane_width} #{pane_height}").split()
        return int(columns), int(lines)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size of the terminal; the program gets SIGWINCH."""
        self._tmux("resize-window", "-t", self._target, "-x", str(columns), "-y", str(lines))

    def kill(self) -> None:
        """End the program as `kill -9` does."""
        os.kill(self.pid, signal.SIGKILL)

    @property
    def _target(self) -> str:
        target = self._pane.pane_id
        assert target is not None, "libtmux made a pane without an id"
        return target

    def _ask(self, question: str) -> str:
        return "".join(self._tmux("display-message", "-p", "-t", self._target, question))

    def _tmux(self, *arguments: str) -> list[str]:
        done = self._server.cmd(*arguments)
        if done.stderr:
            raise AssertionError(f"tmux {shlex.join(arguments)}: {' '.join(done.stderr)}")
        return list(done.stdout)


@contextlib.contextmanager
def open_session(
    argv: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    cwd: Path,
    columns: int = 100,
    lines: int = 30,
    grace: float = 5.0,
    tell: Callable[[str, str], None] = lambda kind, text: None,
) -> Iterator[Session]:
    """Run a program in a terminal of this size, with exactly this environment (TERM aside); it ends with the block.

    `grace`: seconds to clean up after its terminal is closed (SIGHUP), before it is killed. `tell` is called with what
    happens: ("keys" or "text", what is pressed), and ("screen", the screen that a wait ended with).
    """
    from libtmux import Server

    # A Unix socket's path has some hundred bytes at most, and the usual temporary folder may be deep.
    folder = Path(tempfile.mkdtemp(prefix="st-", dir="/tmp" if Path("/tmp").is_dir() else None))
    server = Server(socket_path=str(folder / "s"), config_file="/dev/null")
    named = {**environment, "TERM": _TERM, "COLORTERM": "truecolor"}
    command = ["env", "-i", *(f"{name}={value}" for name, value in named.items()), *map(str, argv)]
    pid = 0
    try:
        # `exec`: the program itself is the pane's process, so that its end and its status are the pane's.
        session = server.new_session("s", x=columns, y=lines, start_directory=cwd, window_command=_holding(command))
        pane = session.active_pane
        assert pane is not None, "libtmux made a session without a pane"
        made = Session(server, pane, tell)
        for option, value in _OPTIONS:
            server.cmd("set-option", "-g", option, value)
        made.resize(columns, lines)
        pid = made.pid
        server.cmd("wait-for", "-S", "go")
        yield made
    finally:
        server.cmd("kill-server")
        _end(pid, grace)
        shutil.rmtree(folder, ignore_errors=True)


def _holding(command: Sequence[str]) -> str:
    """Return a shell line that starts the program once the terminal is ready, since a quick one could end before."""
    return f"tmux wait-for go; exec {shlex.join(command)}"


def _end(pid: int, grace: float) -> None:
    """Kill a program, with its process group, that ignores the end of its terminal."""
    deadline = time.monotonic() + grace
    while pid and _is_alive(pid):
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            return
        time.sleep(_LOOK_AGAIN)


def _exists(pid: int) -> bool:
    """Return True while a process of ours exists; a zombie counts until its parent has reaped it."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False  # gone, or the number belongs to somebody else by now
    return True


def _is_alive(pid: int) -> bool:
    if not _exists(pid):
        return False
    with contextlib.suppress(OSError):
        # It has ended, and only waits for an init that takes no note of it, as in some containers.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"])
    return True
