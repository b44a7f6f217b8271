"""Lines that a recording showed: each distinct line once, with the time at which it was first seen.

The screen is read

- before the first event that comes a second or more after the last reading, so a text that stood for a second is found;
- before more lines have scrolled by than the terminal keeps, so each of them is found, however fast it was;
- at the end.

A line that grows while it is written is taken when it is complete. Not found is what an agent drew for less than a
second with cursor movements, and, unless it has scrolled by, what is broken over two rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_recorder.cast.events import OUTPUT, RESIZE, size_of
from selftest_recorder.cast.spans import Position, read_span
from selftest_recorder.terminal.emulator import open_terminal
from selftest_recorder.terminal.terminal import kept_above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_recorder.cast.reader import Recording

_SECONDS = 1.0
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
        self._terminal = open_terminal(columns, rows, keeps_above=True)
        self._size = columns, rows
        self._waiting: list[str] = []
        self._fed = self._line_ends = 0
        self._shown: dict[int, tuple[float, str]] = {}
        """The text of each row, and when it was first seen there: it is taken when another text replaces it."""
        self._last: tuple[float, str] | None = None
        """The last line of the screen when all lines were read at once."""
        self._taken: set[int] = set()

    def feed(self, time: float, data: str) -> Iterator[tuple[float, str]]:
        """Process output, which may be long; yield lines where it must be read in between."""
        begin, self._fed_at = 0, time
        columns = self._size[0]
        most = self._most
        while (ends := data.count("\n", begin)) + self._line_ends + (len(data) - begin + self._fed) // columns >= most:
            # As many characters as fill the rest, by their line ends and by the width of the terminal.
            end, room = begin, most - self._line_ends - self._fed // columns
            while end < len(data) and room > 0:
                found = data.find("\n", end, end + columns * room)
                after = found + 1 if found >= 0 else min(end + columns * room, len(data))
                room -= 1 + (after - end) // columns
                self._line_ends += found >= 0
                end = after
            self._waiting.append(data[begin:end])
            begin = end
            yield from self.read(time)
            if begin == len(data):
                return
        self._waiting.append(data[begin:])
        self._line_ends += ends
        self._fed += len(data) - begin

    @property
    def _most(self) -> int:
        """Rows that may be written until they must be read."""
        return kept_above(*self._size) or max(self._size[1] - 1, 1)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size."""
        self._terminal.resize(columns, rows)
        self._size = columns, rows

    def read(self, time: float) -> Iterator[tuple[float, str]]:
        """Read the screen; yield the lines that were replaced since it was read last, or that have scrolled."""
        if self._waiting:
            self._terminal.feed("".join(self._waiting).encode("utf-8", "replace"))
            self._waiting.clear()
            # Reading all lines at once is three times as fast as reading many rows, and slower than reading a few.
            if self._line_ends > 1 and kept_above(*self._size):
                *lines, last = self._terminal.scrolled_lines()
                for text in lines:
                    yield from self._take((self._fed_at, text))
                if self._last is not None and not any(text.startswith(self._last[1]) for text in (*lines, last)):
                    yield from self._take(self._last)
                yield from self._rest_of_rows()
                self._last = (self._fed_at, last)  # it may not be complete
            else:
                yield from self._read_rows()
        self._fed = self._line_ends = 0
        self.read_at = time

    def _read_rows(self) -> Iterator[tuple[float, str]]:
        rows = self._terminal.changed_lines()
        if self._last is not None:
            if not any(text.startswith(self._last[1]) for text in rows.values()):
                yield from self._take(self._last)
            self._last = None
        for row, text in rows.items():
            before = self._shown.get(row)
            if before is not None:
                if before[1] == text:
                    continue
                if not text.startswith(before[1]):
                    yield from self._take(before)
            self._shown[row] = (self._fed_at, text)

    def rest(self) -> Iterator[tuple[float, str]]:
        """Yield what is on the screen at the end."""
        if self._last is not None:
            yield from self._take(self._last)
        yield from self._rest_of_rows()

    def _rest_of_rows(self) -> Iterator[tuple[float, str]]:
        for shown in self._shown.values():
            yield from self._take(shown)
        self._shown.clear()

    def _take(self, shown: tuple[float, str]) -> Iterator[tuple[float, str]]:
        text = shown[1].strip()
        if len(text) < _SHORTEST:
            return
        key = hash(text)
        if key not in self._taken:
            self._taken.add(key)
            yield shown[0], text
