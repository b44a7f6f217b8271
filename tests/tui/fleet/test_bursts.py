"""Keys that come all at once, as a terminal delivers what is typed fast: none lost, none taken for another key."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual import events
from textual.keys import _character_to_key

import scenes
from selftest_tui.app.keyed_app import FRAMES
from selftest_tui.fleet.arrangement import GroupBy
from selftest_tui.shared.dialogs.composer import Composer, PromptArea
from tui.driving import driven
from tui.quiet import press

if TYPE_CHECKING:
    from tui.driving import Driven


def burst(one: Driven, text: str) -> None:
    """Give the app all keys of one read from the terminal, before it has handled the first."""
    for character in text:
        key = "enter" if character == "\r" else _character_to_key(character)
        one.app.post_message(events.Key(key, character))


async def test_what_is_typed_behind_the_slash_lands_in_the_filter() -> None:
    async with driven(scenes.few().view) as one:
        before = one.screen.view
        burst(one, "/asD-ta")
        await one.until(lambda: one.screen.prompt.is_open and one.screen.prompt.text == "asD-ta", "the whole filter")
        assert one.app.screen is one.screen, "no dialog was opened by a letter"
        await one.press("escape")
        burst(one, "/cart-tax\r")
        await one.until(lambda: not one.screen.prompt.is_open and one.name == "st-7f-cart-tax", "the filtered agent")
        assert one.screen.prompt.text == "cart-tax"
        assert one.screen.view is before


async def test_a_second_frame_follows_the_first_soon() -> None:
    async with driven(scenes.few().view) as one:
        assert one.screen._update_timer._interval == 1 / FRAMES, "Textual takes the rate from where it is set"


async def test_enter_that_is_read_later_does_not_overtake_what_was_typed_for_the_filter() -> None:
    async with driven(scenes.few().view) as one:
        gate = asyncio.Event()
        burst(one, "/cart")
        one.app.call_later(lambda: one.table.call_later(gate.wait))
        burst(one, "-tax")  # on its way to the table as well, where it waits at the gate
        while not one.screen.prompt.is_open:
            await asyncio.sleep(0)
        burst(one, "\r")
        for _ in range(100):  # time enough for it to reach the prompt
            await asyncio.sleep(0)
        gate.set()
        await one.until(lambda: not one.screen.prompt.is_open and one.name == "st-7f-cart-tax", "the filtered agent")
        assert one.screen.prompt.text == "cart-tax"
        assert one.toasts == "", "no letter was a key of the table"


async def test_what_is_typed_behind_a_key_that_opens_a_dialog_is_for_the_dialog() -> None:
    async with driven(scenes.few().view) as one:
        await one.press("down", "down")  # to an agent without an open dialog, which would be asked about first
        burst(one, "mDo it, s and q too")
        await one.until(lambda: isinstance(one.app.screen, Composer), "the message")
        area = one.app.screen.query_one(PromptArea)
        await one.until(lambda: area.text == "Do it, s and q too", "the whole message")
        await press(one.app, "escape")
        for key in "sD":
            burst(one, f"{key}lln")  # to No and back, and No
            await one.until(lambda: one.app.screen is one.screen and one.screen.is_at_rest, "the answer")
        assert one.screen.view.rows, "No was said, and no other key was pressed"
        assert one.toasts == ""
        burst(one, "gjj\r")
        await one.until(lambda: one.app.screen is one.screen, "the choice")
        await one.until(lambda: one.table.arrangement.group is GroupBy.HOST, "grouped by the third way")


async def test_what_is_typed_behind_one_that_opened_none_is_for_the_table() -> None:
    async with driven(scenes.empty().view) as one:
        burst(one, "DDm/abc")
        await one.until(lambda: one.screen.prompt.is_open and one.screen.prompt.text == "abc", "the filter")
        assert one.app.screen is one.screen


async def test_what_is_typed_behind_enter_is_not_for_the_filter() -> None:
    async with driven(scenes.few().view) as one:
        await one.press("slash")
        burst(one, "tax\r+")
        await one.until(lambda: one.screen.is_zoomed, "the key behind it")
        assert one.screen.prompt.text == "tax"
