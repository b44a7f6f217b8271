"""Whole recordings written, asciicast v2 and v3: the header of either, and a writer for a new file.

What is written while it happens, and how a kill is survived, is `onhost.writing`'s.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Self

from selftest_recorder.onhost.writing import LineWriter, encode

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from selftest_recorder.cast.events import Header


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
    return encode(fields)


class CastWriter(LineWriter):
    """A recording of v2 or v3 that is being written, by one process at a time. Use it as a context, or close it."""

    def __init__(self, path: Path, header: Header) -> None:
        """Begin a new file, readable by its owner alone. Raises FileExistsError where there is one: none is lost."""
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
