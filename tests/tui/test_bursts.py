"""Keys that come all at once, as a terminal delivers what is typed fast: none lost, none taken for another key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.keys import _character_to_key

import scenes
from tui.driving import driven

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
