"""Makes the index of a recording: reads it once from the beginning, and keeps the terminal's state every so often.

The same code runs in a process of its own for a long recording, and here for a short one and for what is added to one
that is still being written. A part is read at a time, so that the caller can do something else in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_recorder.cast.events import EXIT, MARKER, OUTPUT
from selftest_recorder.cast.spans import Position, feed, read_span
from selftest_recorder.index.index import Index, Keyframe, Marker, packed_state
from selftest_recorder.terminal.terminal import open_terminal

if TYPE_CHECKING:
    from selftest_recorder.cast.cast import Recording
    from selftest_recorder.cast.spans import Span

SPACING = 128 * 1024
"""Bytes between keyframes where their states are small: so many are decoded and fed in some milliseconds."""
_STATES_COST = 4
"""Bytes of a state that cost a seek as much as one of the recording: they are unpacked, and taken over."""
_AGAIN = 8 * 1024
"""Bytes after which it is tried again where no state was to be had."""


class Indexer:
    """Adds to an index, part by part; goes on where that index ends."""

    def __init__(self, recording: Recording, index: Index, spacing: int = SPACING) -> None:
        self._recording = recording
        self.index = index
        self._spacing = spacing
        header = recording.header
        self._terminal = open_terminal(header.cols, header.rows)
        self._state_size = 0
        if not index.keyframes:
            start = Position(0.0, recording.begins, 1)
            index.end = start
            index.add_keyframe(Keyframe(start))
            self._place = self._kept = start
            return
        last = len(index.keyframes) - 1
        state = index.state(last)
        if state is not None:
            self._terminal.restore(state)
            self._state_size = len(state)
        self._place = self._kept = index.keyframes[last].position

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
        span = self.read(self._place)
        if span is None:
            return False
        state = self.take(span)
        if state is not None:
            self.index.add_keyframe(Keyframe(span.end, packed_state(state)))
        return True

    def read(self, place: Position) -> Span | None:
        """The next part, behind `place`; None where nothing whole is left. May be called from another thread."""
        spacing = max(self._spacing - self._state_size // _STATES_COST, self._spacing // 2)
        since = place.offset - self._kept.offset
        span = read_span(self._recording, place, spacing - since if since < spacing else min(_AGAIN, spacing))
        return None if span.end == place or (not span.times and span.end.offset <= place.offset) else span

    def take(self, span: Span) -> bytes | None:
        """Take in the part behind the last one. Returns the state there where a keyframe is due."""
        feed(self._terminal, span)
        self._note(span)
        self._place = self.index.end = span.end
        if span.end.offset - self._kept.offset < self._spacing * 3 // 8:
            return None
        state = self._terminal.snapshot()
        if state is not None:
            self._kept, self._state_size = span.end, len(state)
        return state

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
