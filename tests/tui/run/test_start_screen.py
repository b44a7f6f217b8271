"""The screen before a run: what it will take and send away is all there, and nothing begins without the one key."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Static

import run_scenes
import scenes
from selftest_core.errors import ToolError
from selftest_core.run.plan.estimates import estimate
from selftest_core.run.plan.offer import Offer, Uncollected, offered_tests
from selftest_core.run.plan.source import Size
from selftest_tui.run.keys import START
from selftest_tui.run.screen import RunScreen
from selftest_tui.run.start import StartScreen
from selftest_tui.shared.dialogs.help import Page
from selftest_tui.shared.keys import Where
from tui.driving import PATIENCE, compare, driven, normalised, text_of
from tui.quiet import press

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from selftest_core.run.store import RunFolder
    from tui.driving import Driven

pytestmark = pytest.mark.slow  # whole screens


def an_offer(tests: int = 96) -> Offer:
    plan = run_scenes.a_plan(
        tests, provider="modal", env_names=("API_TOKEN",), left_out=("src/shop/cart.py", "notes.md"),
        warnings=("the history is cut: agents see no more of it than is here",), create_args=("-t", "7200"),
    )  # fmt: skip
    size = Size(checkout=24_000_000, history=61_000_000, files=812)
    broken = Uncollected("tests/test_old.py", "ModuleNotFoundError: No module named 'shop.legacy'")
    return Offer(plan, estimate(plan, size), offered_tests(plan, {}), (broken,), "HEAD", "", tests, 3, 88_000_000_000)


class Beginning:
    """Begins a run when it is let go on, as the real one does in a thread."""

    def __init__(self, folder: RunFolder, fails: int = 0) -> None:
        self.folder = folder
        self.fails = fails
        self.times = 0
        self.may_end = threading.Event()

    def __call__(self, say: Callable[[str], None]) -> RunFolder:
        self.times += 1
        say("Making the private clone …")
        assert self.may_end.wait(PATIENCE)
        if self.times <= self.fails:
            raise ToolError("tmux could not be started", "no space left on device", "Make room, then y again.")
        return self.folder


@asynccontextmanager
async def asked(
    beginning: Beginning, offer: Offer | None = None, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Driven, StartScreen]]:
    async with driven(scenes.few().view, size=size, start=(offer or an_offer(), beginning)) as one:
        await one.until(lambda: isinstance(one.app.screen, StartScreen), "the question")
        screen = one.app.screen
        assert isinstance(screen, StartScreen)
        yield one, screen


def question(screen: StartScreen) -> str:
    return str(screen.query_one("#question", Static).visual)


@pytest.fixture
def beginning(tmp_path: Path) -> Beginning:
    return Beginning(run_scenes.over(tmp_path).write())


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (250, 70)])
async def test_all_that_matters_is_told_before_the_yes(beginning: Beginning, size: tuple[int, int]) -> None:
    async with asked(beginning, size=size) as (one, screen):
        svg = normalised(one.app.export_screenshot())
        text = "\n".join(text_of(svg))
        for _ in range(12):
            await press(one.app, "pagedown")
            text += "\n".join(text_of(normalised(one.app.export_screenshot())))
        for words in ("modal", "claude", "20 at once", "USD", "API_TOKEN", "Anthropic", "notes.md", "test_old.py"):
            assert words in text, f"{words} is not told"
        assert "Nothing has started yet" in question(screen)
        assert beginning.times == 0
        compare(f"start-{size[0]}", svg)


async def test_yes_begins_once_and_shows_the_run(beginning: Beginning) -> None:
    async with asked(beginning) as (one, screen):
        await press(one.app, "y", "y", "y")
        await one.until(lambda: "Making the private clone" in question(screen), "what is being done")
        await press(one.app, "n")
        assert one.app.screen_stack[-1] is screen, "it is being made: it cannot be left by the way"
        beginning.may_end.set()
        await one.until(lambda: isinstance(one.app.screen, RunScreen), "the run")
        assert beginning.times == 1
        await press(one.app, "f")
        stack: list[object] = [*one.app.screen_stack]
        assert stack[-1] is one.screen, "the fleet lies below, and no question any more"


async def test_what_goes_wrong_is_said_and_can_be_tried_again(tmp_path: Path) -> None:
    beginning = Beginning(run_scenes.over(tmp_path).write(), fails=1)
    beginning.may_end.set()
    async with asked(beginning) as (one, screen):
        await press(one.app, "y")
        await one.until(lambda: "could not be started" in question(screen), "the error")
        assert "Make room" in question(screen)
        await press(one.app, "y")
        await one.until(lambda: isinstance(one.app.screen, RunScreen), "the run")
        assert beginning.times == 2


@pytest.mark.parametrize("key", ["n", "N", "escape", "q", "ctrl+c"])
async def test_anything_else_leaves_and_nothing_was_started(beginning: Beginning, key: str) -> None:
    async with asked(beginning) as (one, _):
        await press(one.app, "enter", "right", key)
        assert not one.app.is_running
        assert one.app.return_code == 0
    assert beginning.times == 0


async def test_help_and_scrolling(beginning: Beginning) -> None:
    async with asked(beginning, size=(80, 24)) as (one, screen):
        box = screen.query_one("#offer")
        for key in (*START.row("scroll_down").keys, *START.row("page_down").keys):
            before = box.scroll_offset.y
            await press(one.app, key)
            assert box.scroll_offset.y > before
        for key in (*START.row("page_up").keys, *START.row("scroll_up").keys):
            before = box.scroll_offset.y
            await press(one.app, key)
            assert box.scroll_offset.y < before
        await press(one.app, "question_mark")
        assert isinstance(one.app.screen, Page)
        assert all(key.where in (Where.SCREEN, Where.APP) for key in START.rows)


async def test_hostile_words_are_shown_and_not_obeyed(beginning: Beginning) -> None:
    offer = an_offer()
    bad = "\x1b[31m[red]\u202eevil\x1b]0;t\x07"
    plan = replace(offer.plan, left_out=(bad,), warnings=(bad,), repository=f"/home/{bad}")
    async with asked(beginning, replace(offer, plan=plan, base_name=bad)) as (one, _):
        svg = one.app.export_screenshot()
        assert "\x1b" not in svg
        assert "\u202e" not in svg
        assert any("[red]evil" in line for line in text_of(normalised(svg)))
