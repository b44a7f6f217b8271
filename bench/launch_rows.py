"""The rows of mngr loaded once: a hundred agents launched by it and by hand, and what one list costs."""

from __future__ import annotations

import contextlib
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
from selftest_core.tools.mngr import find_mngr
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from selftest_core.demo.private_world import PrivateWorld

AT_ONCE = 5
_LONGEST = 290.0
_LISTS = 3


@dataclass(slots=True)
class _Side:
    """One way to call mngr, in a world of its own: started each time, or loaded once."""

    world: PrivateWorld
    program: Path
    loaded: LoadedMngr | None = None
    wall: float = 0.0
    latencies: list[float] = field(default_factory=list)
    list_cpu: dict[int, float] = field(default_factory=dict)
    """CPU seconds of one list, with all that it starts, by the number of agents."""

    def prepare(self) -> None:
        """List once, since mngr writes the files that all agents share; wait until it is loaded."""
        self._list()
        deadline = time.perf_counter() + _LONGEST
        while self.loaded is not None and self.loaded.state != "loaded":
            if time.perf_counter() > deadline:
                raise RuntimeError(self.loaded.state)
            self._list()

    def launch(self, ids: Sequence[str]) -> None:
        """Create these agents, `AT_ONCE` at a time."""
        programs = [self._path() for _ in ids]
        began = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self.latencies += pool.map(self._create, ids, programs)
        self.wall = time.perf_counter() - began
        if self.loaded is not None and self.loaded.state != "loaded":
            raise RuntimeError(self.loaded.state)

    def measure_list(self, ids: Sequence[str]) -> None:
        """List some times, and check that exactly these agents are there."""
        costs = []
        for _ in range(_LISTS):
            before = 0.0 if self.loaded is None else self.loaded.cpu_seconds()
            with Stopwatch() as watch:
                found = self._list()
            costs.append(watch.child_cpu - before + (0.0 if self.loaded is None else self.loaded.cpu_seconds()))
            if found != frozenset(ids):
                raise RuntimeError(f"{len(found)} of {len(ids)} agents are there")
        self.list_cpu[len(ids)] = median(costs)

    def _path(self) -> Path:
        return self.program if self.loaded is None else self.loaded.path()

    def _create(self, agent_id: str, program: Path) -> float:
        argv = (
            str(program), "create", f"st-7f-{agent_id[-8:]}", "--id", agent_id, "--type", "command",
            "--transfer", "git-mirror", "--no-connect", "--headless", "--format", "json", "--", "sleep", "100000",
        )  # fmt: skip
        began = time.perf_counter()
        done = run(argv, timeout=_LONGEST, cwd=self.world.root / "r", env=self.world.tools_environ)
        if not done.ok:
            raise ToolFailedError("mngr could not create an agent", done.stderr_end, argv=argv)
        return time.perf_counter() - began

    def _list(self) -> frozenset[str]:
        argv = (self._path(), "list", "--format", "json", "--provider", "local")
        done = run(argv, timeout=_LONGEST, cwd=self.world.root / "r", env=self.world.tools_environ)
        listed = parse_listing(done.stdout, at=time.time(), provider="local", exit_status=done.exit_status)
        return frozenset(agent.id for agent in listed.agents)


def launch(agents: int) -> dict[str, Result]:
    """The same agents launched by hand and by the loaded mngr, one after the other, as many at once."""
    ids = [f"agent-{secrets.token_hex(16)}" for _ in range(agents)]
    by_hand, ours = _measured(ids, is_loaded=False), _measured(ids, is_loaded=True)
    row = result(
        ours.wall / by_hand.wall, "x", 0.5,
        against=f"the same {agents} `mngr create` by hand, {AT_ONCE} at once: {by_hand.wall:.0f} s, "
        f"{agents / by_hand.wall:.2f} a second, median {median(by_hand.latencies):.1f} s each",
        note=f"{agents} real command agents with the same ids by the loaded mngr: {ours.wall:.0f} s, "
        f"{agents / ours.wall:.2f} a second, median {median(ours.latencies):.1f} s each; load {os.getloadavg()[0]:.1f}",
    )  # fmt: skip
    return {f"launch_{agents}": row} | {f"list_cpu_{count}": _list_row(by_hand, ours, count) for count in (0, agents)}


def _measured(ids: Sequence[str], *, is_loaded: bool) -> _Side:
    """Launch the agents in a new world, which ends with them: more processes would slow the other side."""
    with a_world() as world, contextlib.ExitStack() as stack:
        program = find_mngr(world.environ)
        side = _Side(world, program.path)
        if is_loaded:
            side.loaded = stack.enter_context(contextlib.closing(LoadedMngr(program, world.tools_environ)))
        side.prepare()
        side.measure_list(())
        side.launch(ids)
        side.measure_list(ids)
        return side


def _list_row(by_hand: _Side, ours: _Side, agents: int) -> Result:
    """Compare the CPU time of one list, with the programs that mngr runs for it."""
    before, after = by_hand.list_cpu[agents], ours.list_cpu[agents]
    return result(
        after / before, "x", 1 / 3, against=f"`mngr list` started each time: {before:.2f} s CPU",
        note=f"{agents} agents: {after:.2f} s CPU by the loaded mngr, with its small program; median of {_LISTS}",
    )  # fmt: skip
