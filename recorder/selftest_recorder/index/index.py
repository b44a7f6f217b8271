"""Index of a recording: keyframes to seek from, markers, and the amount of output over time.

It grows while it is built and can be used from its first keyframe on. A keyframe holds the whole state of the terminal
at a place of the file; the bytes between two of them are fed in a few milliseconds. `Indexer` builds it here;
`index_source` chooses between building it here, reading it from the cache, and a background process. Packed states are
held here, or stay in the file of the background process and are read on demand. No clock, no terminal.
"""

from __future__ import annotations

import math
import os
import zlib
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from selftest_recorder.cast.events import EXIT, MARKER, OUTPUT
from selftest_recorder.cast.spans import Position, read_span
from selftest_recorder.terminal.emulator import feed_pieces, feed_span, open_terminal, pieces_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_recorder.cast.reader import Recording
    from selftest_recorder.cast.spans import Span
    from selftest_recorder.terminal.emulator import Piece

BUCKETS = 1024
_FIRST_WIDTH = 1 / 16
_USUAL_STATE = 128 * 1024
_STRIDE = 24
"""Bytes of one record of a state: cells and styles are tables of records."""


def packed_state(state: bytes) -> bytes:
    """Pack a state: bytes of one kind side by side, so that zlib is a third faster and its result smaller."""
    return zlib.compress(b"".join(state[part::_STRIDE] for part in range(_STRIDE)), 1)


def unpacked_state(packed: bytes) -> bytes:
    """Unpack a state. Raises zlib.error for damaged data."""
    sorted_out = zlib.decompress(packed, bufsize=_USUAL_STATE)
    state, begin = bytearray(len(sorted_out)), 0
    for part in range(_STRIDE):
        end = begin + len(range(part, len(state), _STRIDE))
        state[part::_STRIDE] = sorted_out[begin:end]
        begin = end
    return bytes(state)


class Keyframe(NamedTuple):
    """A place with the state of the terminal: packed bytes, or their place in the index file; None is a blank one."""

    position: Position
    packed: bytes | tuple[int, int] | None = None


class Marker(NamedTuple):
    """A named time, in seconds."""

    time: float
    label: str


class Activity:
    """Number of characters over time, in at most BUCKETS parts, whose width doubles as the recording grows."""

    def __init__(self, width: float = _FIRST_WIDTH, counts: Sequence[int] = ()) -> None:
        self.width = width
        self.counts = [*counts, *([0] * (BUCKETS - len(counts)))][:BUCKETS]

    def add(self, counts: Sequence[tuple[float, int]]) -> None:
        """Add numbers of characters at times, from `counts_of`."""
        while counts and counts[-1][0] >= self.width * BUCKETS:
            merged = [first + second for first, second in zip(self.counts[::2], self.counts[1::2], strict=True)]
            self.counts = merged + [0] * (BUCKETS - len(merged))
            self.width *= 2
        for time, count in counts:
            self.counts[int(time / self.width)] += count

    def levels(self, duration: float, cells: int, most: int = 8) -> list[int]:
        """Return a level from 0 (nothing) to `most` for each of `cells` parts of `duration`, on a logarithmic scale."""
        sums = [0.0] * max(cells, 0)
        if not sums or duration <= 0:
            return [0] * len(sums)
        scale = cells / duration
        for number, count in enumerate(self.counts):
            if not count:
                continue
            first = min(number * self.width * scale, cells - 1.0)
            last = max(first, min((number + 1) * self.width * scale, cells) - 1e-9)
            touched = range(int(first), int(last) + 1)
            for cell in touched:
                sums[cell] += count / len(touched)
        top = math.log2(max(sums) + 2)
        return [max(1, round(math.log2(one + 2) / top * most)) if one else 0 for one in sums]


def counts_of(times: Sequence[float], data: Sequence[str]) -> list[tuple[float, int]]:
    """Count the characters of events, whose times are in order; returns the first time of each part, and the number.

    Parts are as wide as those of an activity up to the last event.
    """
    width = _FIRST_WIDTH
    while times and times[-1] >= width * BUCKETS:
        width *= 2
    counts, first = [], 0
    while first < len(times):
        begin, part = first, int(times[first] / width)
        first = bisect_left(times, (part + 1) * width, begin + 1)
        counts.append((times[begin], sum(map(len, data[begin:first]))))
    return counts


@dataclass(slots=True)
class Index:
    """An index. `end`: the place up to which it was built. `is_complete`: that was the end of the recording then.

    `store`: the open file with the packed states that are not held here, or -1.
    """

    keyframes: list[Keyframe] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)
    activity: Activity = field(default_factory=Activity)
    end: Position = field(default_factory=Position)
    events: int = 0
    is_complete: bool = False
    exit_status: str = ""
    store: int = -1
    _times: list[float] = field(default_factory=list)

    def add_keyframe(self, keyframe: Keyframe) -> None:
        """Add a keyframe behind the last one."""
        self.keyframes.append(keyframe)
        self._times.append(keyframe.position.time)

    def number_at(self, time: float) -> int:
        """Return the number of the last keyframe at or before `time`, else of the first."""
        return max(0, bisect_right(self._times, time) - 1)

    def state(self, number: int) -> bytes | None:
        """Return the state of a keyframe, None for a blank terminal."""
        packed = self.keyframes[number].packed
        if isinstance(packed, tuple):
            place, size = packed
            packed = os.pread(self.store, size, place)
        return None if packed is None else unpacked_state(packed)

    def span_size(self, number: int) -> int:
        """Return the bytes between a keyframe and the next, or behind the last."""
        start = self.keyframes[number].position.offset
        is_last = number + 1 == len(self.keyframes)
        return (self.end.offset if is_last else self.keyframes[number + 1].position.offset) - start

    def close(self) -> None:
        """Close the file."""
        if self.store >= 0:
            os.close(self.store)
            self.store = -1


SPACING = 256 * 1024
"""Bytes between keyframes, which are decoded and fed in some milliseconds.

Closer ones would slow the indexing down: the state of a full screen in many colours has half as many bytes to pack.
"""
_AGAIN = 8 * 1024
"""Bytes before the next try, where the terminal had no snapshot."""


class Part(NamedTuple):
    """Contents of a span that an index keeps, in few objects: those of another thread are slow to read and to free."""

    end: Position
    events: int
    pieces: Sequence[Piece]
    activity: Sequence[tuple[float, int]]
    markers: Sequence[Marker] = ()
    exit_status: str | None = None


def part_of(span: Span) -> Part:
    """Return what an index needs of a span."""
    pieces, events = tuple(pieces_of(span)), len(span.times)
    if span.has_only_output:
        return Part(span.end, events, pieces, counts_of(span.times, span.data))
    listed = list(zip(span.times, span.codes, span.data, strict=True))
    shown = [(time, data) for time, code, data in listed if code == OUTPUT]
    activity = counts_of([time for time, _ in shown], [data for _, data in shown])
    markers = [Marker(time, data) for time, code, data in listed if code == MARKER]
    exits = [data for _, code, data in listed if code == EXIT]
    return Part(span.end, events, pieces, activity, markers, exits[-1] if exits else None)


class Indexer:
    """Builder of an index, part by part; continues where the index ends."""

    def __init__(self, recording: Recording, index: Index, spacing: int = SPACING) -> None:
        self._recording = recording
        self.index = index
        self.spacing = spacing
        header = recording.header
        self._terminal = open_terminal(header.cols, header.rows)
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
        self._place = self._kept = index.keyframes[last].position

    def catch_up(self) -> None:
        """Bring the terminal to the end of the index."""
        while self._place.offset < self.index.end.offset:
            span = read_span(self._recording, self._place, self.index.end.offset - self._place.offset)
            if not span.times:
                return
            feed_span(self._terminal, span)
            self._place = span.end

    def step(self) -> bool:
        """Add one part. Returns False if no complete line is left."""
        since = self._place.offset - self._kept.offset
        part = self.read(self._place, self.spacing - since if since < self.spacing else self.retry)
        if part is None:
            return False
        state = self.take(part)
        if state is not None:
            self.index.add_keyframe(Keyframe(part.end, packed_state(state)))
        return True

    @property
    def retry(self) -> int:
        """Bytes until a keyframe is tried again where the terminal had no snapshot."""
        return min(_AGAIN, self.spacing)

    def read(self, place: Position, size: int) -> Part | None:
        """Read the part behind `place`; None if no complete line is left. May be called from another thread."""
        span = read_span(self._recording, place, size)
        if span.end == place or (not span.times and span.end.offset <= place.offset):
            return None
        return part_of(span)

    def take(self, part: Part) -> bytes | None:
        """Add the part behind the last one. Returns the state there where a keyframe is due."""
        feed_pieces(self._terminal, part.pieces)
        index = self.index
        index.events += part.events
        index.activity.add(part.activity)
        index.markers += part.markers
        if part.exit_status is not None:
            index.exit_status = part.exit_status
        self._place = index.end = part.end
        if part.end.offset - self._kept.offset < self.spacing * 3 // 8:
            return None
        state = self._terminal.snapshot()
        if state is not None:
            self._kept = part.end
        return state
