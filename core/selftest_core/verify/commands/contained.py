"""Run a command of the project in a slot, contained as tests are: isolated, limited in time, disk and output."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import ToolTimeoutError
from selftest_core.frozen import dataclass
from selftest_core.tools.process import spawn
from selftest_core.verify.sandbox import MAX_PROCESSES, sandbox_argv
from selftest_core.verify.testing_plugin import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from selftest_core.tools.process import Running
    from selftest_core.verify.environment import Testing
    from selftest_core.verify.slots import Slot

_TICK = 0.05
_BETWEEN_COUNTS = 0.2
"""Seconds between two counts of processes."""
_KEPT_OUTPUT = 200_000
_WRITABLE = ("tree", "home", "exchange", "packages")
"""Folders of a slot that a command may write to."""
_BEHIND = ("nice", "-n", "10")
"""Tests run behind what a user works with: a key of the screen is not to wait for a core."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that ended. `reason`: why we ended it, empty where it ended by itself with `status`."""

    status: int
    output: str
    reason: str = ""


def place_of(slot: Slot, testing: Testing) -> Path:
    """Return where the command sees the tested tree: isolated, where the user's checkout is."""
    return testing.environment.checkout if testing.isolation.is_isolated else slot.tree_folder


def contained_argv(
    argv: Sequence[str],
    slot: Slot,
    testing: Testing,
    variables: Mapping[str, str],
    *,
    readable: Sequence[Path] = (),
    bindings: Mapping[Path, Path] | None = None,
    network: bool = False,
) -> list[str]:
    """Return the command line that runs `argv` in the slot's tree; its errors go where its output goes."""
    place = place_of(slot, testing)
    argv = [*_BEHIND, "/bin/sh", "-c", 'exec "$@" 2>&1 </dev/null', "sh", *argv]
    if not testing.isolation.is_isolated:
        return argv
    replaced = [] if testing.replaced is None else [testing.replaced]
    return sandbox_argv(
        argv,
        bindings={place: slot.tree_folder, **(bindings or {})},
        writable=[slot.home, slot.exchange],
        readable=[*testing.environment.readable, *readable, *replaced],
        mounts={
            # bubblewrap would follow a link, out of the sandbox.
            place / path: slot.environment / path
            for path in slot.made
            if not (slot.environment / path).is_symlink()
        }
        | _replacements(slot, testing),
        cwd=place,
        environment=variables,
        network=network,
        disk=testing.disk,
    )


def start_contained(argv: Sequence[str], slot: Slot, testing: Testing, variables: Mapping[str, str]) -> Running:
    """Start what `contained_argv` made. What is outside of the sandbox gets none of the tests' folders or variables."""
    if not testing.isolation.is_isolated:
        return spawn(argv, cwd=slot.tree_folder, env=dict(variables), pipe=True)
    return spawn(argv, cwd=slot.folder, env={"PATH": os.defpath}, pipe=True)


def contained_variables(slot: Slot, testing: Testing) -> dict[str, str]:
    """Return the variables that every command in a slot gets."""
    path = os.environ.get("PATH", os.defpath)
    setup = testing.environment.setup
    if setup is not None:
        own = place_of(slot, testing) / ".venv" / "bin"
        programs = dict.fromkeys(str(one.parent) for one in (*setup.programs, Path(setup.python)))
        path = os.pathsep.join((str(own), *programs, path))
    variables = {"PATH": path, "LANG": "C.UTF-8", **dict(testing.environment.variables)}
    if testing.replaced is not None:
        variables["PATH"] = os.pathsep.join((str(testing.replaced), variables["PATH"]))
    return {
        **variables,
        "HOME": str(slot.home),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": "/tmp" if testing.isolation.is_isolated else str(slot.exchange),
        "CI": "true",
    }


def _replacements(slot: Slot, testing: Testing) -> dict[Path, Path]:
    """Map programs of the environment to those that replace them: tests may find them by its folder, not by PATH."""
    if testing.replaced is None:
        return {}
    folders = {folder / "bin": folder / "bin" for folder in testing.environment.readable}
    place = place_of(slot, testing)
    folders |= {place / path / "bin": slot.environment / path / "bin" for path in slot.made}
    return {
        seen / program.name: program
        for seen, folder in folders.items()
        for program in testing.replaced.iterdir()
        if (folder / program.name).is_file()
    }


def run_in_slot(
    slot: Slot,
    testing: Testing,
    argv: Sequence[str],
    variables: Mapping[str, str],
    *,
    timeout: float,
    should_stop: Callable[[], bool],
    bindings: Mapping[Path, Path] | None = None,
    network: bool = False,
) -> Ended:
    """Run a command in the slot's tree to its end, `timeout` seconds at most. Blocking.

    `bindings`: more folders that it may write to, by where it sees them.
    """
    variables = {**variables, VARIABLE: str(slot.exchange)}
    link_made(slot, testing)
    whole = contained_argv(argv, slot, testing, variables, bindings=bindings, network=network)
    disk = DiskLimit(slot.folder, testing.disk)
    process = start_contained(whole, slot, testing, variables)
    processes = ProcessLimit(process.pid)
    output = Output()
    reader = threading.Thread(target=output.read, args=(process,), daemon=True)
    reader.start()
    reason = ""
    try:
        deadline = time.monotonic() + timeout
        while process.poll() is None and not reason:
            if should_stop():
                reason = "stopped"
            elif time.monotonic() > deadline:
                reason = f"did not end within {timeout:g} s"
            elif disk.is_passed():
                reason = disk.reason
            elif processes.is_passed():
                reason = processes.reason
            else:
                with contextlib.suppress(ToolTimeoutError):  # it still runs: look at its limits again
                    process.wait(_TICK)
    finally:
        process.end(grace=0)
        if not testing.isolation.is_isolated:
            end_orphans(slot.exchange)
        reader.join(5)
    return Ended(process.poll() or 0, output.text(), reason)


def link_made(slot: Slot, testing: Testing) -> None:
    """Put what the set-up made into the tree, by links; isolated, only its own links: the rest is mounted read-only."""
    for path in slot.made:
        kept, place = slot.environment / path, slot.tree_folder / path
        if (kept.is_symlink() or not testing.isolation.is_isolated) and not place.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(kept.readlink() if kept.is_symlink() else kept)


def end_orphans(value: Path) -> None:
    """End what left its process group, by the variable that it inherited; a sandbox ends its own."""
    mark = f"{VARIABLE}={value}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes().split(b"\0"):
                os.kill(int(path.parent.name), signal.SIGKILL)


class DiskLimit:
    """The bytes that one process may write below its slot: the disk is asked first, then the slot is measured."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._free = self._ask()
        self.reason = f"it wrote more than {limit // 2**20:,} MiB"
        self.was_passed = False

    def is_passed(self) -> bool:
        """True where it has written more than it may."""
        free = self._ask()
        if self._free - free < self._limit:
            return False
        self._free = free + self._limit // 2  # others write too: measure again after more of it
        self.was_passed = sum(_size(self._folder / name) for name in _WRITABLE) > self._limit
        return self.was_passed

    def _ask(self) -> int:
        found = os.statvfs(self._folder)
        return found.f_bavail * found.f_frsize


class ProcessLimit:
    """The processes that one process may start. The kernel's own limit, set in the sandbox, does not bind root."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._count = len(_process_ids())
        self._asked = time.monotonic()
        self.reason = f"it started more than {MAX_PROCESSES} processes"
        self.was_passed = False

    def is_passed(self) -> bool:
        """True where it has started more than it may: all processes are counted first, then its own."""
        now = time.monotonic()
        if now - self._asked < _BETWEEN_COUNTS:
            return False
        self._asked = now
        ids = _process_ids()
        if len(ids) - self._count < MAX_PROCESSES // 2:
            return False
        self.was_passed = _descendants(self._pid, ids) > MAX_PROCESSES
        return self.was_passed


def _process_ids() -> list[int]:
    """List the processes of this machine; none where there is no /proc."""
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 -- a few hundred, often
    return []


def _descendants(pid: int, ids: Sequence[int]) -> int:
    """Count the descendants of a process."""
    children: dict[int, list[int]] = {}
    for one in ids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{one}/stat").read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(one)
    count, left = 0, [pid]
    while left:
        below = children.pop(left.pop(), [])
        count += len(below)
        left += below
    return count


def _size(folder: Path) -> int:
    """Bytes that the files below a folder take."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118 -- many of them
    return total


class Output:
    """The first and the last of what a program prints, however much that is."""

    def __init__(self) -> None:
        self._head, self._tail, self._count = bytearray(), bytearray(), 0

    def read(self, process: Running) -> None:
        """Read to the end; what is in the middle is dropped."""
        assert process.stdout is not None
        fd = process.stdout.fileno()
        while True:
            try:
                part = os.read(fd, 1 << 16)
            except (OSError, ValueError):
                return
            if not part:
                return
            self.take(part)

    def take(self, part: bytes) -> None:
        """Add a part."""
        self._count += len(part)
        room = _KEPT_OUTPUT // 2 - len(self._head)
        self._head += part[: max(room, 0)]
        self._tail += part[max(room, 0) :]
        if len(self._tail) > 4 * _KEPT_OUTPUT:  # seldom: each time moves what is kept
            self._cut()

    def _cut(self) -> None:
        del self._tail[: -_KEPT_OUTPUT // 2]

    def text(self) -> str:
        """Return the kept output as text. Once `read` has ended."""
        self._cut()
        left_out = self._count - len(self._head) - len(self._tail)
        note = f"\n[{left_out} bytes left out]\n".encode() if left_out else b""
        return bytes(self._head + note + self._tail).decode("utf-8", "replace")
