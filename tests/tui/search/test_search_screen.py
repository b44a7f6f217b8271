"""The search screen: hits come while it is typed, and each opens at its place."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from recorder.search.past import REVIEW, make_past
from run_scenes import RUN
from selftest_tui.fleet.screen import FleetScreen
from selftest_tui.replay.screen import ReplayScreen
from selftest_tui.review.screen import ReviewScreen
from selftest_tui.run.screen import RunScreen
from selftest_tui.search.lines import SearchGroup
from selftest_tui.search.screen import SearchScreen
from tui.driving import compare
from tui.search.search_driving import elsewhere, searching

if TYPE_CHECKING:
    from pathlib import Path

    from recorder.search.past import Past


pytestmark = pytest.mark.slow  # each builds an index, in a process of its own


@pytest.fixture
def past(tmp_path: Path) -> Past:
    return make_past(tmp_path)


async def test_hits_stand_under_their_runs_with_the_lines_around(past: Past) -> None:
    async with searching(past) as it:
        assert any("Search everything" in line for line in it.lines)
        await it.search("coupon")
        assert list(dict.fromkeys(hit.run for hit in it.hits)) == [RUN, REVIEW]
        assert f"{len(it.hits)} hits in 2 runs" in it.bar
        titles = [line for line in it.table.lines if isinstance(line, SearchGroup)]
        assert [title.key for title in titles] == [RUN, REVIEW]
        hit = await it.go_to("diff")
        assert "coupon_of(request)" in it.details
        assert hit.commit[:12] in it.details
        await it.press("down")
        assert f"{hit.commit[:12]}  src/login.py:1" in it.details
        compare("search", it.picture())


async def test_each_hit_opens_at_its_place_and_esc_comes_back(past: Past) -> None:
    async with searching(past) as it:
        await it.search("zeppelin")
        await it.press("enter")
        await it.until(lambda: it.shows(ReplayScreen), "the player")
        player = it.top
        assert isinstance(player, ReplayScreen)
        await it.until(lambda: player.player.time == 9.0, "the time")
        await it.press("escape")
        assert it.shows(SearchScreen)

        await it.search("ConnectionRefusedError")
        await it.press("enter")
        await it.until(lambda: it.shows(RunScreen), "the run")
        run = it.top
        assert isinstance(run, RunScreen)
        await it.until(lambda: run.table.row is not None and run.table.row.name == past.story.row(1).name, "its test")
        await it.press("escape")
        assert it.shows(SearchScreen)

        await it.search("coupon kind:diff")
        assert [hit.run for hit in it.hits[-2:]] == [REVIEW] * 2
        await it.press("end", "enter")
        await it.until(lambda: it.shows(ReviewScreen), "the review")
        review = it.top
        assert isinstance(review, ReviewScreen)
        await it.until(lambda: review.table.row is not None and review.table.row.oid == past.fix, "its change")
        await it.press("F")
        assert it.shows(SearchScreen)
        assert it.screen.has_class("-asking")
        await it.press("escape", "escape")
        assert it.shows(FleetScreen)


async def test_a_text_is_shown_at_its_line_over_the_whole_screen(past: Past) -> None:
    async with searching(past, (80, 24)) as it:
        await it.search("Käsekuchen")
        await it.press("enter")
        assert it.screen.has_class("-zoomed")
        assert "agent:\n▸ I look for the umlaut" in it.details
        await it.press("escape")
        assert not it.screen.has_class("-zoomed")
        assert it.shows(SearchScreen)


async def test_a_regular_expression_and_a_wrong_one(past: Past) -> None:
    async with searching(past, (80, 24)) as it:
        await it.search("/lose +their coup.ns$/")
        assert [hit.text for hit in it.hits] == ["high: customers lose their coupons"]
        await it.search("/(/")
        assert "This is no regular expression" in "\n".join(it.lines)
        await it.search("kind:nothing word")
        assert "There is no kind nothing" in "\n".join(it.lines)


async def test_hostile_text_is_shown_as_text_and_nothing_breaks(past: Past) -> None:
    async with searching(past) as it:
        await it.search("evil")
        assert {hit.kind for hit in it.hits} == {"note", "transcript"}
        assert any("[bold]<script>" in line for line in it.lines)
        assert "[bold]<script>alert(1)</script>" in it.details
        assert "\x1b" not in it.picture()


async def test_new_hits_come_in_and_the_cursor_stays_on_its_hit(past: Past) -> None:
    async with searching(past, (80, 24)) as it:
        await it.search("coupon")
        hit = await it.go_to("diff")
        (past.first / "conversation.txt").write_text("[x] agent:\n  one more coupon\n", encoding="utf-8")
        before = len(it.hits)
        await it.press("R")
        await it.until(lambda: len(it.hits) == before + 1, "the new hit")
        assert it.table.line == hit
        shutil.rmtree(past.story.folder.path)
        await it.press("enter")
        assert "gone" in it.toasts


async def test_a_thousand_hits_and_no_more(past: Past) -> None:
    (past.first / "long.log").write_text("".join(f"walnut {n}\n" for n in range(1_500)), encoding="utf-8")
    async with searching(past, (200, 50)) as it:
        await it.search("walnut")
        assert len(it.hits) == 1_000
        assert "first 1,000 hits" in it.bar
        await it.press("end")
        compare("search-thousand", it.picture())


async def test_small_and_empty(past: Past) -> None:
    async with searching(past, (80, 24)) as it:
        compare("search-small", it.picture())
        await it.search("nowhere to be found")
        assert any("Nothing has “nowhere" in line for line in it.lines)


async def test_outside_of_a_repository_and_without_a_cache_it_says_why(past: Past, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with searching(elsewhere(past, tmp_path / "file"), (80, 24)) as it:
        await it.press("escape")
        assert it.shows(FleetScreen)
        await it.press("F", *"coupon", "enter")
        assert any("cannot be written" in line for line in it.lines)
        assert it.shows(SearchScreen)
