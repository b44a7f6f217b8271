"""The rows of mngr loaded once: a hundred agents launched by it and by hand, and what one list costs."""

from __future__ import annotations

import os
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.fleets import a_world
from bench.measure import Result, Stopwatch, median, result
from selftest_core.errors import ToolFailedError
from selftest_core.fleet.sources.mngr_list import parse_listing
from selftest_core.tools.loaded.loaded_mngr import LoadedMngr
from selftest_core.tools.mngr import MngrProgram, find_mngr
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from selftest_core.demo.private_world import PrivateWorld

AT_ONCE = 5
_BATCH = 10
_LONGEST_CREATE = 290.0
_LISTS = 3


@dataclass(slots=True)
class _Side:
    """One way to call mngr, in a world of its own. `program`: the program of one call."""

    world: PrivateWorld
    program: Callable[[], Path]
    wall: float = 0.0
    latencies: list[float] = field(default_factory=list)

    def launch(self, ids: Sequence[str]) -> None:
        """Create these agents, `AT_ONCE` at a time."""
        programs = [self.program() for _ in ids]
        began = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self.latencies += pool.map(self._create, ids, programs)
        self.wall += time.perf_counter() - began

    def _create(self, agent_id: str, program: Path) -> float:
        argv = (
            str(program), "create", f"st-7f-{agent_id[-8:]}", "--id", agent_id, "--type", "command",
            "--transfer", "git-mirror", "--no-connect", "--headless", "--format", "json", "--", "sleep", "100000",
        )  # fmt: skip
        began = time.perf_counter()
        done = run(argv, timeout=_LONGEST_CREATE, cwd=self.world.root / "r", env=self.world.tools_environ)
        if not done.ok:
            raise ToolFailedError("mngr could not create an agent", done.stderr_end, argv=argv)
        return time.perf_counter() - began

    def list(self) -> frozenset[str]:
        """Return the ids of all agents."""
        argv = (self.program(), "list", "--format", "json", "--provider", "local")
        done = run(argv, timeout=_LONGEST_CREATE, cwd=self.world.root / "r", env=self.world.tools_environ)
        listed = parse_listing(done.stdout, at=time.time(), provider="local", exit_status=done.exit_status)
        return frozenset(agent.id for agent in listed.agents)


def launch(agents: int) -> dict[str, Result]:
    """Agents launched by hand and by the loaded mngr, in batches by turns, as many at once and with the same ids."""
    with a_world() as by_hand_world, a_world() as ours_world:
        program = find_mngr(ours_world.environ)
        loaded = LoadedMngr(program, ours_world.tools_environ)
        try:
            by_hand = _Side(by_hand_world, lambda: program.path)
            ours = _Side(ours_world, loaded.path)
            _load(loaded, ours)
            by_hand.list()  # as `ours` did: mngr writes the files that all agents share
            rows = {"list_cpu_0": _list_row(by_hand, ours, loaded, program, 0)}
            ids = [f"agent-{secrets.token_hex(16)}" for _ in range(agents)]
            for start in range(0, agents, _BATCH):
                for side in (by_hand, ours) if start // _BATCH % 2 else (ours, by_hand):
                    side.launch(ids[start : start + _BATCH])
            found = (by_hand.list(), ours.list())
            if found != (frozenset(ids), frozenset(ids)):
                raise RuntimeError(f"{len(found[0])} and {len(found[1])} of {agents} agents are there")
            rows[f"list_cpu_{agents}"] = _list_row(by_hand, ours, loaded, program, agents)
            state = loaded.state
        finally:
            loaded.close()
    if state != "loaded":
        raise RuntimeError(state)
    rows[f"launch_{agents}"] = result(
        ours.wall / by_hand.wall, "x", 0.5,
        against=f"the same {agents} `mngr create` by hand, {AT_ONCE} at once: {by_hand.wall:.0f} s, "
        f"{agents / by_hand.wall:.2f} a second, median {median(by_hand.latencies):.1f} s each",
        note=f"{agents} real command agents with the same ids, in batches of {_BATCH} by turns: {ours.wall:.0f} s, "
        f"{agents / ours.wall:.2f} a second, median {median(ours.latencies):.1f} s each; load {os.getloadavg()[0]:.1f}",
    )  # fmt: skip
    return rows


def _load(loaded: LoadedMngr, side: _Side) -> None:
    deadline = time.perf_counter() + _LONGEST_CREATE
    while loaded.state != "loaded" and time.perf_counter() < deadline:
        side.list()
    if loaded.state != "loaded":
        raise RuntimeError(loaded.state)


def _list_row(by_hand: _Side, ours: _Side, loaded: LoadedMngr, program: MngrProgram, agents: int) -> Result:
    """CPU of one list, with all that it starts, by turns."""
    plain, forked = [], []
    for _ in range(_LISTS):
        with Stopwatch() as watch:
            by_hand.list()
        plain.append(watch.child_cpu)
        before = loaded.cpu_seconds()
        with Stopwatch() as watch:
            ours.list()
        forked.append(watch.child_cpu + loaded.cpu_seconds() - before)
    return result(
        median(forked) / median(plain), "x", 1 / 3,
        against=f"`{program.path.name} list` started each time: {median(plain):.2f} s CPU",
        note=f"{agents} agents: {median(forked):.2f} s CPU by the loaded mngr, and its small program; "
        f"median of {_LISTS}",
    )  # fmt: skip
