"""Time that passes only while everybody waits: an hour of a run in some milliseconds, the same every time.

`play` runs a coroutine in an event loop whose clock jumps to the next thing that is due. Threads and other programs
have no place in it: they would take real time, of which this loop knows nothing.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

EPOCH = 1_760_000_000.0
"""When simulated time begins, in seconds since the epoch."""


class _JumpingSelector(selectors.SelectSelector):
    """Waits by moving the clock."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everybody waits, and nothing is due")
            self.passed += max(timeout, 0.0)
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, selector: _JumpingSelector) -> None:
        super().__init__(selector)
        self._jumping = selector

    def time(self) -> float:
        return self._jumping.passed


class SimulatedClock:
    """A clock in such a loop. `passed`: the seconds that had passed before it; `jump` moves the time of day alone.

    `booted`: the name of the boot in which its seconds count.
    """

    def __init__(self, passed: float = 0.0, booted: str = "simulated") -> None:
        self._before = passed
        self.jump = 0.0
        self._booted = booted

    def now(self) -> float:
        """Seconds since the epoch, which may have been moved."""
        return EPOCH + self.passed + self.jump

    def elapsed(self) -> float:
        """Seconds since simulated time began, through all loops."""
        return self._before + asyncio.get_running_loop().time()

    def boot(self) -> str:
        """The name of this boot."""
        return self._booted

    @property
    def passed(self) -> float:
        """The same as `elapsed`."""
        return self.elapsed()

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        await asyncio.sleep(seconds)


def play[T](main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end in simulated time. Raises what it raises, after everything that it started ended."""
    loop = _Loop(_JumpingSelector())
    try:
        return loop.run_until_complete(main())
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()
