"""Hosts on Modal: how the sandbox of a host ended that mngr calls lost, asked of Modal itself.

mngr keeps no id of a sandbox, and Modal lists only live ones. So the sandboxes are noted while they live, and asked for
by id afterwards. It explains and decides nothing: without an answer the reason stays mngr's own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.fleet.watch.fleet_cache import fleet_folder
from selftest_core.modal import sightings
from selftest_core.modal.hidden import account_to_watch
from selftest_core.modal.modal_probe import ask, how_it_ended
from selftest_core.run.crew.crew import Life

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.modal.account import ModalAccount
    from selftest_core.run.clock import Clock
    from selftest_core.run.crew.crew import Seen
    from selftest_core.tools.mngr import Mngr

_NOTE_SECONDS = 120.0
"""Seconds between two looks at the live sandboxes: one that lives shorter stays unexplained."""


class ModalHosts:
    """Explains the ends of one run's hosts, each once."""

    def __init__(self, mngr: Mngr, clock: Clock) -> None:
        self._mngr = mngr
        self._clock = clock
        self._folder = fleet_folder(mngr.environ)
        self._noted_at = -_NOTE_SECONDS
        self._noting: asyncio.Task[None] | None = None
        self._ends: dict[str, str] = {}  # by host

    def note(self) -> None:
        """Note the live sandboxes from time to time, in the background."""
        is_running = self._noting is not None and not self._noting.done()
        if not is_running and self._clock.elapsed() - self._noted_at >= _NOTE_SECONDS:
            self._noted_at = self._clock.elapsed()
            self._noting = asyncio.create_task(self._note())

    async def settled(self) -> None:
        """Wait until the sandboxes that are asked for now are noted."""
        if self._noting is not None:
            await self._noting

    async def explained(self, seen: Mapping[str, Seen], hosts: Mapping[str, str]) -> dict[str, Seen]:
        """Add how its sandbox ended to each lost agent. `hosts`: by agent id."""
        found = dict(seen)
        for agent, one in seen.items():
            host = one.host_id or hosts.get(agent, "")
            if one.life is Life.LOST and host:
                if host not in self._ends:
                    self._ends[host] = await self._end_of(host)
                parts = (one.detail, self._ends[host])
                found[agent] = replace(one, detail=": ".join(part for part in parts if part))
        return found

    async def _note(self) -> None:
        account = self._account()
        if account is None:
            return
        with suppress(SelftestError, OSError):  # asked again later; mngr itself tells that Modal does not answer
            answer = await asyncio.to_thread(ask, self._mngr.program, self._mngr.environ, account, look=True)
            place = (answer.workspace, account.environment, account.app)
            noted = sightings.note_hosts(sightings.load(self._folder), place, answer.sandboxes)
            await asyncio.to_thread(sightings.save, self._folder, noted)

    async def _end_of(self, host: str) -> str:
        account = self._account()
        noted = sightings.load(self._folder)
        sandbox = dict(noted.hosts).get(host, "")
        if account is None or not sandbox:
            return ""
        try:
            answer = await asyncio.to_thread(
                ask, self._mngr.program, self._mngr.environ, account, poll=[sandbox], workspace=noted.place[0]
            )
        except SelftestError as error:
            return f"how its sandbox ended is not known: {error.title}"
        status = (answer.exits or {}).get(sandbox)
        return "" if status is None else how_it_ended(status)

    def _account(self) -> ModalAccount | None:
        return account_to_watch(self._mngr.program, self._mngr.environ)
