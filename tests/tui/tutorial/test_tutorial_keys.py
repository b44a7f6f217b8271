"""Every key of the tutorial's screen is pressed, and what it did is asserted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.widgets import OptionList

import scenes
from selftest_tui.run.screen import RunScreen
from selftest_tui.search.screen import SearchScreen
from selftest_tui.shared.dialogs.help import Page
from selftest_tui.shared.dialogs.options import Options
from selftest_tui.shared.keys import Where
from selftest_tui.tutorial.details import TutorialDetails
from selftest_tui.tutorial.keys import TUTORIAL
from selftest_tui.tutorial.view import BlockLine, Section, StaleLine, TestLine
from tui.driving import driven
from tui.quiet import quiet
from tui.tutorial.tutorial_driving import Shown, environ_of, opened, shop

__all__ = ["shop"]

if TYPE_CHECKING:
    from pathlib import Path


def identity_of(it: Shown) -> str:
    line = it.table.line
    match line:
        case Section(title):
            return title
        case BlockLine(view):
            return view.block.text.splitlines()[-1]
        case TestLine(_, test):
            return test.node_id
        case StaleLine(_, stale):
            return f"stale {stale.citation.test}"
        case _:
            return str(line)


async def check_key(it: Shown, action: str, name: str) -> None:
    """Press it and assert what the table says of it."""
    screen, table, press = it.screen, it.table, it.press
    match action:
        case "down":
            await press(name)
            assert table.cursor == 2
        case "up":
            await press(name)
            assert table.cursor == 0
        case "page_down":
            await press(name)
            assert table.cursor == min(len(table.lines) - 1, table.page)
        case "page_up":
            await press("end", name)
            assert table.cursor == max(0, len(table.lines) - table.page)
        case "first":
            await press("end", name)
            assert table.cursor == 0
        case "last":
            await press(name)
            assert table.cursor == len(table.lines) - 1
        case "close_group":
            await press(name)
            assert identity_of(it) == "blocks without a test"
            assert isinstance(table.lines[1], Section)
        case "open_group":
            await press("left", name)
            assert isinstance(table.lines[1], BlockLine)
        case "next_needing":
            await press(name)
            assert identity_of(it) == "stale tests/test_pay.py::test_refund"
        case "previous_needing":
            await press(name)
            assert identity_of(it) == "stale tests/test_pay.py::test_loan"
        case "filter":
            await press(name, *"cart")
            assert screen.prompt.is_open
            assert all("cart" in line.view.block.text for line in table.lines if isinstance(line, BlockLine))
        case "only_needing":
            await press(name)
            assert "open only" in str(screen.query_one("#blocks").border_title)
            await press(name)
            assert "open first" in str(screen.query_one("#blocks").border_title)
        case "sort":
            await press(name)
            assert "▾ The cart  3" in it.lines[1]
            assert identity_of(it) == "shop refund last --reason damaged", "the cursor stays on its block"
        case "open" | "zoom":
            await press(name)
            assert screen.has_class("-zoomed")
            await press("plus")
            assert not screen.has_class("-zoomed")
        case "table_wider" | "table_narrower":
            before = table.size.width
            await press(name)
            moved = table.size.width - before
            assert moved > 0 if action == "table_wider" else moved < 0
        case "pan_right" | "pan_left":
            pane = screen.query_one(TutorialDetails)
            await press(name)
            assert pane.scroll_offset.x == 0, "prose is wrapped: there is nothing further right"
        case "command":
            await press(name, *"only", "enter")
            await it.until(lambda: "open only" in str(screen.query_one("#blocks").border_title), "the action has run")
            await press(name, *"only", "enter")
            await it.until(lambda: "open first" in str(screen.query_one("#blocks").border_title), "and again")
        case "choose_columns":
            assert "last run" in it.lines[0]
            await press(name, "space", "space", "enter")
            assert "last run" not in it.lines[0]
            await press(name, "0", "enter")
        case "scroll_down" | "scroll_up":
            pane = screen.query_one(TutorialDetails)
            await press("J")
            await it.until(lambda: pane.scroll_offset.y > 0, "scrolled down")
            if action == "scroll_up":
                await press(name)
                await it.until(lambda: pane.scroll_offset.y == 0, "scrolled up")
            elif name != "J":
                await press("K", name)
                await it.until(lambda: pane.scroll_offset.y > 0, "scrolled down")
        case "draft":
            await press(name)
            assert "h  This heading: Paying" in options_of(it)
            assert "a  All headings: 3" in options_of(it)
        case "sync":
            await press(name)
            assert "h  Only this: shop refund last --reason damaged" in options_of(it)
            assert "a  All of it: 3 blocks without a test, 2 stale citations" in options_of(it)
        case "keep" | "revert" | "undecide" | "note":
            await press(name)
            assert "No agent has proposed a block: ^d lets agents draft them" in it.toasts
        case "undo" | "redo" | "publish":
            await press(name)
            assert {
                "undo": "Nothing was decided",
                "redo": "Nothing was undone",
                "publish": "No proposed block is kept",
            }[action] in it.toasts
        case "edit":
            await press(name)
            assert "No editor is known" in it.toasts
        case "copy":
            await press(name)
            assert it.one.app.clipboard == "# Money back, if it was us.\nshop refund last --reason damaged"
            await press("down", name)
            assert it.one.app.clipboard == "tests/test_pay.py::test_refund"
        case "prompt_up":
            await press("slash", "down", name)
            assert (screen.prompt.is_open, table.cursor) == (True, 1)
        case "prompt_down":
            await press("slash", name)
            assert (screen.prompt.is_open, table.cursor) == (True, 2)
        case "prompt_cancel":
            await press("slash", *"cart", name)
            assert (screen.prompt.is_open, screen.layout_of_lines.query) == (False, "")
            assert screen.focused is table
        case "back":
            await press("plus", "slash", *"pay", "enter", name)
            assert not screen.has_class("-zoomed")
            await press(name)
            assert screen.layout_of_lines.query == ""
            await press(name)
            assert it.one.app.screen is it.one.screen
        case "run" | "replay" | "review":
            await press(name)
            assert "It is in no run of this repository" in it.toasts, "no test cites the first block"
            await it.go_to("test_card")
            await press(name)
            if action == "run":
                await it.until(lambda: isinstance(it.one.app.screen, RunScreen), "the run")
                run: object = it.one.app.screen
                assert isinstance(run, RunScreen)
                await it.until(lambda: run.table.row is not None and "test_card" in run.table.row.planned.node_id, "it")
            else:
                says = {"replay": "has no recording", "review": "Its agent committed nothing"}[action]
                await it.until(lambda: says in it.toasts, says)
        case "fleet":
            await press(name)
            assert it.one.app.screen is it.one.screen
        case "refresh":
            await press(name)
            assert "again" in it.toasts
        case "problems":
            await press("R", name)
            assert isinstance(it.one.app.screen, Page)
        case "search_all":
            await press(name)
            await it.until(lambda: isinstance(it.one.app.screen, SearchScreen), "the search")
        case "theme":
            await press(name)
            assert it.one.app.screen is not screen
        case _:
            raise AssertionError(f"nothing is checked of {action}")


def options_of(it: Shown) -> str:
    """The answers of the question on top."""
    dialog = it.one.app.screen
    assert isinstance(dialog, Options)
    answers = dialog.query_one(OptionList)
    return "\n".join(str(answers.get_option_at_index(at).prompt) for at in range(answers.option_count))


OF_THE_APP = {key.action for key in TUTORIAL.of(Where.APP)}
PRESSED = [(key.action, name) for key in TUTORIAL.rows if key.action not in OF_THE_APP for name in key.keys]


@pytest.mark.slow
@pytest.mark.parametrize("is_low", [False, True])
async def test_every_key_does_what_the_table_says(shop: Path, is_low: bool) -> None:
    """All on one screen, since one for each takes a second. Scrolling needs a low one."""
    async with driven(scenes.few().view, size=(120, 14 if is_low else 40)) as one:
        it = await opened(one, shop, environ_of(shop.parent))
        for action, name in PRESSED:
            if action.startswith("scroll") is not is_low:
                continue
            if not it.screen.is_attached:
                it = await opened(one, shop, environ_of(shop.parent))
            await as_it_was(it)
            try:
                await check_key(it, action, name)
            except AssertionError as error:
                error.add_note(f"{action}: {name}")
                raise


async def as_it_was(it: Shown) -> None:
    """The tutorial's screen as it is at first, but for the cursor, which is on the first block."""
    app, screen = it.one.app, it.screen
    while app.screen is not screen:
        app.pop_screen()
        await quiet(app)
    if screen.prompt.is_open:
        screen.prompt.cancel()
        await quiet(app)
    screen.zoom(False)
    screen.open_first, screen.only_open, screen.query_text, screen.folded = True, False, "", frozenset()
    screen.rearrange()
    screen.said.clear()
    screen.query_one(TutorialDetails).scroll_home(animate=False)
    await it.press("home", "down")
