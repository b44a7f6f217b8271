"""Process table: all processes with their parents, and with names as `ps` shows them.

On Linux /proc is read directly, one small file per process, since starting `ps` costs more than the whole look; the
result is that of `ps -e -o pid=,ppid=,comm=`, zombies included, with names cut at 15 characters by the kernel.
Measured against psutil in docs/decisions/31-our-process-table-stays.md.
"""

from __future__ import annotations

import os
import sys
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from selftest_core.frozen import dataclass
from selftest_core.tools import process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KTHREADD = 2
_TURNS = 4
_NONE: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """All processes at one moment. `names` by pid; `children` by parent, in the order of `ps`."""

    names: Mapping[int, str] = field(default_factory=dict)
    children: Mapping[int, list[int]] = field(default_factory=dict)

    def descendants(self, root: int) -> Iterator[int]:
        """Iterate over the processes below `root`, nearest first, each once: a table read in parts may have a cycle."""
        seen = {root}
        queue = list(self.children.get(root, ()))
        for pid in queue:
            if pid not in seen:
                seen.add(pid)
                yield pid
                queue.extend(self.children.get(pid, ()))

    def named_descendants(self, root: int) -> tuple[tuple[int, str], ...]:
        """List the processes below `root` with their names, nearest first."""
        return tuple((pid, self.names.get(pid, "")) for pid in self.descendants(root)) if root in self.children else ()


class ReadsProcesses(Protocol):
    """A reader of the processes of this machine."""

    def read(self, changed: frozenset[int] = _NONE) -> ProcessTable:
        """Read the processes. Those below the `changed` ones are not taken from a cache."""
        ...


def parse_ps(text: str) -> ProcessTable:
    """Parse `ps -e -o pid=,ppid=,comm=`."""
    names: dict[int, str] = {}
    children: dict[int, list[int]] = {}
    for line in text.splitlines():
        parts = line.split(None, 2)
        if len(parts) == 3 and parts[0].isdigit() and parts[1].isdigit() and parts[0] != "0":
            pid = int(parts[0])
            names[pid] = parts[2].split()[0]
            children.setdefault(int(parts[1]), []).append(pid)
    return ProcessTable(names, children)


def parse_stat(line: bytes) -> tuple[str, int] | None:
    """Parse name and parent from /proc/PID/stat; None if it is truncated. A name may have brackets and spaces."""
    begin, end = line.find(b"("), line.rfind(b")")
    fields = line[end + 1 :].split(None, 2)
    if begin < 0 or end < begin or len(fields) < 2 or not fields[1].isdigit():
        return None
    words = line[begin + 1 : end].split()
    return (words[0].decode("utf-8", "replace") if words else "", int(fields[1]))


class ProcReader:
    """Reader of /proc, with a cache.

    New processes, those whose parent has ended, and those below a changed one are always read; of the others every
    fourth, in turn: a background process that executes another program is seen some looks later. Kernel threads are
    left out: they never belong to an agent.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._known: dict[str, tuple[int, str, int]] = {}
        self._looks = 0
        # In a container process 2 may be any program.
        self._has_kernel_threads = (parse_stat(_start_of(f"{proc}/{_KTHREADD}/stat")) or ("", 0))[0] == "kthreadd"

    def read(self, changed: frozenset[int] = _NONE) -> ProcessTable:
        """Read the processes; one that ends meanwhile is left out."""
        self._looks += 1
        turn = self._looks % _TURNS
        before = self._known
        known: dict[str, tuple[int, str, int]] = {}
        names: dict[int, str] = {}
        children: dict[int, list[int]] = {}
        entries = [name for name in os.listdir(self._proc) if name.isdigit()]  # noqa: PTH208 -- a Path each costs more
        living = {int(entry) for entry in entries}
        doubtful = self._below(changed)
        for entry in entries:
            told = before.get(entry)
            if told is None or told[0] % _TURNS == turn or told[0] in doubtful or told[2] not in living:
                read = parse_stat(_start_of(f"{self._proc}/{entry}/stat"))
                if read is None:
                    continue
                told = (int(entry), *read)
            known[entry] = told
            pid, name, parent = told
            if parent == _KTHREADD and self._has_kernel_threads:
                continue
            names[pid] = name
            if parent in children:
                children[parent].append(pid)
            else:
                children[parent] = [pid]
        self._known = known
        return ProcessTable(names, children)

    def _below(self, roots: frozenset[int]) -> set[int]:
        """Return the known processes that are one of these, or below one."""
        if not roots or not self._known:
            return set()
        children: dict[int, list[int]] = {}
        for pid, _, parent in self._known.values():
            children.setdefault(parent, []).append(pid)
        table = ProcessTable({}, children)
        return {*roots, *(pid for root in roots for pid in table.descendants(root))}


class PsReader:
    """Reader by `ps`, for systems without /proc."""

    def read(self, changed: frozenset[int] = _NONE) -> ProcessTable:
        """Read the processes. Raises ToolError if `ps` fails."""
        return parse_ps(process.run(["ps", "-A", "-o", "pid=,ppid=,comm="], timeout=10.0, cwd=Path("/")).stdout)


def process_reader() -> ReadsProcesses:
    """Return the reader for this machine."""
    return ProcReader() if sys.platform.startswith("linux") and Path("/proc/self/stat").exists() else PsReader()


def _start_of(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(file, 256)
    except OSError:
        return b""
    finally:
        os.close(file)
