"""`C` compares a run with the one before it: a page over its screen, which scrolls, searches and closes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.compare.comparable_runs import AFTER, BEFORE, GREEN, RED, Repository, Told, used
from fleet_parts import NOW
from selftest_core.run.outcome.ends import End
from selftest_tui.shared.dialogs.help import Page
from tui.driving import compare
from tui.run.run_driving import shown

if TYPE_CHECKING:
    from pathlib import Path

    from run_scenes import Story

pytestmark = pytest.mark.slow  # a whole screen
HOSTILE = Told(End.RED, text="x\n[red]E\x1b[2J  assert \u202e 1")
GREENS = {f"tests/test_cart.py::test_{name}": GREEN for name in ("add", "remove", "total", "clear")}


def two_runs(place: Path) -> Story:
    """A run with everything that a comparison shows, after one that was mostly green."""
    runs = Repository(place / "api")
    tax, slow, dear, asks = (f"tests/test_tax.py::test_{name}" for name in ("rate", "slow", "dear", "asks"))
    small, large = replace(GREEN, usage=used(0.12)), replace(GREEN, usage=used(0.4))
    before = {**GREENS, tax: RED, slow: GREEN, dear: small, asks: GREEN}
    after = {
        **GREENS, "tests/test_cart.py::test_total": RED, "tests/test_cart.py::test_clear": HOSTILE, tax: GREEN,
        slow: replace(GREEN, seconds=2_400.0), dear: large, asks: Told(End.BLOCKED, text="Which tax is meant?"),
    }  # fmt: skip
    runs.run(BEFORE, before, created_at=NOW - 90_000.0)
    return runs.story(AFTER, after, created_at=NOW - 3_000.0)


async def test_the_run_before_is_a_key_away(tmp_path: Path) -> None:
    async with shown(two_runs(tmp_path), size=(120, 34), is_live=False) as one:
        await one.press("C")
        await one.until(lambda: isinstance(one.top, Page), "the page")
        compare("run-compared", await one.picture())
        await one.press("slash", *"clear", "enter")
        assert "test_clear" in await one.picture()
        await one.press("C")
        assert one.top is one.screen
