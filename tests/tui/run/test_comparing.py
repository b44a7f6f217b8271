"""`C` compares a run with the one before it: a page over its screen, which scrolls, searches and closes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.compare.comparable_runs import AFTER, BEFORE, GREEN, RED, Repository, Told, used
from fleet_parts import NOW
from selftest_core.run.outcome.ends import End
from selftest_tui.run.screen import RunScreen
from selftest_tui.shared.dialogs.help import Page
from tui.driving import compare, normalised
from tui.run.run_driving import shown

if TYPE_CHECKING:
    from pathlib import Path

    from run_scenes import Story

pytestmark = pytest.mark.slow  # a whole screen
HOSTILE = Told(End.RED, text="x\n[red]E\x1b[2J  assert \u202e 1")
GONE = "tests/test_tax.py::test_old"
GREENS = {f"tests/test_cart.py::test_{name}": GREEN for name in ("add", "remove", "total", "clear")}


def two_runs(place: Path, *only_before: str) -> Story:
    """A run with everything that a comparison shows, after one that was mostly green."""
    runs = Repository(place / "api")
    tax, slow, dear, asks = (f"tests/test_tax.py::test_{name}" for name in ("rate", "slow", "dear", "asks"))
    small, large = replace(GREEN, usage=used(0.12)), replace(GREEN, usage=used(0.4))
    before = {**GREENS, **dict.fromkeys(only_before, GREEN), tax: RED, slow: GREEN, dear: small, asks: GREEN}
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


@pytest.mark.parametrize("size", [(120, 34), (80, 24)])
async def test_a_line_leads_to_its_test_in_the_run_that_has_it(tmp_path: Path, size: tuple[int, int]) -> None:
    def test() -> str:
        row = one.table.row
        return row.planned.node_id if row is not None else ""

    async with shown(two_runs(tmp_path, GONE), size=size, is_live=False) as one:
        await one.press("C")
        await one.until(lambda: isinstance(one.top, Page), "the page")
        await one.press("j", "enter")
        assert one.top is one.screen
        assert test() == "tests/test_cart.py::test_clear", "the second of those that are newly red"

        await one.press("slash", *"cart", "enter", "C")
        await one.until(lambda: isinstance(one.top, Page), "the page")
        await one.press("slash", *"blocked meant", "enter", "enter")
        assert test() == "tests/test_tax.py::test_asks", "found by its words, though the filter of the run hid it"

        await one.press("C")
        await one.until(lambda: isinstance(one.top, Page), "the page")
        await one.press("G", "enter")
        await one.until(lambda: isinstance(one.top, RunScreen) and one.top is not one.screen, "the run before")
        before = one.top
        assert isinstance(before, RunScreen)
        assert before.folder.run == BEFORE
        await one.until(lambda: before.table.row is not None, "its tests")
        assert before.table.row is not None
        assert before.table.row.planned.node_id == GONE


async def test_a_page_without_a_test_has_no_cursor(tmp_path: Path) -> None:
    runs = Repository(tmp_path / "api")
    runs.run(BEFORE, GREENS, created_at=NOW - 90_000.0)
    async with shown(runs.story(AFTER, GREENS, created_at=NOW - 3_000.0), is_live=False) as one:
        await one.press("C")
        await one.until(lambda: isinstance(one.top, Page), "the page")
        await one.press("j", "G", "pageup", "enter", "slash", *"nothing", "enter")
        assert "No&#160;match" in normalised(one.fleet.app.export_screenshot())
        await one.press("escape", "C")
        assert one.top is one.screen
