"""Drives the search screen over a repository with a past, opened from the fleet, and tells what a person would see."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.widgets import Static

import scenes
from selftest_tui.search.bar import SearchBar
from selftest_tui.search.pane import SearchPane
from selftest_tui.search.screen import SearchScreen
from selftest_tui.shared.widgets.prompt import Words
from tui.driving import driven, normalised
from tui.quiet import press, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from textual.screen import Screen

    from recorder.search.past import Past
    from selftest_recorder.search.hits import Hit
    from selftest_tui.search.table import SearchTable
    from tui.driving import Driven


@dataclass
class Searching:
    """The screen over a past."""

    one: Driven
    screen: SearchScreen

    @property
    def table(self) -> SearchTable:
        return self.screen.table

    @property
    def top(self) -> object:
        return self.one.app.screen

    def shows(self, kind: type[Screen[Any]]) -> bool:
        """True if a screen of this kind is on top."""
        return isinstance(self.one.app.screen, kind)

    @property
    def lines(self) -> list[str]:
        """The lines of the table that are on the screen."""
        return [self.table.render_line(y).text.rstrip() for y in range(self.table.size.height)]

    @property
    def hits(self) -> tuple[Hit, ...]:
        return self.screen.news.hits

    @property
    def bar(self) -> str:
        return self.screen.query_one(SearchBar).render().plain

    @property
    def details(self) -> str:
        return str(self.screen.query_one(SearchPane).query_one(Static).visual)

    @property
    def toasts(self) -> str:
        return "\n".join(f"{toast.title}: {toast.text}" for toast in self.screen.said)

    async def press(self, *keys: str) -> None:
        await press(self.one.app, *keys)
        if self.one.app.is_running and self.top is self.screen:
            await self.rest()

    async def rest(self) -> None:
        await self.until(lambda: self.screen.is_at_rest, "rest")

    async def until(self, condition: Callable[[], object], what: str) -> None:
        await until(self.one.app, condition, lambda: "\n".join([what, self.bar, *self.lines, self.toasts]))

    async def search(self, text: str) -> None:
        """Search for it, as if it had been typed, and wait for the hits."""
        if not self.screen.prompt.is_open:
            await self.press("F")
        self.screen.prompt.query_one(Words).value = text
        await self.press("enter")

    async def go_to(self, kind: str) -> Hit:
        """Put the cursor on the first hit of that kind."""
        hit = next(one for one in self.hits if one.kind == kind)
        assert self.table.go_to_key(str(hit.id))
        await self.rest()
        return hit

    def picture(self) -> str:
        return normalised(self.one.app.export_screenshot())


@asynccontextmanager
async def searching(past: Past, size: tuple[int, int] = (120, 34)) -> AsyncIterator[Searching]:
    """The screen, opened from the fleet by F, with the prompt open and the index complete."""
    async with driven(scenes.few().view, size=size, environ=dict(past.environ), folder=past.top) as one:
        await press(one.app, "F")
        await one.until(lambda: isinstance(one.app.screen, SearchScreen), "the search")
        assert isinstance(one.app.screen, SearchScreen)
        it = Searching(one, one.app.screen)
        await it.rest()
        yield it


def elsewhere(past: Past, folder: Path) -> Past:
    """The same past, whose index would be in another place."""
    past.environ = {**past.environ, "XDG_CACHE_HOME": str(folder)}
    return past
