"""Search of a recording for the times at which a text appears on the screen.

A match is an event that brings the text onto the screen once more: afterwards the screen has it more often than before,
not counting what the event scrolled away. So each printed line is a match, while earlier ones are still visible, and a
program that draws its screen anew gives none. Most parts of a recording are not played for that: where the output
without escape sequences does not have the text, only the screens at the keyframes are read; where it does, or where
such a screen has it (drawn piece by piece), the part between two keyframes is played.

Not found are texts broken over two rows, and texts drawn piece by piece that vanish before the next keyframe. The
search works part by part, so that it can be stopped, and continue when the recording grows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selftest_recorder.cast.events import OUTPUT, RESIZE
from selftest_recorder.cast.spans import read_until
from selftest_recorder.terminal.emulator import feed_span, open_terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_recorder.cast.reader import Recording
    from selftest_recorder.cast.spans import Span
    from selftest_recorder.index.index import Index

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P^_X][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f]"
)
_REDRAWS = re.compile(r"\x1b\[(?:[0-9;]*[Hf]|[23]?J)")
"""Sequences with which a program begins to draw its screen anew."""
MOST_HITS = 10_000


class Search:
    """A search for `needle`, ignoring case. `hits`: the times of matches in order; it grows."""

    def __init__(self, recording: Recording, index: Index, needle: str) -> None:
        self.needle = needle.casefold()
        self.hits: list[float] = []
        self._recording = recording
        self._index = index
        self._number = 0
        self._done = 0
        self._terminal = open_terminal(recording.header.cols, recording.header.rows)
        self._rows = self._terminal.lines()

    def step(self) -> bool:
        """Search one more part. Returns False if there is none now."""
        index = self._index
        if not self.needle or len(self.hits) >= MOST_HITS or self._number >= len(index.keyframes):
            return False
        number, is_last = self._number, self._number + 1 >= len(index.keyframes)
        start = index.keyframes[number].position
        size = index.span_size(number)
        span = read_until(self._recording, start, start.offset + size)
        has_more = self._done < len(span.times)
        if has_more:
            self._look_through(span, is_last)
        if not is_last:
            self._number, self._done = number + 1, 0
        return has_more or not is_last

    def _look_through(self, span: Span, is_last: bool) -> None:
        candidates = self._candidates(span)
        if not candidates and not is_last and not self._done:
            # The output does not have the text: the screen at the end tells whether it was drawn.
            before = self._count_in(self._rows)
            self._restore(self._number + 1)
            if self._count_in(self._rows) <= before:
                return
            self._restore(self._number)
            candidates = list(range(len(span.times)))
        elif not self._done:
            self._restore(self._number)
        fed = self._done
        for candidate in candidates:
            self._feed(span, fed, candidate)
            before_rows = list(self._rows)
            self._feed(span, candidate, candidate + 1)
            fed = candidate + 1
            left = before_rows[_scrolled(before_rows, self._rows, span.data[candidate]) :]
            if self._count_in(self._rows) > self._count_in(left) and len(self.hits) < MOST_HITS:
                self.hits.append(span.times[candidate])
        self._feed(span, fed, len(span.times))
        self._done = len(span.times)

    def _candidates(self, span: Span) -> list[int]:
        """Return the events whose output completes the text."""
        printed = [one if code == OUTPUT else "" for code, one in zip(span.codes, span.data, strict=True)]
        printed = printed[self._done :]
        if self.needle not in _ESCAPES.sub("", "".join(printed)).casefold():
            return []
        found, tail, keep = [], "", 4 * len(self.needle) + 64
        for number, one in enumerate(printed, start=self._done):
            # An escape sequence cut between two events is complete in their sum.
            text = tail + one
            if self.needle in _ESCAPES.sub("", text).casefold() and one:
                found.append(number)
                tail = one[-keep:] if self.needle not in _ESCAPES.sub("", one[-keep:]).casefold() else ""
            else:
                tail = text[-keep:]
        return found

    def _restore(self, number: int) -> None:
        state = self._index.state(number)
        if state is None:
            header = self._recording.header
            self._terminal = open_terminal(header.cols, header.rows)
        else:
            self._terminal.restore(state)
        self._rows = self._terminal.lines()

    def _feed(self, span: Span, first: int, last: int) -> None:
        if first == last:
            return
        feed_span(self._terminal, span, first, last)
        if RESIZE in span.codes[first:last]:
            self._rows = self._terminal.lines()
            return
        for row, text in self._terminal.changed_lines().items():
            self._rows[row] = text

    def _count_in(self, rows: Sequence[str]) -> int:
        return sum(row.casefold().count(self.needle) for row in rows)


def _scrolled(before: Sequence[str], after: Sequence[str], data: str) -> int:
    """Return by how many rows an event scrolled the screen: all, where nothing of it is left."""
    ends = data.count("\n")
    if not ends or _REDRAWS.search(data):
        return 0
    if ends >= len(before):
        return len(before)
    last = len(before) - 1  # the row of the cursor, which the event goes on to write
    return next((rows for rows in range(1, ends + 1) if after[: last - rows] == before[rows:last]), 0)
