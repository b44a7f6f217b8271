"""Watch of the fleet: the entry to `fleet.watch.poller`, which is imported only when it is used.

The poller (an event loop, the probe, mngr) takes longer to import than a screen takes for its first frame. So it is
imported in the thread of the watch, or by a command that observes once.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.fleet.view import FleetView
    from selftest_core.fleet.watch.poll_schedule import WatchSettings
    from selftest_core.fleet.watch.poller import Poller


class FleetWatch:
    """A watch from `run`, which blocks in a thread of its own, until `stop`.

    `publish` is called in that thread, with a view that looks different to a user, or that is fresh after a few
    seconds; an exception of it ends `run`.
    """

    def __init__(
        self, settings: WatchSettings, environ: Mapping[str, str], publish: Callable[[FleetView], None]
    ) -> None:
        self._settings = settings
        self._environ = dict(environ)
        self._publish = publish
        self._gate = threading.Lock()
        self._is_stopping = False
        self._poller: Poller | None = None

    def run(self) -> None:
        """Watch until `stop`. Blocks; to be called once, in a thread that is not the screen's."""
        from selftest_core.fleet.watch.poller import Poller

        with self._gate:
            if self._is_stopping:
                return
            self._poller = Poller(self._settings, self._environ, self._publish)
        self._poller.run()

    def stop(self) -> None:
        """Ask `run` to end; it does so within about a second, ending an mngr that is running. From any thread."""
        with self._gate:
            self._is_stopping = True
        if self._poller is not None:
            self._poller.stop()

    def refresh(self, lane: str | None = None) -> None:
        """Look and ask now: `lane` ("local", "all", a provider), or everything. From any thread.

        Not needed before `run`, which begins with asking everything.
        """
        if self._poller is not None:
            self._poller.refresh(lane)


def observe_once(
    environ: Mapping[str, str], settings: WatchSettings, timeout: float, *, wait: bool = True
) -> FleetView:
    """Observe the fleet for a command that ends: one look, and one unfiltered list of `timeout` seconds at most.

    `wait` False skips mngr: local agents are as the probe sees them, others as last known. Blocks; Ctrl-C ends mngr
    too.
    """
    from selftest_core.fleet.watch import poller

    return poller.observe_once(environ, settings, timeout, wait=wait)
