"""`python -m bench.soak [--seconds 3600]`: an hour with a thousand agents that change and a provider that flaps.

The real program in a real terminal, the real probe and tmux, the fake mngr. One agent changes at a time; a change
counts as seen when the counts at the top are right again and its line is where it belongs, and as missed after ten
seconds; a cursor key counts as lost when the cursor has not moved by then.
Writes bench/soak.json, which `make bench` shows among its rows.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.fleets import fake_fleet
from bench.measure import Result, cpu_of_process, median, percentile, print_table, result, slope, write_results
from bench.screen_rows import open_fleet
from bench.terminals import LINES, BareEcho, ScreenReader
from simulated.mngr import FLAPPING

if TYPE_CHECKING:
    from bench.fleets import MeasuredFleet
    from pseudo_terminal import Terminal

SOAK = Path(__file__).parent / "soak.json"
FLAPPING_AGENTS = 50
_COUNTS = re.compile(r"● +(\d+) .*?◆ +(\d+) .*?○ +(\d+) .*?✓ +(\d+) .*?✗ +(\d+) .*?■ +(\d+)")
_HOME, _UP, _DOWN = "\x1b[H", "\x1b[A", "\x1b[B"
_TURN = 1.0
"""Seconds from one change to the next."""
_MISSED = 10.0
_OUTAGE = "boxes does not answer"
_POLLS = ("--set", "poll_local=5", "--set", "poll_remote=1", "--set", "poll_all=5")
"""As often as the settings allow, and so more often than by default."""


@dataclass(slots=True)
class Soaked:
    """Measurements so far. Times are milliseconds; `memory`: seconds since the start and KiB."""

    changes: list[float] = field(default_factory=list)
    keys: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    lost_keys: int = 0
    """Keys that did not move the cursor."""
    outages: int = 0
    """Times that the provider's outage came onto the screen."""
    vanished: int = 0
    """Readings of the screen with fewer agents than there are."""


class Soak:
    """One session of the program, held to what the agents' files say."""

    def __init__(self, fleet: MeasuredFleet, screen: Terminal, bare: BareEcho) -> None:
        self._fleet = fleet
        self._screen = screen
        self._bare = bare
        self._reader = ScreenReader(screen)
        self._random = random.Random(7)
        self._has_outage = False
        self._pressed: float | None = None
        """Time of the cursor key whose effect was not seen yet."""
        self.soaked = Soaked()
        self._reader.catch_up()
        counts = self._counts()
        if counts is None:
            raise RuntimeError(f"the counts cannot be read: {self._reader.lines[0]!r}")
        self._all = sum(counts)
        self._working = counts[0]
        names = [name for line in self._reader.lines if "●" in line for name in fleet.folders if f" {name} " in line]
        self._visible = names[-10:]  # below the cursor, which moves over the first lines only
        self._hidden = [
            name for name, folder in fleet.folders.items() if (folder / "active").exists() and name not in self._visible
        ]

    def run(self, seconds: float) -> None:
        """Change, press and read until the time is over."""
        began = time.perf_counter()
        turn = 0
        while (elapsed := time.perf_counter() - began) < seconds:
            if turn % 10 == 0:
                self.soaked.memory.append((elapsed, _resident(self._screen.pid)))
            if turn % 60 == 0:
                so_far = f"{elapsed:.0f} s, {len(self.soaked.changes)} changes, {len(self.soaked.missed)} missed"
                sys.stderr.write(f"\r{so_far}, {self.soaked.memory[-1][1] / 1024:.0f} MiB ")
                sys.stderr.flush()
            self._turn(turn, began + elapsed)
            turn += 1
        self.soaked.memory.append((time.perf_counter() - began, _resident(self._screen.pid)))

    def _turn(self, turn: int, began: float) -> None:
        name = self._random.choice(self._visible if turn % 2 else self._hidden)
        marker = self._fleet.folders[name] / "active"
        is_working = not marker.exists()
        changed = time.perf_counter()
        if is_working:
            marker.touch()
        else:
            marker.unlink()
        self._working += 1 if is_working else -1
        time.sleep(self._random.uniform(0.0, 0.4))  # keys come at any moment of a refresh
        self._pressed = self._screen.press(_DOWN if turn // 20 % 2 == 0 else _UP)[1] if turn % 2 else None
        if turn % 20 == 0:
            self.soaked.bare.append(self._bare.press())
        time.sleep(max(0.0, began + _TURN - time.perf_counter()))  # one change a second is what is measured
        seen = self._read(name, is_working, turn % 2 == 1)
        while (seen is None or self._pressed is not None) and time.perf_counter() - changed < _MISSED:
            time.sleep(0.2)  # a reader of the terminal offers no event
            later = self._read(name, is_working, turn % 2 == 1)
            seen = later if seen is None else seen
        self.soaked.lost_keys += self._pressed is not None
        if seen is None:
            self.soaked.missed.append(f"{name} at {datetime.now(UTC):%H:%M:%S}: {self._reader.lines[0].strip()}")
        else:
            self.soaked.changes.append(max(0.0, (seen - changed) * 1000))

    def _read(self, name: str, is_working: bool, is_visible: bool) -> float | None:
        """Read what was printed. Return the time from which on the screen was right; None while it is not."""
        right: float | None = None
        for at, has_moved in self._reader.pieces():
            if self._pressed is not None and at > self._pressed and has_moved:
                self.soaked.keys.append((at - self._pressed) * 1000)
                self._pressed = None
            counts = self._counts()
            if counts is not None and sum(counts) < self._all:
                self.soaked.vanished += 1
            is_right = counts is not None and counts[0] == self._working
            if is_right and is_visible:
                is_right = any("●" in line and f" {name} " in line for line in self._reader.lines) == is_working
            right = (right or at) if is_right else None
            has_outage = any(_OUTAGE in line for line in self._reader.lines[-4:])
            self.soaked.outages += has_outage and not self._has_outage
            self._has_outage = has_outage
        return right

    def _counts(self) -> tuple[int, ...] | None:
        found = _COUNTS.search(self._reader.lines[0])
        return None if found is None else tuple(int(number) for number in found.groups())


def soak(seconds: float, agents: int) -> dict[str, Result]:
    """Run it for so long; the rows of the result."""
    with (
        fake_fleet(agents, FLAPPING_AGENTS) as fleet,
        open_fleet(fleet, *_POLLS, rows=LINES) as screen,
        BareEcho(fleet.cwd, fleet.environ) as bare,
    ):
        screen.painted("st-7f-")
        screen.painted(_OUTAGE)
        screen.quiet(0.5, patience=30)
        for key in (_HOME, *[_DOWN] * 5):
            screen.press(key)
            screen.quiet(0.3, patience=5)
        files = _open_files(screen.pid)
        cpu = cpu_of_process(screen.pid)
        one = Soak(fleet, screen, bare)
        began = time.perf_counter()
        one.run(seconds)
        wall = time.perf_counter() - began
        own = cpu_of_process(screen.pid)[0] - cpu[0]
        files_after = _open_files(screen.pid)
        asked = int((fleet.world.host_dir / FLAPPING).read_text(encoding="utf-8").split()[1])
    return _rows(one.soaked, agents, wall, own, (files, files_after), asked)


def _rows(
    soaked: Soaked, agents: int, wall: float, own: float, files: tuple[int, int], asked: int
) -> dict[str, Result]:
    changes = len(soaked.changes) + len(soaked.missed)
    about = (
        f"{agents} fake agents and {FLAPPING_AGENTS} of a provider that flaps, {wall / 60:.0f} minutes, {changes} "
        f"changes; {datetime.now(UTC):%Y-%m-%d}, load {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores"
    )
    warm = [(seconds, kib) for seconds, kib in soaked.memory if seconds >= wall / 3]
    per_second = changes / wall
    missed = f"; {'; '.join(soaked.missed[:5])}" if soaked.missed else ""
    return {
        "soak_missed_changes": result(
            len(soaked.missed) + soaked.lost_keys, "", 0.0,
            against=f"the provider was asked {asked} times; of four answers one was an error and one was empty; its "
            f"outage came onto the screen {soaked.outages} times",
            note=f"{about}; {len(soaked.keys) + soaked.lost_keys} keys, {soaked.lost_keys} without effect{missed}",
        ),
        "soak_vanished_agents": result(
            soaked.vanished, "", 0.0, against="all agents, in the counts at the top", note=about
        ),
        "soak_change_to_screen": result(
            percentile(soaked.changes, 95), "ms", against=f"median {median(soaked.changes):.0f} ms", note=about
        ),
        "soak_key_to_paint": result(
            percentile(soaked.keys, 95), "ms", 33.0,
            against=f"a bare Textual app in the same minutes: p95 {percentile(soaked.bare, 95):.0f} ms, median "
            f"{median(soaked.bare):.0f} ms",
            note=f"{about}; p95 of {len(soaked.keys)} cursor keys, median {median(soaked.keys):.0f} ms, longest "
            f"{max(soaked.keys):.0f} ms",
        ),
        "soak_memory_slope": result(
            slope(warm) / per_second * 1000, "KiB/1000", 256.0, against=f"{warm[0][1] / 1024:.0f} MiB when warm",
            note=f"{about}; resident size {soaked.memory[0][1]:.0f} → {warm[0][1]:.0f} → {soaked.memory[-1][1]:.0f} "
            f"KiB; slope after a third, KiB per 1,000 changes; open files {files[0]} → {files[1]}",
        ),
        "soak_cpu": result(own / wall * 100, "%", against="mngr's own CPU is not in it", note=about),
    }  # fmt: skip


def _resident(pid: int) -> float:
    """KiB of memory that a process occupies now (Linux)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def _open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def main() -> int:
    """Measure, print, and write the rows."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=SOAK)
    arguments = parser.parse_args()
    rows = soak(arguments.seconds, arguments.agents)
    sys.stderr.write("\n")
    print_table(rows)
    write_results(rows, arguments.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
