"""How long an agent takes in this repository, as its earlier runs tell: the basis of what a new run is estimated at."""

from __future__ import annotations

from contextlib import suppress
from statistics import median
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.run.estimates import Typical
from selftest_core.run.events import End
from selftest_core.run.store import FOLDER, RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.fold import Run
    from selftest_core.run.plan import RunPlan

_LOOKED_AT = 10
_WORKED = (End.SUCCEEDED, End.UNCHANGED, End.BLOCKED, End.RED)
"""The ends of agents that came to their own end: a crash or a deadline tells nothing of the work."""


def typical(repository: Path, plan: RunPlan) -> Typical | None:
    """The median of the newest earlier run with agents of this type and place; None where there is none."""
    folders = sorted((repository / FOLDER / "runs").glob("*/plan.json"), reverse=True)
    for path in folders[:_LOOKED_AT]:
        folder = RunFolder(path.parent)
        with suppress(SelftestError, OSError):
            run = folder.read()
            is_alike = (run.plan.agent_type, run.plan.agent_command, run.plan.provider) == (
                plan.agent_type, plan.agent_command, plan.provider,
            )  # fmt: skip
            spans = _spans(run)
            if is_alike and spans:
                return Typical(median(spans), f"the median of {len(spans)} agents of run {folder.run}")
    return None


def _spans(run: Run) -> list[float]:
    return [
        max(0.0, row.ended_at - row.launched_at)
        for row in run.rows.values()
        if row.end in _WORKED and row.ended_at is not None and row.launched_at is not None
    ]
