"""Simulated time: an hour of a run takes some milliseconds and repeats exactly.

`play` runs a coroutine in an event loop whose clock jumps to the next timer. Threads and other programs must not be
used in it: they take real time, and the loop does not wait for them.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

EPOCH = 1_760_000_000.0
"""Start of simulated time, in seconds since the epoch."""


class _JumpingSelector(selectors.SelectSelector):
    """Move the clock instead of waiting."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("all tasks wait and no timer is due")
            self.passed += max(timeout, 0.0)
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, selector: _JumpingSelector) -> None:
        super().__init__(selector)
        self._jumping = selector

    def time(self) -> float:
        return self._jumping.passed


class SimulatedClock:
    """The clock of such a loop. `passed`: seconds before its start; `jump`: offset of the time of day alone.

    `booted`: the boot that its seconds belong to.
    """

    def __init__(self, passed: float = 0.0, booted: str = "simulated") -> None:
        self._before = passed
        self.jump = 0.0
        self._booted = booted

    def now(self) -> float:
        """Seconds since the epoch, plus `jump`."""
        return EPOCH + self.passed + self.jump

    def elapsed(self) -> float:
        """Seconds since the start of simulated time, across all loops."""
        return self._before + asyncio.get_running_loop().time()

    def boot(self) -> str:
        """The name of this boot."""
        return self._booted

    @property
    def passed(self) -> float:
        """The same as `elapsed`."""
        return self.elapsed()

    async def sleep(self, seconds: float) -> None:
        """Wait in simulated time."""
        await asyncio.sleep(seconds)


def play[T](main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in simulated time, then end every task that it started. Raises what the coroutine raises."""
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
