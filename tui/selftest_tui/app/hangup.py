"""End the program when its terminal is gone.

A closing terminal sends SIGHUP, which ends the app. That is not always enough: the signal may be ignored (nohup), or
sent to the session leader alone, or arrive while something waits for the terminal. So a thread waits for the hang-up
itself, then ends the app in three steps: the signal's handler, an interrupt of the main thread, and the end of the
process. Journals are complete after each of them, as after a kill. Nothing is ended while the terminal exists.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from selftest_core.tools import process_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS_FOR_SIGHUP = 0.4
"""From the hang-up until the main thread is interrupted."""
SECONDS_FOR_THE_SCREEN = 1.2
"""From the hang-up until the process is ended."""
EXIT_STATUS = 128 + signal.SIGHUP
_LOOK_AGAIN = 0.5


@contextlib.contextmanager
def ending_with_the_terminal(seconds_behind: float = SECONDS_FOR_THE_SCREEN) -> Iterator[None]:
    """End the process if the terminal of stdin closes within this block.

    `seconds_behind`: the time that the program may take between a hang-up and its end once the block was left.
    """
    if sys.__stdin__ is None or sys.__stdin__.closed or not os.isatty(sys.__stdin__.fileno()):
        yield
        return
    left = threading.Event()
    arguments = (sys.__stdin__.fileno(), left, seconds_behind)
    # Not stopped with the block: the interpreter waits for threads behind it, and one of them may wait for ever.
    threading.Thread(target=_end_after_hangup, args=arguments, name="hangup", daemon=True).start()
    try:
        yield
    finally:
        left.set()


def _end_after_hangup(terminal: int, left: threading.Event, seconds_behind: float) -> None:
    _wait_for_hangup(terminal)
    began = time.monotonic()
    if not left.wait(SECONDS_FOR_SIGHUP):
        main = threading.main_thread().ident
        if main is not None and signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
            signal.pthread_kill(main, signal.SIGTERM)
    limit = SECONDS_FOR_THE_SCREEN
    if left.wait(began + limit - time.monotonic()):
        limit = seconds_behind
    # Threads end with the interpreter: where that comes first, nothing below is reached.
    time.sleep(max(0.0, began + limit - time.monotonic()))
    process_groups.kill_all()
    os._exit(EXIT_STATUS)


def _wait_for_hangup(terminal: int) -> None:
    """Return once the other end of this terminal is closed."""
    poller = select.poll()
    poller.register(terminal, 0)
    while os.isatty(terminal):
        for _, event in poller.poll(_LOOK_AGAIN * 1000):
            if event & (select.POLLHUP | select.POLLERR):
                return
            poller.unregister(terminal)  # a system that cannot poll terminals: isatty tells it
