"""Pictures of the main states. Each is first asserted in words: a picture alone would keep a mistake as well."""

from __future__ import annotations

import pytest

import scenes
from tui.driving import compare, driven

DARK, LIGHT = "textual-dark", "textual-light"


async def test_few() -> None:
    async with driven(scenes.few().view) as one:
        assert "◆ 3 need you" in one.status
        assert any("▾ needs you" in line for line in one.lines)
        compare("few", await one.picture())


async def test_hundred() -> None:
    async with driven(scenes.hundred().view) as one:
        assert one.table.arranged.agents == 100
        await one.press("down", "space", "space")
        assert len(one.table.marks) == 2
        compare("hundred", await one.picture())


async def test_small_terminal() -> None:
    async with driven(scenes.few().view, size=(80, 24)) as one:
        assert not one.screen.pane_is_open
        assert "? help" in one.key_line
        compare("small", await one.picture())


async def test_small_terminal_with_the_right_pane() -> None:
    async with driven(scenes.few().view, size=(80, 24)) as one:
        await one.press("d")
        assert one.screen.pane_is_open
        compare("small-details", await one.picture())


async def test_wide_terminal_has_more_columns() -> None:
    async with driven(scenes.hundred().view, size=(250, 70)) as one:
        heading = one.lines[0]
        assert {"type", "run"} <= set(heading.split())
        compare("wide", await one.picture())


async def test_thousand() -> None:
    async with driven(scenes.thousand().view) as one:
        await one.press("G")
        assert one.table.cursor == len(one.table.arranged.lines) - 1
        assert one.table.scroll_offset.y > 900
        compare("thousand", await one.picture())


async def test_empty() -> None:
    async with driven(scenes.empty().view) as one:
        assert any("No agents yet" in line for line in one.lines)
        assert any("mngr create" in line for line in one.lines)
        compare("empty", await one.picture())


async def test_provider_down() -> None:
    async with driven(scenes.provider_down().view) as one:
        assert one.screen.problems
        assert any("⌁" in line and "as of" in line for line in one.lines)
        compare("provider-down", await one.picture())


async def test_no_mngr() -> None:
    async with driven(scenes.no_mngr().view) as one:
        assert one.screen.problems[0].key == "mngr"
        compare("no-mngr", await one.picture())


async def test_hostile() -> None:
    async with driven(scenes.hostile().view) as one:
        svg = await one.picture()
        assert "\x1b" not in svg
        assert any("[bold red]" in line for line in one.lines), "markup is shown, not obeyed"
        compare("hostile", svg)


async def test_light_theme() -> None:
    async with driven(scenes.few().view, theme=LIGHT) as one:
        assert one.app.theme == LIGHT
        compare("light", await one.picture())


async def test_help() -> None:
    async with driven(scenes.few().view) as one:
        await one.press("question_mark")
        compare("help", await one.picture())


@pytest.mark.parametrize("theme", [DARK, LIGHT])
async def test_states_can_be_told_apart_without_colour(theme: str) -> None:
    async with driven(scenes.few().view, theme=theme) as one:
        symbols = {line.lstrip(" ┃")[:1] for line in one.lines[1:] if line.startswith("  ")}
        assert {"◆", "✗", "●", "○", "✓", "■"} <= symbols
