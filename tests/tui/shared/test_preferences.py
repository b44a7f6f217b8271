"""Choices on screens are kept for the next start, and a damaged file is no obstacle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from rich.color import Color
from rich.style import Style

import scenes
from selftest_core import paths
from selftest_tui.app.colours import reduced
from selftest_tui.shared.preferences import FILE_NAME, Preferences, PreferenceStore
from selftest_tui.shared.widgets.columns import Choice
from tui.driving import ENVIRONMENT, driven

if TYPE_CHECKING:
    from pathlib import Path


def environ_of(folder: Path) -> dict[str, str]:
    return {**ENVIRONMENT, "XDG_STATE_HOME": str(folder)}


def test_every_choice_is_found_by_the_next_start(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    store = PreferenceStore(environ)
    assert store.now == Preferences()
    store.choose_theme("nord", "textual-light")
    store.hide_old_agents(False)
    store.split("run", 0.7)
    store.choose_columns("fleet", {"host": Choice.NEVER})
    assert PreferenceStore(environ).now == store.now
    assert store.now.theme_over("textual-light") == "nord"
    assert store.now.theme_over("dracula") == "dracula", "another setting is a newer choice"
    assert [file.name for file in paths.state_folder(environ).iterdir()] == [FILE_NAME], "nothing is left beside it"


def test_two_screens_do_not_undo_each_other(tmp_path: Path) -> None:
    one, two = PreferenceStore(environ_of(tmp_path)), PreferenceStore(environ_of(tmp_path))
    one.split("fleet", 0.5)
    two.hide_old_agents(False)
    kept = PreferenceStore(environ_of(tmp_path)).now
    assert kept.splits == {"fleet": 0.5}
    assert not kept.hides_old_agents


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "null", '{"splits": {"fleet": 7}}', '{"columns": {"fleet": {"host": "perhaps"}}}', "\udcff",
     '{"theme": 3}', '{"hides_old_agents": "no"}', '{"splits": {"fleet": "x"}}', "[" * 100_000],
)  # fmt: skip
def test_a_damaged_file_means_the_defaults_and_a_notice(tmp_path: Path, text: str) -> None:
    path = paths.state_folder(environ_of(tmp_path)) / FILE_NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode(errors="surrogateescape"))
    store = PreferenceStore(environ_of(tmp_path))
    assert store.now == Preferences()
    assert str(path) in store.notice
    store.split("fleet", 0.5)
    assert json.loads(path.read_text())["splits"] == {"fleet": 0.5}, "the next choice makes it whole again"


def test_a_file_of_a_newer_version_keeps_what_is_understood(tmp_path: Path) -> None:
    path = paths.state_folder(environ_of(tmp_path)) / FILE_NAME
    path.parent.mkdir(parents=True)
    path.write_text('{"splits": {"fleet": 0.4}, "sounds": {"bell": 1}}')
    store = PreferenceStore(environ_of(tmp_path))
    assert (store.now.splits, store.notice) == ({"fleet": 0.4}, "")


def test_a_folder_that_cannot_be_written_is_told_and_the_choice_lasts_until_the_end(tmp_path: Path) -> None:
    (tmp_path / "selftest-tui").write_text("a file where the folder would be")
    store = PreferenceStore(environ_of(tmp_path))
    store.split("fleet", 0.5)
    assert store.now.splits == {"fleet": 0.5}
    assert "cannot be written" in store.notice


async def test_theme_split_and_columns_are_there_after_a_restart(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    async with driven(scenes.few().view, environ=environ) as one:
        wide = one.table.size.width
        await one.press("right_curly_bracket", "right_curly_bracket", "W", "space", "space", "enter")
        one.app.theme = "nord"
        await one.press()
        moved = one.table.size.width
        assert moved > wide
        assert "test / branch" not in one.lines[0]
    async with driven(scenes.few().view, environ=environ) as one:
        assert one.app.theme == "nord"
        assert one.table.size.width == moved
        assert "test / branch" not in one.lines[0]
    async with driven(scenes.few().view, environ=environ, theme="dracula") as one:
        assert one.app.theme == "dracula"
    (paths.state_folder(environ) / FILE_NAME).write_text("{")
    async with driven(scenes.few().view, environ=environ) as one:
        assert one.app.theme == "textual-dark"
        assert "so the defaults apply" in one.toasts


async def test_the_border_is_dragged_with_the_mouse(tmp_path: Path) -> None:
    async with driven(scenes.few().view, environ=environ_of(tmp_path)) as one:
        frame = one.screen.query_one("#agents")
        x = frame.region.right
        await one.pilot.mouse_down(offset=(x, 10))
        await one.pilot.hover(offset=(x - 20, 10))
        await one.until(lambda: abs(frame.region.right - (x - 19)) <= 1, "the split follows")
        await one.pilot.mouse_up(offset=(x - 20, 10))
        await one.until(lambda: PreferenceStore(one.screen.environ).now.splits, "it is remembered")
        await one.pilot.hover(offset=(x - 40, 12))
        await one.press()
        assert abs(frame.region.right - (x - 19)) <= 1, "the button is up"


async def test_narrow_terminals_have_no_split_to_move() -> None:
    async with driven(scenes.few().view, size=(80, 24)) as one:
        await one.press("right_curly_bracket")
        assert "not beside each other" in one.toasts
        assert one.table.size.width == 78


@pytest.mark.parametrize(("shade", "number"), [("#242f38", 236), ("#121212", 233), ("#ffffff", 231), ("#ff0000", 196)])
def test_shades_become_the_nearest_of_256_colours(shade: str, number: int) -> None:
    style = reduced(Style(color=Color.parse(shade), bgcolor=Color.parse(shade)))
    assert style.color is not None
    assert style.bgcolor is not None
    assert (style.color.number, style.bgcolor.number) == (number, number)
