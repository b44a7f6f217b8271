"""Drives a run's screen over a run folder of `run_scenes`, above a fleet that has its agents."""

from __future__ import annotations

import fcntl
import os
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import scenes
from selftest_core.journal import encode
from selftest_tui.run.bar import RunBar
from selftest_tui.run.screen import RunScreen
from selftest_tui.shared.widgets.key_bar import KeyBar
from tui.driving import Driven, driven, normalised
from tui.quiet import press

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from run_scenes import Story
    from selftest_core.fleet.view import FleetView
    from selftest_core.run.store import RunFolder
    from selftest_tui.run.table import RunTable


@dataclass
class RunDriven:
    """A running app with a run's screen on top, and what a person would see of it."""

    fleet: Driven
    screen: RunScreen
    story: Story

    @property
    def app(self) -> object:
        return self.fleet.app

    @property
    def table(self) -> RunTable:
        return self.screen.table

    @property
    def lines(self) -> list[str]:
        """The lines of the table that are on the screen, trailing blanks cut."""
        return [self.table.render_line(y).text.rstrip() for y in range(self.table.size.height)]

    @property
    def head(self) -> str:
        """The two lines at the top."""
        return self.screen.query_one(RunBar).render().plain

    @property
    def key_line(self) -> str:
        return self.screen.query_one(KeyBar).render().plain

    @property
    def toasts(self) -> str:
        return "\n".join(f"{toast.title}: {toast.text}" for toast in self.screen.said)

    @property
    def requests(self) -> list[tuple[str, str]]:
        """What waits for the conductor."""
        return [(str(request.kind), request.test) for _, request in self.screen.folder.requests()]

    @property
    def top(self) -> object:
        """The screen on top."""
        return self.fleet.app.screen

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until all that they caused is on the screen."""
        await press(self.fleet.app, *keys)
        if self.fleet.app.is_running:
            await self.until(lambda: self.screen.is_at_rest, "rest")

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        await self.fleet.until(condition, what)

    async def go_to(self, key: str) -> None:
        """Put the cursor on a test by its planned name, or on a group by `group NAME`."""
        assert self.table.go_to_key(key), f"{key} is not shown:\n" + "\n".join(self.lines)
        await self.press()

    async def goes_on(self) -> None:
        """The story was told on: wait until that is on the screen."""
        told = b"".join(encode(entry) for entry in self.story.entries)
        journal = self.story.folder.journal
        written = journal.read_bytes()
        assert told.startswith(written)
        # Appended, as a conductor does: the screen may read at any moment.
        with journal.open("ab") as file:
            file.write(told[len(written) :])
        last = len(self.story.entries)
        await self.until(lambda: self.screen.run_now is not None and self.screen.run_now.last == last, "the news")
        await self.press()

    async def picture(self) -> str:
        """The screen as SVG, the same on every machine and in every run."""
        screen = self.screen
        await self.until(
            lambda: screen.is_at_rest and (screen.table.row is None or screen.pane.collected is not None),
            "the collected files",
        )
        return normalised(self.fleet.app.export_screenshot())


@contextmanager
def conducted(folder: RunFolder) -> Iterator[None]:
    """Hold the journal as a conductor does."""
    handle = os.open(folder.journal, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@asynccontextmanager
async def shown(
    story: Story,
    *,
    size: tuple[int, int] = (140, 40),
    theme: str = "textual-dark",
    view: FleetView | None = None,
    environ: Mapping[str, str] | None = None,
    is_live: bool = True,
) -> AsyncIterator[RunDriven]:
    """The app over a run, its first frame on the screen. `is_live`: somebody conducts it."""
    story.write()
    holding = conducted(story.folder) if is_live else _nobody()
    seen = view if view is not None else scenes.many(len(story.plan.tests)).view
    with holding:
        async with driven(seen, size=size, theme=theme, environ=environ) as fleet:
            fleet.app.show_run(story.folder)
            await fleet.until(lambda: isinstance(fleet.app.screen, RunScreen), "the run's screen")
            screen = fleet.app.screen
            assert isinstance(screen, RunScreen)
            one = RunDriven(fleet, screen, story)
            await one.until(lambda: screen.news is not None and screen.is_at_rest, "the run")
            yield one


@contextmanager
def _nobody() -> Iterator[None]:
    yield
