"""A review: how much is left at the top, the line on the left, the diff of one change and what is known of it right.

This wires: keys to acts, the session's states to the table, the cursor to the right pane. A decision is on the screen
at once; the line for it is laid in a thread, and is shown when it is there. Nothing is decided here: what a key does
is in `actions` and `moves`, and the session writes every act down before it obeys it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container, Horizontal
from textual.content import Content

from selftest_core.errors import SelftestError
from selftest_tui.fleet.messages import ReviewFailed, ReviewSaid
from selftest_tui.review import words as review_words
from selftest_tui.review.actions import ReviewActions
from selftest_tui.review.bar import ReviewBar
from selftest_tui.review.detail_pane import ReviewSight
from selftest_tui.review.feed import ReviewFeed
from selftest_tui.review.keys import REVIEW
from selftest_tui.review.lines import FILTER, ReviewRow, RowMaker, facts_of, lay_out
from selftest_tui.review.pane import ReviewPane
from selftest_tui.review.state import instead_of_lines, review_problems
from selftest_tui.review.table import LineTable
from selftest_tui.shared import present, problems
from selftest_tui.shared.bindings import bindings_of
from selftest_tui.shared.filter import Finder
from selftest_tui.shared.keys import Where
from selftest_tui.shared.widgets.banner import Banner
from selftest_tui.shared.widgets.key_bar import KeyBar
from selftest_tui.shared.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from selftest_core.fleet.view import Problem
    from selftest_core.review.candidate_branch import Decision
    from selftest_core.review.changes.inputs import Request
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState
    from selftest_tui.fleet.screen import FleetScreen

SECONDS_BETWEEN_LOOKS = 3.0
"""Between two looks for arrivals and moved branches, while nothing else is under way."""

SECONDS_UNTIL_SAID = 0.25
"""After an act began: that it is under way."""
SECONDS_TO_THE_REST = 0.2
"""After an act of which not all consequences are known yet: they are found while nothing else is under way."""


class ReviewScreen(ReviewActions):
    """Shows what `request` asks for. `fleet` is the fleet's screen below, which knows the agents."""

    KEYS = REVIEW
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(REVIEW.of(Where.SCREEN))]
    AUTO_FOCUS = "LineTable"

    def __init__(self, request: Request, fleet: FleetScreen, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(request, fleet, clock)
        self.feed = ReviewFeed(request, fleet.folder, fleet.environ, self.post_message)
        self._acts = 0
        self._said_of: set[int] = set()
        self._frame_words = ("", "")
        self._own_problems: tuple[Problem, ...] = ()
        self._drawn_from: object = None
        self._made = RowMaker()
        self._finder: Finder[str, ReviewRow] = Finder(facts_of, FILTER)
        self._is_looking = False

    def compose(self) -> ComposeResult:
        """The same places on every size."""
        yield ReviewBar()
        with Horizontal(id="body"):
            with Container(id="line"):
                yield LineTable()
            yield ReviewPane()
        yield Banner()
        with Horizontal(id="bottom"):
            yield KeyBar(REVIEW)
            yield Prompt()

    def on_mount(self) -> None:
        """Begin to open it, once the frame is on the screen."""
        self.table = self.query_one(LineTable)
        self.pane = self.query_one(ReviewPane)
        self.prompt = self.query_one(Prompt)
        self._bar = self.query_one(ReviewBar)
        self._keys = self.query_one(KeyBar)
        self._banner = self.query_one(Banner)
        self._frame = self.query_one("#line")
        self.sight = ReviewSight(self)
        self.table.show_placeholder(("Opening the review …",))
        self.show_state()
        self.run_worker(self._open, group="open")  # type: ignore[arg-type]  # its type admits no coroutine function
        self.set_interval(SECONDS_BETWEEN_LOOKS, self._look)

    def on_unmount(self) -> None:
        """The session ends with its screen; all that was decided is in its log."""
        self.feed.stop()

    async def _open(self) -> None:
        try:
            state = await self.feed.open()
        except SelftestError as error:
            self.app.post_message(ReviewFailed(self.request, error))
            return
        self.take(state)

    def on_review_said(self, event: ReviewSaid) -> None:
        """Opening takes a while."""
        if self.state is None:
            self.table.show_placeholder(("Opening the review …", "", present.clean(event.text)))

    # acts

    async def act(
        self,
        do: Callable[[ReviewSession], ReviewState],
        pending: Mapping[str, Decision] | None = None,
        says: str = "",
    ) -> ReviewState:
        """Do it in the session's thread, and show the state that it gives. `pending`: shown as decided at once.

        Raises what the act raises; what was pending is then as it was.
        """
        self._acts += 1
        number = self._acts
        self._begin(number, says or "laying the line")
        self._pending.update({oid: (number, decision) for oid, decision in (pending or {}).items()})
        self.rearrange()
        answer: ReviewState | None = None
        try:
            answer = await self.feed.act(do)
        finally:
            # Both at once: what was pending must not show for a moment as it was before.
            self._end(number)
            self._pending = {oid: one for oid, one in self._pending.items() if one[0] != number}
            # Of an act that failed, what is known by now: acts before it may have ended since it was asked for.
            self.take(answer if answer is not None else self.state)
        return answer

    async def ask[T](self, ask: Callable[[ReviewSession], T], says: str) -> T:
        """Ask the session something that changes nothing."""
        self._acts += 1
        number = self._acts
        self._begin(number, says)
        try:
            return await self.feed.act(ask)
        finally:
            self._end(number)
            self.show_state()

    def _begin(self, number: int, says: str) -> None:
        """What takes long is said at the top; most acts are done before anybody could read it."""
        self._under_way[number] = says

        def say() -> None:
            if number in self._under_way:
                self._said_of.add(number)
                self.show_state()

        self.set_timer(SECONDS_UNTIL_SAID, say)

    def _end(self, number: int) -> None:
        del self._under_way[number]
        self._said_of.discard(number)

    def take(self, state: ReviewState | None) -> None:
        """Go over to a newer state, or to what is pending no longer."""
        is_same, self.state = state is self.state, state
        self.rearrange()
        if state is not None and not is_same and not state.reviewed.dependents.is_whole:
            self.set_timer(SECONDS_TO_THE_REST, self._look)

    def _look(self) -> None:
        """Look for arrivals and moved branches, where nothing else is under way."""
        if self.state is None or self._is_looking or not (self.is_current and self.feed.is_idle):
            return
        self._is_looking = True
        self.run_worker(self._look_once, group="look")  # type: ignore[arg-type]  # its type admits no coroutine function

    async def _look_once(self) -> None:
        try:
            state = await self.feed.act(lambda session: session.refresh())
        except SelftestError as error:
            self._own_problems = (problems.lasting("refresh", error),)
            self.show_state()
        else:
            self._own_problems = ()
            self.take(state)
        finally:
            self._is_looking = False

    @property
    def is_settled(self) -> bool:
        """No act is under way, and what is shown is what the log says."""
        return not self._under_way and not self._pending

    # what is known

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What does not work right now, and what could not be taken."""
        return (*self._own_problems, *review_problems(self.state))

    @property
    def is_at_rest(self) -> bool:
        """The right pane shows what is under the cursor."""
        return self.sight.is_at_rest

    def symbols(self) -> tuple[tuple[str, str], ...]:
        """Those of decisions and of the line."""
        return review_words.MEANINGS

    def before_press(self, key: object) -> None:
        """What acts on what is shown must show what is under the cursor first."""
        if self.state is not None and self.sight.is_due:
            self.sight.show_now()

    # showing

    def tab_changed(self) -> None:
        """Read what another tab of the right pane shows."""
        self.sight.tab_changed()

    def rearrange(self) -> None:
        """Lay the changes out as the person wants them."""
        state = self.state
        # A look may end after this screen has begun to go, and parts of it are gone then.
        if state is None or not self.is_mounted or not self.display:
            return
        drawn_from = (state, dict(self._pending), self.folded, self.query_text, self.only_open)
        if self._drawn_from is not None and drawn_from == self._drawn_from:
            self._show_around()
            return
        self._drawn_from = drawn_from
        self.rows = self._made.all_rows(state, {oid: decision for oid, (_, decision) in self._pending.items()})
        matching = self._finder.find(((row.oid, row) for row in self.rows), self.query_text)
        lines = lay_out(self.rows, folded=self.folded, matching=matching, only_open=self.only_open)
        self.table.show_placeholder(instead_of_lines(state, len(self.rows), self.query_text, only_open=self.only_open))
        self.table.show(lines)
        self._show_around()

    def _show_around(self) -> None:
        """What stands around the table: with the new line where that comes at once, so that a decision shows sooner."""
        if not self._is_quick:
            self.show_state()

    @property
    def _is_quick(self) -> bool:
        """An act is under way that may end before anybody could read what is said of it."""
        return any(number not in self._said_of for number in self._under_way)

    def show_state(self) -> None:
        """The two lines at the top, the frame, the keys, and what is wrong."""
        opens = sum(row.is_open for row in self.rows)
        says = next((self._under_way[number] for number in sorted(self._said_of)), "")
        self._bar.show(self.state, opens, says)
        self._banner.show(self.problems)
        self.show_frame()

    def show_frame(self) -> None:
        """Say in the frame what is shown, and in the key line what works now."""
        title = "the line" if not self.only_open else "what is open"
        if self.query_text:
            title = f"{title} · /{self.query_text}"
        shown = len(self.table.shown.rows)
        subtitle = f"{shown} of {present.plural(len(self.rows), 'change')}" if shown != len(self.rows) else ""
        words = (present.clean(title), subtitle)
        if words != self._frame_words:  # setting them paints the whole frame again
            self._frame_words = words
            self._frame.border_title, self._frame.border_subtitle = map(Content, words)
        self._keys.show(self.situation())

    # what widgets tell

    def on_cursor_moved(self) -> None:
        """Say which keys work there; show on the right what is under the cursor once it rests."""
        if not self._is_quick:
            self.show_frame()
        self.sight.cursor_moved()

    def on_line_opened(self) -> None:
        """Clicked: as Enter."""
        self.action_press("open")

    def on_review_pane_tab_chosen(self, event: ReviewPane.TabChosen) -> None:
        """A tab was clicked."""
        self.action_press(f"show_{event.tab}")
