"""Folders of demos and of end-to-end tests: claim one, find them, end everything that runs in one, and remove it.

A demo's folder has a marker that its process keeps locked (`flock`) as long as it runs. The kernel releases the lock
however the process ends, kill -9 included, and never confuses it with a later process of the same number. The marker
is locked before it gets its name, so nobody finds it unlocked.

Folders are found by their names in the temporary folder, and by notes in the state folder for demos that were started
with another TMPDIR. A folder is only ours if it is a real folder of this user whose marker names it: copies and links
are never touched.

Processes of a demo are recognised by the MNGR_HOST_DIR that they inherited, which only they have; this finds those
that left every process group and session (helpers of mngr, daemons). On Linux a pidfd holds them while that is
checked, so that a reused process id is never hit.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError, ToolError
from selftest_core.frozen import dataclass
from selftest_core.paths import state_folder
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

PREFIX = "selftest-demo-"
TEST_PREFIX = "selftest-e2e-"
_OWNERS = {PREFIX: "a demo", TEST_PREFIX: "an end-to-end test"}
MARKER = ".selftest-demo"
_SOCKET_LIMIT = 100
"""Most bytes of a Unix socket's path on every system (Linux 107, macOS 103), with a margin."""
PATIENCE = 60.0
"""Seconds to wait for processes to end."""


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The folder of one demo. `is_live`: its process runs; `is_kept`: it was asked to stay (`--keep`)."""

    path: Path
    pid: int
    is_live: bool
    is_kept: bool


class Claim:
    """A new folder, locked until `release` or until this process ends. Only a demo's has a note in the state folder."""

    def __init__(self, environ: Mapping[str, str], prefix: str = PREFIX) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=_short_folder(environ))).resolve()
        self._note = _notes(environ) / self.path.name
        self._lock = os.open(self.path / f"{MARKER}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._write(is_kept=False)
        (self.path / f"{MARKER}.new").rename(self.path / MARKER)
        if prefix == PREFIX:
            with contextlib.suppress(OSError):  # a read-only state folder: the name in the temporary folder is enough
                self._note.parent.mkdir(parents=True, exist_ok=True)
                self._note.write_text(str(self.path), encoding="utf-8")

    def keep(self) -> None:
        """Keep the folder after this process, until `sweep` removes it."""
        self._write(is_kept=True)

    def release(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _write(self, *, is_kept: bool) -> None:
        text = json.dumps({"folder": str(self.path), "pid": os.getpid(), "kept": is_kept})
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, text.encode(), 0)


def demo_folders(environ: Mapping[str, str]) -> tuple[DemoFolder, ...]:
    """Find all demo folders of this user, by path. Remove the notes of folders that are gone."""
    found: dict[Path, DemoFolder] = {}
    for path in _candidates(environ):
        folder = _read(path)
        if folder is not None:
            found[folder.path] = folder
    return tuple(found[path] for path in sorted(found))


def still_ours_to_remove(folder: DemoFolder) -> bool:
    """Check again that the folder is a demo's and this user's, and that nobody holds its lock."""
    now = _read(folder.path)
    return now is not None and not now.is_live


def forget(environ: Mapping[str, str], path: Path) -> None:
    """Remove the note of a folder that is gone."""
    with contextlib.suppress(OSError):  # read-only state folder: there is no note then
        (_notes(environ) / path.name).unlink(missing_ok=True)


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    for prefix in _OWNERS:
        yield from _short_folder(environ).glob(f"{prefix}*")
    for note in _notes(environ).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError, UnicodeDecodeError):  # removed meanwhile, or no note of ours
            path = Path(note.read_text(encoding="utf-8"))
            if path.is_absolute() and path.name == note.name:
                if not path.is_dir():
                    note.unlink(missing_ok=True)
                yield path


def _read(path: Path) -> DemoFolder | None:
    """Read the demo folder at a path; None if it is not one of this user."""
    try:
        about = path.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or not path.name.startswith(tuple(_OWNERS)):
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
    """Choose a temporary folder where sockets have short paths and programs may run."""
    longest = len(os.fsencode(f"/{PREFIX}12345678/t/tmux-{os.getuid()}/default"))
    for folder in (environ.get("TMPDIR") or "/tmp", "/tmp"):
        if Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK):
            resolved = Path(folder).resolve()
            # mngr finds an agent's program by the first word of its command, so its path must not contain a blank.
            is_plain = re.fullmatch(r"[\w./+-]+", str(resolved)) is not None
            if is_plain and len(os.fsencode(resolved)) + longest <= _SOCKET_LIMIT:
                return resolved
    raise SelftestError(
        "There is no temporary folder for the demo",
        "Sockets need a writable folder with a short path; neither TMPDIR nor /tmp is one.",
        "Set TMPDIR to a writable folder with a short path.",
    )


# Leftovers


@dataclass(frozen=True, slots=True)
class Leftover:
    """The folder of an ended demo. `says`: its description."""

    folder: DemoFolder
    says: str

    @property
    def is_kept(self) -> bool:
        """True if the user asked to keep it."""
        return self.folder.is_kept


@dataclass(frozen=True, slots=True)
class Swept:
    """The result of removing a leftover. `problems`: messages; empty when it is gone."""

    leftover: Leftover
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if nothing of it is left."""
        return not self.problems


def leftovers(environ: Mapping[str, str]) -> tuple[Leftover, ...]:
    """Find the leftovers of demos."""
    found = []
    for folder in demo_folders(environ):
        if not folder.is_live:
            running = len(processes_of(folder.path))
            owner = next(owner for prefix, owner in _OWNERS.items() if folder.path.name.startswith(prefix))
            what = f"{owner} kept on request" if folder.is_kept else f"{owner} whose process ({folder.pid}) was killed"
            processes = f"{running} process{'' if running == 1 else 'es'} still running"
            found.append(Leftover(folder, f"{folder.path}: {what}, {processes}"))
    return tuple(found)


def sweep(found: Sequence[Leftover], environ: Mapping[str, str]) -> tuple[Swept, ...]:
    """Remove these leftovers; check each again before."""
    return tuple(_swept(one, environ) for one in found)


def sweep_dead_demos(environ: Mapping[str, str]) -> tuple[Swept, ...]:
    """Remove the leftovers of killed demos; keep those of `--keep`."""
    return sweep([one for one in leftovers(environ) if not one.is_kept], environ)


def _swept(leftover: Leftover, environ: Mapping[str, str]) -> Swept:
    if not leftover.folder.path.exists():
        return Swept(leftover)
    if not still_ours_to_remove(leftover.folder):
        return Swept(leftover, (f"{leftover.folder.path} changed meanwhile: kept",))
    problems = end_world(leftover.folder.path)
    if not problems:
        forget(environ, leftover.folder.path)
    return Swept(leftover, problems)


# The end of a demo


def host_dir_of(root: Path) -> Path:
    """Return the MNGR_HOST_DIR of the demo at `root`."""
    return root / "m"


def tmux_dir_of(root: Path) -> Path:
    """Return the TMUX_TMPDIR of the demo at `root`."""
    return root / "t"


def end_world(root: Path) -> tuple[str, ...]:
    """End all processes of the demo at `root` and remove its folder; return messages about what failed."""
    deadline = time.monotonic() + PATIENCE
    left = _end_processes(root, deadline)
    problems = [f"process {pid} does not end" for pid in left]
    while _remove(root) and time.monotonic() < deadline:
        # A process that was just starting, such as mngr, wrote a file meanwhile: search for processes again.
        _end_processes(root, deadline)
        time.sleep(0.05)
    if root.exists():
        problems.append(f"{root} cannot be removed whole")
    return tuple(problems)


def processes_of(root: Path) -> tuple[int, ...]:
    """List the processes of this user that were started in the demo at `root`, except this one."""
    mark = f"MNGR_HOST_DIR={host_dir_of(root)}"
    if Path("/proc/self/environ").exists():
        return tuple(pid for pid in _pids_of_proc() if pid != os.getpid() and _carries(pid, mark))
    listed = run(["ps", "-axEww", "-o", "pid=,command="], timeout=10, cwd=Path("/"))
    rows = (line.split(None, 1) for line in listed.stdout.splitlines())
    return tuple(
        int(row[0]) for row in rows
        if len(row) == 2 and int(row[0]) != os.getpid() and mark in row[1].split()
    )  # fmt: skip


def _end_processes(root: Path, deadline: float) -> tuple[int, ...]:
    """Stop the tmux servers, then hang up and kill processes until none is left; return those that are left."""
    for number in (signal.SIGHUP, signal.SIGKILL, signal.SIGKILL):
        _end_servers(root)
        for pid in processes_of(root):
            _signal(root, pid, number)
        waited = time.monotonic() + 1.0
        while (left := processes_of(root)) and time.monotonic() < min(waited, deadline):
            time.sleep(0.02)  # not our children, so their end must be polled
        if not left:
            break
    while (left := processes_of(root)) and time.monotonic() < deadline:
        for pid in left:
            _signal(root, pid, signal.SIGKILL)
        time.sleep(0.05)
    return left


def _end_servers(root: Path) -> None:
    for socket in tmux_dir_of(root).glob("tmux-*/*"):
        # A server that does not answer is killed with the other processes; one that ends removes its socket.
        with contextlib.suppress(ToolError, FileNotFoundError):
            if stat.S_ISSOCK(socket.lstat().st_mode):
                run(["tmux", "-S", socket, "kill-server"], timeout=5, cwd=root, env=_bare(root))


def _bare(root: Path) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(root), "LC_ALL": "C.UTF-8"}


def _pids_of_proc() -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            yield int(entry.name)


def _carries(pid: int, mark: str) -> bool:
    try:
        if Path(f"/proc/{pid}").stat().st_uid != os.geteuid():
            return False
        variables = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return False
    return os.fsencode(mark) in variables.split(b"\0")


def _signal(root: Path, pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
            handle = os.pidfd_open(pid)
            try:
                if _carries(pid, f"MNGR_HOST_DIR={host_dir_of(root)}"):
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)
        else:
            os.kill(pid, number)


def _remove(root: Path) -> bool:
    """Remove the folder, its marker last, so that an interrupted removal is found again. Return True if it is left."""

    def open_up(function: Callable[..., object], path: str, error: BaseException) -> None:
        """Make a folder writable, and try again: tests and tools leave folders without write permission."""
        with contextlib.suppress(OSError):
            Path(path).parent.chmod(0o700)
            if Path(path).is_dir() and not Path(path).is_symlink():
                Path(path).chmod(0o700)
            function(path)

    with contextlib.suppress(FileNotFoundError):
        for entry in root.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, onexc=open_up)
                if entry.exists():
                    shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != MARKER:
                entry.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            if {entry.name for entry in root.iterdir()} <= {MARKER}:
                (root / MARKER).unlink(missing_ok=True)
                root.rmdir()
    return root.exists()
