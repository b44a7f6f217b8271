"""Makes the index of a recording: reads it once from the beginning, and keeps the terminal's state every so often.

The same code runs in a process of its own for a long recording, and here for a short one and for what is added to one
that is still being written. A part is read at a time, so that the caller can do something else in between.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from selftest_recorder.cast_shapes import EXIT, MARKER, OUTPUT
from selftest_recorder.index import Index, Keyframe, Marker
from selftest_recorder.spans import Position, feed, read_span
from selftest_recorder.terminal import open_terminal

if TYPE_CHECKING:
    from selftest_recorder.cast import Recording
    from selftest_recorder.spans import Span

SPACING_SMALL, SPACING_LARGE = 128 * 1024, 256 * 1024
"""Bytes between keyframes; the larger for files of which so many keyframes would be large themselves."""
_LARGE = 32 * 1024 * 1024
_AGAIN = 8 * 1024
"""Bytes after which it is tried again where no state was to be had."""


def spacing_of(size: int) -> int:
    """The bytes between keyframes for a file of `size` bytes."""
    return SPACING_LARGE if size >= _LARGE else SPACING_SMALL


class Indexer:
    """Adds to an index, part by part; goes on where that index ends."""

    def __init__(self, recording: Recording, index: Index, spacing: int) -> None:
        self._recording = recording
        self.index = index
        self._spacing = spacing
        header = recording.header
        self._terminal = open_terminal(header.cols, header.rows)
        if not index.keyframes:
            start = Position(0.0, recording.begins, 1)
            index.end = start
            index.add_keyframe(Keyframe(start))
            self._place = start
            return
        last = len(index.keyframes) - 1
        state = index.state(last)
        if state is not None:
            self._terminal.restore(state)
        self._place = index.keyframes[last].position

    def catch_up(self) -> None:
        """Bring the terminal to the end of what the index knows already."""
        while self._place.offset < self.index.end.offset:
            span = read_span(self._recording, self._place, self.index.end.offset - self._place.offset)
            if not span.times:
                return
            feed(self._terminal, span)
            self._place = span.end

    def step(self) -> bool:
        """Read one part more. False where nothing whole is left to read."""
        index = self.index
        since = self._place.offset - index.keyframes[-1].position.offset
        wanted = self._spacing - since if since < self._spacing else min(_AGAIN, self._spacing)
        span = read_span(self._recording, self._place, wanted)
        if span.end == self._place or (not span.times and span.end.offset <= self._place.offset):
            return False
        feed(self._terminal, span)
        self._note(span)
        self._place = index.end = span.end
        if self._place.offset - index.keyframes[-1].position.offset >= self._spacing * 3 // 4:
            state = self._terminal.snapshot()
            if state is not None:
                index.add_keyframe(Keyframe(span.end, zlib.compress(state, 1)))
        return True

    def _note(self, span: Span) -> None:
        index = self.index
        index.events += len(span.times)
        if span.has_only_output:
            index.activity.add(span.times, span.data)
            return
        shown = [
            (time, one) for time, code, one in zip(span.times, span.codes, span.data, strict=True) if code == OUTPUT
        ]
        index.activity.add([time for time, _ in shown], [one for _, one in shown])
        for time, code, one in zip(span.times, span.codes, span.data, strict=True):
            if code == MARKER:
                index.markers.append(Marker(time, one))
            elif code == EXIT:
                index.exit_status = one
