"""Append-only journal of JSON lines, safe against crashes.

A run or a review is a fold of its journal. An acknowledged line must survive a kill -9 or a power loss, and an
incomplete line must never be read as an event. So each line has its number and a checksum, is written by one `write`
and synced, and reading ends at the first line that does not match: the lines after it were never acknowledged, or
another program changed the file (`is_damaged`).

One writer at a time: the file is locked while it is open for writing.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
import zlib
from typing import TYPE_CHECKING, Any, Self

from selftest_core.errors import RefusedError, SelftestError
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MAX_LINE = 16 * 1024 * 1024
_PATIENCE, _STEP = 2.0, 0.01
"""Seconds to wait for a lock that another writer has, and between two tries."""
_READERS = 60.0
"""Seconds to wait while only readers have it, each for a moment."""


class JournalError(SelftestError):
    """The journal cannot be written (a full disk, a missing folder) or was changed by another program."""


class JournalWriteError(JournalError):
    """A line cannot be written. Earlier lines are kept, so that the writer can continue later."""

    exit_status = 3


def unwritten(path: Path | str, error: OSError) -> JournalWriteError:
    """Make the error for a file that cannot be written, with what to do."""
    way_out = "Free some space" if error.errno in _FULL else "Make it writable"
    hint = f"{way_out}; then continue: nothing that was written before is lost."
    return JournalWriteError(f"Cannot write {path}", error.strerror or str(error), hint)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line: its number (from 1), when it was written (seconds since the epoch, UTC), its event and fields."""

    number: int
    at: float
    event: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """Content of a journal. `good_bytes`: the length of the valid lines. `torn`: bytes after them.

    `is_damaged`: there are valid lines after an invalid one. An incomplete last line alone is the expected result of a
    crash.
    """

    entries: tuple[Entry, ...]
    good_bytes: int
    torn: int = 0
    is_damaged: bool = False


def encode(entry: Entry) -> bytes:
    """Encode one line with its newline. Keys are sorted, so that equal entries have equal bytes."""
    body = {"n": entry.number, "at": entry.at, "event": entry.event, "fields": dict(entry.fields)}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def decode(line: bytes) -> Entry | None:
    """Decode one line without its newline; None if it is incomplete or changed."""
    checksum, _, text = line.partition(b" ")
    try:
        if len(checksum) != 8 or int(checksum, 16) != zlib.crc32(text):
            return None
        body = json.loads(text)
        return Entry(body["n"], body["at"], body["event"], body["fields"])
    except (ValueError, KeyError, TypeError):
        return None


def read(data: bytes) -> Reading:
    """Decode a journal: all lines up to the first invalid one."""
    entries: list[Entry] = []
    position = 0
    while (end := data.find(b"\n", position)) >= 0:
        entry = decode(data[position:end])
        if entry is None or entry.number != len(entries) + 1:
            break
        entries.append(entry)
        position = end + 1
    rest = data[position:]
    later = (decode(line) for line in rest.split(b"\n")[1:])
    return Reading(tuple(entries), position, len(rest), any(entry is not None for entry in later))


def is_held(path: Path) -> bool:
    """True while a process has the file locked, as a writer of a journal does. Changes nothing in it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        _unlock(handle)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _unlock(handle: int) -> None:
    """Release a lock explicitly: after closing alone, a program that another thread is starting still holds it, with a
    copy of every open file."""
    fcntl.flock(handle, fcntl.LOCK_UN)


class Journal:
    """A journal that is open for appending, by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Open or create it. An incomplete last line is moved to `<name>.torn`.

        Raises RefusedError when another process has it open, JournalError when it is damaged in the middle.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._lock()
            self._require_its_place()
            reading = read(path.read_bytes())
            if reading.is_damaged:
                title = f"{path.name} was changed by another program"
                detail = f"Line {len(reading.entries) + 1} is invalid, and valid lines follow it."
                raise JournalError(title, detail, "Restore the file; nothing was written to it.")
            if reading.torn:
                self._put_aside(reading)
            self.entries = list(reading.entries)
            self._end = reading.good_bytes
            _sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def append(self, event: str, at: float, **fields: Any) -> Entry:
        """Write one line, and return when it is on the disk. After an error the file is unchanged.

        `fields` must be JSON. Raises JournalWriteError when it cannot be written.
        """
        entry = Entry(len(self.entries) + 1, at, event, fields)
        line = encode(entry)
        if len(line) > _MAX_LINE:
            raise JournalError(f"A line of {len(line)} bytes is too long for the journal", f"event {event}")
        try:
            written = os.pwrite(self._file, line, self._end)
            if written != len(line):
                raise OSError(errno.ENOSPC, f"only {written} of {len(line)} bytes were written")
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, self._end)
            raise unwritten(self.path, error) from error
        self._end += len(line)
        self.entries.append(entry)
        return entry

    def close(self) -> None:
        """Close the file and release the lock."""
        _unlock(self._file)
        os.close(self._file)

    def _lock(self) -> None:
        """Lock the file, waiting for readers, which have it for a moment (`is_held`)."""
        began = time.monotonic()
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                waited = time.monotonic() - began
                if waited > _READERS or (waited > _PATIENCE and self._has_writer()):
                    title = f"{self.path.parent.name} is open in another process"
                    raise RefusedError(title, str(self.path), "Use it there, or end that process first.") from error
            time.sleep(_STEP)

    def _has_writer(self) -> bool:
        """False if only readers have the lock."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        _unlock(self._file)
        return False

    def _require_its_place(self) -> None:
        """Refuse a file that was removed before it was locked: it would be in no folder."""
        try:
            is_there = os.path.samestat(os.fstat(self._file), self.path.stat())
        except FileNotFoundError:
            is_there = False
        if not is_there:
            raise RefusedError(f"{self.path.parent.name} was removed just now", str(self.path), "Open it anew.")

    def _put_aside(self, reading: Reading) -> None:
        torn = os.pread(self._file, reading.torn, reading.good_bytes)
        self.path.with_name(f"{self.path.name}.torn").write_bytes(torn)
        os.ftruncate(self._file, reading.good_bytes)
        os.fsync(self._file)


def _sync_folder(folder: Path) -> None:
    """Sync a folder: without that a new file may be missing after a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
