"""Writer of whole recordings, asciicast v2 and v3, and changes to finished ones: masks and markers.

Writing line by line, safe against kills, is in `onhost.writing`.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from selftest_recorder.cast.events import INPUT, MARKER, OUTPUT, RecordingError
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.onhost.masking import Masker
from selftest_recorder.onhost.writing import LineWriter, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from selftest_recorder.cast.events import Header
    from selftest_recorder.cast.reader import Recording
    from selftest_recorder.onhost.masking import Secrets


def encode_header(header: Header) -> bytes:
    """Return the first line, with its newline, for the version of the header."""
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
    return encode(fields)


class CastWriter(LineWriter):
    """Writer of a recording of v2 or v3, by one process at a time. Use it as a context, or close it."""

    def __init__(self, path: Path, header: Header) -> None:
        """Create a new file, readable by its owner alone. Raises FileExistsError if there is one."""
        first = encode_header(header)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        super().__init__(os.open(path, flags, 0o600), is_relative=header.version == 3)
        self.path = path
        self.header = header
        self.gather(first)
        self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def write_cast(path: Path, header: Header, events: Iterable[tuple[float, str, str]]) -> None:
    """Write a whole recording: times are absolute, codes and data as in `cast.events.Event`."""
    with CastWriter(path, header) as writer:
        for time, code, data in events:
            writer.event(time, code, data)


_CLOSE_BY = 20.0
"""Seconds between two markers of one label that count as equal, since screens and logs are late."""


def mask_file(path: Path, secrets: Secrets) -> None:
    """Mask the output of a recording; damaged lines are dropped. A file without secrets is not changed.

    Raises RecordingError for other files, OSError if it cannot be written.
    """
    if not secrets:
        return
    with _anew(path) as (recording, writer):
        _write_masked(recording, writer, secrets)


def add_markers(path: Path, markers: Sequence[tuple[float, str]]) -> None:
    """Add markers to a recording, each at its time since the epoch; damaged lines are dropped.

    Raises RecordingError for other files and for a recording without a start; OSError if it cannot be written.
    """
    with _anew(path) as (recording, writer):
        began = recording.header.timestamp
        if began is None:
            raise RecordingError(f"{path.name} does not say when it began", "So no time of day can be found in it.")
        waiting = sorted((max(at - began, 0.0), label) for at, label in markers)
        for event in recording.events():
            while waiting and waiting[0][0] < event.time:
                writer.marker(*waiting.pop(0))
            writer.event(event.time, event.code, event.data)
        for time, label in waiting:
            writer.marker(time, label)


def add_missing_markers(path: Path, markers: Sequence[tuple[float, str]]) -> None:
    """Add those markers to a recording that it does not have yet, as `add_markers` does.

    Markers with the same label and nearly the same time are equal. Markers outside of the recording are dropped.
    """
    recording = read_cast(path)
    began = recording.header.timestamp
    known: dict[str, list[float]] = {}
    end = 0.0
    for event in recording.events():
        end = event.time
        if event.code == MARKER:
            known.setdefault(event.data, []).append(event.time)
    missing: list[tuple[float, str]] = []
    for at, label in markers:
        time = at - (began or 0.0)
        times = known.get(label, [])
        same = next((one for one in times if abs(one - time) <= _CLOSE_BY), None)
        if same is not None:
            times.remove(same)  # it matches one marker only
        elif 0.0 <= time <= end:
            missing.append((at, label))
    if missing:
        add_markers(path, missing)


@contextlib.contextmanager
def _anew(path: Path) -> Iterator[tuple[Recording, CastWriter]]:
    recording = read_cast(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.anew")
    try:
        with CastWriter(draft, replace(recording.header, version=max(recording.header.version, 2))) as writer:
            yield recording, writer
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _write_masked(recording: Recording, writer: CastWriter, secrets: Secrets) -> None:
    shown, typed = Masker(secrets), Masker(secrets)
    time = 0.0
    for event in recording.events():
        time = event.time
        if event.code == OUTPUT:
            writer.output(time, shown.feed(event.data.encode()))
        elif event.code == INPUT:
            writer.input(time, typed.feed(event.data.encode()).decode("utf-8", "replace"))
        else:
            writer.event(time, event.code, event.data)
    writer.output(time, shown.close())
    rest = typed.close().decode("utf-8", "replace")
    if rest:
        writer.input(time, rest)
