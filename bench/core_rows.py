"""The rows that need the core alone: its import, and what one refresh costs beside one `mngr list`."""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Result, Stopwatch, cpu_of_process, median, percentile, result
from selftest_core.fleet.fold import Fleet, apply, view
from selftest_core.fleet.sources.probe import Probe
from selftest_core.tools.mngr import find_mngr
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from bench.fleets import MeasuredFleet

_IMPORT_BUDGET_MS = 150.0
_FLEET = (
    "selftest_core.fleet.watch.fleet_watch, selftest_core.fleet.fold, selftest_core.fleet.sources.probe, "
    "selftest_core.fleet.view"
)


def machine() -> dict[str, Result]:
    """How fast this machine is just now, so that the rows of two runs can be compared."""
    note = f"CPU time of a million additions in Python; load {os.getloadavg()[0]:.1f}"
    return {"machine": result(pace(), "ms", note=note)}


def pace() -> float:
    """Milliseconds of CPU for a million additions in Python: the best of five."""
    samples = []
    for _ in range(5):
        began = time.process_time()
        total = 0
        for number in range(1_000_000):
            total += number
        samples.append((time.process_time() - began) * 1000)
    return min(samples)


def core_import() -> dict[str, Result]:
    """How long a fresh process takes to import the fleet's core, and whether it stays clear of the heavy ones."""
    code = (
        "import time,sys\nbegan=time.perf_counter()\n"
        f"import {_FLEET}\n"
        "took=time.perf_counter()-began\n"
        "heavy=[name for name in ('textual','rich','modal','pydantic') if name in sys.modules]\n"
        "print(took*1000, ','.join(heavy) or 'none')"
    )
    samples, heavy = [], ""
    for _ in range(7):
        done = run((sys.executable, "-c", code), timeout=60, cwd=Path("/"))
        took, heavy = done.stdout.split()
        samples.append(float(took))
    bare = []
    for _ in range(5):
        with Stopwatch() as watch:
            run((sys.executable, "-c", "pass"), timeout=60, cwd=Path("/"))
        bare.append(watch.wall * 1000)
    row = result(
        min(samples), "ms", _IMPORT_BUDGET_MS,
        against=f"a bare Python starts and ends in {min(bare):.0f} ms at best",
        note=f"fresh process, best of {len(samples)}, median {median(samples):.0f} ms; heavy modules loaded: {heavy}",
    )  # fmt: skip
    is_clear = not {"textual", "rich", "modal"} & set(heavy.split(","))
    return {"core_import": row if is_clear else Result(row.value, row.unit, row.budget, False, row.against, row.note)}


def refresh(fleet: MeasuredFleet, budget_ms: float, *, rounds: int = 20) -> dict[str, Result]:
    """CPU of one refresh (a look at every agent and server, folded and viewed) beside one `mngr list`."""
    probe = Probe(fleet.environ)
    folded = Fleet()
    cpu, wall = [], []
    for number in range(rounds + 2):
        server_before = _server_cpu(fleet)
        with Stopwatch() as watch:
            now = time.time()
            folded = apply(folded, probe.look(now))
            shown = view(folded, now)
        if number >= 2:  # the first looks read every file and list every process for the first time
            cpu.append(watch.cpu * 1000)
            wall.append(watch.wall * 1000)
        server = _server_cpu(fleet) - server_before
    seen = len(shown.rows)
    with Stopwatch() as listing:
        listed = run(
            (find_mngr(fleet.environ).path, "list", "--format", "json"), timeout=300, cwd=fleet.cwd,
            env={name: value for name, value in fleet.environ.items() if name not in ("TMUX", "TMUX_PANE")},
        )  # fmt: skip
    mngr = "mngr list" if fleet.is_real else "the fake mngr's list"
    times = listing.cpu * 1000 / median(cpu)
    against = f"one {mngr}: {listing.cpu:.2f} s CPU, {listing.wall:.2f} s wall: {times:.0f} times one refresh"
    if not listed.ok:
        against = f"{mngr} failed: {listed.stderr_end}"
    rows = {
        f"refresh_cpu_{fleet.size}": result(
            median(cpu), "ms", budget_ms, against=against,
            note=f"{fleet.name}, {seen} seen; p95 {percentile(cpu, 95):.0f} ms, wall {median(wall):.0f} ms; "
            f"one tmux process per live server; beside it the server itself spent {server * 1000:.0f} ms answering",
        ),
    }  # fmt: skip
    if fleet.is_real:
        rows[f"mngr_list_cpu_{fleet.size}"] = result(
            listing.cpu * 1000, "ms", against=f"one refresh of ours: {median(cpu):.0f} ms", note=fleet.name
        )
    return rows


@cache
def _server_pid(socket: str) -> int:
    asked = run(("tmux", "-S", socket, "display-message", "-p", "#{pid}"), timeout=10, cwd=Path("/"))
    return int(asked.stdout)


def _server_cpu(fleet: MeasuredFleet) -> float:
    """CPU seconds of the world's tmux server so far; 0 where that cannot be seen."""
    return cpu_of_process(_server_pid(str(fleet.world.socket)))[0] if Path("/proc/self/stat").exists() else 0.0
