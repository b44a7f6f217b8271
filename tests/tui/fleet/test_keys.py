"""Every key of the table is pressed, and what it did is asserted. A key without a check fails a test here."""

from __future__ import annotations

import pytest

import scenes
from selftest_tui.app.key_tables import TABLES, all_keys
from selftest_tui.fleet.keys import FLEET
from selftest_tui.shared.keys import Key, KeyTable, Where
from tui.driving import driven
from tui.fleet import keys_of_acts
from tui.fleet.keys_of_table import does

assert keys_of_acts, "its checks register themselves"

PRESSED = [(key, name) for key in FLEET.rows if key.where is not Where.TYPING for name in key.keys]


@pytest.mark.slow
@pytest.mark.parametrize(("key", "name"), PRESSED, ids=[f"{key.action}:{name}" for key, name in PRESSED])
async def test_every_key_does_what_the_table_says(key: Key, name: str) -> None:
    async with driven(scenes.few().view) as one:
        await does.of[key.action](one, name)


def test_no_key_is_left_out() -> None:
    elsewhere = {"leave_typing"}  # ctrl+] belongs to whoever is being typed into; pressed in test_typing
    assert set(does.of) | elsewhere == {key.action for key in FLEET.rows}


@pytest.mark.parametrize("table", TABLES, ids=[table.screen for table in TABLES])
def test_no_key_means_two_things_in_one_place(table: KeyTable) -> None:
    assert len({key.action for key in table.rows}) == len(table.rows)
    for together in ((Where.TABLE, Where.SCREEN, Where.APP), (Where.PROMPT,)):
        names = [name for key in table.rows if key.where in together for name in key.keys]
        assert len(names) == len(set(names))


async def test_a_key_that_refuses_says_why() -> None:
    async with driven(scenes.empty().view) as one:
        for action in ("attach", "stop", "message", "explain", "next_needing", "mark"):
            await one.press(FLEET.row(action).keys[0])
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
        await one.press(*"cart")
        assert one.table.arranged.shown == 3, "what is typed behind a click is for what it opened"


def test_the_document_has_every_key() -> None:
    document = all_keys().replace("\\|", "|")
    assert all(f"| `{key.shows}` | {key.help} |" in document for each in TABLES for key in each.rows)
