"""End of process groups: SIGTERM, then SIGKILL after a grace period, in all cases.

Two events can interrupt the grace period: a second signal, which raises in the wait (`timeout` and a closing terminal
send two), and the end of our own process, whose threads stop anywhere. Neither may leave a program that ignores
SIGTERM. Apart from `process`, which takes longer to import than a first frame may wait.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import time
from typing import Protocol

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL."""
_LONGEST_STEP = 0.02


class Program(Protocol):
    """A started program; its process id is also the id of its group."""

    @property
    def pid(self) -> int:
        """The id of the process and of its group."""

    def poll(self) -> int | None:
        """Its exit status, or None while it lives."""

    def wait(self) -> int:
        """Wait for its end."""


class Conversation(Protocol):
    """A wait for the end of a program. `process` is None until it is started."""

    @property
    def process(self) -> Program | None:
        """The program."""

    def interrupt(self) -> None:
        """End the program; from any thread."""


RUNNING: set[Conversation] = set()
"""All current waits."""


def end(process: Program, grace: float) -> None:
    """End the program and everything in its process group, and wait for it; `grace` in seconds.

    Also after its own end: its children live on in the group, whose id is not reused while they do.
    """
    try:
        _signal(process, signal.SIGTERM)
        deadline, step = time.monotonic() + grace, 0.001
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(step)
            step = min(2 * step, _LONGEST_STEP)
    finally:  # a second interrupt must not skip this
        _signal(process, signal.SIGKILL)
        process.wait()


def wait_for_client(pid: int) -> int:
    """Wait for a program on our terminal, and return its exit status (negative for a signal).

    One that suspends itself (tmux on `prefix C-z`) gets SIGCONT: there is no shell to resume it. On an exception here
    it gets SIGHUP.
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
    """Send SIGKILL here: the threads that wait for programs end with this process, even within the grace period."""
    if not RUNNING:
        return
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt this
    for conversation in tuple(RUNNING):
        conversation.interrupt()
    deadline = time.monotonic() + GRACE
    while RUNNING and time.monotonic() < deadline:
        time.sleep(_LONGEST_STEP)
    kill_all()


def kill_all() -> None:
    """Kill every program with a current wait: our own process ends now."""
    for conversation in tuple(RUNNING):
        if conversation.process is not None:
            _signal(conversation.process, signal.SIGKILL)
