"""Looks at local agents never overlap, also when one was cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from selftest_core.run.crew.local_agents import LocalFleet

if TYPE_CHECKING:
    from selftest_core.fleet.observations import Probed
    from worlds import World


class GatedFleet(LocalFleet):
    """Its looks wait for `gate`, and count how many run at once."""

    def __init__(self, world: World) -> None:
        super().__init__(world.environment)
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.running = self.most = 0

    def _look(self) -> Probed:
        self.running += 1
        self.most = max(self.most, self.running)
        self.entered.set()
        assert self.gate.wait(60)
        try:
            return super()._look()
        finally:
            self.running -= 1


async def test_a_cancelled_look_ends_before_the_next_one_begins(world: World) -> None:
    fleet = GatedFleet(world)
    first = asyncio.ensure_future(fleet.look(None))
    assert await asyncio.to_thread(fleet.entered.wait, 60)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.ensure_future(fleet.look(None))
    third = asyncio.ensure_future(fleet.look(None))
    await asyncio.sleep(0)
    assert fleet.running == 1
    fleet.gate.set()
    assert await second == await third == {}
    assert fleet.most == 1
