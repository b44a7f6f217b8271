"""Keep a folder in which agents' code runs the same as one in which none does.

The walk is ours: git, told of a folder where code ran, believes what it finds there. A file is left as it is only where
both sides are as they were when it was copied. Of that, the time of the last change of its inode cannot be forged.
"""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import time
from typing import TYPE_CHECKING

from selftest_core.verify.folders.hostile import opened, remove, set_mode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

type _State = tuple[int, int, int, int, int]

_AT_ONCE = 1000
"""Surplus names of one folder that are held in memory."""
_PART = 1 << 20
_TICK = 20_000_000
"""Nanoseconds in which a file may change twice and keep its times: the kernel's clock of files goes in ticks."""


class Mirror:
    """`target`, made and kept the same as `source`: names, contents, links and rights."""

    def __init__(self, source: Path, target: Path) -> None:
        self._source, self._target = source, target
        self._copied: dict[str, tuple[_State, _State]] = {}
        self._doubted: set[str] = set()

    def update(self) -> None:
        """Bring the target to the state of the source. Raises OSError."""
        before, self._copied = self._copied, {}
        doubted, self._doubted = self._doubted, set()
        copied: list[str] = []
        folders = [""]
        while folders:
            folder = folders.pop()
            wanted = self._wanted(folder)
            with opened(self._target, folder) as at:
                there = _tidied(at, wanted)
                for name, about in wanted.items():
                    path = f"{folder}/{name}" if folder else name
                    found = there.get(name)
                    if stat.S_ISDIR(about.st_mode):
                        folders.append(path)
                        _have_folder(name, at, about, found)
                        continue
                    both = None if found is None else (_state(about), _state(found))
                    is_kept = both is not None and both == before.get(path)
                    if is_kept and path in doubted:
                        is_kept = _is_same(self._source / path, name, at, about)
                    if both is not None and is_kept:
                        self._copied[path] = both
                        continue
                    if found is not None:
                        remove(name, at)
                    _copy(self._source / path, name, at, about)
                    made = os.stat(name, dir_fd=at, follow_symlinks=False)
                    self._copied[path] = (_state(about), _state(made))
                    copied.append(path)
        # What changed a moment ago could change once more without a trace: its content is compared the next time.
        latest = time.time_ns() - _TICK
        self._doubted = {path for path in copied if max(both[4] for both in self._copied[path]) > latest}

    def surplus(self, most: int) -> list[str]:
        """List what the target holds beyond the source, whole folders as one; ends after `most`.

        Bytecode of Python is left out, and so is what lies in a folder that is empty in the source: a submodule's.
        """
        found: list[str] = []
        folders = [""]
        while folders:
            folder = folders.pop()
            wanted = self._wanted(folder)
            if not wanted and folder:
                continue
            with opened(self._target, folder) as at, os.scandir(at) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    about = wanted.get(entry.name)
                    if about is None and entry.name != "__pycache__":
                        found.append(path)
                        if len(found) >= most:
                            return sorted(found)
                    elif about is not None and stat.S_ISDIR(about.st_mode) and entry.is_dir(follow_symlinks=False):
                        folders.append(path)
        return sorted(found)

    def _wanted(self, folder: str) -> dict[str, os.stat_result]:
        with os.scandir(self._source / folder) as entries:
            return {entry.name: entry.stat(follow_symlinks=False) for entry in entries}


def _tidied(at: int, wanted: dict[str, os.stat_result]) -> dict[str, os.stat_result]:
    """Remove what is not wanted from an open folder, and return what is there."""
    there: dict[str, os.stat_result] = {}

    def surplus(entries: Iterator[os.DirEntry[str]]) -> Iterator[str]:
        for entry in entries:
            if entry.name in wanted:
                there[entry.name] = entry.stat(follow_symlinks=False)
            else:
                yield entry.name

    while True:
        with os.scandir(at) as entries:
            names = list(itertools.islice(surplus(entries), _AT_ONCE))
        for name in names:
            remove(name, at)
        if len(names) < _AT_ONCE:
            return there


def _have_folder(name: str, at: int, about: os.stat_result, found: os.stat_result | None) -> None:
    if found is not None and not stat.S_ISDIR(found.st_mode):
        remove(name, at)
        found = None
    if found is None:
        os.mkdir(name, dir_fd=at)
    if found is None or found.st_mode != about.st_mode:
        set_mode(name, at, stat.S_IMODE(about.st_mode))


def _copy(source: Path, name: str, at: int, about: os.stat_result) -> None:
    if stat.S_ISLNK(about.st_mode):
        os.symlink(source.readlink(), name, dir_fd=at)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with source.open("rb") as reading, os.fdopen(os.open(name, flags, 0o600, dir_fd=at), "wb") as writing:
        shutil.copyfileobj(reading, writing)
        os.fchmod(writing.fileno(), stat.S_IMODE(about.st_mode))


def _is_same(source: Path, name: str, at: int, about: os.stat_result) -> bool:
    """True for a copy of the same size with the same content."""
    if stat.S_ISLNK(about.st_mode):
        return os.readlink(name, dir_fd=at) == str(source.readlink())
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with source.open("rb") as one, os.fdopen(os.open(name, flags, dir_fd=at), "rb") as other:
        while part := one.read(_PART):
            if other.read(_PART) != part:
                return False
    return True


def _state(about: os.stat_result) -> _State:
    return about.st_mode, about.st_size, about.st_ino, about.st_mtime_ns, about.st_ctime_ns
