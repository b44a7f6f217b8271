"""The rows of the player's screen: from a key to its picture, how it plays, and how quick it stays while it reads."""

from __future__ import annotations

import asyncio
import os
import random
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Result, cpu_of_process, percentile, result
from pseudo_terminal import Terminal
from selftest_recorder.cast.events import OUTPUT, Header
from selftest_recorder.cast.writer import write_cast
from selftest_recorder.index.timeline import open_timeline
from selftest_tui.replay.playhead import clock_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM = str(Path(sys.executable).with_name("selftest-tui"))
_PAINT_BUDGET, _DELAY_BUDGET = 30.0, 33.0
_KEYS = 60
_SECONDS = 4.0
_EVENTS = 60
"""A second, in what is played: more than there are pictures."""
_FRAME = re.compile(rb"F\d{6}")


def _open(path: Path, folder: Path, columns: int, rows: int) -> Terminal:
    """The player on a recording of this size, which just fits into its terminal."""
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder), "TERM": "xterm-256color"}
    env |= {"COLORTERM": "truecolor"}
    return Terminal((_PROGRAM, "replay", str(path)), cwd=folder, env=env, rows=rows + 4, columns=columns)


def key_to_picture(path: Path, folder: Path) -> dict[str, Result]:
    """A key that seeks, until its picture, and the bar below it, are written to a real terminal."""
    with open_timeline(path, {"XDG_CACHE_HOME": str(folder / "cache")}) as timeline:
        timeline.finish()
        duration, columns, rows = timeline.duration, timeline.header.cols, timeline.header.rows
    chance, digit = random.Random(4), 0
    took: list[float] = []
    titles: list[float] = []
    with _open(path, folder, columns, rows) as screen:
        screen.painted(f"{clock_text(0.0, like=duration)} / {clock_text(duration)}")
        screen.quiet(0.5)
        cpu = sum(cpu_of_process(screen.pid))
        for _ in range(_KEYS):
            screen.quiet(0.1)
            digit = chance.choice([one for one in range(10) if one != digit])
            before, then = screen.press(str(digit))
            now = clock_text(duration * digit / 10, like=duration)
            took.append((screen.painted(now, since=before) - then) * 1000)  # on the bar, right behind the picture
            titles.append((screen.painted(f"{now} / ", since=before) - then) * 1000)
        screen.quiet(0.1)
        cpu = (sum(cpu_of_process(screen.pid)) - cpu) / _KEYS * 1000
    note = (
        f"key to the last byte of the picture and of the bar's time at {columns}x{rows} in a real pty; "
        f"p50 {percentile(took, 50):.1f}, max {max(took):.1f} ms; the title, a frame later, p95 "
        f"{percentile(titles, 95):.1f} ms; "
        f"{cpu:.1f} ms of CPU for a key and all that it causes"
    )
    return {"replay_seek_to_paint": result(percentile(took, 95), "ms", _PAINT_BUDGET, note=note)}


async def delay_while_indexing(path: Path, folder: Path) -> dict[str, Result]:
    """How late the event loop of the player's screen is while a process indexes what it shows."""
    from selftest_tui.app.replay_app import ReplayApp

    app = ReplayApp(path, {"XDG_CACHE_HOME": str(folder / "a third cache"), "HOME": str(folder)})
    late = []
    async with app.run_test(size=(130, 46)) as pilot:
        while not app.replay.is_mounted or not app.replay.query("Player") or app.replay.player.is_opening:
            await pilot.pause(0.02)
        timeline = app.replay.player.timeline
        assert timeline is not None
        while not timeline.is_complete:
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            late.append((time.perf_counter() - began - 0.005) * 1000)
    note = f"{len(late)} turns of the event loop; p50 {percentile(late, 50):.1f}, max {max(late):.1f} ms"
    return {"replay_delay_while_indexing": result(percentile(late, 95), "ms", _DELAY_BUDGET, note=note)}


def playing(folder: Path) -> dict[str, Result]:
    """Pictures a second and what they cost, in a real pty."""
    rows: dict[str, Result] = {}
    for columns, lines in ((120, 40), (200, 50)):
        for kind in ("agent", "drawing"):
            path = folder / f"played-{kind}-{columns}.cast"
            write_cast(path, Header(2, columns, lines), _played(kind, columns, lines))
            rows |= _playing(path, folder, columns, lines, f"{kind}_{columns}x{lines}")
    return rows


def _played(kind: str, columns: int, lines: int) -> Iterator[tuple[float, str, str]]:
    """A numbered picture for each moment: a line that comes, or a row in a new colour for every cell."""
    chance = random.Random(8)
    for number in range(_EVENTS * 60):
        if kind == "agent":
            work = f"\x1b[{lines};1H\r\n\x1b[3{number % 7 + 1}m●\x1b[0m edits src/module_{number}.py, and runs it"
        else:
            cells = (f"\x1b[48;2;{chance.randint(0, 255)};{number % 256};{one % 256}m " for one in range(columns))
            work = f"\x1b[{number % (lines - 1) + 2};1H{''.join(cells)}\x1b[0m"
        yield round(number / _EVENTS, 4), OUTPUT, f"{work}\x1b[1;1HF{number:06}"


def _playing(path: Path, folder: Path, columns: int, lines: int, name: str) -> dict[str, Result]:
    with _open(path, folder, columns, lines) as screen:
        screen.painted("F000000")
        screen.quiet(0.3)
        screen.press(" ")
        screen.painted("F00006")
        before, began, cpu = screen.position, time.perf_counter(), sum(cpu_of_process(screen.pid))
        time.sleep(_SECONDS)  # what is measured: what is painted in so long
        took, used = time.perf_counter() - began, sum(cpu_of_process(screen.pid)) - cpu
        written = screen.shown[before:]
        memory = _memory(screen.pid)
    pictures = len(set(_FRAME.findall(written))) / took
    note = (
        f"at most 30 are wanted; {used / took:.0%} of a core, {len(written) / took / 1e6:.2f} MB/s to the terminal, "
        f"the program has {memory:.0f} MB"
    )
    return {f"replay_frames_{name}": Result(float(f"{pictures:.3g}"), "pictures/s", None, None, "", note)}


def _memory(pid: int) -> float:
    """Resident megabytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
