"""Meter the agents of one run while a conductor is there: those of this machine, from their files."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from selftest_core.agent_files import host_dir_of
from selftest_core.meter import AgentMeter
from selftest_core.prices import Prices, prices_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from selftest_core.run.fold import Member
    from selftest_core.usage import Usage

_MOST_READINGS = 8
"""Pieces of a long transcript that one reading takes."""


class RunMeter:
    """Reads in a thread, and keeps the last figures. `latest`: by agent id."""

    def __init__(self, environ: Mapping[str, str], prices: Iterable[str] = ()) -> None:
        self.latest: dict[str, Usage] = {}
        self._agents_dir = host_dir_of(environ) / "agents"
        self._prices = Prices(prices_of(prices))
        self._meters: dict[str, AgentMeter] = {}
        self._gate = threading.Lock()

    async def read(self, members: Iterable[Member]) -> None:
        """Bring the figures of these agents up to date. Those that are elsewhere have none."""
        await asyncio.to_thread(self._read, tuple(member.agent_id for member in members))

    def _read(self, agents: tuple[str, ...]) -> None:
        with self._gate:
            for agent_id in agents:
                meter = self._meters.setdefault(agent_id, AgentMeter(self._agents_dir / agent_id))
                for _ in range(_MOST_READINGS):
                    usage = meter.look(self._prices.of, search=True)
                    if not meter.has_more:
                        break
                if usage is not None:
                    self.latest[agent_id] = usage
