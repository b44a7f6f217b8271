"""The part of tmux that recording needs: the list of panes, the screen of a pane, and its output from then on.

The output of a pane comes from `pipe-pane`, which writes it to one program: a `cat` into a FIFO. One list of commands
opens the pipe and reads the screen, and the server reads nothing from the pane in between: so the screen is exactly
the state before the first byte of the pipe.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import NamedTuple

PIPE_OPTION = "@selftest_recording"
"""Option of a pane: the FIFO of its output while it is recorded."""
_DEADLINE = 30.0
_SEPARATOR = "␞"
_FIELDS = (
    "pane_id", "pane_width", "pane_height", "pane_dead", "pane_dead_status", "pane_dead_signal", "pane_pipe",
    "pane_active", "window_active", "pane_pid", "session_id", "pid", "start_time", f"n:{PIPE_OPTION}",
    "n:@mngr_agent_id", "n:@mngr_agent_pane", PIPE_OPTION, "@mngr_agent_id", "@mngr_agent_pane", "session_name",
)  # fmt: skip
_FORMAT = _SEPARATOR.join(f"#{{{field}}}" for field in _FIELDS)
_FREE = 16
_NO_SERVER = ("no server running", "error connecting to", "failed to connect to server")
_SCREEN_FIELDS = (
    "pane_width", "pane_height", "cursor_x", "cursor_y", "cursor_flag", "alternate_on", "insert_flag",
    "keypad_cursor_flag", "keypad_flag", "origin_flag", "wrap_flag", "scroll_region_upper", "scroll_region_lower",
)  # fmt: skip
_MARK = "selftest-screen-ends-here"


class TmuxError(Exception):
    """tmux is missing, did not answer, or refused; the text tells which."""


class Pane(NamedTuple):
    """One pane. `pipe`: the FIFO that its option names ("" = none); `exit_status`: of its dead program, or None.

    A pane is dead once no process has its terminal; `is_reaped`: tmux knows the exit status, which comes later. tmux
    before 3.3 does not tell it for a program that died by a signal. `server`: the process, and when it was started,
    of the server: another one gives the same ids again.
    """

    pane_id: str
    cols: int
    rows: int
    is_dead: bool
    exit_status: int | None
    is_reaped: bool
    has_pipe: bool
    is_active: bool
    pid: int
    session_id: str
    server: tuple[str, str]
    pipe: str
    agent_id: str
    agent_pane: str
    session: str


class Screen(NamedTuple):
    """The screen of a pane, as output that draws it on an empty terminal of its size."""

    cols: int
    rows: int
    drawing: str


def ask(socket: str, *words: str) -> str:
    """Run a tmux command without starting a server; return its output. `socket` "": default. Raises TmuxError."""
    argv = ["tmux", "-u", "-N", *(("-S", socket) if socket else ()), *words]
    environ = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_DEADLINE,
            check=False, env=environ, cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise TmuxError(str(error)) from error
    if done.returncode != 0:
        raise TmuxError(done.stderr.decode("utf-8", "replace").strip() or f"tmux ended with {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def list_panes(socket: str) -> list[Pane]:
    """Return all panes of a server; none if there is no server.

    Raises TmuxError if tmux is missing, took too long, or ended meanwhile.
    """
    try:
        text = ask(socket, "list-panes", "-a", "-F", _FORMAT)
    except TmuxError as error:
        if error.__cause__ is None and str(error).startswith(_NO_SERVER):
            return []
        raise
    return [pane for pane in map(_parse, text.split("\n")) if pane is not None]


def _parse(line: str) -> Pane | None:
    """Parse a line of the list; None for a line with too many fields, which a forged name can make."""
    parts = line.split(_SEPARATOR, len(_FIELDS) - 1)
    if len(parts) != len(_FIELDS):
        return None
    lengths, free = parts[_FREE - 3 : _FREE], parts[_FREE : _FREE + 3]
    if any(length and int(length) != len(text.encode()) for length, text in zip(lengths, free)):  # noqa: B905 -- 3.8
        return None
    try:
        return Pane(
            parts[0], int(parts[1]), int(parts[2]), parts[3] == "1", int(parts[4]) if parts[4] else None,
            bool(parts[4] or parts[5]), parts[6] == "1", parts[7] == "1" and parts[8] == "1", int(parts[9]), parts[10],
            (parts[11], parts[12]), *parts[_FREE:],
        )  # fmt: skip
    except ValueError:
        return None


def open_pipe(socket: str, pane_id: str, fifo: str) -> Screen:
    """Send the output of a pane into the FIFO from now on, and read its screen from before. Raises TmuxError.

    Replaces an existing pipe. The FIFO must be open for reading.
    """
    # mngr kills every process with the id of a stopped agent in its environment, which the tmux server may have.
    # A FIFO that was removed must not be created again as a file with all the output in it.
    quoted = shlex.quote(fifo)
    command = f"[ -p {quoted} ] && exec env -u MNGR_AGENT_ID cat >{quoted}".replace("#", "##").replace("%", "%%")
    return read_screen(
        socket, pane_id,
        "pipe-pane", "-O", "-t", pane_id, command, ";",
        "set-option", "-p", "-t", pane_id, PIPE_OPTION, _escaped(fifo), ";",
    )  # fmt: skip


def read_screen(socket: str, pane_id: str, *first: str) -> Screen:
    """Read the screen of a pane, dead ones too. `first`: commands to run before. Raises TmuxError."""
    said = ask(
        socket, *first,
        "display-message", "-p", "-t", pane_id, " ".join(f"#{{{field}}}" for field in _SCREEN_FIELDS), ";",
        "capture-pane", "-p", "-e", "-N", "-t", pane_id, ";",
        "display-message", "-p", "-t", pane_id, _MARK, ";",
        "capture-pane", "-p", "-e", "-N", "-a", "-q", "-t", pane_id,
    )  # fmt: skip
    line, _, rest = said.partition("\n")
    shown, _, saved = rest.partition(f"{_MARK}\n")
    names = dict(zip(_SCREEN_FIELDS, line.split(" ")))  # noqa: B905 -- 3.8
    if len(names) != len(_SCREEN_FIELDS):
        raise TmuxError(f"tmux said {line[:200]!r} of a pane")
    return Screen(int(names["pane_width"]), int(names["pane_height"]), draw(names, shown, saved))


def close_pipe(socket: str, pane_id: str) -> bool:
    """Close the pipe of a pane. Returns False for a dead pane, whose pipe stays open as long as the pane exists."""
    try:
        ask(socket, "pipe-pane", "-t", pane_id, ";", "set-option", "-p", "-u", "-t", pane_id, PIPE_OPTION)
    except TmuxError as error:
        return "has exited" not in str(error)
    return True


def draw(names: dict[str, str], shown: str, saved: str) -> str:
    """Return output that draws a screen on any terminal of its size, whatever that shows before.

    `names`: the fields of `_SCREEN_FIELDS`; `saved`: the normal screen behind an alternate one, as tmux prints it.
    """
    rows = int(names["pane_height"])
    out = ["\x1b[!p\x1b[?1049l\x1b[r\x1b[?7h\x1b[m\x1b[H\x1b[2J"]
    if names["alternate_on"] == "1":
        out += _lines(saved, rows)
        out.append("\x1b[m\x1b[?1049h\x1b[m\x1b[H\x1b[2J")
    out += _lines(shown, rows)
    out.append("\x1b[m")
    upper, lower = int(names["scroll_region_upper"] or 0), int(names["scroll_region_lower"] or rows - 1)
    if (upper, lower) != (0, rows - 1):
        out.append(f"\x1b[{upper + 1};{lower + 1}r")
    x, y = int(names["cursor_x"]), int(names["cursor_y"])
    if names["origin_flag"] == "1":
        out.append("\x1b[?6h")
        y -= upper
    out.append(f"\x1b[{y + 1};{x + 1}H")
    for field, is_set, sequence in (
        ("cursor_flag", "0", "\x1b[?25l"), ("insert_flag", "1", "\x1b[4h"), ("keypad_cursor_flag", "1", "\x1b[?1h"),
        ("keypad_flag", "1", "\x1b="), ("wrap_flag", "0", "\x1b[?7l"),
    ):  # fmt: skip
        if names[field] == is_set:
            out.append(sequence)
    return "".join(out)


def _lines(text: str, rows: int) -> list[str]:
    """Draw each line at its place, so that a full line does not move the next one."""
    lines = text.split("\n")[:rows]
    return [f"\x1b[{number};1H{line}" for number, line in enumerate(lines, start=1) if line]


def _escaped(word: str) -> str:
    """Escape a word that tmux would read as the end of a command."""
    return word[:-1] + "\\;" if word.endswith(";") else word


def chosen(panes: list[Pane]) -> Pane | None:
    """Return the pane of an agent's program: the one that mngr marked, else the first one."""
    stamped = [pane for pane in panes if pane.agent_pane]
    among = stamped or panes
    return min(among, key=lambda pane: int(pane.pane_id[1:] or 0)) if among else None
