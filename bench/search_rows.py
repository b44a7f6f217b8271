"""The rows of the search: how fast what 300 agents did is indexed, and how fast it is found.

Recordings are generated: pytest's output, words that come one by one, and a line that counts seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import run_scenes
from bench.measure import Result, Stopwatch, percentile, result
from selftest_core.paths import runs_folder
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import RunFolder
from selftest_recorder.cast.events import Header
from selftest_recorder.cast.writer import write_cast
from selftest_recorder.search.building import follow, start_builder
from selftest_recorder.search.database import Database, index_file
from selftest_recorder.search.hits import Searcher, parse_query, parse_regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from selftest_recorder.search.building import Progress

_AGENTS = 300
_DIFFERENT = 20
_BUILD_BUDGET, _QUERY_BUDGET, _DELAY_BUDGET = 60.0, 100.0, 33.0
_QUERIES = 200
_RARE = "zymurgist"


def _words(chance: random.Random, count: int) -> list[str]:
    letters = "abcdefghijklmnoprstuvw"
    return ["".join(chance.choices(letters, k=chance.randint(3, 10))) for _ in range(count)]


def _events(chance: random.Random, words: list[str], size: int) -> Iterator[tuple[float, str, str]]:
    made, then, second = 0, 0.0, 0
    while made < size:
        kind = chance.random()
        if kind < 0.3:
            data = "".join(
                f"\x1b[32mtests/test_{chance.choice(words)}.py\x1b[0m::test_{chance.choice(words)}"
                f" \x1b[3{number % 8}mPASSED\x1b[0m in {chance.random():.3f} s\r\n"
                for number in range(chance.randint(1, 30))
            )
        elif kind < 0.6:
            data = " ".join(chance.choices(words, k=3)) + ("\r\n" if chance.random() < 0.2 else " ")
        else:
            second += 1
            data = f"\x1b[s\x1b[40;1H\x1b[2K\x1b[35m✻\x1b[0m Working… ({second}s · esc to interrupt)\x1b[u"
        then += 0.12
        made += len(data) + data.count("\x1b") * 5 + 20
        yield round(then, 3), "o", data


def _make(folder: Path, megabytes: int) -> Path:
    """A repository with a run of 300 agents that have ended, with so many megabytes of recordings."""
    repository = folder / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True, timeout=60)
    plan = run_scenes.a_plan(_AGENTS, repository=str(repository))
    story = run_scenes.Story(plan, RunFolder(runs_folder(repository) / plan.run))
    chance = random.Random(7)
    words = _words(chance, 20_000)
    size, made = megabytes * 1_000_000 // _AGENTS, list[Path]()
    for number in range(_AGENTS):
        story.launch(number, number)
        story.end(number, 2_000.0 + number, End.SUCCEEDED, commits=1, outcome=run_scenes.FIXED)
        member = story.row(number).member
        assert member is not None
        path = story.folder.attempt(member) / "terminal.cast"
        if number < _DIFFERENT:
            write_cast(path, Header(2, 120, 40), _events(random.Random(number), words, size))
            made.append(path)
        else:  # nothing is shared between the lines of two recordings, so a copy costs as much as another one
            shutil.copyfile(made[number % _DIFFERENT], path)
        if number == _AGENTS // 2:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([1e6, "o", f"\r\n{_RARE}\r\n"]) + "\n")
    story.write()
    return repository


def _build(repository: Path, environ: Mapping[str, str]) -> tuple[Progress, float]:
    builder = start_builder(repository, environ)
    try:
        progress = list(follow(builder))[-1]
    finally:
        builder.end()
    if progress.error:
        raise RuntimeError(f"{progress.error}: {progress.detail}")
    return progress, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def search(megabytes: int = 200) -> dict[str, Result]:
    """All rows."""
    rows: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="selftest-bench-") as name:
        folder = Path(name)
        repository = _make(folder, megabytes)
        environ = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder)}
        with Stopwatch() as watch:
            progress, memory = _build(repository, environ)
        size = index_file(repository, environ).stat().st_size / 1e6
        note = (
            f"{_AGENTS} agents, {progress.done / 1e6:.0f} MB, {progress.lines:,} lines: "
            f"{progress.rate / 1e6:.1f} MB/s, {watch.cpu:.1f} s of CPU at low priority; the index has {size:.0f} MB; "
            f"children of this program have had {memory:.0f} MB"
        )
        rows["search_build"] = result(watch.wall, "s", _BUILD_BUDGET, note=note)
        with Stopwatch() as watch:
            _build(repository, environ)
        rows["search_nothing_new"] = result(watch.wall, "s", note="a process that finds that nothing has changed")
        rows |= _queries(repository, environ)
        rows |= asyncio.run(_delay_while_indexing(repository, {**environ, "XDG_CACHE_HOME": str(folder / "another")}))
    return rows


def _queries(repository: Path, environ: Mapping[str, str]) -> dict[str, Result]:
    chance = random.Random(3)
    words = _words(random.Random(7), 20_000)
    texts = [_RARE, "working", "passed", "test", "t", "src views.py", '"esc to interrupt"']
    texts += [chance.choice(words) for _ in range(_QUERIES // 3)]
    texts += [chance.choice(words)[:3] for _ in range(_QUERIES // 3)]
    texts += [f"test_{chance.choice(words)}.py::test_{chance.choice(words)[:2]}" for _ in range(_QUERIES // 3)]
    took, slowest = [], ("", 0.0)
    with Database(index_file(repository, environ)) as database:
        searcher = Searcher(database, repository)
        for text in texts:
            began = time.perf_counter()
            searcher.find(parse_query(text), 1_000)
            took.append((time.perf_counter() - began) * 1000)
            slowest = max(slowest, (text, took[-1]), key=lambda one: one[1])
        began = time.perf_counter()
        scan = searcher.scan(parse_regex(f"{_RARE[:4]}.*st$"))
        found = next(scan)
        first = time.perf_counter() - began
        rest = sum(1 for _ in scan)
        whole = time.perf_counter() - began
    assert found.text == _RARE
    spread = f"p50 {percentile(took, 50):.1f}, max {max(took):.0f} ms for {json.dumps(slowest[0])}"
    return {
        "search_words": result(
            percentile(took, 95), "ms", _QUERY_BUDGET,
            note=f"{len(took)} queries for words, beginnings of words and test ids, at most 1,000 hits; {spread}",
        ),
        "search_regex": result(
            whole, "s", note=f"every line; the only hit, in the 151st of 300 agents, after {first:.2f} s, {rest} more"
        ),
    }  # fmt: skip


async def _delay_while_indexing(repository: Path, environ: Mapping[str, str]) -> dict[str, Result]:
    """From a key to the end of what it causes, on the search screen, while its index is built."""
    import scenes
    from selftest_tui.search.screen import SearchScreen
    from tui.driving import driven
    from tui.quiet import press

    took: list[float] = []
    idle: list[float] = []
    async with driven(scenes.few().view, size=(120, 40), environ=dict(environ), folder=repository) as one:
        await press(one.app, "F")
        screen = one.app.screen
        assert isinstance(screen, SearchScreen)
        screen.search("passed")
        await press(one.app, "escape")
        while len(idle) < _QUERIES // 2:
            progress = screen.news.index
            into = idle if progress is not None and progress.is_done else took
            began = time.perf_counter()
            await press(one.app, "down" if len(into) % 20 < 10 else "up")
            into.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.03)
            if screen.news.error is not None:
                raise screen.news.error
    spread = f"p50 {percentile(took, 50):.1f}, max {max(took):.0f} ms"
    against = f"the same with a complete index: p50 {percentile(idle, 50):.1f}, p95 {percentile(idle, 95):.1f} ms"
    note = f"{len(took)} keys that move the cursor, while hits come in; {spread}"
    return {"search_key_while_indexing": result(percentile(took, 95), "ms", _DELAY_BUDGET, against=against, note=note)}
