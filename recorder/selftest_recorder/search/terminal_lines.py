"""Lines that a recording showed: each distinct line once, with the time at which it was first seen.

The screen is read

- before the first event that comes a second or more after the last reading, so a text that stood for a second is found;
- after as many line ends as the screen has rows, so a line that scrolled by is found, however fast;
- after 32 KB of output, and at the end.

A line that grows while it is written is taken when it is complete. Not found is what an agent drew for less than a
second with cursor movements, and what is broken over two rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_recorder.cast.events import OUTPUT, RESIZE, size_of
from selftest_recorder.cast.spans import Position, read_span
from selftest_recorder.terminal.emulator import open_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_recorder.cast.reader import Recording

_SECONDS = 1.0
_MOST_FED = 32 * 1024
_SPAN = 256 * 1024
_SHORTEST = 2
"""Characters of the shortest line that is taken."""


def lines_of(recording: Recording) -> Iterator[tuple[float, str]]:
    """Iterate over time (seconds of the recording) and text of each distinct line, without surrounding blanks."""
    header = recording.header
    screen = _Screen(header.cols, header.rows)
    place = Position(0.0, recording.begins, 1)
    while (span := read_span(recording, place, _SPAN)).times or span.end.offset > place.offset:
        place = span.end
        for time, code, data in zip(span.times, span.codes, span.data, strict=True):
            if code == OUTPUT:
                if time - screen.read_at >= _SECONDS:
                    yield from screen.read(time)
                yield from screen.feed(time, data)
            elif code == RESIZE and (size := size_of(data)) is not None:
                yield from screen.read(time)
                screen.resize(*size)
    yield from screen.read(place.time)
    yield from screen.rest()


class _Screen:
    """A terminal whose lines are collected. `read_at`: the time of the last reading."""

    def __init__(self, columns: int, rows: int) -> None:
        self.read_at = self._fed_at = 0.0
        self._terminal = open_terminal(columns, rows)
        self._rows = rows
        self._waiting: list[str] = []
        self._fed = self._line_ends = 0
        self._shown: dict[int, tuple[float, str]] = {}
        """The text of each row, and when it was first seen there: it is taken when another text replaces it."""
        self._taken: set[int] = set()

    def feed(self, time: float, data: str) -> Iterator[tuple[float, str]]:
        """Process output, which may be long; yield lines where it must be read in between."""
        begin, self._fed_at = 0, time
        while True:
            ends = data.count("\n", begin)
            room = max(self._rows - 1, 1) - self._line_ends
            if ends < room and len(data) - begin < _MOST_FED:
                break
            end = begin
            while end < len(data) and room > 0 and end - begin < _MOST_FED:
                found = data.find("\n", end, begin + _MOST_FED)
                end = found + 1 if found >= 0 else min(begin + _MOST_FED, len(data))
                room -= found >= 0
            self._waiting.append(data[begin:end])
            begin = end
            yield from self.read(time)
        self._waiting.append(data[begin:])
        self._line_ends += ends
        self._fed += len(data) - begin
        if self._fed >= _MOST_FED:
            yield from self.read(time)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size."""
        self._terminal.resize(columns, rows)
        self._rows = rows

    def read(self, time: float) -> Iterator[tuple[float, str]]:
        """Read the screen; yield the lines that were replaced since it was read last."""
        if self._waiting:
            self._terminal.feed("".join(self._waiting).encode("utf-8", "replace"))
            self._waiting.clear()
            for row, text in self._terminal.changed_lines().items():
                before = self._shown.get(row)
                if before is not None:
                    if before[1] == text:
                        continue
                    if not text.startswith(before[1]):
                        yield from self._take(before)
                self._shown[row] = (self._fed_at, text)
        self._fed = self._line_ends = 0
        self.read_at = time

    def rest(self) -> Iterator[tuple[float, str]]:
        """Yield what is on the screen at the end."""
        for shown in self._shown.values():
            yield from self._take(shown)

    def _take(self, shown: tuple[float, str]) -> Iterator[tuple[float, str]]:
        text = shown[1].strip()
        if len(text) < _SHORTEST:
            return
        key = hash(text)
        if key not in self._taken:
            self._taken.add(key)
            yield shown[0], text
