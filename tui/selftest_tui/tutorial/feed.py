"""The worker of the tutorial screen: it reads again whenever a file has changed, and posts that a new view is ready.

One thread reads, another watches files and wakes it. Only the newest view is kept, and only one message is pending at
a time, as in `fleet.feed`.
"""

from __future__ import annotations

import threading
import traceback
from typing import TYPE_CHECKING

from textual.message import Message

from selftest_core.errors import SelftestError
from selftest_core.fleet.watch.file_watch import FileWatch
from selftest_core.frozen import dataclass
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_tui.tutorial.source import TutorialSource
    from selftest_tui.tutorial.view import TutorialView

SECONDS_TO_END = 5.0
SECONDS_APART = 0.2
"""Least seconds between two reads: an active run writes its journal many times a second."""


class TutorialSeen(Message):
    """A newer result is ready: `TutorialFeed.take()`."""

    def can_replace(self, message: Message) -> bool:
        """Merge with a pending message of the same kind."""
        return isinstance(message, TutorialSeen)


@dataclass(frozen=True, slots=True)
class TutorialNews:
    """The result of one read. One of `view` and `error` is set.

    `tutorial` is the file, `tests` the folder of tests, `root` the repository.
    """

    view: TutorialView | None
    error: SelftestError | None
    tutorial: Path
    tests: Path
    root: Path
    watch_trouble: str = ""


class TutorialFeed:
    """Follows the tutorial of `folder` from `start` to `stop`. `post` must be safe to call from any thread."""

    def __init__(self, folder: Path, environ: Mapping[str, str], post: Callable[[Message], object]) -> None:
        self._folder = folder
        self._environ = environ
        self._post = post
        self._lock = threading.Lock()
        self._newest: TutorialNews | None = None
        self._last: TutorialNews | None = None
        self._is_posted = False
        self._trouble = ""
        self._wanted = threading.Event()
        self._ended = threading.Event()
        self._files = FileWatch(self.refresh, self._on_trouble)
        self._thread = threading.Thread(target=self._run, name="tutorial", daemon=True)

    def start(self) -> None:
        """Start both threads."""
        self._wanted.set()
        self._thread.start()

    def stop(self) -> None:
        """Stop both threads, and wait for them; a read that hangs is abandoned, and ends with the process."""
        self._ended.set()
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(SECONDS_TO_END)
        self._files.stop()

    def refresh(self) -> None:
        """Read again now."""
        self._wanted.set()

    def take(self) -> TutorialNews | None:
        """Return the newest result once; None if it was taken already."""
        with self._lock:
            newest, self._newest, self._is_posted = self._newest, None, False
            return newest

    def _on_trouble(self, says: str | None) -> None:
        self._trouble = says or ""
        self.refresh()

    def _run(self) -> None:
        from selftest_tui.tutorial.source import TutorialSource  # here, so that the screen does not wait

        source = TutorialSource(self._folder, self._environ)
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._ended.is_set():
                return
            self._tell(self._look(source))
            self._files.watch(source.folders())
            self._ended.wait(SECONDS_APART)

    def _look(self, source: TutorialSource) -> TutorialNews:
        try:
            view, error = source.look(), None
        except SelftestError as problem:
            view, error = None, problem
        except Exception as problem:
            detail = "".join(traceback.format_exception(problem))
            hint = f"{shown('tutorial.refresh', 'R')} looks again."
            view, error = None, SelftestError(f"The tutorial cannot be looked at: {problem}", detail, hint)
        return TutorialNews(view, error, source.tutorial, source.tests, source.root, self._trouble)

    def _tell(self, news: TutorialNews) -> None:
        last, self._last = self._last, news
        if last is not None and last.error is None and last == news:
            return
        with self._lock:
            self._newest = news
            must_post, self._is_posted = not self._is_posted, True
        if must_post:
            self._post(TutorialSeen())
