"""One simulated night: three scheduled runs of 300 agents, and what each of them left.

    make night [ARGS="--agents 300"]

A provider that flaps, a rate limit, a restart of the machine in the middle of a run, a day's budget that ends, two
scheduled runs at once: each run must be journalled, compared with the one before and reported, within the budget, and
nothing lost or doubled (`tests/simulated/night.py`). It ends with 1 where anything of this does not hold.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from simulated.night import Night  # noqa: E402 -- the tests' own harness, from where it is
from worlds import a_world  # noqa: E402


def main() -> int:
    """Play the night, and print what was found."""
    parser = argparse.ArgumentParser(prog="night", description=__doc__.partition("\n")[0])
    parser.add_argument("--agents", type=int, default=300, help="of each run (300)")
    agents = parser.parse_args().agents
    began = time.monotonic()
    with a_world() as world:
        night = Night(world, agents, say=lambda text: print(text, flush=True))
        night.play()
        tests = sum(len(one.rehearsal.plan.tests) for one in night.runs)
        launched = sum(len(one.rehearsal.world.creates) for one in night.runs)
        lost, doubled = (sum(len(getattr(one, name)) for one in night.runs) for name in ("lost", "doubled"))
        reports = sum((one.folder.path / "report" / "index.html").is_file() for one in night.runs)
    print(
        f"{len(night.runs)} runs, {tests} tests, {launched} agents launched, {len(night.skipped)} runs skipped, "
        f"{lost} lost, {doubled} doubled, {reports} reports, {time.monotonic() - began:.0f} s"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
