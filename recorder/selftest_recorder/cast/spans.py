"""A part of a recording, decoded whole: the events between two places of its file, ready to be fed to a terminal.

Lines that are as they should be (nearly all, in nearly every recording) are decoded by the hundred thousand at once;
a part with anything odd in it is read line by line by `cast`, which knows every kind of damage. Both give the same.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from selftest_recorder.cast.events import CODES, MAX_TIME, OUTPUT, RESIZE, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_recorder.cast.cast import Recording
    from selftest_recorder.terminal.terminal import Terminal

_LINES = msgspec.json.Decoder(tuple[float, str, str])
_ONLY_OUTPUT = frozenset((OUTPUT,))


class Position(NamedTuple):
    """A place behind an event: its time in seconds, its offset in the file, and its line."""

    time: float = 0.0
    offset: int = 0
    line: int = 0


class Span(NamedTuple):
    """Events in order: their times (seconds, never going back), codes and data; and the places around them."""

    start: Position
    end: Position
    times: Sequence[float]
    codes: Sequence[str]
    data: Sequence[str]

    @property
    def has_only_output(self) -> bool:
        """True where all of it can be fed at once."""
        return _ONLY_OUTPUT.issuperset(self.codes)

    def until(self, time: float) -> int:
        """How many of its events have happened at `time`."""
        return bisect_right(self.times, time)


def feed(terminal: Terminal, span: Span, first: int = 0, last: int | None = None) -> None:
    """Let the events `first` up to (not with) `last` happen in a terminal."""
    codes = span.codes[first:last]
    data = span.data[first:last]
    if _ONLY_OUTPUT.issuperset(codes):
        if data:
            terminal.feed("".join(data).encode("utf-8", "replace"))
        return
    waiting: list[str] = []
    for code, one in zip(codes, data, strict=True):
        if code == OUTPUT:
            waiting.append(one)
        elif code == RESIZE and (size := size_of(one)) is not None:
            terminal.feed("".join(waiting).encode("utf-8", "replace"))
            waiting.clear()
            terminal.resize(*size)
    terminal.feed("".join(waiting).encode("utf-8", "replace"))


def read_span(recording: Recording, start: Position, size: int) -> Span:
    """The events behind `start` in some `size` bytes: whole lines, at least one where there is one.

    A last line that is still being written is left for later. An empty span is the end of what is there.
    """
    offset = max(start.offset, recording.begins)
    with recording.data_path.open("rb", buffering=0) as file:
        file.seek(offset)
        data = file.read(size)
    end = data.rfind(b"\n") + 1
    if end:
        quick = _read_quickly(recording, Position(start.time, offset, max(start.line, 1)), data[:end])
        if quick is not None:
            return quick
    return _read_carefully(recording, start, offset + end)


def read_until(recording: Recording, start: Position, offset: int) -> Span:
    """The events behind `start`, up to the place `offset`, which is one behind an event."""
    span = read_span(recording, start, offset - start.offset)
    while span.times and span.end.offset < offset:
        more = read_span(recording, span.end, offset - span.end.offset)
        if not more.times and more.end == span.end:
            break
        span = joined(span, more)
    return span


def joined(first: Span, second: Span) -> Span:
    """Two spans, the second right behind the first, as one."""
    return Span(
        first.start,
        second.end,
        (*first.times, *second.times),
        (*first.codes, *second.codes),
        (*first.data, *second.data),
    )


def _read_quickly(recording: Recording, start: Position, lines: bytes) -> Span | None:
    try:
        events = _LINES.decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not events:
        return Span(start, _behind(start, lines, start.time), (), (), ())
    times, codes, data = zip(*events, strict=True)
    if recording.header.version == 3:
        if min(times) < 0 or max(times) > MAX_TIME:
            return None
        times = tuple(accumulate(times, initial=start.time))[1:]
    elif times[0] < start.time or times[-1] > MAX_TIME or list(times) != sorted(times):
        return None
    kinds = set(codes)
    if kinds != _ONLY_OUTPUT and (RESIZE in kinds or not kinds <= CODES):
        return None  # a size wants a look
    return Span(start, _behind(start, lines, times[-1]), times, codes, data)


def _behind(start: Position, lines: bytes, time: float) -> Position:
    return Position(time, start.offset + len(lines), start.line + lines.count(b"\n"))


def _read_carefully(recording: Recording, start: Position, until: int) -> Span:
    times, codes, data = [], [], []
    end = start
    for event in recording.events(start.offset, start.time, start.line, growing=True):
        times.append(event.time)
        codes.append(event.code)
        data.append(event.data)
        end = Position(event.time, event.offset, event.line)
        if event.offset >= until:
            break
    return Span(start, end, times, codes, data)
