"""The file `.selftest/scheduled.jsonl`: a line for each scheduled run, and the lock that lets one of them run.

    {"at": "2026-11-21T02:00:00.000Z", "run": "20261121-0200-7f3a"}
    {"at": "2026-11-22T02:00:00.000Z", "skipped": "pull request 7 is open: https://…"}
    {"at": "2026-11-23T02:00:00.000Z", "skipped": "all 12 tests rest. …", "rested": [node id, …]}

The lock is that of the open file, so it ends with its process, however that ends. A line is written by one `write`,
also by a process without the lock; a line that was cut short is ignored by readers.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_core.journal import JournalError, unwritten
from selftest_core.paths import REPOSITORY_FOLDER
from selftest_core.run.store import make_own_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE_NAME = "scheduled.jsonl"


@dataclass(frozen=True, slots=True)
class ScheduledLog:
    """The open file. `has_lock`: False while another scheduled run of the repository has it."""

    path: Path
    handle: int
    has_lock: bool

    def write(self, fields: dict[str, Any]) -> None:
        """Append one line, and sync it. Raises JournalWriteError where it cannot be written."""
        size = os.fstat(self.handle).st_size
        is_cut = size > 0 and os.pread(self.handle, 1, size - 1) != b"\n"
        line = (("\n" if is_cut else "") + json.dumps(fields, separators=(",", ":")) + "\n").encode()
        try:
            if os.write(self.handle, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self.handle)
        except OSError as error:
            raise unwritten(self.path, error) from error


@contextlib.contextmanager
def scheduled_log(repository: Path) -> Iterator[ScheduledLog]:
    """Open the file of a repository, and try to lock it until the block ends.

    Raises JournalWriteError where it cannot be opened, JournalError where it cannot be locked.
    """
    path = repository / REPOSITORY_FOLDER / FILE_NAME
    try:
        make_own_folder(repository)
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unwritten(path, error) from error
    has_lock = False
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            has_lock = True
        except BlockingIOError:
            pass
        except OSError as error:  # a file system without locks
            says = error.strerror or str(error)
            raise JournalError(f"{path} cannot be locked", says, "Keep the repository on another disk.") from error
        yield ScheduledLog(path, handle, has_lock)
    finally:
        if has_lock:
            # A program that another thread is starting holds a copy of the file, and with it the lock.
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def scheduled_lines(repository: Path) -> list[dict[str, Any]]:
    """Read the lines, oldest first; none where the file is missing or cannot be read."""
    try:
        text = (repository / REPOSITORY_FOLDER / FILE_NAME).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            said = json.loads(line)
            found += [said] if isinstance(said, dict) else []
    return found
