"""Spans of a recording: events between two places of its file, decoded together.

Valid lines (nearly all, in nearly every recording) are decoded in one call; a span with anything unusual in it is read
line by line by `cast.reader`, which handles all damage. The results are the same.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from selftest_recorder.cast.events import CODES, MAX_TIME, OUTPUT, RESIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_recorder.cast.reader import Recording

_LINES = msgspec.json.Decoder(tuple[float, str, str])


class Position(NamedTuple):
    """A place behind an event: time in seconds, offset in the file, and line."""

    time: float = 0.0
    offset: int = 0
    line: int = 0


class Span(NamedTuple):
    """Events in order: times in seconds, codes and data; and the places before and after them.

    `has_only_output`: all of it can be fed at once.
    """

    start: Position
    end: Position
    times: Sequence[float]
    codes: Sequence[str]
    data: Sequence[str]
    has_only_output: bool

    def until(self, time: float) -> int:
        """Return the number of events at or before `time`."""
        return bisect_right(self.times, time)


def read_span(recording: Recording, start: Position, size: int) -> Span:
    """Read the events behind `start` in about `size` bytes: complete lines, at least one if there is one.

    An unfinished last line is read later. An empty span is the end of the file.
    """
    offset = max(start.offset, recording.begins)
    with recording.data_path.open("rb", buffering=0) as file:
        file.seek(offset)
        data = file.read(size)
    end = data.rfind(b"\n") + 1
    if end:
        decoded = _decode_at_once(recording, Position(start.time, offset, max(start.line, 1)), data, end)
        if decoded is not None:
            return decoded
    return _decode_line_by_line(recording, start, offset + end)


def read_until(recording: Recording, start: Position, offset: int) -> Span:
    """Read the events behind `start` up to `offset`, a place behind an event."""
    span = read_span(recording, start, offset - start.offset)
    while span.times and span.end.offset < offset:
        more = read_span(recording, span.end, offset - span.end.offset)
        if not more.times and more.end == span.end:
            break
        span = joined(span, more)
    return span


def joined(first: Span, second: Span) -> Span:
    """Join two adjacent spans."""
    return Span(
        first.start,
        second.end,
        (*first.times, *second.times),
        (*first.codes, *second.codes),
        (*first.data, *second.data),
        first.has_only_output and second.has_only_output,
    )


def _decode_at_once(recording: Recording, start: Position, lines: bytes, size: int) -> Span | None:
    """Decode the first `size` bytes, which are complete lines; None if one of them is unusual."""
    try:
        events = _LINES.decode_lines(memoryview(lines)[:size])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # Removing the line ends takes a quarter of the time that counting them takes.
    offset, line = start.offset + size, start.line + len(lines) - len(lines.replace(b"\n", b""))
    if not events:
        return Span(start, Position(start.time, offset, line), (), (), (), has_only_output=True)
    # Comprehensions, since zip(*events) has thousands of arguments and takes twice as long.
    times = [time for time, _, _ in events]
    if recording.header.version == 3:
        if min(times) < 0 or max(times) > MAX_TIME:
            return None
        times = list(accumulate(times, initial=start.time))[1:]
    elif times[0] < start.time or times[-1] > MAX_TIME or times != sorted(times):
        return None
    codes = [code for _, code, _ in events]
    data = [data for _, _, data in events]
    has_only_output = codes.count(OUTPUT) == len(codes)
    if not has_only_output and (RESIZE in codes or not CODES.issuperset(codes)):
        return None  # a resize must be checked
    return Span(start, Position(times[-1], offset, line), times, codes, data, has_only_output)


def _decode_line_by_line(recording: Recording, start: Position, until: int) -> Span:
    times, codes, data = [], [], []
    end = start
    for event in recording.events(start.offset, start.time, start.line, growing=True):
        times.append(event.time)
        codes.append(event.code)
        data.append(event.data)
        end = Position(event.time, event.offset, event.line)
        if event.offset >= until:
            break
    return Span(start, end, times, codes, data, codes.count(OUTPUT) == len(codes))
