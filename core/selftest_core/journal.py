"""An append-only journal of JSON lines: what happened, in order, safe against crashes.

A run or a review is a fold of its journal, so a line that was acknowledged must be there after a kill -9 or a power
loss, and a line that was torn must never be taken for one that happened. So each line carries its number and a
checksum, is written by one `write` and synced, and the first line that does not fit ends what is read: all behind
it was never acknowledged to anybody, or the file was changed by someone else, and the difference is told.

One writer at a time: the file is locked as long as it is open for writing.
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
"""Seconds to wait where only readers have it, each of whom holds it for a moment."""


class JournalError(SelftestError):
    """The journal cannot be written (a full disk, a lost folder) or was changed by someone else."""


class JournalWriteError(JournalError):
    """A line cannot be written: what was written before stands, so that whoever writes it can go on later."""

    exit_status = 3


def unwritten(path: Path | str, error: OSError) -> JournalWriteError:
    """The error of a file that could not be written, with what to do."""
    way_out = "Free some space" if error.errno in _FULL else "Make it writable"
    hint = f"{way_out}; then go on: nothing that was written before is lost."
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
    """What a journal holds. `good_bytes`: the length of the whole lines. `torn`: bytes behind them, not taken.

    `is_damaged` tells a torn last line (a crash: expected) from a bad line with good ones behind it (not ours).
    """

    entries: tuple[Entry, ...]
    good_bytes: int
    torn: int = 0
    is_damaged: bool = False


def encode(entry: Entry) -> bytes:
    """One line with its newline. Keys are sorted, so that the same entry has the same bytes everywhere."""
    body = {"n": entry.number, "at": entry.at, "event": entry.event, "fields": dict(entry.fields)}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def decode(line: bytes) -> Entry | None:
    """The entry of one line without its newline, or None where the line is torn or changed."""
    checksum, _, text = line.partition(b" ")
    try:
        if len(checksum) != 8 or int(checksum, 16) != zlib.crc32(text):
            return None
        body = json.loads(text)
        return Entry(body["n"], body["at"], body["event"], body["fields"])
    except (ValueError, KeyError, TypeError):
        return None


def read(data: bytes) -> Reading:
    """Read the bytes of a journal: all whole lines up to the first that does not fit."""
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
    """True while a process holds this file, as one that appends to a journal does. Changes nothing in it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        _let_go(handle)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _let_go(handle: int) -> None:
    """Give a lock back at once: closing alone leaves it to a program that another thread is just starting, which has a
    copy of every open file until it runs."""
    fcntl.flock(handle, fcntl.LOCK_UN)


class Journal:
    """A journal open for appending, by one process at a time."""

    def __init__(self, path: Path) -> None:
        """Open or create it. Cuts a torn last line off, after a copy of it was put beside as `<name>.torn`.

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
                detail = f"Line {len(reading.entries) + 1} does not fit, and good lines follow it."
                raise JournalError(title, detail, "Put the file back as it was; nothing was written to it.")
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
        """Write one line and return when it is on the disk. On an error the file is as it was before.

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
        """Close it and give the lock back."""
        _let_go(self._file)
        os.close(self._file)

    def _lock(self) -> None:
        """Whoever asks if somebody writes holds a lock for a moment (`is_held`): that is waited out."""
        began = time.monotonic()
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                waited = time.monotonic() - began
                if waited > _READERS or (waited > _PATIENCE and self._has_writer()):
                    title = f"{self.path.parent.name} is open in another process"
                    raise RefusedError(title, str(self.path), "Leave it there, or end that process first.") from error
            time.sleep(_STEP)

    def _has_writer(self) -> bool:
        """False where all that is in the way are readers, one of whom is held up itself."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        _let_go(self._file)
        return False

    def _require_its_place(self) -> None:
        """Whoever had the lock before may have removed it: what were written then would be in no folder."""
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
    """A new file is only there after a power loss when its folder was synced."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
