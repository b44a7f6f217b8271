"""The tasks that run beside a conductor's loop: who owns which test, and what went wrong in any of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Coroutine


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that no part of a conductor handled. `step`: what was being done; `test`: whose, empty for nobody's."""

    error: BaseException
    step: str
    test: str = ""


class Work:
    """Tasks of one conductor. `busy`: the tests that a task owns. `fatal`: what must end the loop."""

    def __init__(self) -> None:
        self.busy: set[str] = set()
        self.fatal: BaseException | None = None
        self.wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[Failure] = []

    def start(self, work: Coroutine[Any, Any, None], step: str, owns: str | None = None) -> None:
        """Start a task; it owns the test until it ends. The loop wakes when it ends. `step` names it where it fails."""

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if owns is not None:
                self.busy.discard(owns)
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self.report(error, step, owns or "")
            self.wake.set()

        if owns is not None:
            self.busy.add(owns)
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(ended)

    def report(self, error: BaseException, step: str, test: str = "") -> None:
        """Tell the loop of an error."""
        self._failures.append(Failure(error, step, test))
        self.wake.set()

    def take_failures(self) -> tuple[Failure, ...]:
        """The errors since the last time."""
        found, self._failures = tuple(self._failures), []
        return found

    async def cancel(self) -> None:
        """End all of them, and wait for that."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
