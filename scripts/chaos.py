"""Ends conductors by kill -9 at random moments of runs of twelve real agents, and has each taken up by the next.

    make chaos [ARGS="--kills 20 --seed N --apart"]

Every run must end as if nobody had been killed: the outcomes that its agents' stories lead to, no agent twice, and
nothing left over. Without --apart one run is killed as often as it goes; with it each moment has a run of its own,
which takes as many minutes as there are moments. After that the rehearsals on the simulated crew are killed too, ten
times as often as in `make test`. The seed is printed; the same seed kills after as many lines of the journal.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from core.run import killing  # noqa: E402 -- the tests' own harness, from where it is
from worlds import a_world  # noqa: E402

LONGEST = 1.5
"""Seconds between a line of the journal and the kill, at most: what runs beside the loop takes as long."""


def main() -> int:
    """Kill what was asked for; 1 where a run did not end as it must."""
    arguments = _arguments()
    dice = random.Random(arguments.seed)
    print(f"seed {arguments.seed}", flush=True)
    killed, runs = 0, 0
    while killed < arguments.kills:
        runs += 1
        killed += _one_run(dice, 1 if arguments.apart else arguments.kills - killed)
    print(f"{killed} kills in {runs} runs: every run ended as if undisturbed", flush=True)
    return 0 if arguments.only_real else _simulated()


def _one_run(dice: random.Random, most: int) -> int:
    began = time.monotonic()
    with a_world() as world:
        run = killing.begin(world)
        while len(run.kills) < most:
            # Some fall before the first line, most among the lines of the launches, the fetches and the stops.
            if not run.conduct_and_kill(dice, dice.randrange(90 if most == 1 else 9), LONGEST):
                break
            ends = sum(row.end is not None for row in run.run.rows.values())
            print(
                f"  kill {len(run.kills):2} after line {run.kills[-1]:3}, {ends:2} tests ended, "
                f"{time.monotonic() - began:4.0f} s",
                flush=True,
            )
        run.conduct()
        run.assert_as_if_undisturbed()
        print(
            f"a run of {len(run.stories)} agents ended as it must: {len(run.kills)} kills, {run.run.conductors} "
            f"conductors took part, {run.lines()} lines, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        return len(run.kills)


def _simulated() -> int:
    print("the same on the simulated crew, ten times as often as in `make test` …", flush=True)
    argv = (sys.executable, "-m", "pytest", "tests/core/run/conduct/test_chaos.py", "-q", "-o", "timeout=7200")
    return subprocess.run(argv, cwd=ROOT, env={**os.environ, "CHAOS": "10"}, check=False).returncode


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20, help="how many conductors are killed (20)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="chooses the moments")
    parser.add_argument("--apart", action="store_true", help="a run of its own for each kill")
    parser.add_argument("--only-real", action="store_true", help="without the simulated crew")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
