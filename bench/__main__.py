"""`python -m bench [--only PART,…] [--idle SECONDS] [--against FILE] …`; ends with 0 whatever it measured."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench import (
    core_rows,
    headless_rows,
    launch_rows,
    line_rows,
    recorder_rows,
    replay_rows,
    report_rows,
    review_rows,
    run_rows,
    scenario_rows,
    screen_rows,
    search_rows,
    verify_rows,
)
from bench.fleets import MeasuredFleet, a_world, fake_fleet, real_fleet
from bench.measure import RESULTS, Result, comparison, print_table, read_results, write_results
from bench.soak import SOAK

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = (
    "machine", "import", "paint", "refresh", "screen", "change", "idle", "refresh1000", "keys", "pilot", "memory",
    "check", "run1000", "conductor", "launch", "line", "review", "recorder", "replay", "report",
    "verify", "search", "scenario", "soak",
)  # fmt: skip
_REAL = ("refresh", "screen", "change", "idle")
_FAKE = ("refresh1000", "keys")


def main() -> int:
    """Measure what was asked for, print it, and add it to the results."""
    arguments = _arguments()
    # Who installs a program has its bytecode: measuring compilation would be measuring something else.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    wanted = arguments.only or PARTS
    # Read first: it may be the file that the results are added to.
    before = read_results(arguments.against) if arguments.against else None
    results: dict[str, Result] = {}

    def take(part: str, measured: Callable[[], dict[str, Result]]) -> None:
        if part not in wanted:
            return
        sys.stderr.write(f"measuring {part} …\n")
        pace = core_rows.pace()
        try:
            rows = measured()
        except Exception as error:
            traceback.print_exc()
            rows = {part: Result(None, "", ok=None, note=f"could not be measured: {error}")}
        if part not in ("machine", "soak"):  # the soak is of another day
            rows = {name: _at_pace(row, pace, core_rows.pace()) for name, row in rows.items()}
        print_table(rows)
        results.update(rows)
        write_results(rows, arguments.out)

    take("machine", core_rows.machine)
    take("import", core_rows.core_import)
    take("pilot", lambda: headless_rows.keys(arguments.fakes))
    take("memory", lambda: headless_rows.memory(arguments.fakes, arguments.refreshes))
    take("check", lambda: run_rows.large_check(2000, 5000))
    take("run1000", lambda: run_rows.thousand(1000))
    take("conductor", lambda: run_rows.conductor(20))
    take("launch", lambda: launch_rows.launch(arguments.agents))
    take("line", line_rows.line)
    take("review", review_rows.review)
    take("verify", verify_rows.verify)
    take("recorder", lambda: recorder_rows.recorder(50, 20.0))
    take("replay", replay_rows.replay)
    take("report", report_rows.report)
    take("search", search_rows.search)
    take("soak", lambda: read_results(SOAK))  # measured by `make soak`, which takes an hour
    take("scenario", lambda: scenario_rows.scenario(arguments.seed, arguments.scenario))
    if "paint" in wanted:
        with a_world() as world:
            take("paint", lambda: screen_rows.first_paint(MeasuredFleet(world, world.environ, {}, is_real=True)))
    if set(_REAL) & set(wanted):
        with real_fleet(arguments.agents) as fleet:
            take("refresh", lambda: core_rows.refresh(fleet, 50.0))
            take("screen", lambda: screen_rows.agents_on_screen(fleet))
            take("change", lambda: screen_rows.change_to_screen(fleet))
            take("idle", lambda: screen_rows.idle(fleet, arguments.idle))
    if set(_FAKE) & set(wanted):
        with fake_fleet(arguments.fakes) as fleet:
            take("refresh1000", lambda: core_rows.refresh(fleet, 250.0, rounds=10))
            take("keys", lambda: screen_rows.keys(fleet))
    print("\nAll of this run:\n")
    print_table(results)
    if before is not None:
        print("\n" + "\n".join(comparison({name: row for name, row in before.items() if name in results}, results)))
    return 0


def _at_pace(row: Result, before: float, after: float) -> Result:
    """A row that tells how fast the machine was just before its part, and just after it: shared machines change."""
    pace = f"machine {before:.0f} to {after:.0f} ms"
    return replace(row, note=f"{row.note}; {pace}" if row.note else pace)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--only", type=_parts, default=(), metavar="PART,…", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--agents", type=int, default=100, help="real agents (a second each to make)")
    parser.add_argument("--fakes", type=int, default=1000, help="fake agents")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of idling that are measured")
    parser.add_argument("--refreshes", type=int, default=3600, help="refreshes for the memory row")
    parser.add_argument("--seed", type=int, default=14, help="of the scenario of repeated work")
    parser.add_argument("--scenario", type=Path, metavar="DIR", help="another one, made elsewhere: repo and truth.json")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file that the results are added to")
    parser.add_argument("--against", type=Path, metavar="FILE", help="results to show beside these, with the ratios")
    return parser.parse_args()


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = set(parts) - set(PARTS)
    if unknown:
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return parts


if __name__ == "__main__":
    raise SystemExit(main())
