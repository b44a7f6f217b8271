"""A thread that runs blocking jobs in order; the screen awaits a future for each.

For objects that only one thread may use, such as a review session with its log and its git process. The thread ends
with the program, whatever it is doing.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError

if TYPE_CHECKING:
    from collections.abc import Callable

type _Job = Callable[[], None]


class Worker:
    """Runs jobs one after the other. An exception of a job is raised where its result is awaited."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._is_ended = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_idle(self) -> bool:
        """No job runs or waits."""
        return self._waiting == 0

    @property
    def is_awaited(self) -> bool:
        """A job waits for the one that runs."""
        return self._waiting > 1

    def submit[T](self, job: Callable[[], T]) -> asyncio.Future[T]:
        """Run a job after those submitted before. For the event loop. Cancelled once the worker has ended."""
        future: Future[T] = Future()
        with self._lock:
            if self._is_ended:
                future.cancel()
                return asyncio.wrap_future(future)
            self._waiting += 1

        def run() -> None:
            try:
                if future.set_running_or_notify_cancel():
                    try:
                        answer = job()
                    except BaseException as error:
                        self._done()
                        future.set_exception(error)
                        return
                    self._done()
                    future.set_result(answer)
                else:
                    self._done()
            except RuntimeError:
                return  # the event loop has ended, so nothing awaits the result

        self._jobs.put(run)
        if self._thread.ident is None:
            self._thread.start()
        return asyncio.wrap_future(future)

    def _done(self) -> None:
        with self._lock:
            self._waiting -= 1

    def end(self, last: Callable[[], object] | None = None, patience: float = 2.0) -> None:
        """Take no more jobs; run `last` after those that wait, and wait `patience` seconds for it."""
        with self._lock:
            if self._is_ended:
                return
            self._is_ended = True
        if last is not None:
            self._jobs.put(lambda: _quietly(last))
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join(patience)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _quietly(job: Callable[[], object]) -> None:
    with contextlib.suppress(SelftestError, OSError):  # the screen that would show it is gone
        job()
