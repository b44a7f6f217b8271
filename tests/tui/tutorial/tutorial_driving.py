"""Drives the tutorial's screen over a project in a folder, and tells what a person would see of it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Static

import scenes
from selftest_tui.shared.widgets.key_bar import KeyBar
from selftest_tui.tutorial.details import TutorialDetails
from selftest_tui.tutorial.screen import TutorialScreen
from selftest_tui.tutorial.status import TutorialStatus
from tui.driving import driven, normalised
from tui.quiet import press, until
from tui.tutorial.tutorials import RESULTS, write_project, write_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from selftest_tui.tutorial.table import TutorialTable
    from tui.driving import Driven


@dataclass
class Shown:
    """The screen over a project, and what a person would see of it."""

    one: Driven
    screen: TutorialScreen

    @property
    def table(self) -> TutorialTable:
        return self.screen.table

    @property
    def lines(self) -> list[str]:
        """The lines of the table that are on the screen."""
        return [self.table.render_line(y).text.rstrip() for y in range(self.table.size.height)]

    @property
    def status(self) -> str:
        return self.screen.query_one(TutorialStatus).render().plain

    @property
    def key_line(self) -> str:
        return self.screen.query_one(KeyBar).render().plain

    @property
    def details(self) -> str:
        return str(self.screen.query_one(TutorialDetails).query_one(Static).visual)

    @property
    def toasts(self) -> str:
        return "\n".join(f"{toast.title}: {toast.text}" for toast in self.screen.said)

    async def press(self, *keys: str) -> None:
        await press(self.one.app, *keys)

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await until(self.one.app, condition, lambda: "\n".join([what, self.status, *self.lines]))

    async def go_to(self, words: str) -> None:
        """Put the cursor on the line that says so."""
        await self.press("home")
        while words not in self.table.render_line(1 + self.table.cursor - self.table.scroll_offset.y).text:
            before = self.table.cursor
            await self.press("down")
            assert self.table.cursor > before, f"no line says {words}\n" + "\n".join(self.lines)

    def picture(self) -> str:
        return normalised(self.one.app.export_screenshot())


def environ_of(folder: Path, **more: str) -> dict[str, str]:
    return {"PATH": "/nonexistent", "HOME": str(folder / "h"), "XDG_STATE_HOME": str(folder / "s"), **more}


@asynccontextmanager
async def shown(project: Path, environ: Mapping[str, str], size: tuple[int, int] = (120, 40)) -> AsyncIterator[Shown]:
    """The screen, opened from the fleet, once it has looked."""
    async with driven(scenes.few().view, size=size) as one:
        yield await opened(one, project, environ)


async def opened(one: Driven, project: Path, environ: Mapping[str, str]) -> Shown:
    screen = TutorialScreen(environ, folder=project)
    await one.app.push_screen(screen)
    it = Shown(one, screen)
    await it.until(lambda: screen.view is not None or "No " in "".join(it.lines), "a first look")
    return it


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project whose last run is over, in a folder with a blank in its name."""
    project = write_project(tmp_path / "a shop")
    write_run(project, environ_of(tmp_path), RESULTS, working=["tests/test_report.py::test_report"])
    return project
