"""Help and other pages: their order, their search, and keys that scroll at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Static

import scenes
from selftest_tui.app.key_tables import TABLES
from selftest_tui.fleet.arrangement import FILTER
from selftest_tui.fleet.keys import FLEET
from selftest_tui.shared.dialogs.help import Page, help_page, matching
from selftest_tui.shared.filter import help_lines
from selftest_tui.shared.keys import SPLIT
from tui.driving import driven

if TYPE_CHECKING:
    from tui.driving import Driven


def headings(page: Page) -> list[str]:
    """The headings that are shown."""
    return [str(one.visual) for one in page.query(".heading").results(Static) if one.display]


async def opened(one: Driven) -> Page:
    await one.press("question_mark")
    page = one.app.screen
    assert isinstance(page, Page)
    return page


def test_a_screen_s_own_keys_come_first_and_shared_ones_once() -> None:
    for table in TABLES:
        sections = help_page(table, [("●", "working")], help_lines(FILTER)).sections
        assert [section.heading for section in sections[-3:]] == ["The filter ( / )", "Symbols", "On other screens too"]
        lines = [line for section in sections for line in section.lines]
        assert len(lines) == len(set(lines)), "each key once"
        assert {(key.shows, key.help) for key in table.rows} <= set(lines)
    shared = {(key.shows, key.help) for key in SPLIT}
    assert set(help_page(FLEET).sections[-1].lines) == shared


def test_a_search_finds_lines_with_all_its_words_in_any_case() -> None:
    lines = (("D", "destroy agents and their work"), ("s", "stop agents; asks first"))
    assert matching(lines, "AGENTS ask") == (lines[1],)
    assert matching(lines, "") == lines
    assert matching(lines, "nothing of this") == ()


async def test_help_is_searched_and_escape_leaves_the_search_first() -> None:
    async with driven(scenes.few().view) as one:
        page = await opened(one)
        everything = headings(page)
        await one.press("slash", *"destroy")
        assert headings(page) == ["Act on the marked agents, or the one under the cursor", "On other screens too"]
        await one.press(*"zz")
        assert headings(page) == []
        assert page.query_one("#none").display
        await one.press("escape")
        assert one.app.screen is page
        assert headings(page) == everything
        await one.press("slash", *"theme", "enter", "q")
        assert not isinstance(one.app.screen, Page), "enter gives the keys back to the page"


async def test_end_and_home_scroll_at_once() -> None:
    async with driven(scenes.few().view, size=(100, 20)) as one:
        page = await opened(one)
        text = page.query_one("#page")
        await one.press("end")
        assert text.scroll_offset.y == text.max_scroll_y > 0
        assert not one.app.animator.is_being_animated(text, "scroll_y")
        await one.press("home")
        assert text.scroll_offset.y == 0
        await one.press("pagedown", "pageup", "j")
        assert text.scroll_offset.y == 1


async def test_keys_that_come_before_the_next_frame_each_scroll() -> None:
    async with driven(scenes.few().view, size=(100, 20)) as one:
        page = await opened(one)
        text = page.query_one("#page")
        for _ in range(3):
            page.action_scroll(1)
        assert text.scroll_offset.y == 3
        page.action_go("end")
        page.action_scroll(-1)
        await one.press("n")
        assert text.scroll_offset.y == text.max_scroll_y - 1


async def test_messages_do_not_cover_the_page_of_problems_which_has_them() -> None:
    async with driven(scenes.few().view) as one:
        one.app._disable_notifications = False  # a driven app shows none by default
        one.screen.say("All 40 of them.", "Stopped")
        await one.until(lambda: len(one.app._notifications) == 1, "the message")
        await one.press("e")
        page = one.app.screen
        assert isinstance(page, Page)
        assert ("Stopped", "All 40 of them.") in page.sections[-1].lines
        assert not one.app._notifications, "the page alone"
        await one.press("escape")
        one.screen.say("All 40 of them.", "Stopped")
        await one.until(lambda: len(one.app._notifications) == 1, "the same message again")
