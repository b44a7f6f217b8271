"""The screen of a run: progress at the top, tests by cluster and state on the left, one test or cluster on the right.

It wires the run's feed to the table, the cursor to the right pane, and the fleet's rows to the agents of the tests. It
reads the journal and collected files, and never conducts: actions become requests to the conductor. The actions of
keys are in `actions`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, cast

from textual.containers import Container, Horizontal
from textual.content import Content

from selftest_tui.fleet.pane.typist import TYPING
from selftest_tui.run import words as run_words
from selftest_tui.run.actions import RunActions
from selftest_tui.run.bar import RunBar
from selftest_tui.run.feed import RunFeed
from selftest_tui.run.keys import RUN
from selftest_tui.run.lines import FILTER, facts_of, lay_out
from selftest_tui.run.pane import RunPane
from selftest_tui.run.table import RunTable
from selftest_tui.run.words import run_problems, run_way_back, state_of
from selftest_tui.shared import present, problems
from selftest_tui.shared.filter import Finder
from selftest_tui.shared.keys import Where, shown
from selftest_tui.shared.widgets.banner import Banner
from selftest_tui.shared.widgets.key_bar import KeyBar
from selftest_tui.shared.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from selftest_core.fleet.view import FleetView, Problem, Row
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.store import RunFolder
    from selftest_core.usage.tokens import Usage
    from selftest_tui.fleet.messages import WatchEnded
    from selftest_tui.fleet.screen import FleetScreen
    from selftest_tui.run.lines import RunLine
    from selftest_tui.run.pane import RunTab
    from selftest_tui.shared.widgets.tabs import TabBar


class RunScreen(RunActions):
    """Shows one run. `fleet` is the fleet's screen below, which knows the agents; `clock` gives seconds since 1970."""

    KEYS = RUN
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = RUN.bindings(Where.SCREEN)
    AUTO_FOCUS = "RunTable"

    def __init__(self, folder: RunFolder, fleet: FleetScreen, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(folder, fleet, clock)
        self._finder: Finder[str, RunRow] = Finder(facts_of, FILTER)
        self._own_problems: tuple[Problem, ...] = ()
        self._agents: tuple[FleetView | None, dict[str, Row]] = (None, {})
        self._feed = RunFeed(folder, self.post_message)
        self._frame_words = ("", "")
        self._wanted_test = ""

    def compose(self) -> ComposeResult:
        """Place the same widgets at every size."""
        yield RunBar()
        with Horizontal(id="body"):
            with Container(id="tests"):
                yield RunTable()
            yield RunPane(self)
        yield Banner()
        with Horizontal(id="bottom"):
            yield KeyBar(RUN)
            yield Prompt()

    def on_mount(self) -> None:
        """Start following the run."""
        self.table = self.query_one(RunTable)
        self.pane = self.query_one(RunPane)
        self.prompt = self.query_one(Prompt)
        self._bar = self.query_one(RunBar)
        self._keys = self.query_one(KeyBar)
        self._banner = self.query_one(Banner)
        self._frame = self.query_one("#tests")
        self.table.show_placeholder(("Reading the run …",))
        self._feed.start()
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        """Stop the feed; the run goes on."""
        self._feed.stop()

    # what is known

    def agent_of(self, row: RunRow | None) -> Row | None:
        """Return the agent of a test from the fleet; None if the fleet does not list it."""
        if row is None or row.member is None:
            return None
        if self._agents[0] is not self.fleet.view:
            self._agents = (self.fleet.view, {one.agent.id: one for one in self.fleet.view.rows})
        return self._agents[1].get(row.member.agent_id)

    @property
    def line(self) -> RunLine | None:
        """The line under the cursor."""
        return self.table.line

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of the fleet's screen."""
        return self.fleet.environ

    @property
    def repository_folder(self) -> Path:
        """The repository of the run."""
        return self.folder.path.parent.parent.parent

    @property
    def is_at_rest(self) -> bool:
        """True when the right pane shows the line under the cursor."""
        return self.pane.is_at_rest

    @property
    def way_back(self) -> str:
        """The command that opens this run again."""
        return run_way_back(self.folder.run, self.news)

    @property
    def is_typing(self) -> bool:
        """True while every key goes to an agent."""
        return self.is_mounted and self.pane.is_typing

    def symbols(self) -> tuple[tuple[str, str], ...]:
        """Return the symbols of tests and clusters with their meanings."""
        return run_words.MEANINGS

    # news

    def on_run_seen(self) -> None:
        """Show the newest state."""
        news = self._feed.take()
        if news is None:
            return
        self.news = news
        self.rearrange()
        self._go_to_wanted()
        for said in news.declined:
            self.toast(problems.refusal("The conductor declined", said))

    def go_to_test(self, name: str) -> None:
        """Put the cursor on a test by its planned agent name, once it is known, whatever hides it."""
        self._wanted_test = name
        self._go_to_wanted()

    def _go_to_wanted(self) -> None:
        run = self.run_now
        if not self._wanted_test or run is None or not self.is_mounted:
            return
        name, self._wanted_test = self._wanted_test, ""
        if name in run.rows and not self.table.go_to_key(name):
            self.folded, self.only_open, self.query_text = frozenset(), False, ""
            self.rearrange()
            self.table.go_to_key(name)

    def on_watch_ended(self, event: WatchEnded) -> None:
        """Show for good that the run is not followed any more."""
        self._own_problems = (problems.lasting("watch", event.error),)
        if self.news is None:
            self.table.show_placeholder((event.error.title, "", *event.error.detail.splitlines()[:6], event.error.hint))
        self.show_state()

    def hurry(self) -> None:
        """Read the journal soon: something was requested."""
        self._feed.hurry()

    def rearrange(self) -> None:
        """Rebuild the table from the run, the filter and the folded groups."""
        run = self.run_now
        if run is None:
            return
        matching = self._finder.find(run.rows.items(), self.query_text)
        lines = lay_out(
            run, folded=self.folded, matching=matching, only_open=self.only_open, in_order=self.table.in_order
        )
        self.table.show_placeholder(self._instead())
        self.table.show_at(lines, self.clock())  # which posts CursorMoved, and so the frame and the key line follow
        self.show_state()

    def _instead(self) -> tuple[str, ...]:
        if self.query_text:
            return (f"Nothing matches “{self.query_text}”", "", f"{shown('run.back', 'esc')} clears the filter")
        if self.only_open:
            return (
                "Nothing is open: no test failed or is blocked, and no agent needs you",
                "",
                f"{shown('run.only_needing', 'a')} shows all tests again",
            )
        return ("This run has no test",)

    def _tick(self) -> None:
        self.table.tick(self.clock())
        self.show_state()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the run right now, the gravest first."""
        return (*self._own_problems, *run_problems(self.news, self.is_starting))

    def show_state(self) -> None:
        """Update the header and the banner."""
        run = self.run_now
        if run is not None and self.news is not None:
            live = self._live_usages(run)
            self.table.meter(live, is_metered=bool(live) or any(row.usage is not None for row in run.rows.values()))
            self._bar.show(run, state_of(self.news, self.is_starting), self.clock(), live)
        self._banner.show(self.problems)
        self.show_frame()

    def _live_usages(self, run: Run) -> dict[str, Usage]:
        """Return the usage of running agents by agent id, from the fleet."""
        agents = ((row.member, self.agent_of(row)) for row in run.rows.values() if row.end is None)
        return {
            member.agent_id: agent.usage
            for member, agent in agents
            if member is not None and agent is not None and agent.usage is not None
        }

    def show_frame(self) -> None:
        run = self.run_now
        noun = "test" if run is None else run.plan.noun
        title = f"{noun}s by cluster and state" if not self.only_open else f"open {noun}s"
        if by := self.table.columns.sorted_by:
            title = f"{title} · sort: {by}"
        if self.query_text:
            title = f"{title} · /{self.query_text}"
        shown = len(self.table.shown.group_of)
        subtitle = f"{shown} of {present.plural(len(run.rows), noun)}" if run and shown != len(run.rows) else ""
        words = (present.clean(title), subtitle)
        if words != self._frame_words:  # setting them paints the whole frame again
            self._frame_words = words
            self._frame.border_title, self._frame.border_subtitle = map(Content, words)
        self.show_keys()

    def show_keys(self) -> None:
        """Update the key line."""
        self._keys.show(self.situation(), TYPING if self.pane.is_typing else "")

    # the right pane

    def on_cursor_moved(self) -> None:
        """Update the key line; let the right pane follow the cursor."""
        self.show_frame()
        self.pane.follow()

    def on_line_opened(self) -> None:
        """Act on a click as on Enter."""
        self.action_press("attach")

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        """Switch to the tab that was clicked."""
        self.pane.show_tab(cast("RunTab", event.tab))

    def on_run_pane_collected_read(self) -> None:
        """Update the key line: keys may work on the collected files now."""
        self.show_keys()

    def on_typing_pane_typing_changed(self) -> None:
        """Update the key line and the focus after typing has started or ended."""
        if not self.pane.is_typing:
            self.table.focus()
        self.show_keys()
