"""Messages from workers to screens.

The two frequent ones carry no data: the newest state is in the feed, so a busy screen finds one message and the newest
state, never a queue of old ones.
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
    from selftest_core.run.plan.preparation import Prepared
    from selftest_core.run.store import RunFolder
    from selftest_tui.fleet.arrangement import Line


class FleetSeen(Message):
    """A newer view is ready: `Feed.take()`."""

    def can_replace(self, message: Message) -> bool:
        """Merge with a pending message of the same kind."""
        return isinstance(message, FleetSeen)


class WatchEnded(Message):
    """The thread of the watch ended with an unexpected error: nothing on the screen is updated any more."""

    def __init__(self, error: SelftestError) -> None:
        super().__init__()
        self.error = error


class PlaceFound(Message):
    """The repository's name and branch were found, or the folder's name."""

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
    """The run has news, or its conductor started or ended: `RunFeed.take()`."""

    def can_replace(self, message: Message) -> bool:
        """Merge with a pending message of the same kind."""
        return isinstance(message, RunSeen)


class RunWanted(Message):
    """A request to show a run. `test`: the planned agent name of the test to go to."""

    def __init__(self, folder: RunFolder, test: str = "") -> None:
        super().__init__()
        self.folder = folder
        self.test = test


class StartWanted(Message):
    """A request to show the plan of a run, and to start it if the user confirms it."""

    def __init__(self, prepared: Prepared) -> None:
        super().__init__()
        self.prepared = prepared


class FleetWanted(Message):
    """A request to show the fleet, with the cursor on the agent with this id."""

    def __init__(self, agent_id: str) -> None:
        super().__init__()
        self.agent_id = agent_id


class ReviewSaid(Message):
    """Progress of opening a review."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class VerificationSeen(Message):
    """The verification of the review has news: `ReviewFeed.verification`."""

    def can_replace(self, message: Message) -> bool:
        """Merge with a pending message of the same kind."""
        return isinstance(message, VerificationSeen)


class ReviewWanted(Message):
    """A request to open a review. `commit`: the full id of a commit to go to."""

    def __init__(self, request: Request, commit: str = "") -> None:
        super().__init__()
        self.request = request
        self.commit = commit


class ReviewFailed(Message):
    """A review could not be opened."""

    def __init__(self, request: Request, error: SelftestError) -> None:
        super().__init__()
        self.request = request
        self.error = error


class ReplayWanted(Message):
    """A recording is to be played: at `at` seconds; or at the last marker that begins with a word of `marker`, else at
    its end; or at its end while it grows (`follows`); else from its beginning. `is_ended`: nothing is added to it.
    """

    def __init__(
        self,
        path: Path,
        title: str = "",
        *,
        at: float | None = None,
        marker: tuple[str, ...] = (),
        follows: bool = False,
        is_ended: bool = False,
    ) -> None:
        super().__init__()
        self.path = path
        self.title = title
        self.at = at
        self.marker = marker
        self.follows = follows
        self.is_ended = is_ended
