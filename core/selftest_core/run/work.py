"""The tasks that run beside a conductor's loop: who owns which test, and what went wrong in any of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


class Work:
    """Tasks of one conductor. `busy`: the tests that a task owns. `error`: what the first failing one raised."""

    def __init__(self) -> None:
        self.busy: set[str] = set()
        self.error: BaseException | None = None
        self.wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], owns: str | None = None) -> None:
        """Start a task; it owns the test until it ends. The loop wakes when it ends."""

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if owns is not None:
                self.busy.discard(owns)
            if not task.cancelled() and task.exception() is not None:
                self.error = self.error or task.exception()
            self.wake.set()

        if owns is not None:
            self.busy.add(owns)
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(ended)

    async def cancel(self) -> None:
        """End all of them, and wait for that."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
