"""The rows of a review's screen: from the key that decides to the new line on the screen, over 300 commits."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.fleets import base_environ
from bench.measure import Result, median, percentile, result
from selftest_core.tools.process import run

_ROOT = Path(__file__).resolve().parents[1]


def review(files: int = 2_000, count: int = 60) -> dict[str, Result]:
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
        f"decision_to_paint_{files}": result(
            percentile(said["laid"], 95), "ms", 100.0,
            against=f"the decision itself shows after p95 {percentile(said['shown'], 95):.0f} ms",
            note=f"{about}; p95 of {len(said['laid'])} keys, median {median(said['laid']):.0f} ms: key, log synced, "
            f"line laid, screen composed; Pilot. The review was open {said['opening'] / 1000:.1f} s after it was asked",
        ),
    }  # fmt: skip
