"""The rows of the player: how fast a recording is indexed, how fast any moment of it is there, and how it is painted.

Recordings are generated: what agents print, a full-screen program that draws in all colours, and plain lines.
"""

from __future__ import annotations

import asyncio
import random
import resource
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Result, Stopwatch, percentile, result
from selftest_recorder.cast import read_cast
from selftest_recorder.cast_shapes import OUTPUT, Header
from selftest_recorder.cast_writing import write_cast
from selftest_recorder.index import Index
from selftest_recorder.indexing import Indexer
from selftest_recorder.terminal import open_terminal
from selftest_recorder.timeline import open_timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COLUMNS, ROWS = 120, 40
_INDEX_BUDGET = 100.0
_STATE_BUDGET, _PAINT_BUDGET = 5.0, 30.0
_SEEKS = 200

type Events = Iterator[tuple[float, str, str]]


def _agent(chance: random.Random, number: int) -> str:
    if number % 12:
        return (
            f"\x1b[2m  {number:>6}\x1b[0m \x1b[3{number % 8}m●\x1b[0m edits src/module_{number % 97}.py and runs it\r\n"
        )
    steps = (f"\x1b[{row};1H\x1b[38;5;{chance.randint(16, 255)}mstep {row}\x1b[0m" for row in range(1, 30))
    return "\x1b[2J\x1b[H" + "".join(steps)


def _drawing(chance: random.Random, number: int) -> str:
    row = number % ROWS + 1
    cells = "".join(
        f"\x1b[38;2;{chance.randint(0, 255)};{number % 256};90;48;2;9;{chance.randint(0, 255)};9m{chr(97 + at % 26)}"
        for at in range(COLUMNS)
    )
    return f"\x1b[{row};1H{cells}\x1b[0m"


def _plain(chance: random.Random, number: int) -> str:
    return f"{number} {'plain words of a log ' * 4}{chance.random()}\r\n"


KINDS: dict[str, Callable[[random.Random, int], str]] = {"agent": _agent, "drawing": _drawing, "plain": _plain}


def _events(kind: str, size: int) -> Events:
    chance = random.Random(7)
    made, number, then = 0, 0, 0.0
    blocks = [KINDS[kind](chance, number) for number in range(3000)]
    while made < size:
        data = blocks[number % len(blocks)]
        then += 0.05
        made += len(data) + data.count("\x1b") * 5 + 20
        yield round(then, 3), OUTPUT, data
        number += 1


def replay(large: int = 200) -> dict[str, Result]:
    """All rows; `large`: megabytes of the largest recording."""
    rows: dict[str, Result] = {}
    open_terminal(COLUMNS, ROWS)  # its import is no part of any row
    with tempfile.TemporaryDirectory(prefix="selftest-bench-") as name:
        folder = Path(name)
        for kind, size in (("agent", 10), ("drawing", 10), ("plain", 10), ("agent", large)):
            path = folder / f"{kind}-{size}.cast"
            write_cast(path, Header(2, COLUMNS, ROWS), _events(kind, size * 1_000_000))
            rows |= _index(path, f"{kind}_{size}mb")
            rows |= _seek(path, folder, f"{kind}_{size}mb")
        rows |= asyncio.run(_paint(folder / "agent-10.cast", folder))
    return rows


def _index(path: Path, name: str) -> dict[str, Result]:
    recording, index = read_cast(path), Index()
    megabytes = path.stat().st_size / 1e6
    with Stopwatch() as watch:
        indexer = Indexer(recording, index)
        while indexer.step():
            pass
    terminal = open_terminal(COLUMNS, ROWS)
    with Stopwatch() as bare:
        for event in read_cast(path).events():
            terminal.feed(event.data.encode())
    note = (
        f"{megabytes:.0f} MB, {index.events} events, {len(index.keyframes)} keyframes in {watch.wall:.2f} s "
        f"({watch.cpu:.2f} s of CPU)"
    )
    against = f"event by event without keyframes: {megabytes / bare.wall:.0f} MB/s"
    speed = float(f"{megabytes / watch.wall:.4g}")
    return {f"replay_index_{name}": Result(speed, "MB/s", _INDEX_BUDGET, speed >= _INDEX_BUDGET, against, note)}


def _seek(path: Path, folder: Path, name: str) -> dict[str, Result]:
    environ = {"XDG_CACHE_HOME": str(folder / "cache")}
    chance = random.Random(3)
    with open_timeline(path, environ) as timeline:
        timeline.finish()
        took = []
        for _ in range(_SEEKS):
            moment = chance.uniform(0, timeline.duration)
            began = time.perf_counter()
            timeline.seek(moment)
            took.append((time.perf_counter() - began) * 1000)
        with Stopwatch() as watch:
            timeline.seek(0.0)
            timeline.seek(timeline.duration)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        note = (
            f"{timeline.duration / 3600:.1f} h; p50 {percentile(took, 50):.1f}, max {max(took):.1f} ms, "
            f"from end to beginning and back {watch.wall * 1000:.1f} ms; this process has had {memory:.0f} MB"
        )
    return {f"replay_seek_{name}": result(percentile(took, 95), "ms", _STATE_BUDGET, note=note)}


async def _paint(path: Path, folder: Path) -> dict[str, Result]:
    """A key that seeks, until its picture is drawn."""
    from selftest_tui.replay_app import ReplayApp

    app = ReplayApp(path, {"XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder)})
    took = []
    async with app.run_test(size=(130, 46)) as pilot:
        while not app.replay.is_mounted or not app.replay.query("Player") or app.replay.player.is_opening:
            await pilot.pause(0.02)
        chance = random.Random(4)
        for _ in range(60):
            began = time.perf_counter()
            await pilot.press(str(chance.randint(0, 9)))
            await pilot.pause()
            took.append((time.perf_counter() - began) * 1000)
    note = f"key, seek and picture at {COLUMNS}x{ROWS} by Pilot; p50 {percentile(took, 50):.1f}, max {max(took):.1f} ms"
    return {"replay_seek_to_paint": result(percentile(took, 95), "ms", _PAINT_BUDGET, note=note)}
