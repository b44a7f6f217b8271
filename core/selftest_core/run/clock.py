"""The clock of a run, passed in so that a test can simulate an hour in a millisecond.

`now` is the time of day, for people and for the journal. `elapsed` is monotonic, for every deadline. The journal notes
both where a deadline begins, with the `boot` that `elapsed` belongs to, so that the next conductor is right too when
the clock was set meanwhile. Across a reboot the time of day is used.
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
    """Time of day, monotonic time, and sleep."""

    def now(self) -> float:
        """Seconds since the epoch, UTC; may jump."""
        ...

    def elapsed(self) -> float:
        """Monotonic seconds."""
        ...

    def boot(self) -> str:
        """Name the boot of `elapsed`: processes with the same name share the same `elapsed`."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        ...


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment on both clocks; `boot` is empty if only the time of day is known."""

    at: float
    elapsed: float = 0.0
    boot: str = ""


def moment(clock: Clock) -> Moment:
    """Return the present moment."""
    return Moment(clock.now(), clock.elapsed(), clock.boot())


def seconds_since(then: Moment, clock: Clock) -> float:
    """Return the seconds since then, at least 0; across a reboot by the time of day."""
    if then.boot and then.boot == clock.boot():
        return max(0.0, clock.elapsed() - then.elapsed)
    return max(0.0, clock.now() - then.at)


class WallClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def elapsed(self) -> float:
        """Monotonic seconds, the same for all processes of one boot."""
        return time.monotonic()

    def boot(self) -> str:
        """The kernel's id of this boot; without one, an id of this process."""
        return _boot()

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking the event loop."""
        await asyncio.sleep(seconds)


@cache
def _boot() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return str(uuid.uuid4())
