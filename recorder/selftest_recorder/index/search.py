"""Finds the moments of a recording at which a text comes onto the screen.

A hit is an event after which the screen shows the text and before which it did not: what somebody who had watched
would have noticed. Most of a recording is not played for that. Where what was printed, without its escapes, does not
hold the text, only the screens at the keyframes are looked at; where it does, or where a screen shows it all the same
(put together by a program that draws), the part between two keyframes is played and looked at.

A text that is broken over two rows is not found, nor one that came by drawing and went again between two keyframes.
Works part by part and goes on where it stopped, so that a thread can be stopped, and a recording grow.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selftest_recorder.cast.events import OUTPUT
from selftest_recorder.cast.spans import read_until
from selftest_recorder.terminal.emulator import feed_span, open_terminal

if TYPE_CHECKING:
    from selftest_recorder.cast.reader import Recording
    from selftest_recorder.cast.spans import Span
    from selftest_recorder.index.index import Index

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P^_X][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f]"
)
MOST_HITS = 10_000


class Search:
    """Looks for `needle`, upper and lower case alike. `hits`: times in order, ever more of them."""

    def __init__(self, recording: Recording, index: Index, needle: str) -> None:
        self.needle = needle.casefold()
        self.hits: list[float] = []
        self._recording = recording
        self._index = index
        self._number = 0
        self._done = 0
        self._is_visible = False
        self._terminal = open_terminal(recording.header.cols, recording.header.rows)

    def step(self) -> bool:
        """Look through one part more. False where there is none just now."""
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
            # Nothing was printed that reads so: the screen at its end says whether it was drawn.
            before = self._is_visible
            self._restore(self._number + 1)
            is_visible = self._sees()
            if is_visible == before or not is_visible:
                self._is_visible = is_visible
                return
            self._restore(self._number)
            candidates = list(range(len(span.times)))
        elif not self._done:
            self._restore(self._number)
        fed = self._done
        for candidate in candidates:
            if candidate > fed:
                feed_span(self._terminal, span, fed, candidate)
                self._is_visible = self._sees()
            feed_span(self._terminal, span, candidate, candidate + 1)
            fed = candidate + 1
            is_visible = self._sees()
            if is_visible and not self._is_visible and len(self.hits) < MOST_HITS:
                self.hits.append(span.times[candidate])
            self._is_visible = is_visible
        feed_span(self._terminal, span, fed)
        self._is_visible = self._sees()
        self._done = len(span.times)

    def _candidates(self, span: Span) -> list[int]:
        """The events with which a text that reads so was printed whole."""
        printed = [one if code == OUTPUT else "" for code, one in zip(span.codes, span.data, strict=True)]
        printed = printed[self._done :]
        if self.needle not in _ESCAPES.sub("", "".join(printed)).casefold():
            return []
        found, tail, keep = [], "", 4 * len(self.needle) + 64
        for number, one in enumerate(printed, start=self._done):
            # A sequence that was cut between two events is whole in their sum.
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

    def _sees(self) -> bool:
        return any(self.needle in line.casefold() for line in self._terminal.lines())
