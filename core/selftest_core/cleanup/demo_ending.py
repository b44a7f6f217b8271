"""Ends a private world whole: its tmux servers, every process that was started in it, its folder.

Processes are recognised by the MNGR_HOST_DIR that they inherited, which only programs of that world carry, so that
those which left every process group and session of ours (mngr's helpers, a daemon) are found too. On Linux they are
held by a pidfd while that is checked: a number that was given to another process meanwhile cannot be hit.

It removes only what its caller has proved to be ours (`folders`, or a world that it made itself).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.cleanup.demo_folders import MARKER
from selftest_core.errors import ToolError
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE = 60.0
"""Seconds until what does not end is reported instead."""


def host_dir_of(root: Path) -> Path:
    """MNGR_HOST_DIR of the world at `root`."""
    return root / "m"


def tmux_dir_of(root: Path) -> Path:
    """TMUX_TMPDIR of the world at `root`."""
    return root / "t"


def end_world(root: Path) -> tuple[str, ...]:
    """End everything of the world at `root` and remove the folder; returns what could not be ended, in words."""
    deadline = time.monotonic() + PATIENCE
    left = _end_processes(root, deadline)
    problems = [f"process {pid} does not end" for pid in left]
    while _remove(root) and time.monotonic() < deadline:
        # Something was written meanwhile: an mngr that was just being started. It is found by the next look.
        _end_processes(root, deadline)
        time.sleep(0.05)
    if root.exists():
        problems.append(f"{root} cannot be removed whole")
    return tuple(problems)


def processes_of(root: Path) -> tuple[int, ...]:
    """The processes of this user that were started in the world at `root`, without ourselves."""
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
    """Ask tmux's servers, then every process, then end it; again until none is left."""
    for number in (signal.SIGHUP, signal.SIGKILL, signal.SIGKILL):
        _end_servers(root)
        for pid in processes_of(root):
            _signal(root, pid, number)
        waited = time.monotonic() + 1.0
        while (left := processes_of(root)) and time.monotonic() < min(waited, deadline):
            time.sleep(0.02)  # strangers' children: nothing tells us of their end
        if not left:
            break
    while (left := processes_of(root)) and time.monotonic() < deadline:
        for pid in left:
            _signal(root, pid, signal.SIGKILL)
        time.sleep(0.05)
    return left


def _end_servers(root: Path) -> None:
    for socket in tmux_dir_of(root).glob("tmux-*/*"):
        # A server that does not answer is ended as a process, with the others; one that ends takes its socket away.
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
    except OSError:  # it has ended, or is not ours to look at
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
    """Remove the folder, its marker last, so that a removal cut short is found again. True if something is left."""

    def open_up(function: Callable[..., object], path: str, error: BaseException) -> None:
        """A folder without write permission, as tests and tools leave them, keeps its files until it has it."""
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
