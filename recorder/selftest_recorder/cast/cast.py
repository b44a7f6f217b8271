"""Recordings of terminals (asciicast v1, v2 and v3, plain or gzipped), read as a stream.

    recording = read_cast(path)
    for event in recording.events():
        ...
    recording.problems

What is whole is shown; what was skipped or mended is said, with its line. Times are absolute and never go back,
whatever the version says, and every event says where its successor begins, so that one can read on from there: behind
a keyframe, or in a recording that is still being written.

Nothing of a whole file is held, so a recording of gigabytes is as good as a small one. A gzipped one is unpacked once
into a cache, since nothing can be found inside it. It must not interpret output: that is for a terminal.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from selftest_recorder.cast.events import (  # fmt: skip
    CODES,
    MAX_TIME,
    OUTPUT,
    RESIZE,
    Event,
    Header,
    Problem,
    RecordingError,
)
from selftest_recorder.cast.lines import header_of, read_header, understand, version_of
from selftest_recorder.cast.unpacking import is_gzip, is_zstd, unpacked
from selftest_recorder.cast.version_1 import LIMIT, FirstVersion, find_first_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAX_LINE = 64 * 1024 * 1024
"""Bytes of the longest line that is read."""
_KEPT_PROBLEMS = 1000
_BUFFER = 1024 * 1024
_LINE = msgspec.json.Decoder(tuple[float, str, str])


class Recording:
    """A recording that `read_cast` has opened: its header, its events on demand, and what was wrong with it.

    `path` is the file that was named, `data_path` the one that offsets are of (another where it was packed).
    """

    def __init__(self, path: Path, data_path: Path, header: Header, begins: int, first: FirstVersion | None) -> None:
        self.path = path
        self.data_path = data_path
        self.header = header
        self.begins = begins
        """The offset of the first event's line."""
        self._first = first
        self._problems: dict[int, str] = {}
        self.unlisted_problems = 0
        """How many more there were than are listed."""

    @property
    def problems(self) -> list[Problem]:
        """What was found wrong so far, by line: complete once the events were read to their end."""
        return [Problem(line, says) for line, says in sorted(self._problems.items())]

    @property
    def can_grow(self) -> bool:
        """True where more may come: a plain file of lines. A packed one, or one of v1, was finished when made."""
        return self._first is None and self.path == self.data_path

    def events(self, offset: int = 0, time: float = 0.0, line: int = 0, *, growing: bool = False) -> Iterator[Event]:
        """All events, or those behind the one that had this `offset`, `time` and `line`.

        `growing`: an unfinished last line is one that is being written, to be read later, and no damage. Raises
        RecordingError where the file is gone or cannot be read any more.
        """
        if self._first is not None:
            yield from self._first_events(self._first, offset, time)
            return
        try:
            with self.data_path.open("rb", buffering=_BUFFER) as file:
                file.seek(max(offset, self.begins))
                yield from self._line_events(file, time, max(line, 1), growing)
        except OSError as error:
            raise RecordingError(f"{self.path.name} cannot be read", error.strerror or str(error)) from error

    def complain(self, line: int, says: str) -> None:
        """Note what is wrong with a line; once, however often it is read."""
        if line in self._problems:
            return
        if len(self._problems) >= _KEPT_PROBLEMS:
            self.unlisted_problems += 1
            return
        self._problems[line] = says

    def _line_events(self, file: BinaryIO, time: float, number: int, growing: bool) -> Iterator[Event]:
        is_relative = self.header.version == 3
        place = file.tell()
        decode, readline = _LINE.decode, file.readline
        while line := readline(MAX_LINE):
            is_last = not line.endswith(b"\n")
            if is_last and len(line) >= MAX_LINE:
                place = _skip_line(file)
                number += 1
                self.complain(number, f"a line of more than {MAX_LINE // 1024 // 1024} MiB; skipped")
                continue
            if is_last and growing and not line.rstrip().endswith(b"]"):
                return
            place += len(line)
            number += 1
            stripped = line.strip()
            if not stripped or stripped[0] == 35:  # a comment of v3, and harmless in v2
                continue
            says = ""
            try:
                given: float | None
                given, code, data = decode(stripped)
                if code == RESIZE or code not in CODES or not -MAX_TIME <= given <= MAX_TIME:
                    raise msgspec.ValidationError
            except (msgspec.DecodeError, UnicodeDecodeError):
                given, code, data, says = understand(stripped)
                if is_last and not code and says:
                    if growing:
                        return
                    says = "the recording is cut off here"
            if given is not None:
                then = time + given if is_relative else given
                if then < time:
                    says = says or "the time goes back; taken as that of the event before"
                else:
                    time = then
            if says:
                self.complain(number, says)
            if code:
                yield Event(time, code, data, place, number)

    def _first_events(self, first: FirstVersion, offset: int, time: float) -> Iterator[Event]:
        """Here an offset is the number of the events up to there."""
        for number, (interval, data, line, says) in enumerate(first.events(), start=1):
            if says:
                self.complain(line, says)
            if number <= offset:
                continue
            if interval is not None and interval >= 0:
                time += interval
            elif interval is not None:
                self.complain(line, "the time goes back; taken as that of the event before")
            if data:
                yield Event(time, OUTPUT, data, number, line)


def read_cast(path: Path, cache: Path | None = None) -> Recording:
    """Open a recording; no event is read yet. `cache`: the folder where a packed one is unpacked (else the user's).

    Raises RecordingError for what is none: a missing file, a folder, a device, an empty file, another format.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RecordingError(f"{path.name} is no recording", "It is no file.")
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        raise RecordingError(f"{path.name} cannot be read", error.strerror or str(error)) from error
    if is_zstd(head):
        hint = f"Unpack it first: zstd -d {path.name}"
        raise RecordingError(f"{path.name} is packed with zstd", "Plain and gzipped recordings are read.", hint)
    if is_gzip(head):
        unpacking = unpacked(path, cache)
        recording = _open(path, unpacking.path)
        if unpacking.says:
            recording.complain(unpacking.last_line, unpacking.says)
        return recording
    return _open(path, path)


def _open(path: Path, data_path: Path) -> Recording:
    try:
        with data_path.open("rb") as file:
            line = file.readline(MAX_LINE)
            fields = read_header(line)
            first = None
            may_be_first = not line.strip() or line.lstrip(b"\xef\xbb\xbf \t").startswith(b"{")
            if (fields is None and may_be_first) or (fields and fields.get("version") in (1, "1")):
                file.seek(0)
                first = find_first_version(file.read(LIMIT))
    except OSError as error:
        raise RecordingError(f"{path.name} cannot be read", error.strerror or str(error)) from error
    if first is not None:
        fields = first.fields
    if not line.strip() and first is None:
        detail = "It is empty." if not line else "Its first line is empty."
        raise RecordingError(f"{path.name} is no recording", detail)
    if fields is None:
        raise RecordingError(f"{path.name} is no recording", "Its first line is no header of asciicast.")
    version = version_of(fields, path)
    if version == 1 and first is None:
        raise RecordingError(f"{path.name} is no recording", "It has the header of asciicast v1, and no `stdout`.")
    said: list[str] = []
    header = header_of(fields, version, said.append)
    recording = Recording(path, data_path, header, len(line), first)
    for says in said:
        recording.complain(1, says)
    return recording


def _skip_line(file: BinaryIO) -> int:
    while (part := file.readline(_BUFFER)) and not part.endswith(b"\n"):
        pass
    return file.tell()
