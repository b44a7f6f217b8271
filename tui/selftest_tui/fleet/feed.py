"""The workers of the fleet's screen: threads that may block, and that only post messages.

The watch publishes from its own thread, as often as it likes. Of what it publishes only the newest is kept, and only
one message is under way at a time: a slow terminal gets fewer frames, never a growing queue.
"""

from __future__ import annotations

import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from selftest_core.errors import SelftestError
from selftest_tui.fleet.messages import FleetSeen, PlaceFound, WatchEnded
from selftest_tui.shared.keys import shown
from selftest_tui.shared.present import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.message import Message

    from selftest_core.agents import AgentKey
    from selftest_core.fleet.view import FleetView, Row

SECONDS_TO_END = 5.0
SECONDS_FOR_GIT = 5.0
SWITCH_SECONDS = 0.0005
"""Seconds that a busy thread may keep the interpreter from a waiting one."""


class Watch(Protocol):
    """Interface of `FleetWatch`: `run` blocks until `stop`; the others may be called from any thread."""

    def run(self) -> None:
        """Watch, and publish, until stopped."""

    def stop(self) -> None:
        """End `run`."""

    def refresh(self, lane: str | None = None) -> None:
        """Ask one lane, or all, now."""


type Publish = Callable[[FleetView], None]
type MakeWatch = Callable[[Publish], Watch]


class Feed:
    """Runs one watch in a thread and hands its newest view over. `post` must be safe to call from any thread."""

    def __init__(self, make_watch: MakeWatch, post: Callable[[Message], object]) -> None:
        self._post = post
        self._lock = threading.Lock()
        self._newest: FleetView | None = None
        self._is_posted = False
        self._watch = make_watch(self._publish)
        self._thread = threading.Thread(target=self._run, name="fleet watch", daemon=True)

    def start(self) -> None:
        """Start the watch.

        The screen releases the interpreter at each of its many short waits. By default a busy thread then keeps it for
        5 ms, so that one key, some thirty steps, would take a tenth of a second while the watch reads a big fleet.
        """
        sys.setswitchinterval(SWITCH_SECONDS)
        self._thread.start()

    def stop(self) -> None:
        """Ask the watch to end, without waiting for its programs, which may take a second."""
        self._watch.stop()

    def wait(self) -> None:
        """Wait for its thread. A watch that hangs is abandoned; it ends with the process."""
        if self._thread.is_alive():
            self._thread.join(SECONDS_TO_END)

    def refresh(self, lane: str | None = None) -> None:
        """Ask for news now."""
        self._watch.refresh(lane)

    def take(self) -> FleetView | None:
        """Return the newest view once; None if it was taken already."""
        with self._lock:
            newest, self._newest, self._is_posted = self._newest, None, False
            return newest

    def _publish(self, view: FleetView) -> None:
        with self._lock:
            self._newest = view
            must_post, self._is_posted = not self._is_posted, True
        if must_post:
            self._post(FleetSeen())

    def _run(self) -> None:
        try:
            self._watch.run()
        except SelftestError as error:
            self._post(WatchEnded(error))
        except Exception as error:
            detail = "".join(traceback.format_exception(error))
            title = f"The watch over the fleet broke: {error}"
            self._post(
                WatchEnded(
                    SelftestError(
                        title, detail, f"What is shown is old now: quit ({shown('app.leave', 'q')}) and start again."
                    )
                )
            )


type OutcomesOf = Callable[[frozenset[str]], Mapping[str, str]]
"""Reads the outcomes of the tests of some runs, by the id of the agent. Called in a thread."""


class Outcomes:
    """The outcomes of tests, put into the rows of their agents. Unchanged rows stay the same objects."""

    def __init__(self) -> None:
        self._texts: Mapping[str, str] = {}
        self._made: dict[AgentKey, tuple[Row, Row]] = {}

    def learn(self, outcomes: Mapping[str, str]) -> bool:
        """Store newer outcomes; return False if they are the same."""
        if outcomes == self._texts:
            return False
        self._texts = dict(outcomes)
        return True

    def applied_to(self, view: FleetView) -> FleetView:
        """The view with an outcome in each row that has one. Rows of agents that are gone are not kept."""
        if not self._texts:
            return view
        before, self._made = self._made, {}
        return replace(view, rows=tuple(self._row(row, before.get(row.key)) for row in view.rows))

    def _row(self, row: Row, known: tuple[Row, Row] | None) -> Row:
        text = self._texts.get(row.agent.id, "") if row.category in ENDED else ""
        if text == row.outcome:
            if known is not None:
                self._made[row.key] = known
            return row
        if known is None or known[0] is not row or known[1].outcome != text:
            known = (row, replace(row, outcome=text))
        self._made[row.key] = known
        return known[1]


def find_place(folder: Path, environ: Mapping[str, str], post: Callable[[Message], object]) -> None:
    """Find out, in a thread, the repository and branch of `folder`, and post it."""

    def ask() -> None:
        post(PlaceFound(place_of(folder, environ)))

    threading.Thread(target=ask, name="place", daemon=True).start()


def place_of(folder: Path, environ: Mapping[str, str]) -> str:
    """`acme/api @ main`: the last two folders of the repository and its branch; elsewhere the folder's name."""
    from selftest_core.git.command import guarded
    from selftest_core.tools import process  # in a thread: the first frame does not wait for it

    argv = ["git", "rev-parse", "--show-toplevel", "--abbrev-ref", "HEAD"]
    try:
        done = process.run(argv, timeout=SECONDS_FOR_GIT, cwd=folder, env=guarded(environ))
    except SelftestError:
        return folder.name  # no git, or one that hangs: the header does without the branch, doctor tells of it
    lines = done.stdout.splitlines()
    if done.exit_status != 0 or len(lines) != 2:
        return folder.name
    return f"{Path(lines[0]).name} @ {lines[1]}"


def without_own_session(view: FleetView, environ: Mapping[str, str]) -> FleetView:
    """The view without the tmux session that this program runs in."""
    socket, _, rest = environ.get("TMUX", "").partition(",")
    session_id = f"${rest.rpartition(',')[2]}"
    others = tuple(one for one in view.sessions if (one.ref.socket, one.session_id) != (socket, session_id))
    return view if len(others) == len(view.sessions) else replace(view, sessions=others)
