"""The measured process of `verify_rows`: `python -m bench.verify_child FILES COUNT FOLDER` prints JSON."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

from textual import events

import scenes
from bench.review_child import opened, painted, until
from core.verify.desks import SANDBOX, SETTINGS
from core.verify.known_repository import KnownRepository
from core.verify.known_truth import KnownLine
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from selftest_core.verify.background.background_verifier import Phase
from selftest_core.verify.background.note import Started
from selftest_tui.app.app import FleetApp
from simulated.watch import StillWatch

_CHANGES = 60
_SLOT = re.compile(rb"/verify/[^/]+/([0-9]+)/")


async def keys(files: int, count: int, folder: Path) -> dict[str, Any]:
    """Press cursor keys in a review while two jobs verify it, and time each until the screen has been composed anew."""
    known = KnownRepository.make(KnownLine(random.Random(7), _CHANGES), folder / "repository", files)
    (folder / "home").mkdir()
    environ = {
        **os.environ, **SETTINGS, "HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache"),
        "TMUX_TMPDIR": "/nonexistent/t", "SELFTEST_TUI_VERIFY_JOBS": "2",
    }  # fmt: skip
    app = FleetApp(
        lambda publish: StillWatch(scenes.few().view, publish), environ, folder=known.repository.folder, place="bench"
    )
    quiet: list[float] = []
    busy: list[float] = []
    async with app.run_test(size=(180, 50)):
        app.open_review(Request(targets=known.branches, base="main"))
        screen = await opened(app)
        await until(lambda: screen.state is not None and screen.state.reviewed.dependents.is_whole)
        await painted(screen)

        async def press(number: int) -> float:
            before = screen.table.cursor
            key = "down" if number // 20 % 2 == 0 else "up"
            began = time.perf_counter()
            app.post_message(events.Key(key, None))
            while screen.table.cursor == before and time.perf_counter() - began < 5:
                await asyncio.sleep(0)
            await painted(screen)
            return (time.perf_counter() - began) * 1000

        for number in range(count):
            await asyncio.sleep(0.01 + number % 7 * 0.005)
            quiet.append(await press(number))
        verifier = screen.feed.verifier
        verifier.start(Started(SANDBOX.kind, network=False))
        reverted = iter([row.oid for row in screen.rows if row.number])
        number = 0
        while len(busy) < count:
            if verifier.state.phase is Phase.DONE:
                oid = next(reverted)
                await screen.act(lambda session, oid=oid: session.decide([oid], Decision.REVERT))  # type: ignore[misc]
                await until(lambda: verifier.state.phase is not Phase.DONE)
            await asyncio.sleep(0.01 + number % 7 * 0.005)
            slots = _busy(folder)
            taken = await press(number)
            number += 1
            if slots == 2:
                busy.append(taken)
        await screen.feed.act(lambda session: session.close())
        verifier.close()
    return {"quiet": quiet, "busy": busy}


def _busy(folder: Path) -> int:
    """Count the slots whose tests run now, by the command lines of their sandboxes."""
    cache = str(folder / "cache").encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if cache in words:
            found.update(_SLOT.findall(words))
    return len(found)


def main() -> None:
    """Measure what the arguments say, and print it."""
    print(json.dumps(asyncio.run(keys(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))))


if __name__ == "__main__":
    main()
