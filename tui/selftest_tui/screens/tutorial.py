"""The tutorial: its blocks heading by heading, the tests that cite them, and how those did in the last run.

Blocks that no test cites and citations that are no block any more come first; a stale citation stands below the block
that it drifted from. The screen follows the files and the run: what is saved in an editor is here a moment later.
This wires: the feed to the table, keys to acts, the cursor to the right pane.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.app import SuspendNotSupported
from textual.containers import Container, Horizontal
from textual.content import Content

from selftest_core.errors import RefusedError
from selftest_core.terminal import hand_over
from selftest_core.tutorial_view import BlockLine, Layout, NoteLine, Section, StaleLine, TestLine, lay_out
from selftest_core.view import Problem
from selftest_tui import present, problems
from selftest_tui.bindings import bindings_of
from selftest_tui.keys import Where
from selftest_tui.keys_tutorial import TUTORIAL, TutorialSituation
from selftest_tui.screens.editing import editor_of, plan_edit
from selftest_tui.screens.help import problems_page
from selftest_tui.screens.keyed import KeyedScreen
from selftest_tui.tutorial_feed import TutorialFeed, TutorialSeen
from selftest_tui.widgets.banner import Banner
from selftest_tui.widgets.key_bar import KeyBar
from selftest_tui.widgets.prompt import Prompt
from selftest_tui.widgets.tutorial_details import TutorialDetails
from selftest_tui.widgets.tutorial_lines import MEANINGS
from selftest_tui.widgets.tutorial_status import TutorialStatus
from selftest_tui.widgets.tutorial_table import TutorialTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from selftest_core.tutorial_view import TutorialView
    from selftest_tui.tutorial_feed import TutorialNews

NARROW = 100
"""Columns below which the right pane is a key away."""
SCROLL_LINES = 5
"""Lines that J and K scroll."""
_LOOKING = ("Reading the tutorial and its tests …",)
_WHAT_IT_IS = (
    "",
    "A tutorial is a file of commands, in blocks with empty lines between them;",
    "tests cite the blocks, and this shows which block no test cites.",
    "",
    "selftest-tui check --help   more about it",
)


class TutorialScreen(KeyedScreen):
    """Shows the tutorial of `folder`. `clock` is for whoever opens all screens alike: nothing here depends on time."""

    CSS_PATH = "tutorial.tcss"
    KEYS = TUTORIAL
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(TUTORIAL.of(Where.SCREEN))]
    AUTO_FOCUS = "TutorialTable"

    def __init__(self, environ: Mapping[str, str], *, folder: Path, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.environ = environ
        self.clock = clock
        self.view: TutorialView | None = None
        self.layout_of_lines = Layout()
        self._news: TutorialNews | None = None
        self._folder = folder
        self._feed = TutorialFeed(folder, environ, self.post_message)

    def compose(self) -> ComposeResult:
        """The same places as on the fleet's screen."""
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
        """Begin to look once the frame is on the screen."""
        self.table = self.query_one(TutorialTable)
        self.details = self.query_one(TutorialDetails)
        self.prompt = self.query_one(Prompt)
        self.table.show_placeholder(_LOOKING)
        self._show_state()
        self._show_frame()
        self.call_after_refresh(self._feed.start)

    def on_unmount(self) -> None:
        """The threads end with their screen."""
        self._feed.stop()

    # news

    def on_tutorial_seen(self, event: TutorialSeen) -> None:
        """Go over to the newest view; where a look failed, keep what was seen before and say so."""
        event.stop()
        news = self._feed.take()
        if news is None:
            return
        self._news = news
        if news.view is not None:
            self.view = news.view
            self._lay_out()
        elif self.view is None and news.error is not None:
            lines = (news.error.title, *(line for line in (news.error.detail, news.error.hint) if line), *_WHAT_IT_IS)
            self.table.show_placeholder(lines)
        self._show_state()
        self._show_frame()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What does not work right now."""
        news = self._news
        found = []
        if news is not None and news.error is not None and self.view is not None:
            found.append(problems.lasting("tutorial", news.error))
        if news is not None and news.watch_trouble:
            hint = "R reads the files again."
            found.append(Problem("watch files", "Changes of files are not noticed", news.watch_trouble, hint))
        return tuple(found)

    @property
    def tutorial_name(self) -> str:
        """The tutorial's file, relative to the repository."""
        if self._news is None:
            return ""
        path, root = self._news.tutorial, self._news.root
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)

    def _lay_out(self) -> None:
        if self.view is None:
            return
        how = self.layout_of_lines
        self.table.show(lay_out(self.view, how))
        if how.query:
            self.table.show_placeholder((f"Nothing matches “{how.query}”", "", "esc clears the filter"))
        elif how.only_open:
            self.table.show_placeholder(("Nothing is open", "", "Every block is cited, and every citation is a block."))
        else:
            self.table.show_placeholder((f"No block in {self.tutorial_name}", *_WHAT_IT_IS))

    def _show_state(self) -> None:
        root = self._news.root.name if self._news is not None else self._folder.name
        self.query_one(TutorialStatus).show(self.view, f"{root}/{self.tutorial_name}".rstrip("/"))
        self.query_one(Banner).show(self.problems)

    def _show_frame(self) -> None:
        frame = self.query_one("#blocks")
        frame.border_title = Content(present.clean(self.layout_of_lines.words))
        shown = sum(isinstance(line, BlockLine) for line in self.table.lines)
        blocks = len(self.view.blocks) if self.view is not None else 0
        frame.border_subtitle = Content(f"{shown} of {present.plural(blocks, 'block')}" if shown != blocks else "")
        self._show_keys()

    def _show_keys(self) -> None:
        self.query_one(KeyBar).show(self.situation())

    # the table

    def on_tutorial_table_cursor_moved(self) -> None:
        """Show on the right what is under the cursor, and which keys work there."""
        self.details.show(self.table.line, self.tutorial_name)
        self._show_keys()

    def on_tutorial_table_line_opened(self) -> None:
        """Clicked: as Enter."""
        self.action_press("open")

    def on_prompt_typed(self, event: Prompt.Typed) -> None:
        """Filter as it is typed."""
        self._filter_by(event.text)

    def on_prompt_accepted(self, event: Prompt.Accepted) -> None:
        """Keep the filter."""
        self.remove_class("-asking")
        self.table.focus()
        self._filter_by(event.text)

    def on_prompt_cancelled(self) -> None:
        """Take the filter back."""
        self.remove_class("-asking")
        self.table.focus()
        self._filter_by("")

    @property
    def field(self) -> Prompt:
        """The filter's."""
        return self.prompt

    def on_banner_clicked(self) -> None:
        """All problems."""
        self.action_press("problems")

    def on_resize(self, event: events.Resize) -> None:
        """Narrow terminals are one class."""
        self.set_class(event.size.width < NARROW, "-narrow")

    # keys

    def situation(self) -> TutorialSituation:
        """Where the person stands."""
        return TutorialSituation(
            line=self.table.line,
            opens=self.view.uncited + self.view.stale if self.view is not None else 0,
            problems=len(self.problems) + len(self.said),
            pane_is_open=self.pane_is_open,
            editor=editor_of(self.environ),
        )

    def symbols(self) -> tuple[tuple[str, str], ...]:
        """Those of blocks and citations."""
        return MEANINGS

    @property
    def pane_is_open(self) -> bool:
        """The right pane is on the screen."""
        return self.has_class("-zoomed") or not self.has_class("-narrow")

    def action_press(self, action: str) -> None:
        """A key of the table; the field of the filter has a key for searches, which are not for this screen."""
        if action != "prompt_history":
            super().action_press(action)

    def do(self, action: str) -> object:
        """Do what the table calls `action`."""
        done: object = getattr(self, f"_do_{action}")()
        return done

    def _do_down(self) -> None:
        self.table.go_to(self.table.cursor + 1)

    def _do_up(self) -> None:
        self.table.go_to(self.table.cursor - 1)

    def _do_page_down(self) -> None:
        self.table.go_to(self.table.cursor + self.table.page - 1)

    def _do_page_up(self) -> None:
        self.table.go_to(self.table.cursor - self.table.page + 1)

    def _do_first(self) -> None:
        self.table.go_to(0)

    def _do_last(self) -> None:
        self.table.go_to(len(self.table.lines))

    def _do_next_open(self) -> None:
        self._go_to_open(1)

    def _do_previous_open(self) -> None:
        self._go_to_open(-1)

    def _go_to_open(self, step: int) -> None:
        if not self.table.go_to_open(step):
            raise RefusedError("Nothing that is shown is open", "", "esc clears the filter; → opens a closed section.")

    def _do_close_section(self) -> None:
        section = self.table.section
        if section is not None and not section.is_folded:
            self.table.go_to_section()
            self._fold(section, True)

    def _do_open_section(self) -> None:
        section = self.table.section
        if section is not None and section.is_folded:
            self._fold(section, False)

    def _fold(self, section: Section, is_folded: bool) -> None:
        folded = self.layout_of_lines.folded
        self._arrange(
            replace(self.layout_of_lines, folded=folded | {section.title} if is_folded else folded - {section.title})
        )

    def _arrange(self, how: Layout) -> None:
        if how != self.layout_of_lines:
            self.layout_of_lines = how
            self._lay_out()
            self._show_frame()

    def _do_filter(self) -> None:
        self.add_class("-asking")
        self.prompt.ask("filter", "/", "⏎ keep  esc clear", self.layout_of_lines.query)

    def _filter_by(self, query: str) -> None:
        self._arrange(replace(self.layout_of_lines, query=query.strip()))

    def _do_prompt_up(self) -> None:
        self._do_up()

    def _do_prompt_down(self) -> None:
        self._do_down()

    def _do_prompt_cancel(self) -> None:
        self.prompt.cancel()

    def _do_only_open(self) -> None:
        self._arrange(replace(self.layout_of_lines, only_open=not self.layout_of_lines.only_open))

    def _do_order(self) -> None:
        self._arrange(replace(self.layout_of_lines, open_first=not self.layout_of_lines.open_first, only_open=False))

    def _do_open(self) -> None:
        line = self.table.line
        if isinstance(line, Section):
            self._fold(line, not line.is_folded)
        else:
            self._do_zoom()

    def _do_zoom(self) -> None:
        self.toggle_class("-zoomed")
        self._show_keys()

    def _do_scroll_down(self) -> None:
        self.details.scroll_relative(y=SCROLL_LINES, animate=False)

    def _do_scroll_up(self) -> None:
        self.details.scroll_relative(y=-SCROLL_LINES, animate=False)

    def _do_copy(self) -> None:
        match self.table.line:
            case BlockLine(view):
                self.app.copy_to_clipboard(view.block.text)
                self.say(view.block.text.splitlines()[0], "Copied the block")
            case TestLine(_, test):
                self.app.copy_to_clipboard(test.node_id)
                self.say(present.clean(test.node_id), "Copied")
            case StaleLine(_, stale):
                self.app.copy_to_clipboard(stale.citation.test)
                self.say(present.clean(stale.citation.test), "Copied")
            case _:
                return

    def _do_edit(self) -> None:
        news = self._news
        if news is None:
            return
        match self.table.line:
            case BlockLine(view):
                path, line = news.tutorial, view.block.line
            case TestLine(_, test):
                path, line = news.root / test.path, test.line
            case StaleLine(_, stale):
                path, line = news.root / stale.citation.path, stale.citation.line
            case NoteLine(_, note):
                path, line = news.tutorial if note.path is None else news.root / note.path, note.line
            case _:
                return
        plan = plan_edit(path, line, self.environ)
        try:
            with self.app.suspend():
                end = hand_over(plan)
        except SuspendNotSupported as error:
            raise RefusedError("The terminal cannot be handed over here", str(error)) from error
        self._feed.refresh()
        if end.exit_status:
            self.say(end.says, "The editor", "warning")

    def _do_back(self) -> None:
        how = self.layout_of_lines
        if self.has_class("-zoomed"):
            self._do_zoom()
        elif how.query:
            self._filter_by("")
        elif how.only_open:
            self._do_only_open()
        else:
            self._do_fleet()

    def _do_fleet(self) -> None:
        self.dismiss(None)

    def _do_refresh(self) -> None:
        self._feed.refresh()
        self.say("Reading the tutorial, the tests and the run again.", "Refresh")

    def _do_problems(self) -> None:
        self.app.push_screen(problems_page(self.problems, self.said))

    def _do_theme(self) -> None:
        self.app.action_change_theme()
