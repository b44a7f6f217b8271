"""The process that `run_rows.thousand` measures: `python -m bench.run_child TESTS` conducts a run and prints JSON."""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from bench.run_rows import simulated_plan
from selftest_core.journal import Journal, read
from selftest_core.run.conduct.conductor import Conductor
from selftest_core.run.fold import apply, begin, fold
from selftest_core.run.store import make_run_folder
from simulated.clock import SimulatedClock, play
from simulated.crew import Role, SimulatedBundles, SimulatedCrew, SimulatedWorld

AT_ONCE = 50
# Of ten agents: seven succeed, one crashes, one leaves its test red, one fails to be made at first.
_ROLES = (*[Role.SUCCEEDS] * 7, Role.CRASHES, Role.STAYS_RED, Role.FAILS_TO_LAUNCH_ONCE)


def main(tests: int) -> None:
    """Conduct, and print what it took. CPU in seconds, sizes in KiB, the journal in bytes."""
    dice = random.Random(tests)
    with tempfile.TemporaryDirectory() as made:
        repository = Path(made)
        plan = simulated_plan(tests, repository, AT_ONCE)
        folder = make_run_folder(plan, {"XDG_STATE_HOME": f"{made}/state"})
        world = SimulatedWorld(1, {test.agent_name: dice.choice(_ROLES) for test in plan.tests})
        clock = SimulatedClock()
        before = _resident()
        began = time.process_time()

        async def life() -> float:
            with Journal(folder.journal) as journal:
                crew = SimulatedCrew(world, clock)
                await Conductor(plan, journal, crew, folder, SimulatedBundles(), clock=clock).run()
            return clock.passed

        seconds = play(life)
        cpu = time.process_time() - began
        after = _resident()
        data = folder.journal.read_bytes()
        if not folder.read().is_over or world.wrongs:
            raise SystemExit(f"the run did not end as it must: {world.wrongs}")
        began = time.process_time()
        entries = read(data).entries
        was_read = time.process_time()
        fold(plan, entries)
        folded = time.process_time()
        run = begin(plan)
        for entry in entries:
            run = apply(run, entry)
        applied = time.process_time()
    said = {
        "seconds": seconds, "cpu": cpu, "before": before, "after": after, "bytes": len(data), "lines": len(entries),
        "at_once": AT_ONCE, "read": was_read - began, "fold": folded - was_read, "apply": applied - folded,
    }  # fmt: skip
    print(json.dumps(said))


def _resident() -> int:
    """The largest resident size of this process so far, in KiB."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "linux" else largest // 1024


if __name__ == "__main__":
    main(int(sys.argv[1]))
