"""The fleet, watched: the door to `fleet.watch.poller`, which does it, and what it is told.

A door of its own, since what is behind it (an event loop, the probe, mngr) takes longer to load than a screen takes for
its first frame. It is loaded by `run`, in the watch's own thread, and by what asks once.
"""

from __future__ import annotations

import threading
import time
from dataclasses import field
from typing import TYPE_CHECKING

from selftest_core.config import Config
from selftest_core.fleet.view import FleetView
from selftest_core.fleet.watch.poll_schedule import Pace, pace_of
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_core.fleet.watch.poller import Watching


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """What a watch is told. `sockets` are tmux sockets beside those in tmux's own folder; `cwd` is where mngr runs;
    `prices` is the setting of that name."""

    cwd: Path
    pace: Pace = field(default_factory=lambda: pace_of(Config()))
    sockets: tuple[str, ...] = ()
    remote: bool = True
    prices: tuple[str, ...] = ()


def watch_settings(config: Config, cwd: Path) -> WatchSettings:
    """The part of the settings that a watch needs."""
    return WatchSettings(cwd, pace_of(config), config.sockets, config.remote, config.prices)


class FleetWatch:
    """Watches from `run`, which blocks in a thread of its own, until `stop`.

    `publish` is called in that thread, with a view in which a person would see something new, or which is fresh after
    a few seconds; what it raises ends `run`. `latest` is the newest view, published or not.
    """

    def __init__(
        self, settings: WatchSettings, environ: Mapping[str, str], publish: Callable[[FleetView], None]
    ) -> None:
        self._settings = settings
        self._environ = dict(environ)
        self._publish = publish
        self._gate = threading.Lock()
        self._is_stopping = False
        self._watching: Watching | None = None
        self._nothing_yet = FleetView(at=time.time())

    @property
    def latest(self) -> FleetView:
        """The newest view: for `explain`, whose evidence changes without anything else."""
        return self._watching.latest if self._watching is not None else self._nothing_yet

    def run(self) -> None:
        """Watch until `stop`. Blocks; to be called once, in a thread that is not the screen's."""
        from selftest_core.fleet.watch.poller import Watching

        with self._gate:
            if self._is_stopping:
                return
            self._watching = Watching(self._settings, self._environ, self._publish)
        self._watching.run()

    def stop(self) -> None:
        """Ask `run` to end; it does so within about a second, ending an mngr that is running. From any thread."""
        with self._gate:
            self._is_stopping = True
        if self._watching is not None:
            self._watching.stop()

    def refresh(self, lane: str | None = None) -> None:
        """Look and ask now: `lane` ("local", "all", a provider), or everything. From any thread.

        Before `run` has begun there is nothing to hurry: it begins by asking everything.
        """
        if self._watching is not None:
            self._watching.refresh(lane)


def observe_once(
    environ: Mapping[str, str], settings: WatchSettings, timeout: float, *, wait: bool = True
) -> FleetView:
    """The fleet as it is now, for a command that ends: one look, and one unfiltered list of `timeout` seconds at most.

    `wait` False asks no mngr: the local agents as the probe sees them, the others as last known. Blocks; Ctrl-C ends
    mngr too.
    """
    from selftest_core.fleet.watch import poller as watching

    return watching.observe_once(environ, settings, timeout, wait=wait)
