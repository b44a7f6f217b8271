"""Reader of recordings (asciicast v1, v2 and v3, plain or gzipped) as a stream.

    recording = read_cast(path)
    for event in recording.events():
        ...
    recording.problems

Valid events are returned; skipped and repaired lines become problems with their line numbers. Times are absolute and
never decrease in all versions. Every event has the offset of the next one, to continue reading there: behind a
keyframe, or in a growing recording.

The file is never held in memory, so recordings of gigabytes work too. A gzipped one is unpacked once into a cache, to
seek in it. The reader does not interpret output: that is the terminal's business.
"""

from __future__ import annotations

import json
import math
import re
import stat
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec

from selftest_core.frozen import dataclass
from selftest_recorder.cast.events import (
    CODES,
    EXIT,
    MAX_TIME,
    OUTPUT,
    RESIZE,
    USUAL_COLS,
    USUAL_ROWS,
    Event,
    Header,
    Problem,
    RecordingError,
    possible_size,
    size_of,
)
from selftest_recorder.cast.unpacking import is_gzip, is_zstd, unpacked
from selftest_recorder.onhost.writing import whole_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

MAX_LINE = 64 * 1024 * 1024
"""Longest line that is read, in bytes."""
_KEPT_PROBLEMS = 1000
_BUFFER = 1024 * 1024
_LINE = msgspec.json.Decoder(tuple[float, str, str])


class Recording:
    """A recording that `read_cast` has opened: its header, its events on demand, and its problems.

    `path`: the file that was named; `data_path`: the file of the offsets (another for a gzipped recording).
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
        """The problems so far, by line; complete once all events were read."""
        return [Problem(line, says) for line, says in sorted(self._problems.items())]

    @property
    def can_grow(self) -> bool:
        """True for a plain file of lines, which may grow; gzipped files and v1 are complete."""
        return self._first is None and self.path == self.data_path

    def events(self, offset: int = 0, time: float = 0.0, line: int = 0, *, growing: bool = False) -> Iterator[Event]:
        """Iterate over all events, or those behind the event with this `offset`, `time` and `line`.

        `growing`: an unfinished last line is not damage, but is read later. Raises RecordingError if the file cannot
        be read any more.
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
        """Note the problem of a line, once even if it is read again."""
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
        """Iterate over the events of v1, whose offsets are numbers of events."""
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
    """Open a recording, without reading events. `cache`: the folder for unpacked recordings (default: the user's).

    Raises RecordingError for other files: missing, a folder, a device, empty, or of another format.
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


class Understood(NamedTuple):
    """The contents of a line. `time` as written (v2: absolute, v3: relative), None if it is invalid.

    `code` "" is a line without an event. `says`: its problem, or "".
    """

    time: float | None
    code: str
    data: str
    says: str


def understand(line: bytes) -> Understood:
    """Parse one unusual line, which is neither blank nor a comment."""
    says = ""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text, says = line.decode("utf-8", "replace"), "bytes that are not UTF-8 were replaced"
    try:
        value = json.loads(text.lstrip("\ufeff"), strict=False)
    except (ValueError, RecursionError):
        return Understood(None, "", "", "this is no event; skipped")
    if not isinstance(value, list):
        return Understood(None, "", "", "this is no event; skipped")
    return understand_value(value, says)


def understand_value(value: list[Any], says: str = "") -> Understood:
    """Parse the list of a line, or of an element of v1."""
    time, wrong = _time_of(value[0] if value else None)
    says = says or wrong
    if len(value) < 3:
        return Understood(time, "", "", f"an event has a time, a code and data, this has {len(value)} of them; skipped")
    code, data = value[1], value[2]
    if len(value) > 3:
        says = says or "more than a time, a code and data; the rest was left out"
    if code == EXIT and isinstance(data, int) and not isinstance(data, bool):
        data = str(data)
    if not isinstance(code, str):
        return Understood(time, "", "", "the code of this event is no text; skipped")
    if code not in CODES:
        return Understood(time, "", "", "")  # a later version may have more: no damage
    if not isinstance(data, str):
        return Understood(time, "", "", "the data of this event are no text; skipped")
    return sized(Understood(time, code, whole_text(data), says))


def sized(understood: Understood) -> Understood:
    """Limit the data of a resize to a supported size."""
    if understood.code != RESIZE:
        return understood
    size = size_of(understood.data)
    if size is None:
        return Understood(understood.time, "", "", "a resize to what is no size; skipped")
    possible = possible_size(*size)
    wrong = "" if possible == size else f"a resize to {understood.data.strip()}; taken as {possible[0]}x{possible[1]}"
    return understood._replace(data=f"{possible[0]}x{possible[1]}", says=understood.says or wrong)


def _time_of(value: object) -> tuple[float | None, str]:
    """Parse a time; returns seconds and the problem. A number as a text is accepted."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None, "the time of this event is none; taken as that of the one before"
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        seconds = math.nan
    if not math.isfinite(seconds) or abs(seconds) > MAX_TIME:
        return None, "the time of this event cannot be; taken as that of the one before"
    return seconds, "the time of this event is a text" if isinstance(value, str) else ""


def read_header(line: bytes) -> Mapping[str, Any] | None:
    """Parse the object of a first line; None if there is none."""
    try:
        value = json.loads(line.decode("utf-8-sig", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def version_of(fields: Mapping[str, Any], path: Path) -> int:
    """Return the version: 1, 2 or 3. Raises RecordingError for others."""
    version = fields.get("version")
    if isinstance(version, str) and version.isascii() and version.isdigit() and len(version) < 9:
        version = int(version)
    if isinstance(version, bool) or not isinstance(version, int | float):
        raise RecordingError(f"{path.name} is no recording", "Its first line names no version of asciicast.")
    if version not in (1, 2, 3):
        raise RecordingError(f"{path.name} is asciicast of version {version:g}", "Versions 1, 2 and 3 are read.")
    return int(version)


def header_of(fields: Mapping[str, Any], version: int, complain: Callable[[str], None]) -> Header:
    """Parse the header of a first line; invalid fields are replaced and reported to `complain`."""
    term = fields.get("term") if version == 3 else None
    names = term if isinstance(term, dict) else fields
    cols_name, rows_name = ("cols", "rows") if version == 3 else ("width", "height")
    cols, rows = names.get(cols_name), names.get(rows_name)
    given = (_whole(cols), _whole(rows))
    size = (given[0] or USUAL_COLS, given[1] or USUAL_ROWS)
    possible = possible_size(*size)
    if 0 in given or possible != size:
        complain(f"the size {_shown(cols)}x{_shown(rows)} cannot be; taken as {possible[0]}x{possible[1]}")
    env = fields.get("env")
    return Header(
        version,
        *possible,
        timestamp=_number(fields.get("timestamp")),
        title=_text(fields.get("title")),
        env={
            whole_text(name): whole_text(value)
            for name, value in (env.items() if isinstance(env, dict) else ())
            if isinstance(value, str)
        },
        idle_time_limit=_number(fields.get("idle_time_limit")),
        command=_text(fields.get("command")),
        term_type=_text(names.get("type")) if version == 3 else None,
    )


def _whole(value: object) -> int:
    """Return a positive number, 0 for other values."""
    number = _number(value)
    return int(number) if number is not None and number >= 1 else 0


def _number(value: object) -> float | None:
    """Return a number that is not negative, None for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and 0 <= number < 1e12 else None


def _text(value: object) -> str | None:
    return whole_text(value) if isinstance(value, str) and value else None


def _shown(value: object) -> str:
    return str(value)[:12] if isinstance(value, int | float | str) else "?"


LIMIT = 256 * 1024 * 1024
"""Largest part of such a file that is read, in bytes."""
_EVENTS = re.compile(r'"stdout"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class FirstVersion:
    """A file of v1: its object without the events, and the text and place of the events."""

    fields: dict[str, Any]
    text: str
    begins: int

    def events(self) -> Iterator[tuple[float | None, str, int, str]]:
        """Iterate over relative time, output, line and problem. Output "" shows nothing."""
        decoder = json.JSONDecoder(strict=False)
        place, line, counted = self.begins, 1, 0
        while True:
            place = self._next(place)
            line += self.text.count("\n", counted, place)
            counted = place
            if place >= len(self.text):
                yield None, "", line, "the recording is cut off here"
                return
            if self.text[place] == "]":
                return
            try:
                value, place = decoder.raw_decode(self.text, place)
            except (ValueError, RecursionError):
                yield None, "", line, "the recording is cut off or damaged here; the rest was left out"
                return
            if not isinstance(value, list):
                yield None, "", line, "this is no event; skipped"
                continue
            if len(value) != 2:
                yield None, "", line, f"an event has a time and an output, this has {len(value)} parts; skipped"
                continue
            understood = understand_value([value[0], "o", value[1]])
            yield understood.time, understood.data if understood.code else "", line, understood.says

    def _next(self, place: int) -> int:
        found = _BETWEEN.match(self.text, place)
        return found.end() if found else place


def find_first_version(data: bytes) -> FirstVersion | None:
    """Split a file that may be v1; None for other files."""
    text = data.decode("utf-8-sig", "replace")
    if not text.lstrip().startswith("{"):
        return None
    decoder = json.JSONDecoder(strict=False)
    found = _EVENTS.search(text)
    if found is None:
        return None
    try:
        fields, _ = decoder.raw_decode(text.lstrip())
        fields.pop("stdout", None)
    except (ValueError, RecursionError):
        # Cut off: all that is said before its events is whole, in every file that asciinema wrote.
        try:
            fields = json.loads(text[: found.start()].rstrip().rstrip(",") + "}", strict=False)
        except (ValueError, RecursionError):
            return None
    return FirstVersion(fields, text, found.end())
