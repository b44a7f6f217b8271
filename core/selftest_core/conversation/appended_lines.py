"""Read the lines that were appended to a file of an agent since the last reading.

The agent owns the file and its folders, so nothing in them is trusted: no link is followed, a pipe is not waited for,
one reading takes a bounded number of bytes, and a line over the limit is skipped and counted. The reading has no state:
the caller keeps the `Place` and passes it to the next reading. An incomplete last line is left for a later reading. A
file that was replaced, cut or rewritten is read from its beginning (`is_anew`).
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from pathlib import Path

LINE_LIMIT = 2 * 1024 * 1024
"""Bytes of one line. A longer one is skipped."""
READ_LIMIT = 8 * 1024 * 1024
"""Bytes of one reading. `Lines.has_more`: there are more."""

_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class Place:
    """The end of a reading. `before` are the last bytes before `offset`: other bytes there mean another file.

    `is_in_long_line`: the reading ended within a line that is being skipped.
    """

    inode: int = 0
    offset: int = 0
    before: bytes = b""
    is_in_long_line: bool = False


BEGINNING = Place()


@dataclass(frozen=True, slots=True)
class Lines:
    """One reading: complete lines without their ends. `skipped`: lines that were too long.

    `is_anew`: it is another file than that of `place`, and these lines are from its beginning: drop what was read
    before.
    """

    lines: tuple[bytes, ...]
    place: Place
    is_anew: bool = False
    skipped: int = 0
    has_more: bool = False


def read_appended(folder: Path, relative: str, place: Place = BEGINNING) -> Lines:
    """Read what was appended to `folder`/`relative` since `place`.

    No part of `relative` may be a link; `folder` itself is trusted. A file that is not there reads as empty: with
    `is_anew` if it was there before. Raises OSError if it cannot be read, and ValueError if it is no plain
    file.
    """
    try:
        handle = open_below(folder, relative)
    except FileNotFoundError:
        return Lines((), BEGINNING, is_anew=place != BEGINNING)
    try:
        return _read_from(handle, place)
    finally:
        os.close(handle)


def read_small(folder: Path, relative: str, limit: int) -> bytes:
    """Read a whole file of at most `limit` bytes. Raises OSError; ValueError if it is larger or no plain file."""
    handle = open_below(folder, relative)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("no plain file")
        if status.st_size > limit:
            raise ValueError(f"it has {status.st_size:,} bytes")
        return os.pread(handle, limit, 0)
    finally:
        os.close(handle)


def open_below(folder: Path, relative: str) -> int:
    """Open a file for reading; every folder on the way is opened without following a link. Raises OSError."""
    *parents, name = relative.split("/")
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for parent in parents:
        if parent in ("", ".", ".."):
            os.close(at)
            raise ValueError(f"{relative!r} is no plain path")
        try:
            below = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        finally:
            os.close(at)
        at = below
    try:
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)


def _read_from(handle: int, place: Place) -> Lines:
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("no plain file")
    is_anew = place != BEGINNING and not _is_same_file(handle, status, place)
    if is_anew or place == BEGINNING:
        place = Place(inode=status.st_ino)
    data = os.pread(handle, READ_LIMIT, place.offset)
    has_more = place.offset + len(data) < status.st_size and len(data) == READ_LIMIT
    lines = []
    skipped = 0
    used = 0
    is_in_long_line = place.is_in_long_line
    while (end := data.find(b"\n", used)) >= 0:
        if is_in_long_line:
            is_in_long_line = False
        elif end - used > LINE_LIMIT:
            skipped += 1
        elif end > used:
            lines.append(data[used:end])
        used = end + 1
    if is_in_long_line or len(data) - used > LINE_LIMIT:
        skipped += not is_in_long_line
        is_in_long_line = True
        used = len(data)
    before = (place.before + data[:used])[-_REMEMBERED:] if used < _REMEMBERED else data[used - _REMEMBERED : used]
    reached = Place(status.st_ino, place.offset + used, before, is_in_long_line)
    return Lines(tuple(lines), reached, is_anew, skipped, has_more)


def _is_same_file(handle: int, status: os.stat_result, place: Place) -> bool:
    if status.st_ino != place.inode or status.st_size < place.offset:
        return False
    return os.pread(handle, len(place.before), place.offset - len(place.before)) == place.before
