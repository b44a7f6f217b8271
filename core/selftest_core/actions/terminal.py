"""Our terminal, given to another program and restored afterwards.

A client can be killed, its session can end, its server can crash. In all cases the terminal is restored here: the line
discipline, every mode that a full-screen program turns on, and late keys and replies for the client are discarded. To
be called from the main thread, while nothing else reads the terminal.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError
from selftest_core.frozen import dataclass
from selftest_core.tools import process
from selftest_core.tools.tmux import Tmux, escaped, exact_session, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.actions.attach import AttachPlan

_WINDOW_TIMEOUT = 5.0
_QUIET = 0.05
"""Seconds without input after which no more is expected."""
_PATIENCE = 0.5

# Off: mouse (all kinds and encodings), focus reports, bracketed paste, alternate screen, application keys, extended
# keys (xterm's and kitty's). On: cursor, wrapping. Then plain colours, ASCII characters, no scroll region.
RESET = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1004l\x1b[?2004l\x1b[?2026l"
    "\x1b[?1l\x1b>\x1b[>4m\x1b[=0;1u\x1b[?1049l\x1b[?25h\x1b[?7h\x1b[r\x1b(B\x1b[0m"
)


@dataclass(frozen=True, slots=True)
class AttachEnd:
    """The end of an attachment, in words. `exit_status` is the client's, negative for the signal that killed it."""

    exit_status: int
    text: str


def hand_over(plan: AttachPlan) -> AttachEnd:
    """Run the plan. "window": returns when the window is open; "hand over": when the client has ended.

    Raises ToolError if it cannot begin (no tmux, no such window). Later failures are in the result.
    """
    if plan.kind == "window":
        done = process.run(plan.argv, timeout=_WINDOW_TIMEOUT, cwd=Path.home(), env=plan.env)
        if not done.ok:
            raise failure(plan.argv[plan.argv.index("-S") + 1], done)
        return AttachEnd(0, f"{plan.title} is in a new window of your tmux.")
    with kept_terminal():
        status = process.call_interactive(plan.argv, plan.env)
    return AttachEnd(status, _how_it_ended(plan, status))


@contextlib.contextmanager
def kept_terminal() -> Iterator[None]:
    """Restore the terminal after the block. Without a terminal nothing is done."""
    file = sys.__stdin__.fileno() if sys.__stdin__ is not None and not sys.__stdin__.closed else -1
    if file < 0 or not os.isatty(file):
        yield
        return
    before = termios.tcgetattr(file)
    try:
        yield
    finally:
        _take_foreground(file)
        _write_all(file, RESET.encode())
        _drain(file, before)


def _take_foreground(file: int) -> None:
    """Become the terminal's foreground group again: a killed program may still be it."""
    with contextlib.suppress(OSError):
        if os.tcgetpgrp(file) != os.getpgrp():
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
            try:
                os.tcsetpgrp(file, os.getpgrp())
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _write_all(file: int, data: bytes) -> None:
    """Write to the terminal itself: our output may be a pipe. Nothing is done for a terminal that is gone."""
    with contextlib.suppress(OSError):
        out = os.open(os.ttyname(file), os.O_WRONLY | os.O_NOCTTY)
        try:
            os.write(out, data)
        finally:
            os.close(out)


def _drain(file: int, settings: list[int | list[bytes | int]]) -> None:
    """Discard late keys and replies, and set the line discipline."""
    with contextlib.suppress(termios.error, OSError):
        # Without line mode and echo: a reply without a newline would stay, and be shown.
        tty.setcbreak(file, termios.TCSANOW)
        left = int(_PATIENCE / _QUIET)
        while left > 0 and select.select([file], [], [], _QUIET)[0] and os.read(file, 4096):
            left -= 1
    with contextlib.suppress(termios.error):
        termios.tcsetattr(file, termios.TCSAFLUSH, settings)


def _how_it_ended(plan: AttachPlan, status: int) -> str:
    name = plan.title
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"The client was ended by {signal.Signals(-status).name}; {name} is not affected."
        return f"The client was ended by signal {-status}; {name} is not affected."
    if plan.session is not None:
        try:
            is_there = Tmux(plan.session.socket, plan.env).ask(
                "has-session", "-t", escaped(exact_session(plan.session.name)), timeout=_WINDOW_TIMEOUT
            ).ok  # fmt: skip
        except ToolError as error:
            return f"Back from {name}. {error.title}."
        if not is_there:
            return f"The session of {name} has ended."
    elif status == 255:
        return f"ssh could not reach {name}, or lost it (exit status 255)."
    return f"Back from {name}." if status == 0 else f"Back from {name}: the client ended with exit status {status}."
