"""Keys that the user chose: what is pressed, what is shown, and what is said of a wrong choice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import scenes
from selftest_core.config import Config, load_config
from selftest_core.errors import ConfigError
from selftest_tui.app.key_tables import TABLES
from selftest_tui.app.rebinding import chosen_keys, key_named, shown
from selftest_tui.fleet.arrangement import SortBy
from selftest_tui.fleet.keys import FLEET
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.shared.dialogs.help import Page
from selftest_tui.shared.keys import APP
from tui.driving import driven
from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def settings(folder: Path, text: str) -> Config:
    (folder / "selftest-tui.toml").write_text(text, encoding="utf-8")
    return load_config(folder, {})


async def test_a_chosen_key_is_pressed_and_shown_in_place_of_the_old_one(tmp_path: Path) -> None:
    config = settings(
        tmp_path, '[keys]\nhelp = "f1"\nrefresh = ["^l", "f5"]\n[keys.fleet]\nstop = "X"\nfilter = ""\nsort = "f9"\n'
    )
    async with driven(scenes.few().view, config=config, size=(200, 50)) as one:
        assert "X stop" in one.key_line
        assert "F1 help" in one.key_line
        assert "s stop" not in one.key_line

        await one.press("s", "slash", "question_mark", "R")
        assert one.app.screen is one.screen, "their old keys do nothing"
        assert not one.screen.prompt.is_open
        assert not one.toasts

        await one.press("X")
        await one.until(lambda: isinstance(one.app.screen, Question), "the question before a stop")
        await one.press("escape")
        await one.press("ctrl+l", "f5")
        assert one.toasts.count("Refresh") == 2

        await one.press("f1")
        page = one.app.screen
        assert isinstance(page, Page)
        terms = {meaning: term for section in page.sections for term, meaning in section.lines}
        assert terms[FLEET.row("stop").help] == "X"
        assert terms[FLEET.row("refresh").help] == "^l F5"
        assert terms[FLEET.row("filter").help] == "^p", "without a key of its own it is in the palette"
        assert terms[FLEET.row("help").help] == "F1"

        await one.press("escape", "f9", "f9", "enter")
        assert one.table.arrangement.sort is SortBy.NAME, "again: the next of the list"


async def test_two_keys_can_be_swapped(tmp_path: Path) -> None:
    config = settings(tmp_path, 'keys.fleet = { only_needing = "g", group = "a" }\n')
    async with driven(scenes.few().view, config=config) as one:
        await one.press("g")
        assert one.table.arrangement.only_me
        await one.press("a")
        assert one.app.screen is not one.screen, "the choice of a group"
        await one.press("escape")
    async with driven(scenes.few().view) as one:  # another app has the keys of the table again
        await one.press("a")
        assert one.table.arrangement.only_me
        assert "a only" in one.key_line


async def test_a_table_with_something_wrong_changes_no_key_and_names_the_lines(tmp_path: Path) -> None:
    config = settings(tmp_path, '[keys.fleet]\nrefresh = "f5"\nstop = "D"\n')
    async with driven(scenes.few().view, config=config) as one:
        file = tmp_path / "selftest-tui.toml"
        assert f"{file}:3: keys.fleet.stop: D is also the key of destroy on the screen fleet." in one.toasts
        await one.press("f5")
        assert "Refresh" not in one.toasts
        await one.press("R")
        assert "Refresh" in one.toasts, "all keys are as they were"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[keys.fleet]\nstop = "D"', ":2: keys.fleet.stop: D is also the key of destroy on the screen fleet."),
        ('[keys]\nstop = "D"', ":2: keys.stop: D is also the key of destroy on the screen fleet."),
        ('[keys]\nkeys_i_lack = "X"', ":2: keys.keys_i_lack: there is no action keys_i_lack."),
        (
            '[keys.fleet]\nstopp = "X"',
            ":2: keys.fleet.stopp: there is no action stopp on the screen fleet. Did you mean",
        ),
        ('[keys.flet]\nstop = "X"', ":2: keys.flet.stop: there is no screen flet. The screens are: fleet, run, start"),
        ('[keys]\nstop = "hyper+x"', ':2: keys.stop: there is no key "hyper+x"'),
        ('[keys]\nstop = "ctrl+i"', ":2: keys.stop: ctrl+i cannot be chosen: a terminal sends tab for it."),
        ('[keys]\nstop = "^q"', ":2: keys.stop: ^q cannot be chosen: it destroys"),
        ('[keys]\ninterrupt = "X"', ":2: keys.interrupt: its key is fixed."),
        ('[keys]\nprompt_cancel = "X"', ":2: keys.prompt_cancel: its key is fixed."),
        ('[keys.fleet]\nhelp = "X"', ":2: keys.fleet.help: it works on every screen: write it in [keys]."),
        ('[keys]\nhelp = "X"\nleave = "X"', ":2: keys.help: X is also the key of leave"),
    ],
)
def test_a_wrong_choice_is_named_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    chosen = chosen_keys(settings(tmp_path, text))

    assert any(says in line for line in chosen.wrong), chosen.wrong
    assert not chosen.keymap
    assert not chosen.rows


def test_a_value_that_is_no_key_is_refused_like_every_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"selftest-tui.toml:2: keys.fleet.stop must be a key such as"):
        settings(tmp_path, "[keys.fleet]\nstop = 3\n")
    with pytest.raises(ConfigError, match=r"there is no setting 'keys.a.b.c'"):
        settings(tmp_path, 'keys.a.b.c = "X"\n')
    with pytest.raises(ConfigError, match="there is no setting 'keys'"):
        settings(tmp_path, "keys = 3\n")


def test_every_free_action_of_every_screen_takes_another_key(tmp_path: Path) -> None:
    everywhere = {key.action for key in APP}
    for table in TABLES:
        for key in table.rows:
            if key.is_free:
                name = key.action if key.action in everywhere else f"{table.name}.{key.action}"
                chosen = chosen_keys(load_config(tmp_path, {}, {f"keys.{name}": "f24"}))
                assert not chosen.wrong
                assert chosen.rows[table.name][key.action].shows == "F24"


async def test_a_sentence_names_the_key_of_now(tmp_path: Path) -> None:
    config = settings(tmp_path, '[keys.fleet]\nfilter = "f"\nfleet = "^n"\nback = "X"\n[keys]\nleave = "f10"\n')
    assert "no action fleet on the screen fleet" in chosen_keys(config).wrong[0]
    config = settings(tmp_path, '[keys.fleet]\nback = "X"\n[keys]\nleave = "f10"\n')
    async with driven(scenes.few().view, config=config) as one:
        await one.press("slash", *"nothing-has-this-name", "enter")
        assert "X clears the filter" in "\n".join(one.lines)
        await one.press("s", "ctrl+q")
        assert "No agent is shown: X clears the filter." in one.toasts
        assert "F10 quits" in one.toasts
        await one.press("X")
        assert one.table.arranged.shown == 12


def test_sentences_name_keys_of_the_tables() -> None:
    known = {f"{table.name}.{key.action}": key for table in TABLES for key in table.rows}
    known |= {f"app.{key.action}": key for key in APP}
    named = [
        (place, key)
        for path in (ROOT / "tui").rglob("*.py")
        for place, key in re.findall(
            r"""\bshown\(['"]([a-z.0-9_]+)['"], ['"]([^'"]+)['"]\)""", path.read_text(encoding="utf-8")
        )
    ]
    assert len(named) > 90
    for place, key in named:
        assert known[place].shows.split()[0] == key, place


@pytest.mark.parametrize(
    ("text", "name", "shows"),
    [
        ("X", "X", "X"), ("?", "question_mark", "?"), (",", "comma", ","), ("^x", "ctrl+x", "^x"),
        ("Ctrl+X", "ctrl+x", "^x"), ("esc", "escape", "esc"), ("F5", "f5", "F5"), ("shift+up", "shift+up", "shift+↑"),
        ("question_mark", "question_mark", "?"), ("space", "space", "space"), ("alt+x", "alt+x", "alt+x"),
        ("[", "left_square_bracket", "["), ("+", "plus", "+"), ("ä", "ä", "ä"),
    ],
)  # fmt: skip
def test_keys_are_written_as_people_write_them(text: str, name: str, shows: str) -> None:
    assert key_named(text) == name
    assert shown((name,)) == shows
