"""Bounded reading of text files that agents wrote: of a long one its beginning and its end, without escape sequences.

A transcript may have gigabytes, be binary, a pipe or a link to another file: never more than `MOST` bytes are read, and
links are not followed.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from selftest_core.conversation.conversation import harmless
from selftest_recorder.report.facts import TextPart

if TYPE_CHECKING:
    from pathlib import Path

MOST = 256 * 1024
"""Bytes of one file that a page shows."""
_HEAD = 64 * 1024
_LOOKED_AT = 8192
"""Bytes that are searched for NUL, which text does not have."""


def text_size(path: Path) -> int | None:
    """Return the size of a regular file in bytes; None if there is none, or something else."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def left_out(size: int) -> int:
    """Return how many bytes of a file of this size a page does not show."""
    return max(size - MOST, 0)


def read_text(path: Path) -> tuple[TextPart | None, str]:
    """Read what a page shows of a file, and the problem with it, empty without one."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"{path.name} cannot be read: {error.strerror}"
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return None, f"{path.name} is no file"
        size = found.st_size
        if size <= MOST:
            head, tail = os.pread(handle, MOST, 0), b""
        else:
            head, tail = os.pread(handle, _HEAD, 0), os.pread(handle, MOST - _HEAD, size - (MOST - _HEAD))
    except OSError as error:
        return None, f"{path.name} cannot be read: {error.strerror}"
    finally:
        os.close(handle)
    problem = "it has binary parts, which are not shown as written" if b"\0" in head[:_LOOKED_AT] else ""
    return TextPart(_shown(head), left_out(size), _shown(tail)), problem


def _shown(data: bytes) -> str:
    return harmless(data.decode("utf-8", "replace"))
