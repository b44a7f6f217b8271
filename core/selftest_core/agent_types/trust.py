"""Trusted-project entries in the person's ~/.claude.json: mngr adds one for each agent's folder, and leaves them.

An agent has a settings folder of its own, so its entry in the person's file is of no use once the agent is made. Only
entries of folders that are named are removed, by a file that replaces the old one whole, and only where that did not
change meanwhile. Both locks are respected: mngr's (a lock on the file `.claude.json.lock`) and Claude Code's own (a
folder of that name). The backup that mngr keeps beside it is left alone.
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
    """A file as it was read: its content, and the stamp that changes with it."""

    data: bytes
    stamp: tuple[int, int, int]
    mode: int


def claude_file(environ: Mapping[str, str]) -> Path:
    """The file that mngr writes its entries into, as mngr finds it."""
    home = Path(environ.get("HOME") or "/nonexistent")
    candidates = [home / ".claude.json"]
    original = environ.get("ORIGINAL_CLAUDE_CONFIG_DIR")
    if original:
        candidates = [Path(original) / ".claude.json", Path(original).parent / ".claude.json", *candidates]
    return next((path for path in candidates if path.exists()), candidates[0])


def entries_of(file: Path, folders: Collection[str]) -> tuple[str, ...]:
    """Those of these folders that have an entry; none where the file cannot be read."""
    try:
        projects = _projects(_read(file).data)
    except (OSError, ValueError, RecursionError):
        return ()
    return tuple(sorted(folder for folder in folders if folder in projects))


def remove_entries(file: Path, folders: Collection[str]) -> str:
    """Remove the entries of these folders; returns why that was not done, empty where none of them is left."""
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
    """Replace a file whole, with its mode kept; False, and nothing is done, where it is not as it was read."""
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
    """Raises OSError, also for what is no file of this user's."""
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
    except UnicodeEncodeError:  # a half of a character, which JSON can spell and UTF-8 cannot
        return (json.dumps(document, indent=2) + end).encode()


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[bool]:
    """Hold the lock of the file, as far as nobody else does; never waits."""
    lock = file.with_name(f"{file.name}.lock")
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        lock.mkdir()  # as Claude Code does; fails where another was faster
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
