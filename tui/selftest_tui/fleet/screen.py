"""The fleet's screen: agents on the left, one of them on the right, counts at the top, keys at the bottom.

This wires the feed to the table, and the cursor to the right pane. What keys do is in `actions`.
"""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container, Horizontal
from textual.content import Content

from selftest_core.fleet.view import FleetView, Problem
from selftest_tui.fleet import feed
from selftest_tui.fleet.actions import FleetActions
from selftest_tui.fleet.agent_table import AgentTable
from selftest_tui.fleet.arrangement import Group, is_same
from selftest_tui.fleet.feed import Feed, Outcomes, without_own_session
from selftest_tui.fleet.keys import FLEET
from selftest_tui.fleet.messages import OutcomesRead
from selftest_tui.fleet.pane.side_pane import SidePane
from selftest_tui.fleet.pane.typist import TYPING
from selftest_tui.fleet.status_bar import StatusBar
from selftest_tui.shared import present, problems
from selftest_tui.shared.keys import Where, shown
from selftest_tui.shared.widgets.banner import Banner
from selftest_tui.shared.widgets.key_bar import KeyBar
from selftest_tui.shared.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.timer import Timer

    from selftest_tui.fleet.arrangement import Line
    from selftest_tui.fleet.feed import MakeWatch, OutcomesOf
    from selftest_tui.fleet.messages import LineVanished, NameChanged, PlaceFound, WatchEnded
    from selftest_tui.shared.notices import Notices

SECONDS_OF_REST = 0.05
SECONDS_TO_LOAD = 0.5
"""Seconds after the first frame until the modules that keys need are loaded."""
SECONDS_TO_SETTLE = (2.0, 15.0)
"""Seconds after the first frame until what stays is there: modules and local agents, then mngr's first answers."""


def _load_acts() -> None:
    """Load modules in a thread, so that the first key does not wait for them."""
    import selftest_tui.fleet.acting
    import selftest_tui.shared.dialogs.choose
    import selftest_tui.shared.dialogs.help  # noqa: F401 -- loaded, and used where it is wanted


class FleetScreen(FleetActions):
    """The main screen. `clock` gives seconds since the epoch; `place` None asks git where we are.

    `seconds_behind`: until it looks for agents, where another screen is opened over it at once.

    Its style sheet, `fleet.tcss`, is the app's, which is parsed once.
    """

    KEYS = FLEET
    BINDINGS: ClassVar[list[BindingType]] = FLEET.bindings(Where.SCREEN)
    AUTO_FOCUS = "AgentTable"

    def __init__(
        self,
        make_watch: MakeWatch,
        environ: Mapping[str, str],
        *,
        folder: Path,
        clock: Callable[[], float] = time.time,
        place: str | None = None,
        notices: Notices | None = None,
        outcomes_of: OutcomesOf | None = None,
        seconds_behind: float = 0.0,
    ) -> None:
        super().__init__()
        self.environ = environ
        self.clock = clock
        self.view = FleetView(at=clock())
        self.has_view = False
        self.folder = folder
        self._place = place
        self._notices = notices
        self._seconds_behind = seconds_behind
        self._feed = Feed(make_watch, self.post_message)
        self._outcomes = Outcomes()
        self._outcomes_of = outcomes_of
        self._is_reading = False
        self._own_problems: tuple[Problem, ...] = ()
        self._frame_words = ("", "")
        self._rest: Timer | None = None
        self._shown_in_pane: Line | None = None

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        yield StatusBar()
        with Horizontal(id="body"):
            with Container(id="agents"):
                yield AgentTable()
            yield SidePane(self.clock)
        yield Banner()
        with Horizontal(id="bottom"):
            yield KeyBar(FLEET)
            yield Prompt()

    def on_mount(self) -> None:
        """Show the empty screen, then start the watch."""
        self._find_parts()
        self.table.arrangement = replace(self.table.arrangement, hides_old=self.hides_old_agents)
        self._show_state()
        self.show_frame()
        if self._place is not None:
            self._bar.show_place(self._place)
        if self._seconds_behind:
            self.set_timer(self._seconds_behind, self._begin)
        else:
            self.call_after_refresh(self._begin)

    def _find_parts(self) -> None:
        self.table = self.query_one(AgentTable)
        self.pane = self.query_one(SidePane)
        self._bar = self.query_one(StatusBar)
        self._keys = self.query_one(KeyBar)
        self.prompt = self.query_one(Prompt)
        self._banner = self.query_one(Banner)
        self._frame = self.query_one("#agents")

    def _begin(self) -> None:
        self._feed.start()
        self.set_timer(SECONDS_TO_LOAD, partial(self.run_worker, _load_acts, thread=True, group="loading"))
        if self._place is None:
            feed.find_place(self.folder, self.environ, self.post_message)
        self.set_interval(1.0, self._tick)
        if not self.app.is_headless:  # a process of tests has many apps, one after another
            # No key is handled while Python looks for garbage: with a thousand agents for a sixth of a second.
            for seconds in SECONDS_TO_SETTLE:
                self.set_timer(seconds, gc.freeze)

    def on_unmount(self) -> None:
        """Stop the watch, without waiting: the user has the terminal back at once."""
        self._feed.stop()

    def wait_for_end(self) -> None:
        """Wait for the programs of the watch; to be called when the screen is gone."""
        self._feed.wait()

    def watch_refresh(self) -> None:
        """Ask for news now."""
        self._feed.refresh()

    @property
    def is_typing(self) -> bool:
        """Every key goes to an agent."""
        return self.is_mounted and self.pane.is_typing

    # news

    def on_fleet_seen(self) -> None:
        """Show the newest view."""
        view = self._feed.take()
        if view is None:
            return
        view = self._outcomes.applied_to(without_own_session(view, self.environ))
        before, self.view, self.has_view = self.view, view, True
        if self._notices is not None:
            self._notices.see(view)
        self._show_state()
        self.table.show(view, self.clock())  # which posts CursorMoved, and so the frame and the key line follow
        if view.sessions != before.sessions or view.servers != before.servers or view.lanes != before.lanes:
            self._shown_in_pane = None
        self._read_outcomes()

    def _read_outcomes(self) -> None:
        """Read the outcomes of the runs whose agents have ended, in a thread, unless that is under way."""
        runs = frozenset(row.agent.run for row in self.view.rows if row.agent.run and row.category in present.ENDED)
        if self._outcomes_of is not None and runs and not self._is_reading:
            self._is_reading = True
            self.run_worker(
                partial(self._post_outcomes, self._outcomes_of, runs),
                thread=True,
                group="outcomes",
                description="read outcomes",
            )

    def _post_outcomes(self, outcomes_of: OutcomesOf, runs: frozenset[str]) -> None:
        self.post_message(OutcomesRead(outcomes_of(runs)))

    def on_outcomes_read(self, event: OutcomesRead) -> None:
        """Show the outcomes of tests in the rows of their agents."""
        self._is_reading = False
        if self._outcomes.learn(event.outcomes):
            self.view = self._outcomes.applied_to(self.view)
            self.table.show(self.view, self.clock())

    def on_watch_ended(self, event: WatchEnded) -> None:
        """Show for good that nothing is updated any more."""
        self._own_problems = (problems.lasting("watch", event.error),)
        self._show_state()
        self.show_frame()

    def on_place_found(self, event: PlaceFound) -> None:
        """Show the repository and branch."""
        self._bar.show_place(event.place)

    def _tick(self) -> None:
        now = self.clock()
        if self._notices is not None:
            self._notices.look(self.view)
        self.table.tick(now)
        self._bar.show(self.view, now)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The present problems, the gravest first."""
        return problems.in_order([*self._own_problems, *self.view.problems])

    def _show_state(self) -> None:
        self._bar.show(self.view, self.clock())
        self._banner.show(self.problems)

    def show_frame(self) -> None:
        """Show the arrangement in the frame, and the keys that work in the key line."""
        table, how = self.table, self.table.arrangement
        shown, agents = table.arranged.shown, table.arranged.agents
        is_part = shown + table.arranged.hidden != agents
        subtitle = f"{shown} of {present.plural(agents, 'agent')}" if is_part else ""
        if table.marks:
            hidden = sum(1 for key in table.marks if not table.is_let_through(key))
            marks = f"{len(table.marks)} marked" + (f" ({hidden} not shown)" if hidden else "")
            subtitle = f"{subtitle} · {marks}" if subtitle else marks
        words = (present.clean(how.words), subtitle)
        if words != self._frame_words:  # setting them paints the whole frame again
            self._frame_words = words
            self._frame.border_title, self._frame.border_subtitle = map(Content, words)
        self._bar.show_hidden(table.arranged.hidden)
        view = self.view if self.has_view else None
        table.show_placeholder(problems.instead_of_rows(view, table.arranged, how, self.problems))
        self._show_keys()

    def _show_keys(self) -> None:
        mode = (
            f"RANGE  move to mark · {shown('fleet.mark_range', 'V')} ends it · {shown('fleet.back', 'esc')} ends it too"
            if self.table.in_range
            else ""
        )
        if self.pane.is_typing:
            mode = TYPING
        self._keys.show(self.situation(), mode)

    # the table

    def on_cursor_moved(self) -> None:
        """Show the keys that work there, and in the right pane what is under the cursor once it rests.

        Drawing the right pane costs several times what a moved cursor does, and fingers move on.
        """
        self.show_frame()
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(SECONDS_OF_REST, self.show_pane)

    @property
    def is_at_rest(self) -> bool:
        """The right pane shows what is under the cursor."""
        return self._rest is None

    def show_pane(self) -> None:
        """Show on the right what is under the cursor, now."""
        if self._rest is not None:
            self._rest.stop()
            self._rest = None
        line = self.table.line
        if line is None or not is_same(self._shown_in_pane, line):
            self._shown_in_pane = line
            self.pane.show(self.table.row, self.table.session, self.view)

    def on_marks_changed(self) -> None:
        """Show the keys that work now."""
        self.show_frame()

    def on_line_opened(self) -> None:
        """Handle a double click like Enter."""
        self.action_press("attach")

    def on_line_vanished(self, event: LineVanished) -> None:
        """Show a message that the agent under the cursor is gone."""
        now = event.now
        name = "" if now is None or isinstance(now, Group) else present.line_name(now)
        went = f"The cursor went to {name}." if name else ""
        self.say(went or "It was the last one here.", f"{present.clean(event.gone.agent.name)} is gone", "warning")

    def on_name_changed(self, event: NameChanged) -> None:
        """Show a message that the agent under the cursor was renamed."""
        before, after = event.before.agent.name, event.after.agent.name
        self.say(f"{present.clean(before)} is now called {present.clean(after)}.", "Renamed")

    def on_typing_pane_typing_changed(self) -> None:
        """Show the keys of the mode that began or ended."""
        if not self.pane.is_typing:
            self.table.focus()
        self._show_keys()

    def symbols(self) -> tuple[tuple[str, str], ...]:
        """The symbols of agents."""
        meanings = [(sign, present.MEANINGS[category]) for category, sign in present.SYMBOLS.items()]
        more = ((present.ENDED_SYMBOL, present.ENDED_MEANING), (present.STALE_SYMBOL, present.STALE_MEANING))
        return (*meanings, *more)
