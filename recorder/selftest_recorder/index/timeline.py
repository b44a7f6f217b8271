"""Timeline of a recording: seek, step and play, each in milliseconds, whatever its length.

    with open_timeline(path, environ) as timeline:
        timeline.seek(134.0)
        timeline.read_update()

A seek restores the last keyframe before that time and feeds the events between; playing feeds the next events. The
index comes from `index_source`. `poll` reads new parts of the index and of a growing recording; call it now and then.

The state is always as if everything had been played from the beginning. Not thread-safe, and without a clock: the speed
is the player's business.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Self

from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.spans import joined, read_until
from selftest_recorder.index.index_file import cache_folder
from selftest_recorder.index.index_source import IndexSource, usable
from selftest_recorder.terminal.emulator import feed_span, open_terminal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_recorder.cast.events import Header
    from selftest_recorder.cast.reader import Recording
    from selftest_recorder.cast.spans import Span
    from selftest_recorder.index.index import Activity, Index, Marker
    from selftest_recorder.terminal.terminal import ScreenUpdate

_KEPT_SPANS = 4
_NEAR = 32 * 1024
"""Characters up to which feeding is faster than restoring a keyframe and redrawing all rows."""


class Timeline:
    """A timeline, made by `open_timeline`. `folder`: the cache of indexes; `spacing`: bytes between keyframes."""

    def __init__(self, recording: Recording, folder: Path | None, spacing: int | None = None) -> None:
        self.recording = recording
        self.time = 0.0
        """The moment that is shown."""
        self._source = IndexSource(recording, folder, spacing)
        self._terminal = open_terminal(self.header.cols, self.header.rows)
        self._spans: dict[int, Span] = {}
        self._number = 0
        self._fed = 0

    # the recording

    @property
    def header(self) -> Header:
        """The header of the recording."""
        return self.recording.header

    @property
    def duration(self) -> float:
        """Seconds up to the last event that is indexed."""
        return self._source.index.end.time

    @property
    def is_complete(self) -> bool:
        """True once the whole file is indexed; it may still grow."""
        return self._source.index.is_complete

    @property
    def progress(self) -> float:
        """The indexed share of the file, from 0 to 1."""
        return self._source.progress

    @property
    def markers(self) -> Sequence[Marker]:
        """The markers, in order."""
        return self._source.index.markers

    @property
    def activity(self) -> Activity:
        """The amount of output over time."""
        return self._source.index.activity

    @property
    def events(self) -> int:
        """The number of indexed events."""
        return self._source.index.events

    @property
    def has_ended(self) -> bool:
        """True when the recording has the exit of its program: it does not grow any more."""
        return bool(self._source.index.exit_status)

    @property
    def index(self) -> Index:
        """The index, for searches in other threads; it only grows."""
        return self._source.index

    # moving

    def seek(self, time: float) -> None:
        """Go to `time` in seconds, limited to the indexed part."""
        time = min(max(time, 0.0), self.duration)
        number = self._source.index.number_at(time)
        span = self._span(number)
        wanted = span.until(time)
        if number == self._number + 1:
            self._play_into(span, wanted)
        if number != self._number or wanted < self._fed:
            state = self._source.index.state(number)
            if state is None:
                self._terminal = open_terminal(self.header.cols, self.header.rows)
            else:
                self._terminal.restore(state)
            self._number, self._fed = number, 0
        feed_span(self._terminal, span, self._fed, wanted)
        self._fed = wanted
        self.time = time

    def next_event(self) -> float | None:
        """Return the time of the next event, None at the end."""
        number, place = self._number, self._fed
        while True:
            span = self._span(number)
            place = max(place, span.until(self.time))
            if place < len(span.times):
                return span.times[place]
            number, place = number + 1, 0
            if number >= len(self._source.index.keyframes):
                return None

    def previous_event(self) -> float | None:
        """Return the time of the event before the current ones, None at the beginning."""
        number = self._source.index.number_at(self.time)
        while number >= 0:
            span = self._span(number)
            place = bisect_left(span.times, self.time)
            if place:
                return span.times[place - 1]
            number -= 1
        return None

    def last_event(self) -> float:
        """Return the time of the last event at or before the current time."""
        number = self._source.index.number_at(self.time)
        while number >= 0:
            span = self._span(number)
            place = span.until(self.time)
            if place:
                return span.times[place - 1]
            number -= 1
        return 0.0

    # the screen

    def read_update(self, *, whole: bool = False) -> ScreenUpdate:
        """Return the rows that changed since the last read."""
        return self._terminal.read_update(whole=whole)

    def lines(self) -> list[str]:
        """Return the text of all rows, without trailing blanks."""
        return self._terminal.lines()

    # growth

    def poll(self) -> bool:
        """Read new parts of the index and of the recording. Returns True if there are any."""
        return self._source.poll()

    def finish(self) -> None:
        """Wait until the whole file is indexed, for callers without a screen."""
        while not self._source.index.is_complete:
            self._source.poll(patience=0.02)

    def close(self) -> None:
        """End the background process, and close the files."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _play_into(self, span: Span, wanted: int) -> None:
        """Play into the next span where little is left, since a restored keyframe redraws every row."""
        before = self._span(self._number)
        rest = sum(map(len, before.data[self._fed :])) + sum(map(len, span.data[:wanted]))
        if rest <= _NEAR and before.end.offset == span.start.offset and self._fed <= len(before.times):
            feed_span(self._terminal, before, self._fed)
            self._number, self._fed = self._number + 1, 0

    def _span(self, number: int) -> Span:
        """Return the events between a keyframe and the next, or behind the last."""
        index = self._source.index
        start, size = index.keyframes[number].position, index.span_size(number)
        span = self._spans.pop(number, None)
        if span is None:
            span = read_until(self.recording, start, start.offset + size)
        elif span.end.offset < start.offset + size:
            span = joined(span, read_until(self.recording, span.end, start.offset + size))
        self._spans[number] = span
        if len(self._spans) > _KEPT_SPANS:
            del self._spans[next(iter(self._spans))]
        return span


def open_timeline(path: Path, environ: Mapping[str, str]) -> Timeline:
    """Open a recording. Raises RecordingError for other files. Close it, or use it as a context."""
    folder = cache_folder(environ)
    return Timeline(usable(read_cast(path), folder), folder)
