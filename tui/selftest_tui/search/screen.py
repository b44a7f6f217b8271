"""The search screen: everything that agents did, over all runs of a repository, searched while it is typed.

Hits stand under their runs, the newest first; the right pane shows the lines around one. The index is brought up to
date by a process of its own, and hits come in while it is built: the cursor stays on its hit. The key actions are in
`actions`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container, Horizontal
from textual.content import Content

from selftest_core.errors import SelftestError
from selftest_tui.search.actions import SearchActions
from selftest_tui.search.bar import SearchBar
from selftest_tui.search.feed import SearchFeed, SearchNews
from selftest_tui.search.keys import SEARCH
from selftest_tui.search.lines import SearchGroup, lay_out
from selftest_tui.search.pane import SearchPane
from selftest_tui.search.table import SearchTable
from selftest_tui.shared import present, problems
from selftest_tui.shared.keys import Where, shown
from selftest_tui.shared.widgets.banner import Banner
from selftest_tui.shared.widgets.key_bar import KeyBar
from selftest_tui.shared.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.timer import Timer

    from selftest_core.fleet.view import Problem
    from selftest_tui.search.lines import SearchLine

_AROUND, _AROUND_ZOOMED = 8, 300
"""Lines before and behind a hit that are shown."""
_SECONDS_TO_FOLLOW = 0.06
_FORMS = (
    "redirect coupon             lines with all these words, or words that begin so",
    '"connection refused"        words that stand together',
    "test_login.py::redirect     a path or a test id, as it is written",
    "/assert .* == 10[67]/       a regular expression",
)


class SearchScreen(SearchActions):
    """Screen of the search in the repository around `folder`."""

    KEYS = SEARCH
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = SEARCH.bindings(Where.SCREEN)
    AUTO_FOCUS = "SearchTable"

    pane: SearchPane

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        super().__init__()
        self.feed = SearchFeed(folder, environ, self.post_message)
        self.news = SearchNews()
        self._shown: tuple[SearchLine | None, bool] = (None, False)
        self._title = ""
        self._following: Timer | None = None

    def compose(self) -> ComposeResult:
        """Place the widgets as on the other screens."""
        yield SearchBar()
        with Horizontal(id="body"):
            with Container(id="hits"):
                yield SearchTable()
            yield SearchPane()
        yield Banner()
        with Horizontal(id="bottom"):
            yield KeyBar(SEARCH)
            yield Prompt()

    def on_mount(self) -> None:
        """Ask for words, and bring the index up to date."""
        self.table = self.query_one(SearchTable)
        self.pane = self.query_one(SearchPane)
        self.prompt = self.query_one(Prompt)
        # Hits may come while the screen is being removed, when its parts cannot be queried any more.
        self._bar = self.query_one(SearchBar)
        self._banner = self.query_one(Banner)
        self._keys = self.query_one(KeyBar)
        self._frame = self.query_one("#hits")
        self.rearrange()
        self.do_search_all()
        self.call_after_refresh(self.feed.start)

    def open_again(self) -> None:
        """Ask for other words over the hits of the last time, and look for what is new."""
        self.feed.refresh()
        self.do_search_all()

    def on_unmount(self) -> None:
        """End the workers."""
        self.feed.stop()

    # news

    def on_search_seen(self) -> None:
        """Show the newest hits."""
        self.news = self.feed.take()
        self.rearrange()

    @property
    def is_at_rest(self) -> bool:
        """True when the index is complete, and the hits are those of what was typed last."""
        news = self.news
        is_done = news.error is not None or (not news.is_indexing and news.share == 1.0)
        return is_done and news.text == self.text and self._shown == (self.table.line, self.is_zoomed)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The present problems."""
        return () if self.news.error is None else (problems.lasting("search", self.news.error),)

    def rearrange(self) -> None:
        """Lay the hits out under their runs."""
        # Until the first answer to another text, the hits of the last one stay.
        self.table.show_placeholder(self._instead())
        self.table.show(lay_out(self.news.hits, self.folded, partial(self.table.columns.in_order, now=0.0)))
        self._bar.show(self.news)
        self._banner.show(self.problems)
        self.show_frame()

    def _instead(self) -> tuple[str, ...]:
        news = self.news
        if news.error is not None:
            return (news.error.title, "", *news.error.detail.splitlines()[:6], news.error.hint)
        if news.problem:
            return (news.problem, "", *_forms())
        if not news.text:
            return ("Search everything that agents did", "", *_forms())
        if news.is_indexing or news.share < 1.0:
            return ("Nothing was found so far …",)
        how = f"{shown('search.filter', '/')} changes the words, {shown('search.refresh', 'R')} looks for what is new"
        return (f"Nothing has “{news.text}”", "", how)

    def show_frame(self) -> None:
        """Update the title of the frame, and the key line."""
        name = self.news.repository.name if self.news.repository is not None else ""
        by = f" · sort: {self.table.columns.sorted_by}" if self.table.columns.sort is not None else ""
        title = present.clean(f"all runs of {name}{by}" if name else f"all runs{by}")
        if title != self._title:  # setting it paints the whole frame again
            self._title = title
            self._frame.border_title = Content(title)
        self._keys.show(self.situation())
        self._follow()

    # the right pane

    def on_cursor_moved(self) -> None:
        """Let the right pane follow the cursor."""
        self.show_frame()

    def on_line_opened(self) -> None:
        """Handle a double click like Enter."""
        self.action_press("open")

    def _follow(self) -> None:
        """Show the line a moment later: holding a key down shows the last one only."""
        if self._following is not None:
            self._following.stop()
        self._following = self.set_timer(_SECONDS_TO_FOLLOW, self._follow_now)

    def _follow_now(self) -> None:
        wanted = (self.table.line, self.is_zoomed)
        if wanted != self._shown and self.pane_is_open:
            show = partial(self._show_around, *wanted)
            self.run_worker(show, group="around", exclusive=True)  # type: ignore[arg-type]  # admits no coroutine function
        elif not self.pane_is_open:
            self._shown = wanted

    async def _show_around(self, line: SearchLine | None, is_zoomed: bool) -> None:
        around: list[tuple[int, str]] = []
        if line is not None and not isinstance(line, SearchGroup):
            try:
                around = await asyncio.to_thread(self.feed.around, line, _AROUND_ZOOMED if is_zoomed else _AROUND)
            except SelftestError:
                around = []  # its source is being indexed again: the hit itself is known
        self.pane.show(line, around)
        self._shown = (line, is_zoomed)


def _forms() -> tuple[str, ...]:
    """Return the forms of a question."""
    return (*_FORMS, f"kind:terminal run:20261121  only there; {shown('app.help', '?')} names the kinds")
