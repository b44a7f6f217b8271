"""The rows of the recorder: what recording fifty busy sessions costs, beside an asciinema for each in the same run."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.fleets import a_world
from bench.measure import Result, result
from selftest_core.errors import ToolError
from selftest_core.tools import process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from selftest_core.demo.private_world import PrivateWorld
    from selftest_core.tools.process import Running

_BUSY = (
    "i=0; while :; do i=$((i+1)); echo \"$i $(printf '\\033[3%dm' $((i % 7)))the quick brown fox\"; sleep 0.05; done"
)
_SETTLING = 3.0
_PATIENCE = 120.0


def recorder(sessions: int, seconds: float) -> dict[str, Result]:
    """CPU and memory of one collector, and of the tmux server, while as many panes print twenty lines a second."""
    rows: dict[str, Result] = {}
    with a_world() as world, _busy_sessions(world, sessions) as (socket, names):
        server = int(_tmux(world, socket, "display-message", "-p", "#{pid}"))
        alone = _cpu_of([server], seconds)
        home = world.root / "recordings"
        home.mkdir()
        with _collector(world, socket, names, home) as collector:
            of_ours = _cpu_apart(server, collector.pid, seconds)
            memory = sum(map(_memory, _family(collector.pid)))
            recorded = sum(path.stat().st_size for path in home.glob("*.cast"))
        with _asciinemas(world, socket, names, home) as recorders:
            family = [pid for one in recorders for pid in _family(one.pid)]
            before_server, before = _ticks([server]), _ticks(family)
            time.sleep(seconds)  # what is measured: what they cost in so long
            theirs = ((_ticks([server]) - before_server) / seconds, (_ticks(family) - before) / seconds)
            their_memory = sum(map(_memory, family))
    against = f"an asciinema for each: {theirs[1]:.1%} of a core, tmux {theirs[0]:.1%}, {their_memory / 2**20:.0f} MB"
    note = f"{sessions} panes, 20 lines a second each, for {seconds:g} s; {recorded / 1024:.0f} KiB recorded"
    rows[f"recorder, {sessions} sessions"] = result(100 * of_ours[1], "% of a core", against=against, note=note)
    rows["tmux while recorded"] = result(100 * of_ours[0], "% of a core", against=f"not recorded: {alone:.1%}")
    rows["recorder, memory"] = result(memory / 2**20, "MB", against=f"asciinemas: {their_memory / 2**20:.0f} MB")
    return rows


@contextlib.contextmanager
def _busy_sessions(world: PrivateWorld, count: int) -> Iterator[tuple[str, list[str]]]:
    socket = str(world.root / "b")
    names = [f"busy{number}" for number in range(count)]
    try:
        for name in names:
            argv = ("tmux", "-S", socket, "-f", "/dev/null", "new-session", "-d", "-s", name, "-x", "120", "-y", "40")
            process.run((*argv, "bash", "-c", _BUSY), timeout=30, cwd=Path("/"), env=world.tools_environ)
        time.sleep(_SETTLING)  # starting up is not what is measured
        yield socket, names
    finally:
        with contextlib.suppress(ToolError):  # it went with its last session
            _tmux(world, socket, "kill-server")


@contextlib.contextmanager
def _collector(world: PrivateWorld, socket: str, names: Sequence[str], home: Path) -> Iterator[Running]:
    orders = home / "orders"
    lines = [{"do": "record", "name": name, "session": name, "file": str(home / f"{name}.cast")} for name in names]
    orders.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    argv = (
        sys.executable, "-P", "-m", "selftest_recorder.onhost", "--socket", socket, "--orders", str(orders),
        "--fifos", str(home / "fifos"),
    )  # fmt: skip
    running = process.spawn(argv, cwd=home, env=world.tools_environ, output=home / "log")
    try:
        deadline = time.monotonic() + _PATIENCE
        while len(list(home.glob("*.cast"))) != len(names):
            if time.monotonic() > deadline or running.poll() is not None:
                raise RuntimeError(f"not all are recorded: {(home / 'log').read_text(encoding='utf-8')}")
            time.sleep(0.1)  # files of another process appear; nothing tells us
        time.sleep(_SETTLING)  # starting up is not what is measured
        yield running
    finally:
        running.end()


@contextlib.contextmanager
def _asciinemas(world: PrivateWorld, socket: str, names: Sequence[str], home: Path) -> Iterator[list[Running]]:
    asciinema = Path(sys.executable).parent / "asciinema"
    environ = {**world.tools_environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    started = []
    for name in names:
        attach = f"exec tmux -u -S {socket} attach -f read-only,ignore-size -t ={name}"
        argv = (
            str(asciinema), "rec", "-q", "--cols", "120", "--rows", "40", "-c", attach, str(home / f"{name}.theirs"),
        )  # fmt: skip
        started.append(process.spawn(argv, cwd=home, env=environ))
    try:
        time.sleep(_SETTLING)  # starting up is not what is measured
        yield started
    finally:
        for name in names:
            with contextlib.suppress(ToolError):  # it has ended by itself
                _tmux(world, socket, "detach-client", "-s", name)
        for one in started:
            one.end()


def _cpu_apart(server: int, collector: int, seconds: float) -> tuple[float, float]:
    """Of a core: the server, and the collector with what it starts; a `cat` for each pane counts to the server."""
    cats = [pid for pid in _family(server) if _name(pid) == "cat"]
    before_server, before, began = _ticks([server, *cats]), _ticks([collector]), time.monotonic()
    time.sleep(seconds)  # what is measured: what they cost in so long
    took = time.monotonic() - began
    return (_ticks([server, *cats]) - before_server) / took, (_ticks([collector]) - before) / took


def _cpu_of(pids: Sequence[int], seconds: float) -> float:
    before, began = _ticks(pids), time.monotonic()
    time.sleep(seconds)  # what is measured: what they cost in so long
    return (_ticks(pids) - before) / (time.monotonic() - began)


def _ticks(pids: Sequence[int]) -> float:
    """CPU seconds so far, with those of children that have ended (Linux)."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(field) for field in fields[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def _family(pid: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def _memory(pid: int) -> int:
    """Bytes that are its own (Linux: what is shared is shared out)."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _tmux(world: PrivateWorld, socket: str, *words: str) -> str:
    done = process.run(("tmux", "-S", socket, *words), timeout=30, cwd=Path("/"), env=world.tools_environ)
    return done.stdout.strip()
