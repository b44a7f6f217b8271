"""The rows of the player: how fast a recording is indexed, and how fast any moment of it is there.

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

from bench import replay_screen_rows
from bench.measure import Result, Stopwatch, median, percentile, result
from selftest_recorder.cast.events import OUTPUT, Header
from selftest_recorder.cast.reader import read_cast
from selftest_recorder.cast.spans import Position, read_span
from selftest_recorder.cast.writer import write_cast
from selftest_recorder.index.index import SPACING
from selftest_recorder.index.index_file import build
from selftest_recorder.index.timeline import open_timeline
from selftest_recorder.terminal.emulator import open_terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from selftest_recorder.cast.reader import Recording
    from selftest_recorder.index.timeline import Timeline

COLUMNS, ROWS = 120, 40
_INDEX_BUDGET = 100.0
_ALLOWED = 1.5
_STATE_BUDGET = 5.0
_SEEKS = 200
_AT_LEAST = 100
"""Megabytes that are indexed at least: a short recording takes a tenth of a second."""

type Events = Iterator[tuple[float, str, str]]


def agent_like(chance: random.Random, number: int) -> str:
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


KINDS: dict[str, Callable[[random.Random, int], str]] = {"agent": agent_like, "drawing": _drawing, "plain": _plain}


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
    """All rows; `large`: megabytes of the large recordings."""
    rows: dict[str, Result] = {}
    open_terminal(COLUMNS, ROWS)  # its import is no part of any row
    with tempfile.TemporaryDirectory(prefix="selftest-bench-") as name:
        folder = Path(name)
        for size in (10, large):
            for kind in KINDS:
                path = folder / f"{kind}-{size}.cast"
                write_cast(path, Header(2, COLUMNS, ROWS), _events(kind, size * 1_000_000))
                rows |= _index(path, f"{kind}_{size}mb")
                rows |= _seek(path, folder, f"{kind}_{size}mb")
                if (kind, size) == ("agent", large):
                    rows |= _seek_while_indexing(path, folder, f"{kind}_{size}mb")
                    rows |= asyncio.run(replay_screen_rows.delay_while_indexing(path, folder))
                if (kind, size) == ("agent", 10):
                    rows |= replay_screen_rows.key_to_picture(path, folder)
                path.unlink()
        rows |= replay_screen_rows.playing(folder)
    return rows


def _index(path: Path, name: str) -> dict[str, Result]:
    """The index, in turn with the emulator alone, since the machine may change its pace; a short one several times."""
    recording = read_cast(path)
    megabytes = path.stat().st_size / 1e6
    alone, built = [_emulator_alone(recording)], []
    for _ in range(max(1, round(_AT_LEAST / megabytes))):
        with Stopwatch() as watch:
            build(recording, path.with_suffix(".index"))
        built.append(watch)
        alone.append(_emulator_alone(recording))
    kept = path.with_suffix(".index").stat().st_size / 1e6
    took, cpu = median([watch.wall for watch in built]), median([watch.cpu for watch in built])
    speed, most = megabytes / took, megabytes * len(alone) / sum(alone)
    note = (
        f"{megabytes:.0f} MB in {took:.2f} s ({cpu:.2f} s of CPU), median of {len(built)}; "
        f"the index has {kept:.2f} MB; "
        f"within the budget too where the emulator alone is at most {_ALLOWED:g} times as fast"
    )
    against = f"the emulator alone, fed the same in the same pieces: {most:.0f} MB/s, {most / speed:.2f} times as fast"
    rounded, share = float(f"{speed:.4g}"), float(f"{100 * speed / most:.3g}")
    is_ok = speed >= _INDEX_BUDGET or most <= speed * _ALLOWED
    return {
        f"replay_index_{name}": Result(rounded, "MB/s", _INDEX_BUDGET, is_ok, against, note),
        f"replay_index_share_{name}": Result(share, "%", None, None, against, "of what the emulator allows here"),
    }


def _emulator_alone(recording: Recording) -> float:
    """Seconds that the emulator needs for all output, which is read before."""
    terminal, took, start = open_terminal(COLUMNS, ROWS), 0.0, Position(0.0, recording.begins, 1)
    while (span := read_span(recording, start, SPACING)).times:
        data = "".join(span.data).encode()
        began = time.perf_counter()
        terminal.feed(data)
        took += time.perf_counter() - began
        start = span.end
    return took


def _seek(path: Path, folder: Path, name: str) -> dict[str, Result]:
    environ = {"XDG_CACHE_HOME": str(folder / "cache")}
    chance = random.Random(3)
    with open_timeline(path, environ) as timeline:
        timeline.finish()
        cpu = time.process_time()
        took = [_one_seek(timeline, chance) for _ in range(_SEEKS)]
        cpu = (time.process_time() - cpu) / _SEEKS * 1000
        with Stopwatch() as watch:
            timeline.seek(0.0)
            timeline.seek(timeline.duration)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        note = (
            f"{timeline.duration / 3600:.1f} h; {_spread(took)}, {cpu:.1f} ms of CPU each, "
            f"from end to beginning and back {watch.wall * 1000:.1f} ms; this process has had {memory:.0f} MB"
        )
    return {f"replay_seek_{name}": result(percentile(took, 95), "ms", _STATE_BUDGET, note=note)}


def _seek_while_indexing(path: Path, folder: Path, name: str) -> dict[str, Result]:
    """With another process at it, which takes up a core."""
    chance, took = random.Random(5), []
    with open_timeline(path, {"XDG_CACHE_HOME": str(folder / "another cache")}) as timeline:
        while not timeline.is_complete:
            timeline.poll()
            if timeline.duration:
                took.append(_one_seek(timeline, chance))
    note = f"{len(took)} seeks in what was known by then; {_spread(took)}"
    return {f"replay_seek_during_{name}": result(percentile(took, 95), "ms", note=note)}


def _one_seek(timeline: Timeline, chance: random.Random) -> float:
    moment = chance.uniform(0, timeline.duration)
    began = time.perf_counter()
    timeline.seek(moment)
    return (time.perf_counter() - began) * 1000


def _spread(took: list[float]) -> str:
    return f"p50 {percentile(took, 50):.1f}, max {max(took):.1f} ms"
