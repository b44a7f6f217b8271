"""Tell how long an agent takes in this repository, and what it costs, by earlier runs: the basis of estimates."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.paths import runs_folder
from selftest_core.run.plan.estimates import Typical
from selftest_core.run.store import RunFolder

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.plan.plan import RunPlan

_LOOKED_AT = 10
_ENOUGH = 3
"""Launches of a run that tell how fast agents are made."""


def typical(repository: Path, plan: RunPlan) -> Typical | None:
    """Look at the newest earlier runs with agents of this type and place; None where there is none.

    The time is the median of the newest, the dollars are the average of the newest that has metered any.
    """
    found: Typical | None = None
    folders = sorted(runs_folder(repository).glob("*/plan.json"), reverse=True)
    for path in folders[:_LOOKED_AT]:
        folder = RunFolder(path.parent)
        with suppress(SelftestError, OSError):
            run = folder.read()
            is_alike = (run.plan.agent_type, run.plan.agent_command, run.plan.provider) == (
                plan.agent_type, plan.agent_command, plan.provider,
            )  # fmt: skip
            spans = _spans(run)
            if is_alike and spans and found is None:
                basis = f"the median of {len(spans)} agents of run {folder.run}"
                making = _making(run)
                found = Typical(median(spans), basis, making=making, making_run="" if making is None else folder.run)
            usd = _metered(run)
            if is_alike and usd and found is not None:
                basis = f"metered: the average of {len(usd)} agents of run {folder.run}"
                return replace(found, usd=fmean(usd), usd_basis=basis)
    return found


def _is_complete(row: RunRow) -> bool:
    """True where the agent ended its work itself: a crash or a timeout tells nothing about the usual duration."""
    return row.end is not None and row.end.is_reported


def _metered(run: Run) -> list[float]:
    return [
        row.usage.usd
        for row in run.rows.values()
        if _is_complete(row) and row.usage is not None and row.usage.usd is not None
    ]


def _spans(run: Run) -> list[float]:
    return [
        max(0.0, row.ended_at - row.launched_at)
        for row in run.rows.values()
        if _is_complete(row) and row.ended_at is not None and row.launched_at is not None
    ]


def _making(run: Run) -> float | None:
    """Seconds from one launch to the next, while no agent had to wait for the end of another."""
    rows = sorted(
        (row for row in run.rows.values() if row.launched_at is not None and not row.retries),
        key=lambda row: row.launching_at or 0.0,
    )[: run.plan.max_running]
    launched = sorted(row.launched_at for row in rows if row.launched_at is not None)
    return (launched[-1] - launched[0]) / (len(launched) - 1) if len(launched) >= _ENOUGH else None
