"""The two that are asked about the fleet, the local probe and `mngr list`, with every failure of mngr made a fact.

Used by the watch and by one-shot commands alike, so that both say the same of an mngr that is missing, broken,
hanging or talking nonsense. It decides neither when to ask nor what stands.
"""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.fleet.observations import ListFailed
from selftest_core.fleet.sources.mngr_list import list_agents
from selftest_core.fleet.sources.probe import Probe
from selftest_core.fleet.watch.poll_schedule import ALL
from selftest_core.tools.mngr import Mngr, find_mngr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.fleet.observations import Listed, Probed
    from selftest_core.fleet.watch.watch import WatchSettings


class Sources:
    """The probe and mngr of one environment."""

    def __init__(self, settings: WatchSettings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = dict(environ)
        self.probe = Probe(self._environ, settings.sockets)
        self._mngr: Mngr | None = None

    def look(self) -> tuple[Probed, float]:
        """One look of the probe, and about how many CPU seconds it cost.

        Blocks for some milliseconds; a tmux server that hangs has its own deadline.
        """
        began, spent = time.monotonic(), time.thread_time()
        probed = self.probe.look(time.time())
        # Twice our own part: the other half is tmux. On a busy machine the time on the clock says little.
        return probed, min(time.monotonic() - began, 2 * (time.thread_time() - spent))

    async def ask(self, lane: str, deadline: float) -> Listed | ListFailed:
        """One `mngr list`; `lane` is "all" or a provider. Cancelling ends mngr."""
        provider = None if lane == ALL else lane
        began = time.monotonic()
        try:
            if self._mngr is None:
                # Looked for anew until it is there, and again after a failure: it may have been installed meanwhile.
                mngr = Mngr(find_mngr(self._environ), self._environ, self._settings.cwd)
                await mngr.check()
                self._mngr = mngr
            return await list_agents(self._mngr, provider, deadline)
        except SelftestError as error:
            self._mngr = None
            failed = (error.title, error.detail, error.hint)
        except Exception as error:
            # A listing that we cannot read must not end the watch.
            failed = ("mngr list could not be read", f"{type(error).__name__}: {error}", "Please report this.")
        return ListFailed(time.time(), provider, *failed, seconds=time.monotonic() - began)


def cpu_of_children() -> float:
    """CPU seconds of all programs that this process has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
