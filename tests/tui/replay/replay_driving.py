"""Drives the player's screen over a recording, and tells what a person would see of it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from selftest_recorder.cast.events import Header
from selftest_recorder.cast.writer import write_cast
from selftest_tui.app.replay_app import ReplayApp
from selftest_tui.shared.widgets.key_bar import KeyBar
from tui.driving import normalised
from tui.quiet import press, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from textual.pilot import Pilot

    from selftest_tui.replay.player import Player
    from selftest_tui.replay.screen import ReplayScreen
    from selftest_tui.replay.seek_bar import SeekBar
    from selftest_tui.replay.terminal_view import TerminalView

STORY = (
    (0.0, "o", "$ pytest\r\n"), (5.0, "m", "pytest begins"), (10.0, "o", "\x1b[31mFAILED\x1b[0m test_login\r\n"),
    (20.0, "m", "failed"), (30.0, "o", "thinking "), (31.0, "o", "harder "),
    (90.0, "o", "\r\n日本 e\u0301 \x1b[42m ok "),
    (100.0, "m", "commit: keep the query"), (150.0, "o", "\x1b[0m\r\n$ pytest\r\n\x1b[32mpassed\x1b[0m test_login"),
    (200.0, "o", "\r\nbye"),
)  # fmt: skip
"""200 seconds of an agent: 40x8."""


def write_story(path: Path, cols: int = 40, rows: int = 8) -> Path:
    """A recording of it."""
    write_cast(path, Header(2, cols, rows, title="an agent"), STORY)
    return path


@dataclass
class Replayed:
    """The screen, and what a person would see of it."""

    app: ReplayApp
    pilot: Pilot[None]

    @property
    def screen(self) -> ReplayScreen:
        return self.app.replay

    @property
    def player(self) -> Player:
        return self.screen.player

    @property
    def view(self) -> TerminalView:
        return self.player.view

    @property
    def bar(self) -> SeekBar:
        return self.player.bar

    @property
    def lines(self) -> list[str]:
        """The recorded terminal, trailing blanks cut."""
        return [self.view.render_line(y).text.rstrip() for y in range(self.view.size.height)]

    @property
    def title(self) -> str:
        return str(self.screen.query_one("#title").render())

    @property
    def key_line(self) -> str:
        return self.screen.query_one(KeyBar).render().plain

    @property
    def toasts(self) -> str:
        return "\n".join(f"{toast.title}: {toast.text}" for toast in self.screen.said)

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until what they caused is on the screen."""
        await press(self.app, *keys)

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await until(self.app, condition, lambda: "\n".join([what, self.title, *self.lines]))

    def picture(self) -> str:
        return normalised(self.app.export_screenshot())


@asynccontextmanager
async def replayed(
    path: Path,
    tmp_path: Path,
    *,
    size: tuple[int, int] = (100, 16),
    at: float | None = None,
    title: str = "",
    is_ended: bool = False,
) -> AsyncIterator[Replayed]:
    """The screen over a recording, once that is open, or refused."""
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path), "PATH": "/nonexistent"}
    app = ReplayApp(path, environ, at=at, title=title, is_ended=is_ended)
    async with app.run_test(size=size) as pilot:
        one = Replayed(app, pilot)
        await one.until(lambda: app.screen is app.replay and app.replay.is_mounted, "the screen")
        await one.until(lambda: app.replay.query("Player") and not one.player.is_opening, "the recording")
        await one.until(lambda: one.player.timeline is None or one.player.timeline.is_complete, "all of it")
        yield one
