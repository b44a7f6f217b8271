"""Every key of the table is pressed, and what it did is asserted. A key without a test here fails the last test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from textual.command import CommandPalette
from textual.widgets import OptionList

import scenes
from selftest_core.agents import State
from selftest_core.view import Problem
from selftest_tui import keys
from selftest_tui.arrangement import Group, GroupBy, SortBy
from selftest_tui.keys import Where
from selftest_tui.screens.choose import Choose
from selftest_tui.screens.composer import Composer
from selftest_tui.screens.dialogs import Question
from selftest_tui.screens.help import Page
from tui.driving import Driven, driven

type Check = Callable[[Driven, str], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def does(action: str) -> Callable[[Check], Check]:
    """Register what pressing a key must do. It gets the app over the dozen agents, and the key."""

    def keep(check: Check) -> Check:
        CHECKS[action] = check
        return check

    return keep


PRESSED = [(key, name) for key in keys.KEYS if key.where is not Where.TYPING for name in key.keys]


@pytest.mark.parametrize(("key", "name"), PRESSED, ids=[f"{key.action}:{name}" for key, name in PRESSED])
async def test_every_key_does_what_the_table_says(key: keys.Key, name: str) -> None:
    async with driven(scenes.few().view) as one:
        await CHECKS[key.action](one, name)


def test_no_key_is_left_out() -> None:
    elsewhere = {"leave_typing"}  # ctrl+] belongs to whoever is being typed into; pressed in test_typing
    assert set(CHECKS) | elsewhere == set(keys.BY_ACTION)


def test_no_key_means_two_things_in_one_place() -> None:
    for together in ((Where.TABLE, Where.FLEET, Where.APP), (Where.PROMPT,)):
        names = [name for key in keys.KEYS if key.where in together for name in key.keys]
        assert len(names) == len(set(names))


# moving


@does("down")
async def _(one: Driven, key: str) -> None:
    before = one.table.cursor
    await one.press(key)
    assert one.table.cursor == before + 1


@does("up")
async def _(one: Driven, key: str) -> None:
    await one.press("down", "down")
    before = one.table.cursor
    await one.press(key)
    assert one.table.cursor == before - 1


@does("page_down")
async def _(one: Driven, key: str) -> None:
    await one.show(scenes.hundred().view)
    await one.press("home", key)
    assert one.table.cursor == one.table.page - 1


@does("page_up")
async def _(one: Driven, key: str) -> None:
    await one.show(scenes.hundred().view)
    await one.press("end")
    before = one.table.cursor
    await one.press(key)
    assert one.table.cursor == before - (one.table.page - 1)


@does("first")
async def _(one: Driven, key: str) -> None:
    await one.press("down", key)
    assert one.table.cursor == 0


@does("last")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.table.cursor == len(one.table.arranged.lines) - 1


@does("close_group")
async def _(one: Driven, key: str) -> None:
    name = one.name
    await one.press(key)
    line = one.table.line
    assert isinstance(line, Group)
    assert line.is_folded
    assert not any(name[:12] in text for text in one.lines)


@does("open_group")
async def _(one: Driven, key: str) -> None:
    name = one.name
    await one.press("left", key)
    assert isinstance(one.table.line, Group)
    assert not one.table.line.is_folded
    assert any(name[:12] in text for text in one.lines)


@does("next_needing")
async def _(one: Driven, key: str) -> None:
    seen = [one.name]
    for _ in range(len(one.table.arranged.needing)):
        await one.press(key)
        assert one.table.row is not None
        assert one.table.row.attention
        seen.append(one.name)
    assert len(set(seen)) == len(one.table.arranged.needing)
    assert seen[0] == seen[-1], "it goes round"


@does("previous_needing")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.table.row is not None
    assert one.table.row.key == one.table.arranged.needing[-1]


# finding and arranging


@does("filter")
async def _(one: Driven, key: str) -> None:
    await one.press(key, *"cart")
    assert one.table.arranged.shown == 3
    assert one.screen.prompt.is_open
    await one.press("enter")
    assert not one.screen.prompt.is_open
    assert one.table.has_focus
    assert {row.agent.name for row in one.table.shown_rows()} == {
        "st-7f-cart-empty", "st-7f-cart-tax", "st-7f-cart-coupon",
    }  # fmt: skip


@does("search_text")
async def _(one: Driven, key: str) -> None:
    await one.press(key, *"redirect")
    assert one.screen.prompt.purpose == "search_text"
    assert one.table.arranged.shown == one.table.arranged.agents, "it does not filter"
    await one.press("enter")
    await one.until(lambda: "could not be searched" in one.toasts, "the search's answer, of panes that are not there")


@does("only_me")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert all(row.attention for row in one.table.shown_rows())
    assert one.table.arranged.shown == 4
    await one.press(key)
    assert one.table.arranged.shown == 12


@does("group")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert isinstance(one.app.screen, Choose)
    assert one.app.screen.query_one(OptionList).highlighted == 0
    await one.press(key, key, "enter")
    assert one.table.arrangement.group is GroupBy.HOST
    assert any(line.startswith(" ▾ local") for line in one.lines)


@does("sort")
async def _(one: Driven, key: str) -> None:
    await one.press(key, key, "enter")
    assert one.table.arrangement.sort is SortBy.NAME


# marking


@does("mark")
async def _(one: Driven, key: str) -> None:
    row, before = one.table.row, one.table.cursor
    assert row is not None
    await one.press(key)
    assert one.table.marks == {row.key}
    assert one.table.cursor == before + 1
    await one.press("up", key)
    assert not one.table.marks


@does("mark_range")
async def _(one: Driven, key: str) -> None:
    await one.press(key, "down", "down")
    assert len(one.table.marks) == 3
    assert "RANGE" in one.key_line
    await one.press("up")
    assert len(one.table.marks) == 2
    await one.press(key, "down", "down")
    assert len(one.table.marks) == 2, "the second V ends it"


@does("mark_all")
async def _(one: Driven, key: str) -> None:
    await one.press("slash", *"cart", "enter", key)
    assert len(one.table.marks) == 3


@does("clear")
async def _(one: Driven, key: str) -> None:
    await one.press("space", "slash", *"cart", "enter", "V")
    await one.press(key)
    assert not one.table.in_range
    await one.press(key)
    assert one.table.arrangement.query == ""
    assert one.table.marks
    await one.press(key)
    assert not one.table.marks
    await one.press(key)
    assert "Nothing to clear" in one.toasts


# acting: up to the dialog, or the refusal of a tool that is not there; what acts do is tested with real agents


@does("attach")
async def _(one: Driven, key: str) -> None:
    await one.press("home", key)
    assert isinstance(one.table.line, Group)
    assert one.table.line.is_folded
    await one.press("end", key)
    await one.until(lambda: one.toasts, "no tmux can be run here, so attaching fails, and says so")


@does("type")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.screen.is_typing
    assert "TYPING" in one.key_line
    await one.press("ctrl+right_square_bracket")
    assert not one.screen.is_typing
    assert one.table.has_focus


@does("type_many")
async def _(one: Driven, key: str) -> None:
    await one.press("space", "down", "space", key)
    await one.until(lambda: isinstance(one.app.screen, Composer), "the composer")


@does("message")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: isinstance(one.app.screen, Composer) or one.toasts, "the composer, or no mngr")


async def _asks(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: isinstance(one.app.screen, Question) or "mngr" in one.toasts, "the question, or no mngr")


@does("stop")
async def _(one: Driven, key: str) -> None:
    await _asks(one, key)


@does("destroy")
async def _(one: Driven, key: str) -> None:
    await _asks(one, key)


@does("start")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert "Already running" in one.toasts
    await one.press("slash", *"fuzzy", "enter")
    assert one.table.row is not None
    assert one.table.row.agent.state is State.STOPPED
    await _asks(one, key)


@does("shell")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: one.toasts, "a terminal that cannot be handed over, or a folder that is not there")


@does("copy_branch")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: one.app.clipboard == f"mngr/{one.name}", "the branch on the clipboard")


# the right pane


@does("preview")
async def _(one: Driven, key: str) -> None:
    await one.press("d", key)
    assert one.screen.pane.tab == "preview"


@does("details")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.screen.pane.tab == "details"
    await one.press(key)
    assert one.screen.pane.tab == "preview"


@does("explain")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.screen.pane.tab == "explain"


@does("messages")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.screen.pane.tab == "messages"


@does("zoom")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.screen.pane.size.width > 130
    assert one.table.has_focus, "keys go on meaning the same"
    await one.press(key)
    assert one.screen.pane.size.width < 70


@does("scroll_down")
async def _(one: Driven, key: str) -> None:
    await one.pilot.resize_terminal(80, 15)
    await one.press("d", key)
    await one.until(lambda: one.screen.pane.query_one("#details").scroll_offset.y > 0, "details scrolled down")


@does("scroll_up")
async def _(one: Driven, key: str) -> None:
    await one.pilot.resize_terminal(80, 15)
    await one.press("d", "J", "J")
    details = one.screen.pane.query_one("#details")
    await one.until(lambda: details.scroll_offset.y > 0, "details scrolled down")
    await one.press(key, key, key)
    await one.until(lambda: details.scroll_offset.y == 0, "details scrolled up")


# while typing


@does("prompt_up")
async def _(one: Driven, key: str) -> None:
    await one.press("slash", *"st", "down", "down")
    before = one.table.cursor
    await one.press(key)
    assert one.table.cursor == before - 1
    assert one.screen.prompt.is_open


@does("prompt_down")
async def _(one: Driven, key: str) -> None:
    await one.press("slash", *"st")
    before = one.table.cursor
    await one.press(key)
    assert one.table.cursor == before + 1
    assert one.screen.prompt.is_open


@does("prompt_history")
async def _(one: Driven, key: str) -> None:
    await one.press("tilde", key)
    assert one.screen.prompt.with_history
    await one.press(key)
    assert not one.screen.prompt.with_history


@does("prompt_cancel")
async def _(one: Driven, key: str) -> None:
    await one.press("slash", *"cart", key)
    assert not one.screen.prompt.is_open
    assert one.table.arranged.shown == 12
    assert one.table.has_focus


# the program


@does("refresh")
async def _(one: Driven, key: str) -> None:
    before = one.watch.refreshed
    await one.press(key)
    assert one.watch.refreshed == before + 1


@does("problems")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert "No problem is known" in one.toasts
    await one.show(replace(one.screen.view, problems=(Problem("modal", "modal is down", "why", "mend it"),)))
    await one.press(key)
    assert isinstance(one.app.screen, Page)
    assert one.app.screen.sections[0].heading == "▲ modal is down"
    assert one.app.screen.sections[0].lines == (("what", "why"), ("to mend it", "mend it"))


@does("theme")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    await one.until(lambda: isinstance(one.app.screen, CommandPalette), "the themes")
    await one.press(*"nord")
    await one.press("down", "enter")
    await one.until(lambda: one.app.theme == "nord", "the chosen theme")


@does("help")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert isinstance(one.app.screen, Page)
    shown = {line for section in one.app.screen.sections for line in section.lines}
    assert {(row.shows, row.help) for row in keys.KEYS} <= shown
    await one.press("q")
    assert one.app.screen is one.screen, "q closes the help first"


@does("palette")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert isinstance(one.app.screen, CommandPalette)
    await one.press(*"only")
    await one.press("down", "enter")
    await one.until(lambda: one.table.arrangement.only_me, "the action chosen by name")


@does("leave")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.app.return_code == 0
    assert not one.app.is_running


@does("interrupt")
async def _(one: Driven, key: str) -> None:
    await one.press("question_mark", key)
    assert one.app.screen is one.screen, "it closes what lies on top first"
    await one.press(key)
    assert not one.app.is_running


@does("no_quit")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.app.is_running
    assert "does nothing here" in one.toasts


# refusals


async def test_a_key_that_refuses_says_why() -> None:
    async with driven(scenes.empty().view) as one:
        for action in ("attach", "stop", "message", "explain", "next_needing", "mark"):
            await one.press(keys.BY_ACTION[action].keys[0])
        said = one.toasts
        assert "There is no agent yet" in said
        assert "No agent needs you" in said


async def test_a_session_of_no_agent_is_not_stopped() -> None:
    async with driven(scenes.few().view) as one:
        await one.press("end", "s")
        assert "no agent: only attach" in one.toasts


async def test_the_key_line_dims_what_would_refuse_and_clicks_press() -> None:
    async with driven(scenes.few().view) as one:
        assert "? help" in one.key_line
        place = one.key_line.index("/ filter")
        await one.pilot.click("KeyBar", offset=(place, 0))
        await one.until(lambda: one.screen.prompt.is_open, "the prompt, by a click")


def test_the_readme_table_has_every_key() -> None:
    table = keys.readme_table()
    assert all(f"| `{key.shows}` | {key.help} |" in table for key in keys.KEYS)
