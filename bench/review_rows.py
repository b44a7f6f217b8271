"""The rows of a review of 300 commits: until it is open, and from a key that decides to the new branch on screen."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from bench.fleets import a_world, base_environ
from bench.histories import history
from bench.measure import Result, cpu_of_process, median, percentile, result
from pseudo_terminal import Terminal
from selftest_core.tools.process import run

_ROOT = Path(__file__).resolve().parents[1]
_PROGRAM = str(Path(sys.executable).with_name("selftest-tui"))
_DECISION_BUDGETS = {2_000: 50.0, 20_000: 100.0}
"""Milliseconds, by the number of files."""
_OPEN_BUDGET = 1000.0
_OPENINGS = 3


def review(count: int = 60) -> dict[str, Result]:
    """All rows."""
    rows: dict[str, Result] = {}
    for files, budget in _DECISION_BUDGETS.items():
        rows |= _decisions(files, count, budget)
    return rows | _start(min(_DECISION_BUDGETS))


def _decisions(files: int, count: int, budget: float) -> dict[str, Result]:
    """Decisions by Pilot, in a fresh process."""
    done = run(
        (sys.executable, "-m", "bench.review_child", str(files), str(count)), timeout=1800, cwd=_ROOT,
        env=base_environ(),
    )  # fmt: skip
    if not done.ok:
        raise RuntimeError(done.stderr_end)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    about = f"{said['changes']} changes of 300 commits, {files:,} files"
    return {
        f"review_open_{files}": result(
            said["opening"], "ms", _OPEN_BUDGET if files == min(_DECISION_BUDGETS) else None,
            against=f"all dependencies between changes are known after {said['whole']:.0f} ms",
            note=f"{about}; from the request in a running program to the rows on the screen, for the first time; Pilot",
        ),
        f"decision_to_paint_{files}": result(
            percentile(said["laid"], 95), "ms", budget,
            against=f"the decision itself shows after p95 {percentile(said['shown'], 95):.0f} ms",
            note=f"{about}; p95 of {len(said['laid'])} keys, median {median(said['laid']):.0f} ms, "
            f"{median(said['cpu']):.0f} ms of CPU: key, log synced, branch applied, screen composed; Pilot",
        ),
    }  # fmt: skip


def _start(files: int) -> dict[str, Result]:
    """From the start of the program to the rows of a review that was never opened before, in a real terminal."""
    took, spent = [], []
    with history(files) as made, a_world() as world:
        for _ in range(_OPENINGS):
            shutil.rmtree(made.folder / ".selftest", ignore_errors=True)
            argv = (_PROGRAM, "review", "--base", "main", *made.branches)
            with Terminal(argv, cwd=made.folder, env=world.environ) as screen:
                took.append((screen.painted(" decided") - screen.began) * 1000)
                spent.append(sum(cpu_of_process(screen.pid)))
    return {
        f"review_start_{files}": result(
            median(took), "ms", _OPEN_BUDGET, against=f"CPU of the program until then: {median(spent):.2f} s",
            note=f"300 commits, {files:,} files; from the start of the program to rows on the screen, real pty, "
            f"median of {_OPENINGS}, worst {max(took):.0f} ms; the fleet below it is listed afterwards",
        )
    }  # fmt: skip
