"""Open, read and remove what agents' code may have left: no link is followed, and nothing is waited for.

Each folder is opened by its name in the open one above it, so that no link on the way counts, not even one that takes
a folder's place meanwhile. No depth, number or right that was taken away stops a removal.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH = getattr(os, "O_PATH", 0)
"""Opens what may not be read, to change its rights."""
_AT_ONCE = 1000
"""Names of a folder that are held in memory."""


@contextlib.contextmanager
def opened(top: Path, below: str = "") -> Iterator[int]:
    """Open a folder below `top`, whose own path is trusted. Raises OSError where a link or a file is on the way."""
    at = _enter(str(top))
    try:
        for name in below.split("/") if below else ():
            inner = _enter(name, at)
            os.close(at)
            at = inner
        yield at
    finally:
        os.close(at)


def _enter(name: str, at: int | None = None) -> int:
    """Open a folder, also where a test took away the right to."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=at)
    except PermissionError:
        set_mode(name, at, 0o700)
        folder = os.open(name, _FOLDER, dir_fd=at)
    mode = os.fstat(folder).st_mode
    if mode & 0o700 != 0o700:
        os.fchmod(folder, stat.S_IMODE(mode) | 0o700)
    return folder


def set_mode(name: str, at: int | None, mode: int) -> None:
    """Set the rights of a folder in the open folder `at`. Raises OSError where it is none."""
    folder = os.open(name, _PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        # Where there is no such flag there is no sandbox either, and a folder must be readable.
        os.chmod(f"/proc/self/fd/{folder}" if _PATH else folder, mode)  # noqa: PTH101
    finally:
        os.close(folder)


def read_file(name: str, at: int, largest: int) -> bytes:
    """Read a regular file in the open folder `at`. Raises OSError, and ValueError for anything else or more."""
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    with os.fdopen(file, "rb") as reading:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_size > largest:
            raise ValueError("it is no file, or too large")
        return reading.read(largest)


def remove(name: str, at: int) -> None:
    """Remove what has this name in the open folder `at`, a whole folder too. Raises OSError."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=at)
        return
    folder = _enter(name, at)
    # The way down: each folder above with its identity, and the names in it that are left. One is open at a time.
    above: list[tuple[tuple[int, int], list[str]]] = []
    left = _remove_files(folder)
    try:
        while left or above:
            if left:
                above.append((_identity(folder), left))
                folder = _replaced(folder, _enter(left[-1], folder))
                left = _remove_files(folder)
                continue
            folder = _replaced(folder, os.open("..", _FOLDER, dir_fd=folder))
            identity, left = above.pop()
            if _identity(folder) != identity:
                raise OSError(errno.EBUSY, "A folder is moved while it is removed", name)
            os.rmdir(left.pop(), dir_fd=folder)
            left = left or _remove_files(folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=at)


def _replaced(folder: int, other: int) -> int:
    os.close(folder)
    return other


def _identity(folder: int) -> tuple[int, int]:
    about = os.fstat(folder)
    return about.st_dev, about.st_ino


def _remove_files(folder: int) -> list[str]:
    """Remove files of an open folder, until some folders in it are found: their names; none where it is empty."""
    while True:
        with os.scandir(folder) as entries:
            found = [(one.name, one.is_dir(follow_symlinks=False)) for one in itertools.islice(entries, _AT_ONCE)]
        for name, is_folder in found:
            if not is_folder:
                os.unlink(name, dir_fd=folder)
        folders = [name for name, is_folder in found if is_folder]
        if folders or not found:
            return folders


def remove_tree(folder: Path) -> None:
    """Remove a folder of ours, or a file or link in its place; nothing where there is none."""
    with contextlib.suppress(FileNotFoundError), opened(folder.parent) as at:
        remove(folder.name, at)
