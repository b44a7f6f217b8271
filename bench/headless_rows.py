"""The rows that drive the screen without a terminal: keys by Pilot, and memory. Each in a fresh process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.fleets import base_environ
from bench.measure import Result, median, percentile, result, slope
from selftest_core.tools.process import run

_ROOT = Path(__file__).resolve().parents[1]


def keys(size: int) -> dict[str, Result]:
    """From a key to the next repaint having been composed, by Textual's Pilot, while views keep coming."""
    said = _child("keys", size, 200)
    samples = said["milliseconds"]
    return {
        f"key_to_paint_pilot_{size}": result(
            percentile(samples, 95), "ms", 33.0, against="a frame and a half at 60 a second",
            note=f"{size} agents, p95 of {len(samples)} cursor keys, median {median(samples):.1f} ms; "
            f"Pilot, 10 changed agents five times a second, {said['views']} views shown meanwhile",
        ),
    }  # fmt: skip


def memory(size: int, refreshes: int) -> dict[str, Result]:
    """How the memory of the screen grows with refreshes, once it is warm."""
    said = _child("memory", size, refreshes)
    points = [(number, kib) for number, kib in said["points"] if number >= refreshes / 3]
    growth = slope(points) * 1000
    return {
        f"memory_slope_{size}": result(
            growth, "KiB/1000", 256.0, against=f"{points[0][1] / 1024:.0f} MiB when warm",
            note=f"{size} agents, {refreshes} refreshes as fast as they go; resident size {said['points'][0][1]} → "
            f"{said['points'][-1][1]} KiB; slope after a third of them, KiB per 1,000 refreshes; 10 agents "
            "change each, and a provider flaps",
        ),
    }  # fmt: skip


def _child(what: str, size: int, count: int) -> dict[str, Any]:
    done = run(
        (sys.executable, "-m", "bench.headless_child", what, str(size), str(count)),
        timeout=1800, cwd=_ROOT, env=base_environ(),
    )  # fmt: skip
    if not done.ok:
        raise RuntimeError(done.stderr_end)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said
