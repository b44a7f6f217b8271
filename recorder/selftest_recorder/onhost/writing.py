"""Writer of recordings line by line, so that a kill leaves complete lines.

A writer gets absolute times, and bytes as the program of a terminal wrote them; characters that a read has cut are
joined. Lines are gathered and written by one `write` for each `flush`, to a file opened for appending: a kill loses
the gathered lines, never a part of a written one. The source of the bytes and masking are not its business.
"""

from __future__ import annotations

import codecs
import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

DECIMALS = 6
_GATHERED = 256 * 1024
_LONGEST_LINE = 64 * 1024 * 1024


def whole_text(text: str) -> str:
    """Return a text with surrogate pairs joined and lone ones replaced, so that it can be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def encode(value: Any) -> bytes:
    """Encode one line with its newline."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")).encode("utf-8", "replace") + b"\n"


def third_header(cols: int, rows: int, timestamp: float, title: str, env: dict[str, str]) -> bytes:
    """Return the first line of an asciicast v3. `timestamp`: of its time 0, in whole seconds."""
    fields: dict[str, Any] = {"version": 3, "term": {"cols": cols, "rows": rows}, "timestamp": int(timestamp)}
    if title:
        fields["title"] = whole_text(title)
    if env:
        fields["env"] = env
    return encode(fields)


class Left(NamedTuple):
    """The rest that a killed writer left: bytes of complete lines, time of the last, start, labels of markers.

    `has_ended`: its program had ended before.
    """

    end: int
    time: float
    timestamp: float
    size: tuple[int, int]
    labels: list[str]
    has_ended: bool = False


def read_left(path: Path) -> Left | None:
    """Read a recording of v3 to continue it; None if the file is not one."""
    time, end = 0.0, 0
    labels: list[str] = []
    has_ended = False
    try:
        with path.open("rb") as file:
            first = file.readline(_LONGEST_LINE)
            header = json.loads(first)
            term = header["term"]
            timestamp, size = float(header["timestamp"]), (int(term["cols"]), int(term["rows"]))
            if header["version"] != 3 or not first.endswith(b"\n"):
                return None
            end = len(first)
            for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
                if not line.endswith(b"\n"):
                    break
                try:
                    interval, code, data = json.loads(line)
                    time += max(float(interval), 0.0)
                except (ValueError, TypeError):
                    code, data = "", ""
                if code == "m":
                    labels.append(data)
                elif code == "x":
                    has_ended = True
                elif code == "r":
                    cols, _, rows = data.partition("x")
                    size = (int(cols), int(rows))
                end += len(line)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Left(end, time, timestamp, size, labels, has_ended)


class LineWriter:
    """Writer of the events of a recording, by one process at a time."""

    def __init__(self, handle: int, *, is_relative: bool, time: float = 0.0, size: int = 0) -> None:
        """`handle`: a file open for appending, which is closed with this. `time`: of the last event that is in it."""
        self.handle = handle
        self.is_relative = is_relative
        self.time = time
        self.size = size
        self._gathered: list[bytes] = []
        self._waiting = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def output(self, time: float, data: bytes) -> None:
        """Write output of a program. A time before the last event becomes that of the last event."""
        text = self._decoder.decode(data)
        if text:
            self.event(time, "o", text)

    def text(self, time: float, text: str) -> None:
        """Write output that is text already."""
        if text:
            self.event(time, "o", text)

    def input(self, time: float, text: str) -> None:
        """Write input of a user."""
        self.event(time, "i", text)

    def marker(self, time: float, label: str) -> None:
        """Write a marker."""
        self.event(time, "m", label)

    def resize(self, time: float, cols: int, rows: int) -> None:
        """Write the new size of the terminal."""
        self.event(time, "r", f"{cols}x{rows}")

    def exit(self, time: float, status: int) -> None:
        """Write the exit status of the program; as a marker in version 2, which has no such event."""
        if self.is_relative:
            self.event(time, "x", str(status))
        else:
            self.marker(time, f"exit {status}")

    def event(self, time: float, code: str, data: str) -> None:
        """Write any event."""
        # Readers of v3 add up the rounded intervals: rounding the sum keeps the error from growing.
        time = max(round(time, DECIMALS), self.time)
        told = round(time - self.time, DECIMALS) if self.is_relative else time
        self.gather(encode([told, code, whole_text(data)]))
        self.time = time

    def gather(self, line: bytes) -> None:
        """Gather a line for the next flush."""
        self._gathered.append(line)
        self._waiting += len(line)
        self.size += len(line)
        if self._waiting >= _GATHERED:
            self.flush()

    def flush(self) -> None:
        """Write the gathered lines, which a kill cannot lose then. Raises OSError, as for a full disk."""
        if not self._gathered:
            return
        data = memoryview(b"".join(self._gathered))
        self._gathered, self._waiting = [], 0
        while data:
            data = data[os.write(self.handle, data) :]

    def end_text(self) -> None:
        """Write a cut character as it is: the next output does not continue it."""
        rest = self._decoder.decode(b"", True)
        if rest:
            self.event(self.time, "o", rest)

    def reopened(self, path: Path) -> LineWriter:
        """Return a writer that continues where this closed one ended. Raises OSError."""
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        return LineWriter(handle, is_relative=self.is_relative, time=self.time, size=self.size)

    def close(self) -> None:
        """Write the rest and close the file."""
        if self.handle < 0:
            return
        try:
            self.end_text()
            self.flush()
        finally:
            os.close(self.handle)
            self.handle = -1
