"""Recordings written: asciicast v2 and v3, a line at a time, so that what is killed in the middle leaves whole lines.

A writer gets times that are absolute, and bytes as a terminal's program wrote them; a character that a read has cut in
two is put together again. Lines are gathered and written by one `write` each `flush`, to a file opened for appending:
a kill loses what was gathered since, never a part of a line that was acknowledged. It must not know where the bytes
come from, nor what of them must not be written (that is `masking`).
"""

from __future__ import annotations

import codecs
import json
import os
from typing import TYPE_CHECKING, Any, Self

from selftest_recorder.cast import read_cast
from selftest_recorder.cast_lines import whole_text
from selftest_recorder.cast_shapes import EXIT, INPUT, MARKER, OUTPUT, RESIZE, Header, RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_DECIMALS = 6
_GATHERED = 256 * 1024
"""Bytes after which the lines are written without being asked to."""


def encode_header(header: Header) -> bytes:
    """The first line, with its newline, of version 2 or 3 as the header says."""
    if header.version not in (2, 3):
        raise ValueError(f"asciicast of version {header.version} is not written")
    fields: dict[str, Any] = {"version": header.version}
    if header.version == 3:
        term: dict[str, Any] = {"cols": header.cols, "rows": header.rows}
        if header.term_type:
            term["type"] = header.term_type
        fields["term"] = term
    else:
        fields.update(width=header.cols, height=header.rows)
    if header.timestamp is not None:
        fields["timestamp"] = int(header.timestamp)  # the format wants whole seconds
    for name in ("idle_time_limit", "command", "title"):
        if (value := getattr(header, name)) is not None:
            fields[name] = value
    if header.env:
        fields["env"] = dict(header.env)
    return _line(fields)


def encode_event(time: float, code: str, data: str) -> bytes:
    """One line with its newline; `time` as the version wants it."""
    return _line([round(time, _DECIMALS), code, whole_text(data)])


def _line(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")).encode("utf-8", "replace") + b"\n"


class CastWriter:
    """A recording that is being written, by one process at a time. Use it as a context, or close it."""

    def __init__(self, path: Path, header: Header) -> None:
        """Begin a new file, readable by its owner alone. Raises FileExistsError where there is one: none is lost."""
        self.path = path
        self.header = header
        self.size = 0
        """Bytes written and gathered so far."""
        self.time = 0.0
        """Of the last event, in seconds since the beginning."""
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._begin()
        self._gather(encode_header(header))
        self.flush()

    def _begin(self) -> None:
        self._gathered: list[bytes] = []
        self._waiting = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @classmethod
    def going_on(cls, path: Path) -> Self:
        """Go on with a recording that a writer left, killed as it may have been: a torn last line is cut off.

        Raises RecordingError where it is none, or of a version that is not written.
        """
        recording = read_cast(path)
        if recording.header.version not in (2, 3) or recording.data_path != path:
            raise RecordingError(f"{path.name} cannot be gone on with", "Only plain recordings of v2 and v3 can.")
        time, end = 0.0, len(path.read_bytes().partition(b"\n")[0]) + 1
        for event in recording.events(growing=True):
            time, end = event.time, event.offset
        writer = cls.__new__(cls)
        writer.path, writer.header, writer.time, writer.size = path, recording.header, time, end
        writer._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.ftruncate(writer._file, end)
        writer._begin()
        return writer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def output(self, time: float, data: bytes) -> None:
        """What a program wrote. A time before the last event's is taken for that."""
        text = self._decoder.decode(data)
        if text:
            self._event(time, OUTPUT, text)

    def text(self, time: float, text: str) -> None:
        """The same, for what is text already."""
        if text:
            self._event(time, OUTPUT, text)

    def input(self, time: float, text: str) -> None:
        """What a person typed."""
        self._event(time, INPUT, text)

    def marker(self, time: float, label: str) -> None:
        """A place that has a name."""
        self._event(time, MARKER, label)

    def resize(self, time: float, cols: int, rows: int) -> None:
        """The terminal's size from now on."""
        self._event(time, RESIZE, f"{cols}x{rows}")

    def exit(self, time: float, status: int) -> None:
        """The program ended. Version 2 has no such event: there it is a marker."""
        if self.header.version == 3:
            self._event(time, EXIT, str(status))
        else:
            self._event(time, MARKER, f"exit {status}")

    def flush(self) -> None:
        """Give the system what was gathered: from here on a kill cannot lose it. Raises OSError, e.g. a full disk."""
        data = memoryview(b"".join(self._gathered))
        self._gathered, self._waiting = [], 0
        while data:
            data = data[os.write(self._file, data) :]

    @property
    def waits(self) -> bool:
        """True where something was gathered since the last flush."""
        return bool(self._gathered)

    def close(self) -> None:
        """Write the rest, a cut character too, and close the file."""
        if self._file < 0:
            return
        try:
            rest = self._decoder.decode(b"", final=True)
            if rest:
                self._event(self.time, OUTPUT, rest)
            self.flush()
        finally:
            os.close(self._file)
            self._file = -1

    def _event(self, time: float, code: str, data: str) -> None:
        # In v3 the rounded intervals are added up by the reader: rounding the sum keeps the error from growing.
        time = max(round(time, _DECIMALS), self.time)
        self._gather(encode_event(time - self.time if self.header.version == 3 else time, code, data))
        self.time = time

    def _gather(self, line: bytes) -> None:
        self._gathered.append(line)
        self._waiting += len(line)
        self.size += len(line)
        if self._waiting >= _GATHERED:
            self.flush()


def write_cast(path: Path, header: Header, events: Iterable[tuple[float, str, str]]) -> None:
    """Write a whole recording: times are absolute, codes and data as in `cast_shapes.Event`."""
    with CastWriter(path, header) as writer:
        for time, code, data in events:
            writer._event(time, code, data)
