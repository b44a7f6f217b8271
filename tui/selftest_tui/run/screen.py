"""One run: how far it is at the top, its tests by cluster and state on the left, one of them or a cluster on the right.

This wires: the run's feed to the table, the cursor to the right pane, the fleet's rows to the agents of the tests. It
reads the journal and what came back, and never conducts: what a person wants becomes a request to the conductor. What
keys do is in `actions`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

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
from selftest_tui.run.run_right import RightSide
from selftest_tui.run.state import run_problems, run_way_back, state_of
from selftest_tui.run.table import RunTable
from selftest_tui.shared import present, problems
from selftest_tui.shared.bindings import bindings_of
from selftest_tui.shared.filter import Finder
from selftest_tui.shared.keys import Where
from selftest_tui.shared.widgets.banner import Banner
from selftest_tui.shared.widgets.key_bar import KeyBar
from selftest_tui.shared.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from selftest_core.fleet.view import FleetView, Problem, Row
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.store import RunFolder
    from selftest_core.usage.tokens import Usage
    from selftest_tui.fleet.messages import WatchEnded
    from selftest_tui.fleet.screen import FleetScreen
    from selftest_tui.run.files import CameBack


class RunScreen(RunActions):
    """Shows one run. `fleet` is the fleet's screen below, which knows the agents; `clock` gives seconds since 1970."""

    KEYS = RUN
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(RUN.of(Where.SCREEN))]
    AUTO_FOCUS = "RunTable"

    def __init__(self, folder: RunFolder, fleet: FleetScreen, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(folder, fleet, clock)
        self._finder: Finder[str, RunRow] = Finder(facts_of, FILTER)
        self._own_problems: tuple[Problem, ...] = ()
        self._agents: tuple[FleetView | None, dict[str, Row]] = (None, {})
        self._feed = RunFeed(folder, self.post_message)
        self._frame_words = ("", "")

    def compose(self) -> ComposeResult:
        """The same places on every size."""
        yield RunBar()
        with Horizontal(id="body"):
            with Container(id="tests"):
                yield RunTable()
            yield RunPane(self.clock)
        yield Banner()
        with Horizontal(id="bottom"):
            yield KeyBar(RUN)
            yield Prompt()

    def on_mount(self) -> None:
        """Begin to follow."""
        self.table = self.query_one(RunTable)
        self.pane = self.query_one(RunPane)
        self.right = RightSide(self, self.pane)
        self.prompt = self.query_one(Prompt)
        self._bar = self.query_one(RunBar)
        self._keys = self.query_one(KeyBar)
        self._banner = self.query_one(Banner)
        self._frame = self.query_one("#tests")
        self.table.show_placeholder(("Reading the run …",))
        self._feed.start()
        self.set_interval(1.0, self._tick)

    def on_unmount(self) -> None:
        """The feed ends with its screen; the run does not."""
        self._feed.stop()

    # what is known

    def agent_of(self, row: RunRow | None) -> Row | None:
        """The agent of a test as the fleet sees it; None where it does not."""
        if row is None or row.member is None:
            return None
        if self._agents[0] is not self.fleet.view:
            self._agents = (self.fleet.view, {one.agent.id: one for one in self.fleet.view.rows})
        return self._agents[1].get(row.member.agent_id)

    @property
    def back(self) -> CameBack | None:
        """What came back for the test under the cursor, as far as it was read."""
        return self.right.back

    def show_pane(self) -> None:
        """Show on the right what is under the cursor, now."""
        self.right.show()

    @property
    def is_at_rest(self) -> bool:
        """The right pane shows what is under the cursor."""
        return self.right.is_at_rest

    @property
    def way_back(self) -> str:
        """How to come back to this run."""
        return run_way_back(self.folder.run, self.news)

    @property
    def is_typing(self) -> bool:
        """Every key goes to an agent."""
        return self.is_mounted and self.pane.is_typing

    def symbols(self) -> tuple[tuple[str, str], ...]:
        """Those of tests and clusters."""
        return run_words.MEANINGS

    # news

    def on_run_seen(self) -> None:
        """Go over to the newest state."""
        news = self._feed.take()
        if news is None:
            return
        self.news = news
        self.rearrange()
        for said in news.declined:
            self.toast(problems.refusal("The conductor declined", said))

    def on_watch_ended(self, event: WatchEnded) -> None:
        """Nothing is live any more: say so for good."""
        self._own_problems = (problems.lasting("watch", event.error),)
        if self.news is None:
            self.table.show_placeholder((event.error.title, "", *event.error.detail.splitlines()[:6], event.error.hint))
        self.show_state()

    def hurry(self) -> None:
        """Something was asked for: look soon."""
        self._feed.hurry()

    def rearrange(self) -> None:
        """Lay the run out as the person wants it."""
        run = self.run_now
        if run is None:
            return
        matching = self._finder.find(run.rows.items(), self.query_text)
        lines = lay_out(run, folded=self.folded, matching=matching, only_open=self.only_open)
        self.table.show_placeholder(self._instead())
        self.table.show_at(lines, self.clock())  # which posts CursorMoved, and so the frame and the key line follow
        self.show_state()

    def _instead(self) -> tuple[str, ...]:
        if self.query_text:
            return (f"Nothing matches “{self.query_text}”", "", "esc clears the filter")
        if self.only_open:
            return ("Nothing is open: no failure, no block, nobody asks", "", "a shows all tests again")
        return ("This run has no test",)

    def _tick(self) -> None:
        self.table.tick(self.clock())
        self.show_state()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All that holds the run up right now, the gravest first."""
        return (*self._own_problems, *run_problems(self.news, self.is_starting))

    def show_state(self) -> None:
        """The two lines at the top, and what is wrong."""
        run = self.run_now
        if run is not None and self.news is not None:
            live = self._live_usages(run)
            self.table.meter(live, is_metered=bool(live) or any(row.usage is not None for row in run.rows.values()))
            self._bar.show(run, state_of(self.news, self.is_starting), self.clock(), live)
        self._banner.show(self.problems)
        self.show_frame()

    def _live_usages(self, run: Run) -> dict[str, Usage]:
        """What the agents that run have used until now, as the fleet sees it."""
        agents = ((row.member, self.agent_of(row)) for row in run.rows.values() if row.end is None)
        return {
            member.agent_id: agent.usage
            for member, agent in agents
            if member is not None and agent is not None and agent.usage is not None
        }

    def show_frame(self) -> None:
        run = self.run_now
        title = "tests by cluster and state" if not self.only_open else "what is open"
        if self.query_text:
            title = f"{title} · /{self.query_text}"
        shown = len(self.table.shown.group_of)
        subtitle = f"{shown} of {present.plural(len(run.rows), 'test')}" if run and shown != len(run.rows) else ""
        words = (present.clean(title), subtitle)
        if words != self._frame_words:  # setting them paints the whole frame again
            self._frame_words = words
            self._frame.border_title, self._frame.border_subtitle = map(Content, words)
        self.show_keys()

    def show_keys(self) -> None:
        """Which keys work here."""
        self._keys.show(self.situation(), TYPING if self.pane.is_typing else "")

    # the right pane

    def on_cursor_moved(self) -> None:
        """Say which keys work there; show on the right what is under the cursor once it rests."""
        self.show_frame()
        self.right.follow()

    def on_line_opened(self) -> None:
        """Clicked: as Enter."""
        self.action_press("attach")

    def on_run_pane_tab_chosen(self, event: RunPane.TabChosen) -> None:
        """A tab was clicked."""
        self.pane.show_tab(event.tab)

    def on_run_pane_typing_changed(self) -> None:
        """Keys mean something else, or again what the line says."""
        if not self.pane.is_typing:
            self.table.focus()
        self.show_keys()
