"""Which demo folders exist, whose they are, and whether their demo still runs.

A demo's folder carries a marker that its process holds locked (`flock`) for as long as it lives. The kernel drops the
lock however the process ends, kill -9 included, and never confuses it with a later process of the same number. The
marker appears already locked, by a rename, so that nobody can find it between making and locking.

Folders are found by their names in the temporary folder, and by notes in the state folder for demos that were
started with another TMPDIR. Nothing counts as ours unless it is a real folder of this user whose marker names that
very folder: a copy of a demo, or a link to one, is somebody's own and never touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.paths import state_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "selftest-demo-"
MARKER = ".selftest-demo"
_SOCKET_LIMIT = 100
"""Bytes that a Unix socket's path may have on every system (Linux 107, macOS 103), with some to spare."""


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The folder of one demo. `is_live`: its process runs; `is_kept`: it was asked to stay (`--keep`)."""

    path: Path
    pid: int
    is_live: bool
    is_kept: bool


class Claim:
    """A new demo folder that is ours until `release`, or until this process ends in whatever way."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_short_folder(environ))).resolve()
        self._note = _notes(environ) / self.path.name
        self._lock = os.open(self.path / f"{MARKER}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._write(is_kept=False)
        (self.path / f"{MARKER}.new").rename(self.path / MARKER)
        with contextlib.suppress(OSError):  # a read-only state folder: the name in the temporary folder is enough
            self._note.parent.mkdir(parents=True, exist_ok=True)
            self._note.write_text(str(self.path), encoding="utf-8")

    def keep(self) -> None:
        """Let the folder stay after us, until `sweep` is told to remove it."""
        self._write(is_kept=True)

    def release(self) -> None:
        """Give up the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _write(self, *, is_kept: bool) -> None:
        text = json.dumps({"folder": str(self.path), "pid": os.getpid(), "kept": is_kept})
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, text.encode(), 0)


def demo_folders(environ: Mapping[str, str]) -> tuple[DemoFolder, ...]:
    """Every demo folder of this user that can be found, by path. Drops the notes of folders that are gone."""
    found: dict[Path, DemoFolder] = {}
    for path in _candidates(environ):
        folder = _read(path)
        if folder is not None:
            found[folder.path] = folder
    return tuple(found[path] for path in sorted(found))


def still_ours_to_remove(folder: DemoFolder) -> bool:
    """Look again, at the last moment: the folder is a demo's, this user's, and nobody holds it."""
    now = _read(folder.path)
    return now is not None and not now.is_live


def forget(environ: Mapping[str, str], path: Path) -> None:
    """Drop the note of a folder that is gone."""
    with contextlib.suppress(OSError):  # read-only state folder: there is no note then
        (_notes(environ) / path.name).unlink(missing_ok=True)


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    yield from _short_folder(environ).glob(f"{PREFIX}*")
    for note in _notes(environ).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, UnicodeDecodeError):  # removed meanwhile, or no note of ours
            path = Path(note.read_text(encoding="utf-8"))
            if path.is_absolute() and path.name == note.name:
                if not path.is_dir():
                    note.unlink(missing_ok=True)
                yield path


def _read(path: Path) -> DemoFolder | None:
    """The demo folder at a path; None where it is none of this user's."""
    try:
        about = path.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or not path.name.startswith(PREFIX):
            return None
        marker = os.open(path / MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        said = json.loads(os.pread(marker, 65536, 0))
        if os.fstat(marker).st_uid != os.geteuid() or said["folder"] != str(path.resolve()):
            return None
        return DemoFolder(Path(said["folder"]), int(said["pid"]), _is_locked(marker), bool(said["kept"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    finally:
        os.close(marker)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _notes(environ: Mapping[str, str]) -> Path:
    return state_folder(environ) / "demos"


def _short_folder(environ: Mapping[str, str]) -> Path:
    """Where a demo's sockets have short enough paths and its programs may run."""
    longest = len(os.fsencode(f"/{PREFIX}12345678/t/tmux-{os.getuid()}/default"))
    for folder in (environ.get("TMPDIR") or "/tmp", "/tmp"):
        if Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK):
            resolved = Path(folder).resolve()
            # mngr finds an agent's program by the first word of its command: no blank may be in the way to it.
            is_plain = re.fullmatch(r"[\w./+-]+", str(resolved)) is not None
            if is_plain and len(os.fsencode(resolved)) + longest <= _SOCKET_LIMIT:
                return resolved
    raise SelftestError(
        "There is no temporary folder for the demo",
        "Sockets need a writable folder with a short path; neither TMPDIR nor /tmp is one.",
        "Set TMPDIR to a writable folder with a short path.",
    )
