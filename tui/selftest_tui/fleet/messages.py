"""What workers tell the screen: past participles, and nothing that a newer one would contradict.

The two that come often carry no data: they say that something newer lies ready in the feed, so that a screen that was
busy finds one message and the newest state, never a queue of old ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.errors import SelftestError
    from selftest_core.fleet.view import Row
    from selftest_core.review.changes.inputs import Request
    from selftest_core.run.store import RunFolder
    from selftest_tui.fleet.arrangement import Line


class FleetSeen(Message):
    """A newer view lies ready: `Feed.take()`."""

    def can_replace(self, message: Message) -> bool:
        """Two of these say no more than one."""
        return isinstance(message, FleetSeen)


class WatchEnded(Message):
    """The watch's thread ended by an error that nobody expected: nothing on the screen is live any more."""

    def __init__(self, error: SelftestError) -> None:
        super().__init__()
        self.error = error


class PlaceFound(Message):
    """Where we are: the repository's name and branch, or the folder's name."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place


class LineVanished(Message):
    """The agent under the cursor is gone from the fleet; the cursor went to `now`."""

    def __init__(self, gone: Row, now: Line | None) -> None:
        super().__init__()
        self.gone = gone
        self.now = now


class NameChanged(Message):
    """The agent under the cursor has another name now."""

    def __init__(self, before: Row, after: Row) -> None:
        super().__init__()
        self.before = before
        self.after = after


class OutcomesRead(Message):
    """Outcomes of tests were read from their runs, by the id of the agent."""

    def __init__(self, outcomes: Mapping[str, str]) -> None:
        super().__init__()
        self.outcomes = outcomes


class RunSeen(Message):
    """The run went on, or its conductor came or left: `RunFeed.take()`."""

    def can_replace(self, message: Message) -> bool:
        """Two of these say no more than one."""
        return isinstance(message, RunSeen)


class RunWanted(Message):
    """A run is to be shown."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.folder = folder


class ReviewSaid(Message):
    """Opening a review takes a while: what it is doing."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class ReviewWanted(Message):
    """Something is to be reviewed."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self.request = request


class ReviewFailed(Message):
    """A review could not be opened."""

    def __init__(self, request: Request, error: SelftestError) -> None:
        super().__init__()
        self.request = request
        self.error = error


class ReplayWanted(Message):
    """A recording is to be played: at `at` seconds, or at the last marker that begins with one of the words in

    `marker` (its end where there is none), or at its end while it grows (`follows`); else from its beginning.
    """

    def __init__(
        self,
        path: Path,
        title: str = "",
        *,
        at: float | None = None,
        marker: tuple[str, ...] = (),
        follows: bool = False,
    ) -> None:
        super().__init__()
        self.path = path
        self.title = title
        self.at = at
        self.marker = marker
        self.follows = follows
