"""The tutorial screen: blocks by heading, the tests that cite them, and their results in the last run.

Uncited blocks and stale citations come first; a stale citation is shown below its nearest block. The screen follows the
files and the run: a file that is saved in an editor is shown a moment later. This module connects the feed to the
table, and the cursor to the right pane. The key actions are in `actions`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container, Horizontal
from textual.content import Content

from selftest_core.fleet.view import Problem
from selftest_tui.shared import present, problems
from selftest_tui.shared.keys import Where, shown
from selftest_tui.shared.widgets.banner import Banner
from selftest_tui.shared.widgets.key_bar import KeyBar
from selftest_tui.shared.widgets.prompt import Prompt
from selftest_tui.tutorial.actions import TutorialActions
from selftest_tui.tutorial.details import TutorialDetails
from selftest_tui.tutorial.feed import TutorialFeed, TutorialSeen
from selftest_tui.tutorial.keys import TUTORIAL
from selftest_tui.tutorial.lines import MEANINGS
from selftest_tui.tutorial.status import TutorialStatus
from selftest_tui.tutorial.table import TutorialTable
from selftest_tui.tutorial.view import BlockLine, Layout, lay_out

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.binding import BindingType


_LOOKING = ("Reading the tutorial and its tests …",)
_WHAT_IT_IS = (
    "",
    "A tutorial is a file of commands, in blocks with empty lines between them;",
    "tests cite the blocks, and this shows which block no test cites.",
    "",
    "selftest-tui check --help   more about it",
)


class TutorialScreen(TutorialActions):
    """Screen of the tutorial of `folder`. `clock`: accepted as by all screens; nothing here depends on time."""

    CSS_PATH = "screen.tcss"
    KEYS = TUTORIAL
    BINDINGS: ClassVar[list[BindingType]] = TUTORIAL.bindings(Where.SCREEN)
    AUTO_FOCUS = "TutorialTable"

    pane: TutorialDetails

    def __init__(self, environ: Mapping[str, str], *, folder: Path, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.environ = environ
        self.clock = clock
        self.view = None
        self.news = None
        self._folder = folder
        self._feed = TutorialFeed(folder, environ, self.post_message)

    def compose(self) -> ComposeResult:
        """Place the widgets as on the fleet screen."""
        yield TutorialStatus()
        with Horizontal(id="body"):
            with Container(id="blocks"):
                yield TutorialTable()
            yield TutorialDetails()
        yield Banner()
        with Horizontal(id="bottom"):
            yield KeyBar(TUTORIAL)
            yield Prompt()

    def on_mount(self) -> None:
        """Start reading once the frame is on the screen."""
        self.table = self.query_one(TutorialTable)
        self.pane = self.query_one(TutorialDetails)
        self.prompt = self.query_one(Prompt)
        self.table.show_placeholder(_LOOKING)
        self._show_state()
        self.show_frame()
        self.call_after_refresh(self._feed.start)

    def on_unmount(self) -> None:
        """Stop the threads."""
        self._feed.stop()
        self._acts.end()

    # news

    def on_tutorial_seen(self, event: TutorialSeen) -> None:
        """Show the newest view; if reading failed, keep the last one and show the error."""
        event.stop()
        news = self._feed.take()
        if news is None:
            return
        self.news = news
        if news.view is not None:
            self.view = news.view
            self._lay_out()
        elif self.view is None and news.error is not None:
            lines = (news.error.title, *(line for line in (news.error.detail, news.error.hint) if line), *_WHAT_IT_IS)
            self.table.show_placeholder(lines)
        self._show_state()
        self.show_frame()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The current problems."""
        news = self.news
        found = []
        if news is not None and news.error is not None and self.view is not None:
            found.append(problems.lasting("tutorial", news.error))
        if self.view is not None and self.view.draft_error is not None:
            found.append(problems.lasting("draft", self.view.draft_error))
        if news is not None and news.watch_trouble:
            hint = f"{shown('tutorial.refresh', 'R')} reads the files again."
            found.append(Problem("watch files", "Changes of files are not noticed", news.watch_trouble, hint))
        return tuple(found)

    @property
    def tutorial_name(self) -> str:
        """The tutorial's file, relative to the repository."""
        if self.news is None:
            return ""
        path, root = self.news.tutorial, self.news.root
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)

    @property
    def layout_of_lines(self) -> Layout:
        """The options of the layout."""
        return Layout(self.open_first, self.only_open, self.query_text, self.folded)

    def _lay_out(self) -> None:
        if self.view is None:
            return
        how = self.layout_of_lines
        self.table.show(lay_out(self.view, how))
        if how.query:
            self.table.show_placeholder(
                (f"Nothing matches “{how.query}”", "", f"{shown('tutorial.back', 'esc')} clears the filter")
            )
        elif how.only_open:
            self.table.show_placeholder(("Nothing is open", "", "Every block is cited, and every citation is a block."))
        else:
            self.table.show_placeholder((f"No block in {self.tutorial_name}", *_WHAT_IT_IS))

    def _show_state(self) -> None:
        root = self.news.root.name if self.news is not None else self._folder.name
        self.query_one(TutorialStatus).show(self.view, f"{root}/{self.tutorial_name}".rstrip("/"))
        self.query_one(Banner).show(self.problems)

    def show_frame(self) -> None:
        """Update the title of the frame, and the key line."""
        frame = self.query_one("#blocks")
        frame.border_title = Content(present.clean(self.layout_of_lines.words))
        shown = sum(isinstance(line, BlockLine) for line in self.table.lines)
        blocks = len(self.view.blocks) if self.view is not None else 0
        frame.border_subtitle = Content(f"{shown} of {present.plural(blocks, 'block')}" if shown != blocks else "")
        self._show_keys()

    def _show_keys(self) -> None:
        self.query_one(KeyBar).show(self.situation())

    # the table

    def on_cursor_moved(self) -> None:
        """Show the details of the line under the cursor, and the keys that work there."""
        self.pane.show(self.table.line, self.tutorial_name)
        self._show_keys()

    def on_line_opened(self) -> None:
        """Handle a click like Enter."""
        self.action_press("open")

    def rearrange(self) -> None:
        """Lay the lines out anew."""
        self._lay_out()
        self.show_frame()

    def look_again(self) -> None:
        """Read the files now."""
        self._feed.refresh()

    def symbols(self) -> tuple[tuple[str, str], ...]:
        """Return the symbols of blocks and citations, for the help."""
        return MEANINGS
