"""Ends conductors by kill -9 at random moments: a hundred of real agents' runs, a thousand of simulated ones.

    make chaos [ARGS="--kills 100 --simulated 1000 --runs 10 --seed N --apart --only-real --thorough"]

Each run is killed a tenth of the times, and each kill is followed by the next conductor. Every run must end as if
nobody had been killed: the outcomes that its agents' stories lead to, no agent twice, and nothing left over. Counted
are tests without their right outcome (lost), and tests that were begun or fetched twice (doubled). A run that ends
before its last kill leaves those to another run. The seed is printed; the same seed kills after as many lines of the
journal.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from core.run import killing  # noqa: E402 -- the tests' own harness, from where it is
from core.run.conduct import test_chaos as simulated  # noqa: E402
from core.run.rehearsals import a_rehearsal, doubled, lost  # noqa: E402
from worlds import a_world  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 1.5
"""Seconds between a line of the journal and the kill, at most: what runs beside the loop takes as long."""
AGENTS = 100
"""Agents of a simulated run."""
LINES = 4
"""Lines that a simulated conductor writes before its kill, at most; a run of 100 agents writes 700 or more."""


type Found = tuple[int, int, int, list[str], list[str]]
"""Of one run: its kills, conductors and tests, and the tests that were lost and doubled."""


def main() -> int:
    """Kill what was asked for; 1 where a test was lost or doubled."""
    arguments = _arguments()
    dice = random.Random(arguments.seed)
    print(f"seed {arguments.seed}", flush=True)
    each = 1 if arguments.apart else -(-arguments.kills // arguments.runs)
    is_well = _all("real", arguments.kills, each, dice, _real)
    if not arguments.only_real:
        is_well &= _all("simulated", arguments.simulated, -(-arguments.simulated // arguments.runs), dice, _simulated)
    return (_thorough() if arguments.thorough else 0) if is_well else 1


def _all(
    kind: str, wanted: int, each: int, dice: random.Random, one_run: Callable[[random.Random, int], Found]
) -> bool:
    """Kill so many conductors, `each` of one run; print what was lost and doubled over all."""
    began, killed, runs, all_lost, all_doubled = time.monotonic(), 0, 0, 0, 0
    while killed < wanted:
        runs += 1
        kills, conductors, tests, run_lost, run_doubled = one_run(dice, min(each, wanted - killed))
        killed, all_lost, all_doubled = killed + kills, all_lost + len(run_lost), all_doubled + len(run_doubled)
        says = "".join(f"\n  lost: {name}" for name in run_lost) + "".join(
            f"\n  doubled: {name}" for name in run_doubled
        )
        print(
            f"{kind} run {runs}: {tests} agents, {kills} kills, {conductors} conductors, "
            f"{len(run_lost)} lost, {len(run_doubled)} doubled, {time.monotonic() - began:.0f} s{says}",
            flush=True,
        )
    print(f"{kind}: {killed} kills, {runs} runs, {all_lost} lost, {all_doubled} doubled", flush=True)
    return not all_lost and not all_doubled


def _real(dice: random.Random, most: int) -> Found:
    with a_world() as world:
        run = killing.begin(world)
        while len(run.kills) < most:
            # Some fall before the first line, most among the lines of the launches, the fetches and the stops.
            if not run.conduct_and_kill(dice, dice.randrange(90 if most == 1 else 9), LONGEST):
                break
        run.conduct()
        run_lost, run_doubled = run.lost(), run.doubled()
        if not run_lost and not run_doubled:
            run.assert_as_if_undisturbed()
        return len(run.kills), run.run.conductors, len(run.stories), run_lost, run_doubled


def _simulated(dice: random.Random, most: int) -> Found:
    roles = [dice.choice(simulated.ROLES) for _ in range(AGENTS)]
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        rehearsal = a_rehearsal(
            Path(folder) / "run", roles, seed=dice.randrange(10**6), policy=simulated.QUICK, max_running=30,
            launch_rate=2.0, timeout=3_600.0,
        )  # fmt: skip
        kills = 0
        while kills < most:
            is_line = dice.random() < 0.5
            lives = dice.randrange(1, 2 * LINES) if is_line else None
            seconds = None if is_line else dice.uniform(0.0, 30.0)
            if rehearsal.conduct(lives=lives, torn=dice.choice(simulated.TORN), seconds=seconds) is not None:
                break
            kills += 1
        rehearsal.conduct()
        run_lost, run_doubled = lost(rehearsal), doubled(rehearsal)
        if not run_lost and not run_doubled:
            simulated.assert_as_if_undisturbed(rehearsal)
        return kills, rehearsal.run.conductors, AGENTS, run_lost, run_doubled


def _thorough() -> int:
    print("the tests of conductors that are killed, ten times as often as in `make test` …", flush=True)
    argv = (sys.executable, "-m", "pytest", "tests/core/run/conduct/test_chaos.py", "-q", "-o", "timeout=7200")
    return subprocess.run(argv, cwd=ROOT, env={**os.environ, "CHAOS": "10"}, check=False).returncode


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="how many conductors of real agents are killed (100)")
    parser.add_argument("--simulated", type=int, default=1000, help="how many of simulated agents (1000)")
    parser.add_argument("--runs", type=int, default=10, help="over how many runs of each kind (10)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="chooses the moments")
    parser.add_argument("--apart", action="store_true", help="a run of its own for each kill of real agents")
    parser.add_argument("--only-real", action="store_true", help="without the simulated crew")
    parser.add_argument(
        "--thorough", action="store_true", help="then the tests of killed conductors, ten times as often"
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
