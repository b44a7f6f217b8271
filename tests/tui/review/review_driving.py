"""Drives a review's screen over a repository, and tells what a person would see of it."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import scenes
from selftest_core.review.changes.inputs import Request
from selftest_tui.review.bar import ReviewBar
from selftest_tui.review.screen import ReviewScreen
from selftest_tui.shared.widgets.key_bar import KeyBar
from tui.driving import driven, normalised
from tui.quiet import PATIENCE, press
from tui.review.review_scenes import AGENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from core.review.repositories import Repository
    from selftest_core.fleet.view import FleetView
    from selftest_core.review.state import ReviewState
    from selftest_tui.review.diff.diff_view import DiffView
    from selftest_tui.review.lines import ReviewRow
    from selftest_tui.review.pane import ReviewPane
    from selftest_tui.review.table import LineTable
    from tui.driving import Driven

ALL = Request(targets=AGENTS, base="release")


@dataclass
class Reviewing:
    """A running app with a review on top, and what a person would see of it."""

    fleet: Driven
    screen: ReviewScreen
    repository: Repository

    @property
    def table(self) -> LineTable:
        return self.screen.table

    @property
    def pane(self) -> ReviewPane:
        return self.screen.pane

    @property
    def diff(self) -> DiffView:
        return self.screen.pane.diff

    @property
    def lines(self) -> list[str]:
        """The lines of the table that are on the screen, trailing blanks cut."""
        return [self.table.render_line(y).text.rstrip() for y in range(self.table.size.height)]

    @property
    def diff_lines(self) -> list[str]:
        """The lines of the diff that are on the screen."""
        return [self.diff.render_line(y).text.rstrip() for y in range(self.diff.size.height)]

    @property
    def head(self) -> str:
        """The two lines at the top."""
        return self.screen.query_one(ReviewBar).render().plain

    @property
    def key_line(self) -> str:
        return self.screen.query_one(KeyBar).render().plain

    @property
    def toasts(self) -> str:
        return "\n".join(f"{toast.title}: {toast.text}" for toast in self.screen.said)

    @property
    def top(self) -> object:
        """The screen on top."""
        return self.fleet.app.screen

    @property
    def state(self) -> ReviewState:
        assert self.screen.state is not None
        return self.screen.state

    def row(self, words: str) -> ReviewRow:
        """The change whose subject has these words."""
        found = [row for row in self.screen.rows if words in row.change.subject]
        assert len(found) == 1, f"{words}: {found}"
        return found[0]

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until all that they caused is on the screen."""
        await press(self.fleet.app, *keys)
        if self.fleet.app.is_running and self.top is self.screen:
            await self.settled()

    async def settled(self) -> None:
        """Wait until the line is laid as it stays, and the right pane shows what is under the cursor."""

        def rests() -> bool:
            state = self.screen.state
            is_whole = state is None or state.reviewed.dependents.is_whole
            return is_whole and self.screen.is_settled and self.screen.is_at_rest

        await self.until(rests, "rest")

    async def until(self, condition: Callable[[], object], what: str = "") -> None:
        await self.fleet.until(condition, f"{what}\n{self.head}\n" + "\n".join(self.lines) + f"\n{self.toasts}")

    async def go_to(self, words: str) -> None:
        """Put the cursor on the change whose subject has these words."""
        assert self.table.go_to_key(self.row(words).key), f"{words} is not shown:\n" + "\n".join(self.lines)
        await self.press()
        await self.settled()

    async def picture(self) -> str:
        """The screen as SVG, the same on every machine and in every run."""
        await self.settled()
        return await self.picture_of_all()

    async def picture_of_all(self) -> str:
        """The same with a dialog on top."""
        await self.until(lambda: self.diff.is_coloured and self.pane.alternatives.diff.is_coloured, "colours")
        return normalised(self.fleet.app.export_screenshot())


def environ_of(repository: Repository, **more: str) -> dict[str, str]:
    """An environment that has git, and nothing of the person's."""
    home = repository.folder.parent
    return {
        "PATH": os.environ["PATH"], "HOME": str(home / "home"), "XDG_STATE_HOME": str(home / "state"),
        "TMUX_TMPDIR": "/nonexistent/tmux", "MNGR_HOST_DIR": "/nonexistent/m", "LC_ALL": "C.UTF-8", **more,
    }  # fmt: skip


@asynccontextmanager
async def reviewing(
    repository: Repository,
    request: Request = ALL,
    *,
    size: tuple[int, int] = (140, 40),
    theme: str = "textual-dark",
    view: FleetView | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[Reviewing]:
    """The app over a review, its first line and its first diff on the screen."""
    seen = view if view is not None else scenes.few().view
    before = threading.enumerate()
    try:
        async with driven(
            seen, size=size, theme=theme, environ=environ or environ_of(repository), folder=repository.folder
        ) as fleet:
            yield await opened(fleet, repository, request)
    finally:
        # The screen waits some seconds for its threads. Who opens the same review next must find it closed.
        for thread in threading.enumerate():
            if thread not in before and thread.name in ("review", "diffs", "colours", "verification"):
                await asyncio.to_thread(thread.join, PATIENCE)


async def opened(fleet: Driven, repository: Repository, request: Request = ALL) -> Reviewing:
    """Open a review from the fleet."""
    fleet.app.open_review(request)
    await fleet.until(lambda: isinstance(fleet.app.screen, ReviewScreen), "the review's screen")
    screen = fleet.app.screen
    assert isinstance(screen, ReviewScreen)
    one = Reviewing(fleet, screen, repository)
    await one.until(lambda: screen.state is not None or fleet.app.screen is not screen, "the review")
    if fleet.app.screen is screen:
        await one.settled()
    return one
