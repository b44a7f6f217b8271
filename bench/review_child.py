"""The measured process of `review_rows`: `python -m bench.review_child FILES COUNT` prints JSON."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from textual import events

import scenes
from bench.histories import history
from selftest_core.review.changes.inputs import Request
from selftest_tui.app.app import FleetApp
from selftest_tui.review.lines import ReviewGroup
from selftest_tui.review.screen import ReviewScreen
from simulated.watch import StillWatch

if TYPE_CHECKING:
    from bench.histories import History
    from selftest_tui.review.lines import ReviewRow

_PATIENCE = 120.0


async def decisions(made: History, count: int) -> dict[str, Any]:
    """Decide on change after change, and time each until it shows, and until the line for it is on the screen."""
    view = scenes.few().view
    environ = {**made.environ, "HOME": str(made.folder.parent), "TMUX_TMPDIR": "/nonexistent/t"}
    app = FleetApp(lambda publish: StillWatch(view, publish), environ, folder=made.folder, place="bench")
    shown: list[float] = []
    laid: list[float] = []
    cpu: list[float] = []
    async with app.run_test(size=(180, 50)) as pilot:
        began = time.perf_counter()
        app.open_review(Request(targets=made.branches, base="main"))
        screen = await opened(app)
        await painted(screen)
        opening = (time.perf_counter() - began) * 1000
        await until(lambda: screen.state is not None and screen.state.reviewed.dependents.is_whole)
        whole = (time.perf_counter() - began) * 1000
        await pilot.pause()
        # Drops that others need ask first: what a person answers to is not measured here.
        rows = [row for row in screen.rows if row.number and not row.needed_by]
        dependents = screen.state.reviewed.dependents if screen.state is not None else None
        rows = [row for row in rows if dependents is None or row.oid not in dependents.lets_in]
        for number in range(count):
            row = rows[number * 37 % len(rows)]
            screen.table.go_to_key(row.key)
            await pilot.pause()
            await until(lambda: screen.is_settled and screen.is_at_rest and screen.feed.is_idle)
            # A person decides on what they have seen.
            await until(lambda: screen.pane.diff.is_coloured)
            await painted(screen)
            now = screen.table.row
            assert now is not None
            key = "x" if now.decision.value != "revert" and number % 2 else "y" if now.decision.value != "keep" else "x"
            spent = time.process_time()
            times = await _decided(app, screen, now, key)
            cpu.append((time.process_time() - spent) * 1000)
            shown.append(times[0])
            laid.append(times[1])
        changes = len(screen.rows)
        # Closing puts the candidate where it can be tested: the folder must not go before that is done.
        await screen.feed.act(lambda session: session.close())
    return {"shown": shown, "laid": laid, "cpu": cpu, "changes": changes, "opening": opening, "whole": whole}


async def _decided(app: FleetApp, screen: ReviewScreen, row: ReviewRow, key: str) -> tuple[float, float]:
    """Milliseconds until the decision on the change under the cursor is painted, and until its line is."""
    state = screen.state
    began = time.perf_counter()
    app.post_message(events.Key(key, key))
    await until(lambda: _row(screen, row.key).decision is not row.decision)
    await painted(screen)
    shown = (time.perf_counter() - began) * 1000
    await until(lambda: screen.state is not state and screen.is_settled)
    await painted(screen)
    return shown, (time.perf_counter() - began) * 1000


def _row(screen: ReviewScreen, key: str) -> ReviewRow:
    """The change as the table shows it: after a decision the cursor is on the next one."""
    line = screen.table.shown.lines[screen.table.shown.places[key]]
    assert not isinstance(line, ReviewGroup)
    return line


async def opened(app: FleetApp) -> ReviewScreen:
    """Wait until the review is open, with its rows in the table."""
    deadline = time.perf_counter() + _PATIENCE
    while time.perf_counter() < deadline:
        screen = app.screen
        if isinstance(screen, ReviewScreen) and screen.state is not None and screen.rows:
            return screen
        await asyncio.sleep(0.005)
    raise RuntimeError("the review was never open")


async def painted(screen: ReviewScreen) -> None:
    """Wait until the screen has been composed anew."""
    is_painted = asyncio.Event()
    screen.call_after_refresh(is_painted.set)
    await is_painted.wait()


async def until(holds: Any) -> None:
    """Wait until a condition holds."""
    deadline = time.perf_counter() + _PATIENCE
    while not holds():
        if time.perf_counter() > deadline:
            raise RuntimeError("it never came")
        await asyncio.sleep(0.001)


def main() -> None:
    """Measure what the arguments say, and print it."""
    with history(int(sys.argv[1])) as made:
        print(json.dumps(asyncio.run(decisions(made, int(sys.argv[2])))))


if __name__ == "__main__":
    main()
