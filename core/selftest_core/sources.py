"""The two that are asked about the fleet, the local probe and `mngr list`, with every failure of mngr made a fact.

Used by the watch and by one-shot commands alike, so that both say the same of an mngr that is missing, broken,
hanging or talking nonsense. It decides neither when to ask nor what stands.
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from selftest_core.cadence import ALL, Pace
from selftest_core.errors import SelftestError
from selftest_core.observations import ListFailed
from selftest_core.probe import Probe
from selftest_core.tools.mngr import Mngr, find_mngr

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.observations import Listed, Probed


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """What a watch is told. `sockets` are tmux sockets beside those in tmux's own folder; `cwd` is where mngr runs."""

    cwd: Path
    pace: Pace = field(default_factory=Pace)
    sockets: tuple[str, ...] = ()
    remote: bool = True


def watch_settings(config: Config, cwd: Path) -> WatchSettings:
    """The part of the settings that a watch needs."""
    pace = Pace(
        local=config.poll_local,
        all=config.poll_all,
        remote=config.poll_remote,
        probe=config.poll_probe,
        deadline=config.list_deadline,
    )
    return WatchSettings(cwd, pace, config.sockets, config.remote)


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
            return await self._mngr.list(provider, deadline)
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
