"""The measured process of `headless_rows`: `python -m bench.headless_child keys|memory SIZE COUNT` prints JSON."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import events

import scenes
from selftest_core.agents import State
from selftest_core.fleet.fold import Fleet, apply, view
from selftest_core.fleet.observations import Listed, ListFailed, ListingError, Probed
from selftest_tui.app.app import FleetApp
from selftest_tui.fleet.agent_table import AgentTable
from simulated.watch import StillWatch

if TYPE_CHECKING:
    from selftest_core.fleet.view import FleetView

_CHANGED = 10


class Looks:
    """Look after look of the probe, each with ten agents changed, folded as the watch does.

    After each fifth look a remote provider answers, and flaps: with its agents, with an error, or with nothing.
    """

    def __init__(self, size: int) -> None:
        self._scene = scenes.many(size)
        self._probed = self._scene.probed
        self._fleet: Fleet = self._scene.fleet
        agents = [row.agent for row in view(self._fleet, self._probed.at).rows]
        self._flapping = tuple(agent for agent in agents if agent.host.provider == scenes.BOX.provider)
        self._turn = 0

    def view(self) -> FleetView:
        """The fleet now."""
        return view(self._fleet, self._probed.at)

    def next(self) -> FleetView:
        """The fleet after one more look."""
        self._turn += 1
        agents = list(self._probed.agents)
        for number in range(_CHANGED):
            place = (self._turn * _CHANGED + number * 37) % len(agents)
            agent = agents[place]
            state = State.WAITING if agent.state is State.RUNNING else State.RUNNING
            agents[place] = replace(agent, state=state, title=f"turn {self._turn}")
        self._probed = Probed(
            self._probed.at + 1.0, self._probed.host_id, self._probed.host_name, tuple(agents), self._probed.servers
        )
        self._fleet = apply(self._fleet, self._probed)
        if self._turn % 5 == 0:
            self._fleet = apply(self._fleet, self._answer_of_flapping(self._turn // 5 % 4))
        return self.view()

    def _answer_of_flapping(self, turn: int) -> Listed | ListFailed:
        provider, at = scenes.BOX.provider, self._probed.at
        if turn == 0:
            return ListFailed(at, provider, "mngr list gave no answer", seconds=0.1)
        errors = (ListingError(provider, "Could not connect to host box1"),) if turn == 1 else ()
        agents = self._flapping if turn == 2 else ()
        return Listed(at, provider, agents, errors, 0.1)


def _app(looks: Looks) -> tuple[FleetApp, list[StillWatch]]:
    watches: list[StillWatch] = []

    def make(publish: Any) -> StillWatch:
        watches.append(StillWatch(looks.view(), publish))
        return watches[-1]

    return FleetApp(make, {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}, folder=Path("/"), place="bench"), watches


async def keys(size: int, count: int) -> dict[str, Any]:
    """Press cursor keys while views come, and time each until the screen has been composed anew."""
    looks = Looks(size)
    app, watches = _app(looks)
    samples: list[float] = []
    shown = 0
    over = threading.Event()
    async with app.run_test(size=(180, 50)) as pilot:
        await pilot.pause()
        table = app.fleet.query_one(AgentTable)
        table.focus()
        table.go_to(0)
        await pilot.pause()

        def keep_coming() -> None:
            nonlocal shown
            while not over.wait(0.2):
                watches[0].show(looks.next())
                shown += 1

        coming = threading.Thread(target=keep_coming, daemon=True)
        coming.start()
        for number in range(count):
            await asyncio.sleep(0.01 + number % 7 * 0.005)
            before = table.cursor
            painted = asyncio.Event()
            key = "down" if number // 20 % 2 == 0 else "up"
            began = time.perf_counter()
            app.post_message(events.Key(key, None))
            while table.cursor == before and time.perf_counter() - began < 5:
                await asyncio.sleep(0)
            app.screen.call_after_refresh(painted.set)
            await painted.wait()
            samples.append((time.perf_counter() - began) * 1000)
        over.set()
        coming.join()
    return {"milliseconds": samples, "views": shown}


async def memory(size: int, count: int) -> dict[str, Any]:
    """Show one view after another, each as soon as the last is on the screen, and note the resident size."""
    looks = Looks(size)
    app, watches = _app(looks)
    points: list[tuple[int, int]] = []
    async with app.run_test(size=(180, 50)) as pilot:
        await pilot.pause()
        for number in range(count):
            painted = asyncio.Event()
            watches[0].show(looks.next())
            app.screen.call_after_refresh(painted.set)
            await painted.wait()
            if len(app.fleet.view.rows) != size:
                raise RuntimeError(f"{len(app.fleet.view.rows)} of {size} agents are left")
            if number % max(1, count // 60) == 0:
                points.append((number, _resident()))
    return {"points": points}


def _resident() -> int:
    """KiB of memory that this process occupies now; its peak where now cannot be seen."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize() // 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    """Measure what the arguments say, and print it."""
    what, size, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(asyncio.run({"keys": keys, "memory": memory}[what](size, count))))


if __name__ == "__main__":
    main()
