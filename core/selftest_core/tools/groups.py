"""Ending programs whole: a process group is asked to end, then ended without asking, whatever happens meanwhile.

Apart from `process`, which starts programs. Two things can come between the asking and the end: a second signal, which
raises in the middle of the waiting (`timeout` and a closing terminal send two), and the end of our own process, whose
threads stop wherever they are. Neither may leave a program behind that is deaf to SIGTERM.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import time
from typing import Protocol

GRACE = 1.0
"""Seconds between asking a program to end (SIGTERM) and ending it (SIGKILL)."""
_LONGEST_STEP = 0.02


class Program(Protocol):
    """The part of a started program that is needed here; its process id is also its group's."""

    @property
    def pid(self) -> int:
        """The id of the process and of its group."""

    def poll(self) -> int | None:
        """Its exit status, or None while it lives."""

    def wait(self) -> int:
        """Wait for its end."""


class Conversation(Protocol):
    """Somebody who awaits the end of a program. `process` is None until it is started."""

    @property
    def process(self) -> Program | None:
        """The program."""

    def interrupt(self) -> None:
        """End the program; from any thread."""


HELD: set[Conversation] = set()
"""Who awaits the end of a program just now."""


def end(process: Program, grace: float) -> None:
    """End the program and everything in its process group, and wait for it; `grace` in seconds.

    Also after its own end: its children live on in the group, whose id is not given away while they do.
    """
    try:
        _signal(process, signal.SIGTERM)
        deadline, step = time.monotonic() + grace, 0.001
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(step)
            step = min(2 * step, _LONGEST_STEP)
    finally:  # being interrupted once more must not spare it
        _signal(process, signal.SIGKILL)
        process.wait()


def wait_for_client(pid: int) -> int:
    """Wait for a program that has our terminal, and return its exit status (negative for a signal).

    One that stops itself (tmux on `prefix C-z`) is told to go on: no shell is here to bring it back to the front.
    When we are interrupted, it is told that its terminal is gone.
    """
    try:
        while os.WIFSTOPPED(status := os.waitpid(pid, os.WUNTRACED)[1]):
            os.kill(pid, signal.SIGCONT)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGHUP)
        raise
    return os.waitstatus_to_exitcode(status)


def _signal(process: Program, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


@atexit.register
def _end_all() -> None:
    """The threads that hold programs end with us, be it in the grace before a SIGKILL: then it is sent here."""
    if not HELD:
        return
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # impatience must not cut this short
    for conversation in tuple(HELD):
        conversation.interrupt()
    deadline = time.monotonic() + GRACE
    while HELD and time.monotonic() < deadline:
        time.sleep(_LONGEST_STEP)
    kill_all()


def kill_all() -> None:
    """End every held program at once, without asking: our own process ends now."""
    for conversation in tuple(HELD):
        if conversation.process is not None:
            _signal(conversation.process, signal.SIGKILL)
