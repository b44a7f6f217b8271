"""Every key of the search screen is pressed, and what it did is asserted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from recorder.search.past import make_past
from run_scenes import RUN
from selftest_tui.fleet.screen import FleetScreen
from selftest_tui.run.screen import RunScreen
from selftest_tui.search.keys import SEARCH
from selftest_tui.search.lines import SearchGroup
from selftest_tui.search.screen import SearchScreen
from selftest_tui.shared.dialogs.help import Page
from selftest_tui.shared.keys import Where
from tui.key_checks import KeyChecks
from tui.quiet import quiet
from tui.search.search_driving import Searching, searching

if TYPE_CHECKING:
    from pathlib import Path

does: KeyChecks[Searching] = KeyChecks()
LEAVING = ("leave", "interrupt", "fleet")


@does("down", "up", "page_down", "page_up", "first", "last")
async def _(it: Searching, key: str) -> None:
    last = len(it.table.lines) - 1
    wanted = {"down": 3, "j": 3, "up": 1, "k": 1}
    before = {"pageup": "end", "ctrl+b": "end", "home": "end"}.get(key)
    await it.press("home", *(["end"] if before else ["down", "down"]), key)
    assert it.table.cursor == wanted.get(key, 0 if key in ("pageup", "ctrl+b", "home") else last)


@does("close_group")
async def _(it: Searching, key: str) -> None:
    await it.press(key)
    assert isinstance(it.table.line, SearchGroup)
    assert it.table.line.is_folded


@does("open_group")
async def _(it: Searching, key: str) -> None:
    lines = len(it.table.lines)
    await it.press("left")
    assert len(it.table.lines) < lines
    await it.press(key)
    assert len(it.table.lines) == lines


@does("filter")
async def _(it: Searching, key: str) -> None:
    await it.press(key)
    assert it.screen.prompt.text == "coupon"
    await it.press("s", "enter")
    assert {hit.text for hit in it.hits} == {"high: customers lose their coupons"}


@does("sort")
async def _(it: Searching, key: str) -> None:
    def texts() -> list[list[str]]:
        found: dict[str, list[str]] = {}
        for line in it.table.lines:
            if not isinstance(line, SearchGroup):
                found.setdefault(line.run, []).append(line.text)
        return list(found.values())

    before = texts()
    await it.press(key, "j", "j", "enter")
    assert texts() == [sorted(group, key=str.casefold) for group in before] != before
    assert "line▲" in it.lines[0]
    await it.press(key, "enter")
    assert texts() == [sorted(group, key=str.casefold, reverse=True) for group in before]
    assert "sort: line, reversed" in str(it.screen.query_one("#hits").border_title)
    await it.press(key, "k", "k", "enter")
    assert texts() == before


@does("search_all", "prompt_cancel")
async def _(it: Searching, key: str) -> None:
    await it.press("F")
    assert it.screen.has_class("-asking")
    assert it.screen.prompt.text == ""
    await it.press("escape")
    assert not it.screen.has_class("-asking")
    assert it.hits, "the hits are those of before"


@does("prompt_up", "prompt_down")
async def _(it: Searching, key: str) -> None:
    place = it.table.cursor
    await it.press("down", "slash", key)
    assert it.table.cursor == place + (2 if key == "down" else 0)


@does("back")
async def _(it: Searching, key: str) -> None:
    await it.press("plus", key)
    assert it.shows(SearchScreen)
    assert not it.screen.has_class("-zoomed")
    await it.press(key)
    assert it.shows(FleetScreen)


@does("open")
async def _(it: Searching, key: str) -> None:
    await it.press("home", key)
    assert isinstance(it.table.line, SearchGroup)
    assert it.table.line.is_folded
    await it.press(key, "down", key)
    await it.until(lambda: it.shows(RunScreen), "the run")


@does("copy")
async def _(it: Searching, key: str) -> None:
    await it.press(key)
    assert it.one.app.clipboard == f"selftest-tui runs {RUN}"


@does("refresh")
async def _(it: Searching, key: str) -> None:
    await it.press(key)
    assert "Looking for what is new" in it.toasts


@does("zoom")
async def _(it: Searching, key: str) -> None:
    await it.press(key)
    assert it.screen.has_class("-zoomed")


@does("scroll_down", "scroll_up", "pan_right", "pan_left")
async def _(it: Searching, key: str) -> None:
    await it.press(key)
    assert it.screen.pane.scroll_offset.x == 0, "its lines are wrapped"


@does("table_wider", "table_narrower")
async def _(it: Searching, key: str) -> None:
    width = it.table.size.width
    await it.press(key)
    assert it.table.size.width == width + (4 if key == "right_curly_bracket" else -4)


@does("choose_columns", "problems", "theme", "help", "palette")
async def _(it: Searching, key: str) -> None:
    await it.press("R", key)
    assert not it.shows(SearchScreen)
    assert it.shows(Page) or key not in ("e", "question_mark")


@does("command")
async def _(it: Searching, key: str) -> None:
    await it.press(key, *"flee", "enter")
    await it.one.until(lambda: it.shows(FleetScreen), "the action has run")


@does("no_quit")
async def _(it: Searching, key: str) -> None:
    await it.press(key)
    assert "q quits" in it.toasts


@does("fleet")
async def _(it: Searching, key: str) -> None:
    await it.press(key)
    assert it.shows(FleetScreen)


@does("leave", "interrupt")
async def _(it: Searching, key: str) -> None:
    await it.press(key)
    assert not it.one.app.is_running
    assert it.one.app.return_code == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("together", ["most", *LEAVING])
async def test_every_key_does_what_the_table_says(tmp_path: Path, together: str) -> None:
    actions = [key.action for key in SEARCH.rows if key.action not in LEAVING] if together == "most" else [together]
    async with searching(make_past(tmp_path), (110, 16)) as it:
        await it.search("coupon")
        await does.press_all(it, SEARCH, actions, as_it_was)


async def as_it_was(it: Searching) -> None:
    """The screen as it is at first."""
    while not it.shows(SearchScreen) and not it.shows(FleetScreen):
        it.one.app.pop_screen()
        await quiet(it.one.app)
    if it.shows(FleetScreen):
        await it.press("F")
    if it.screen.has_class("-asking"):
        await it.press("escape")
    if it.screen.text != "coupon":
        await it.search("coupon")
    it.screen.zoom(False)
    it.screen.folded = frozenset()
    it.screen.rearrange()
    it.screen.said.clear()
    await it.press("home", "down")


def test_no_key_is_left_out() -> None:
    assert set(does.of) == {key.action for key in SEARCH.rows}
    assert all(key.where in (Where.TABLE, Where.SCREEN, Where.APP, Where.PROMPT) for key in SEARCH.rows)
