"""Time, as the conductor gets it from outside: so that a test can play an hour in a millisecond.

Two kinds, since clocks jump: `now` is for people and for the journal, `elapsed` for every deadline.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """The time of day, the time that passes, and waiting."""

    def now(self) -> float:
        """Seconds since the epoch, UTC; may jump."""
        ...

    def elapsed(self) -> float:
        """Seconds since some moment; only ever grows."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        ...


class WallClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait that long, without holding up the event loop."""
        await asyncio.sleep(seconds)
