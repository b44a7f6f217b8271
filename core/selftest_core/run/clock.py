"""Time, as the conductor gets it from outside: so that a test can play an hour in a millisecond.

Two kinds, since clocks jump: `now` is for people and for the journal, `elapsed` for every deadline. The journal notes
both where a deadline begins, with the `boot` in which that `elapsed` counts: so that the next conductor, too, is not
fooled by a clock that was set meanwhile. Only across a reboot the time of day must do.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from functools import cache
from pathlib import Path
from typing import Protocol

from selftest_core.frozen import dataclass

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """The time of day, the time that passes, and waiting."""

    def now(self) -> float:
        """Seconds since the epoch, UTC; may jump."""
        ...

    def elapsed(self) -> float:
        """Seconds since some moment; only ever grows."""
        ...

    def boot(self) -> str:
        """What `elapsed` counts in: two processes that say the same here have the same `elapsed`."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        ...


@dataclass(frozen=True, slots=True)
class Moment:
    """When something was, as `now`, and as `elapsed` in a `boot`; `boot` is empty where nobody noted it."""

    at: float
    elapsed: float = 0.0
    boot: str = ""


def moment(clock: Clock) -> Moment:
    """Now."""
    return Moment(clock.now(), clock.elapsed(), clock.boot())


def seconds_since(then: Moment, clock: Clock) -> float:
    """How long ago that was, never less than 0. Across a reboot it is what the time of day says."""
    if then.boot and then.boot == clock.boot():
        return max(0.0, clock.elapsed() - then.elapsed)
    return max(0.0, clock.now() - then.at)


class WallClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds that never go back, the same for all processes since the machine was started."""
        return time.monotonic()

    def boot(self) -> str:
        """The kernel's own name of this boot; where it has none, of this process."""
        return _boot()

    async def sleep(self, seconds: float) -> None:
        """Wait that long, without holding up the event loop."""
        await asyncio.sleep(seconds)


@cache
def _boot() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return str(uuid.uuid4())
