"""Follower of a run: reads its journal in a thread and hands over the newest state with declined requests.

Polling costs a stat and a lock if nothing is new. As with the fleet, only the newest state is kept and only one
message is pending: a slow terminal gets fewer frames, never a queue.
"""

from __future__ import annotations

import contextlib
import threading
import traceback
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.run.events import Event
from selftest_core.run.follower import RunFollower
from selftest_core.run.store import run_folders
from selftest_tui.fleet.messages import RunSeen, WatchEnded
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.message import Message

    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.store import RunFolder

SECONDS_BETWEEN = 0.2
SECONDS_TO_END = 2.0
_MOST_SAID = 50


@dataclass(frozen=True, slots=True)
class RunNews:
    """A state of the run. `is_live`: a conductor runs. `declined`: declined requests, each with its reason."""

    run: Run
    is_live: bool
    declined: tuple[str, ...] = ()


class OutcomeReader:
    """Reads the outcomes of the tests of runs, for the fleet. A journal that has not changed is not read again."""

    def __init__(self, environ: Mapping[str, str], outcome_of: Callable[[RunRow], str]) -> None:
        self._environ = environ
        self._outcome_of = outcome_of
        self._known: dict[str, tuple[object, dict[str, str]]] = {}

    def read(self, runs: frozenset[str]) -> dict[str, str]:
        """The outcomes of the tests of these runs, by the id of the agent. Runs that cannot be read are left out."""
        found: dict[str, str] = {}
        self._known = {run: known for run, known in self._known.items() if run in runs}
        for folder in run_folders(self._environ):
            if folder.run in runs:
                with contextlib.suppress(SelftestError, OSError, ValueError):
                    found |= self._outcomes(folder)
        return found

    def _outcomes(self, folder: RunFolder) -> dict[str, str]:
        stat = folder.journal.stat()
        stamp = (folder.path, stat.st_mtime_ns, stat.st_size)
        known = self._known.get(folder.run)
        if known is None or known[0] != stamp:
            rows = folder.read().rows.values()
            known = (stamp, {row.member.agent_id: self._outcome_of(row) for row in rows if row.member and row.end})
            self._known[folder.run] = known
        return known[1]


class RunFeed:
    """Follows one run folder. `post` must be safe to call from any thread."""

    def __init__(self, folder: RunFolder, post: Callable[[Message], object]) -> None:
        self._folder = folder
        self._post = post
        self._lock = threading.Lock()
        self._news: RunNews | None = None
        self._declined: list[str] = []
        self._is_first = True
        self._is_posted = False
        self._wake = threading.Event()
        self._is_ended = False
        self._thread = threading.Thread(target=self._run, name="run", daemon=True)

    def start(self) -> None:
        """Start following."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._is_ended = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(SECONDS_TO_END)

    def hurry(self) -> None:
        """Read the journal now."""
        self._wake.set()

    def take(self) -> RunNews | None:
        """Return the newest state; None when it was taken already."""
        with self._lock:
            newest, self._news, self._is_posted = self._news, None, False
            if newest is not None:
                newest = RunNews(newest.run, newest.is_live, tuple(self._declined))
                self._declined.clear()
            return newest

    def _run(self) -> None:
        try:
            self._follow(RunFollower(self._folder))
        except SelftestError as error:
            self._post(WatchEnded(error))
        except Exception as error:
            detail = "".join(traceback.format_exception(error))
            hint = f"The screen is out of date: quit ({shown('app.leave', 'q')}) and start again."
            self._post(WatchEnded(SelftestError(f"Following the run failed: {error}", detail, hint)))

    def _follow(self, follower: RunFollower) -> None:
        before: tuple[Run, bool] | None = None
        while not self._is_ended:
            run = follower.refresh(self._hear)
            if before is None or run is not before[0] or follower.is_conducted != before[1]:
                before = (run, follower.is_conducted)
                self._publish(RunNews(run, follower.is_conducted))
            self._is_first = False
            self._wake.wait(SECONDS_BETWEEN)
            self._wake.clear()

    def _hear(self, run: Run, entry: Entry) -> None:
        """Keep declined requests, which no state holds; those from before this screen was opened are old."""
        if self._is_first or entry.event != Event.DECLINED:
            return
        row = run.rows.get(str(entry.fields.get("test", "")))
        about = f" of {row.planned.node_id}" if row is not None else ""
        said = f"{str(entry.fields.get('wish', '')).replace('_', ' ')}{about}: {entry.fields.get('says', '')}"
        with self._lock:
            self._declined = [*self._declined[-_MOST_SAID:], said]

    def _publish(self, news: RunNews) -> None:
        with self._lock:
            self._news = news
            must_post, self._is_posted = not self._is_posted, True
        if must_post:
            self._post(RunSeen())
