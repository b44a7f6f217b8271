"""Search of a recording in a thread of its own, which continues while the recording is read or still grows.

The thread only reads the index and never touches the screen, which polls the matches.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_recorder.index.search import Search

if TYPE_CHECKING:
    from selftest_recorder.cast.spans import Position
    from selftest_recorder.index.index import Index
    from selftest_recorder.index.timeline import Timeline

_LOOK_AGAIN = 0.2
_PATIENCE = 30.0


class Searching:
    """A search. `hits`: the times of matches in order, as far as they are found."""

    def __init__(self) -> None:
        self.needle = ""
        self.error = ""
        self.wants_next_after: float | None = None
        """The next match after this time is to be shown once it is found."""
        self._search: Search | None = None
        self._index: Index | None = None
        self._through: Position | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._told: tuple[int, bool] = (0, False)

    @property
    def hits(self) -> list[float]:
        """The times of the matches that are found so far."""
        return self._search.hits if self._search is not None else []

    @property
    def is_through(self) -> bool:
        """True when everything that is read by now was searched."""
        return bool(self.error) or (self._index is not None and self._through == self._index.end)

    def start(self, timeline: Timeline, needle: str) -> None:
        """Start searching."""
        self.needle = needle
        self._index = timeline.index
        self._search = Search(timeline.recording, timeline.index, needle)
        self._thread = threading.Thread(
            target=self._run, args=(self._search, timeline.index), name="search", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop searching, and wait for the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE)
            self._thread = None

    def has_news(self, is_complete: bool) -> bool:
        """Return True when the result changed since the last call."""
        is_over = self.is_through and is_complete
        now = (len(self.hits), is_over)
        was, self._told = self._told, now
        return now != was

    def wanted_hit(self, is_complete: bool) -> float | None:
        """Return the match to show, once it is found; the first of all if none comes later."""
        if self.wants_next_after is None:
            return None
        after = self.wants_next_after
        is_over = self.is_through and is_complete  # read first: a match found meanwhile must not lead back
        found = next((one for one in self.hits if one >= after), None)
        if found is None and is_over and self.hits:
            found = self.hits[0]
        if found is not None:
            self.wants_next_after = None
        return found

    def _run(self, search: Search, index: Index) -> None:
        try:
            while not self._stop.is_set():
                known = index.end
                if not search.step():
                    self._through = known
                    self._stop.wait(_LOOK_AGAIN)
        except (OSError, ValueError, SelftestError) as error:
            self.error = str(error) or type(error).__name__
