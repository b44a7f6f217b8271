"""A watch that publishes given views, for screens without agents."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from selftest_core.fleet.view import FleetView


class StillWatch:
    """A `selftest_tui.fleet.feed.Watch` of one view, and of those that `show` gets later.

    `refreshed` counts how often a refresh was asked for.
    """

    def __init__(self, view: FleetView, publish: Callable[[FleetView], None]) -> None:
        self.view = view
        self.refreshed = 0
        self._publish = publish
        self._ended = threading.Event()

    def run(self) -> None:
        """Publish once, then wait until stopped."""
        self._publish(self.view)
        self._ended.wait()

    def stop(self) -> None:
        """End `run`."""
        self._ended.set()

    def refresh(self, lane: str | None = None) -> None:
        """Publish again."""
        self.refreshed += 1
        self._publish(self.view)

    def show(self, view: FleetView) -> None:
        """Publish another view."""
        self.view = view
        self._publish(view)
