"""Trusted-project entries in the user's ~/.claude.json: mngr adds one for each agent's folder; this removes them.

An agent has its own settings folder, so its entry in the user's file is useless once the agent is created. Only
entries of given folders are removed. The file is replaced as a whole, and only if it has not changed meanwhile. Both
locks are respected: mngr's (a lock on the file `.claude.json.lock`) and Claude Code's (a folder of that name). mngr's
backup beside it is not changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_LARGEST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Read:
    """Content of a file, and its stamp."""

    data: bytes
    stamp: tuple[int, int, int]
    mode: int


def claude_file(environ: Mapping[str, str]) -> Path:
    """Find the file into which mngr writes its entries, by mngr's own rule."""
    home = Path(environ.get("HOME") or "/nonexistent")
    candidates = [home / ".claude.json"]
    original = environ.get("ORIGINAL_CLAUDE_CONFIG_DIR")
    if original:
        candidates = [Path(original) / ".claude.json", Path(original).parent / ".claude.json", *candidates]
    return next((path for path in candidates if path.exists()), candidates[0])


def entries_of(file: Path, folders: Collection[str]) -> tuple[str, ...]:
    """List those of these folders that have an entry; none if the file cannot be read."""
    try:
        projects = _projects(_read(file).data)
    except (OSError, ValueError, RecursionError):
        return ()
    return tuple(sorted(folder for folder in folders if folder in projects))


def remove_entries(file: Path, folders: Collection[str]) -> str:
    """Remove the entries of these folders; return the reason if that failed, else ""."""
    if not entries_of(file, folders):
        return ""
    try:
        target = file.resolve(strict=True)  # a link stays a link
        with _locked(target) as is_held:
            if not is_held:
                return f"{file} is in use just now"
            before = _read(target)
            document = json.loads(before.data)
            projects = _projects(before.data)
            document["projects"] = {name: entry for name, entry in projects.items() if name not in folders}
            if not replace_unchanged(target, before, _written(document, before.data)):
                return f"{file} changed meanwhile"
    except (OSError, ValueError, RecursionError) as error:
        return f"{file} cannot be changed: {error}"
    return ""


def replace_unchanged(path: Path, before: _Read, data: bytes) -> bool:
    """Replace a file, keeping its mode; return False, and change nothing, if it has changed since it was read."""
    handle, draft = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123  # a descriptor
            file.write(data)
            os.fchmod(file.fileno(), before.mode)
            file.flush()
            os.fsync(file.fileno())
        now = _read(path)
        if (now.stamp, now.data) != (before.stamp, before.data):
            return False
        Path(draft).replace(path)
        return True
    finally:
        with contextlib.suppress(OSError):
            Path(draft).unlink(missing_ok=True)


def _read(path: Path) -> _Read:
    """Read a file. Raises OSError, also if it is no plain file of this user."""
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid() or about.st_size > _LARGEST:
            raise OSError(f"{path} is no plain file of this user's")
        data = file.read(_LARGEST + 1)
    return _Read(data, (about.st_ino, about.st_mtime_ns, about.st_size), stat.S_IMODE(about.st_mode))


def _projects(data: bytes) -> dict[str, Any]:
    document = json.loads(data)
    projects = document.get("projects") if isinstance(document, dict) else None
    return projects if isinstance(projects, dict) else {}


def _written(document: Any, before: bytes) -> bytes:
    end = "\n" if before.endswith(b"\n") else ""
    try:
        return (json.dumps(document, indent=2, ensure_ascii=False) + end).encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can have and UTF-8 cannot
        return (json.dumps(document, indent=2) + end).encode()


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[bool]:
    """Take the lock of the file without waiting; yields False if another process has it."""
    lock = file.with_name(f"{file.name}.lock")
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        lock.mkdir()  # as Claude Code does; raises if another process was faster
        try:
            yield True
        finally:
            lock.rmdir()
        return
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            yield False  # Claude Code has it
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(handle)
