"""The screen of a review: progress at the top, the changes on the left, the diff and facts of one on the right.

It wires keys to acts, the session's states to the table, and the cursor to the right pane. A decision is shown at once;
the branch is updated in a thread and shown when it is ready. The actions of keys are in `actions` and `moves`; the
session logs every act before it does it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.containers import Container, Horizontal
from textual.content import Content

from selftest_core.errors import SelftestError
from selftest_tui.fleet.messages import ReviewFailed, ReviewSaid, VerificationSeen
from selftest_tui.review import words as review_words
from selftest_tui.review.bar import ReviewBar
from selftest_tui.review.integrating.integrating import ReviewIntegrating
from selftest_tui.review.keys import REVIEW
from selftest_tui.review.lines import FILTER, ReviewRow, RowMaker, facts_of, lay_out
from selftest_tui.review.pane import ReviewPane
from selftest_tui.review.shaping.shaping import ReviewShaping
from selftest_tui.review.table import LineTable
from selftest_tui.review.words import instead_of_lines, review_problems
from selftest_tui.shared import present, problems
from selftest_tui.shared.filter import Finder
from selftest_tui.shared.keys import Where
from selftest_tui.shared.widgets.banner import Banner
from selftest_tui.shared.widgets.key_bar import KeyBar
from selftest_tui.shared.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.timer import Timer

    from selftest_core.fleet.view import Problem
    from selftest_core.review.candidate_branch import Decision
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState
    from selftest_core.verify.verification import Verified
    from selftest_tui.fleet.screen import FleetScreen
    from selftest_tui.review.feed import ReviewFeed
    from selftest_tui.review.lines import ReviewLine
    from selftest_tui.shared.keys import Key
    from selftest_tui.shared.widgets.tabs import TabBar

SECONDS_BETWEEN_LOOKS = 3.0
"""Between two checks for new commits and moved branches, while no act is pending."""

SECONDS_UNTIL_SAID = 0.25
"""Delay before a running act is shown in the header."""
SECONDS_TO_THE_REST = 0.2
"""Delay before the rest of the dependencies is computed after an act, while no act is pending."""


class ReviewScreen(ReviewShaping, ReviewIntegrating):
    """Shows the review that `feed` opens. `fleet` is the fleet's screen below, which knows the agents."""

    KEYS = REVIEW
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = REVIEW.bindings(Where.SCREEN)
    AUTO_FOCUS = "LineTable"

    def __init__(self, feed: ReviewFeed, fleet: FleetScreen, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(feed.request, fleet, clock)
        self.feed = feed
        self._acts = 0
        self._said_of: set[int] = set()
        self._frame_words = ("", "")
        self._own_problems: tuple[Problem, ...] = ()
        self._verify_problems: tuple[Problem, ...] = ()
        self._drawn_from: object = None
        self._made = RowMaker()
        self._finder: Finder[str, ReviewRow] = Finder(facts_of, FILTER)
        self._is_looking = False
        self._search: Timer | None = None
        self._wanted_commit = ""
        self.is_integration_wanted = False
        """Ask for agents for all conflicts, once it is open."""

    def compose(self) -> ComposeResult:
        """Place the same widgets at every size."""
        yield ReviewBar()
        with Horizontal(id="body"):
            with Container(id="line"):
                yield LineTable()
            yield ReviewPane(self)
        yield Banner()
        with Horizontal(id="bottom"):
            yield KeyBar(REVIEW)
            yield Prompt()

    def on_mount(self) -> None:
        """Open the review, once the frame is on the screen."""
        self.table = self.query_one(LineTable)
        self.pane = self.query_one(ReviewPane)
        self.prompt = self.query_one(Prompt)
        self._bar = self.query_one(ReviewBar)
        self._keys = self.query_one(KeyBar)
        self._banner = self.query_one(Banner)
        self._frame = self.query_one("#line")
        self.table.show_placeholder(("Opening the review …",))
        self.show_state()
        self.run_worker(self._open, group="open")  # type: ignore[arg-type]  # its type admits no coroutine function
        self.set_interval(SECONDS_BETWEEN_LOOKS, self._look)
        self.watch(self.table, "scroll_y", self._on_scrolled, init=False)

    def on_unmount(self) -> None:
        """Close the session; all decisions are in its log."""
        self.feed.stop()

    async def _open(self) -> None:
        try:
            state = await self.feed.open(self.post_message)
        except SelftestError as error:
            self.app.post_message(ReviewFailed(self.request, error))
            return
        self.take(state)
        self._go_to_wanted()
        self.perform(self.go_on_verifying)
        if self.is_integration_wanted:
            self.perform(self.integrate)

    def on_review_said(self, event: ReviewSaid) -> None:
        """Show the progress of opening."""
        if self.state is None:
            self.table.show_placeholder(("Opening the review …", "", present.clean(event.text)))

    def on_verification_seen(self, event: VerificationSeen) -> None:
        """Show newer verdicts, and the progress towards the next."""
        failure = self.feed.verification.error if self.feed.verification is not None else None
        self._verify_problems = () if failure is None else (problems.lasting("verification", failure),)
        self.rearrange()
        if self.pane.tab in ("tests", "alternatives") and self.pane.is_at_rest and self.state is not None:
            self.pane.show_line()

    # acts

    async def act(
        self,
        do: Callable[[ReviewSession], ReviewState],
        pending: Mapping[str, Decision] | None = None,
        says: str = "",
    ) -> ReviewState:
        """Perform an act in the session's thread and show its state. `pending`: decisions to show at once.

        `says` is shown meanwhile. Raises what the act raises; the pending decisions are then shown as before.
        """
        self._acts += 1
        number = self._acts
        self._begin(number, says or "updating the branch")
        self._pending.update({oid: (number, decision) for oid, decision in (pending or {}).items()})
        self.rearrange()
        answer: ReviewState | None = None
        try:
            answer = await self.feed.act(do)
        finally:
            # Both at once, so that a pending decision does not flicker.
            self._end(number)
            self._pending = {oid: one for oid, one in self._pending.items() if one[0] != number}
            # After a failed act, show the state that is known now: earlier acts may have ended meanwhile.
            self.take(answer if answer is not None else self.state)
        return answer

    async def ask[T](self, ask: Callable[[ReviewSession], T], says: str) -> T:
        """Query the session, without a change."""
        self._acts += 1
        number = self._acts
        self._begin(number, says)
        try:
            return await self.feed.act(ask)
        finally:
            self._end(number)
            self.show_state()

    async def wait_for[T](self, work: Awaitable[T], says: str) -> T:
        """Wait for work outside of the session, and say so in the header."""
        self._acts += 1
        number = self._acts
        self._begin(number, says)
        try:
            return await work
        finally:
            self._end(number)
            self.show_state()

    def _begin(self, number: int, says: str) -> None:
        """Show an act in the header if it takes long; most acts are done before that could be read."""
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
        """Show a newer state, or drop decisions that are no longer pending."""
        if state is not None and self.state is not None:
            self.say_answers(self.state, state)
        is_same, self.state = state is self.state, state
        self.rearrange()
        if state is not None and not is_same:
            self.want_verified(state)
        if not is_same:
            self._search_soon()

    def _search_soon(self) -> None:
        """Go on with the search for dependencies soon, once no act is pending."""
        if self._search is not None:
            self._search.stop()
            self._search = None
        if self.state is not None and not self.state.reviewed.dependents.is_whole:
            self._search = self.set_timer(SECONDS_TO_THE_REST, self._go_on_searching)

    def _go_on_searching(self) -> None:
        if self._is_looking or not self.feed.is_idle:
            self._search_soon()
        else:
            self._look()

    def go_to_commit(self, oid: str) -> None:
        """Put the cursor on the change that this commit made, once it is known, whatever hides it."""
        self._wanted_commit = oid
        self._go_to_wanted()

    def _go_to_wanted(self) -> None:
        if not self._wanted_commit or self.state is None or not self.is_mounted:
            return
        oid, self._wanted_commit = self._wanted_commit, ""
        row = next(
            (row for row in self.rows if any(oid in one.oids for one in (row.change, *row.others))),
            None,
        )
        if row is not None and not self.table.go_to_key(row.key):
            self.folded, self.only_open, self.query_text = frozenset(), False, ""
            self.rearrange()
            self.table.go_to_key(row.key)

    def _look(self) -> None:
        """Check for new commits and moved branches, while no act is pending."""
        if self.state is None or self._is_looking or not (self.is_current and self.feed.is_idle):
            return
        self._is_looking = True
        self.run_worker(self._look_once, group="look")  # type: ignore[arg-type]  # its type admits no coroutine function

    async def _look_once(self) -> None:
        try:
            state = await self.feed.act(self.feed.look)
        except SelftestError as error:
            self._own_problems = (problems.lasting("refresh", error),)
            self.show_state()
        else:
            self._own_problems = ()
            self.take(state)
            self.feed.renew_report()
        finally:
            self._is_looking = False

    @property
    def is_settled(self) -> bool:
        """True when no act is pending, so that the screen shows what the log has."""
        return not self._under_way and not self._pending

    # what is known

    @property
    def line(self) -> ReviewLine | None:
        """The line under the cursor."""
        return self.table.line

    @property
    def final_verdicts(self) -> Mapping[str, Verified]:
        """Our last final verdict on each change while it was applied."""
        return self._made.final_verdicts

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems of the review right now."""
        return (*self._own_problems, *self._verify_problems, *review_problems(self.state))

    @property
    def is_at_rest(self) -> bool:
        """True when the right pane shows the line under the cursor."""
        return self.pane.is_at_rest

    def symbols(self) -> tuple[tuple[str, str], ...]:
        """Return the symbols of decisions and statuses with their meanings."""
        return review_words.meanings()

    def before_press(self, key: Key) -> None:
        """Bring the right pane up to date: the action may be about it. Keys that move do not wait for it."""
        if self.state is not None and self.pane.is_due and key.where is not Where.TABLE:
            self.pane.show_line()

    # showing

    def rearrange(self) -> None:
        """Rebuild the table from the state, the filter and the folded groups."""
        state = self.state
        # A check may end while this screen is being removed, when parts of it are gone.
        if state is None or not self.is_mounted or not self.display:
            return
        verification = self.feed.verification
        drawn_from = (
            state, dict(self._pending), self.folded, self.query_text, self.only_open, self.table.columns.sort,
            None if verification is None else (verification.items, verification.is_settled, verification.is_active),
            self.feed.integrating,
        )  # fmt: skip
        if self._drawn_from is not None and drawn_from == self._drawn_from:
            self._show_around()
            return
        self._drawn_from = drawn_from
        pending = {oid: decision for oid, (_, decision) in self._pending.items()}
        self.rows = self._made.all_rows(state, pending, verification, self.feed.integrating)
        matching = self._finder.find(((row.oid, row) for row in self.rows), self.query_text)
        in_order = partial(self.table.columns.in_order, now=0.0)
        lines = lay_out(self.rows, folded=self.folded, matching=matching, only_open=self.only_open, in_order=in_order)
        self.table.show_placeholder(instead_of_lines(state, len(self.rows), self.query_text, only_open=self.only_open))
        self.table.show(lines)
        self._show_around()

    def _show_around(self) -> None:
        """Update the header and keys; later, with the new branch, where an act is likely to end soon."""
        if not self._is_quick:
            self.show_state()

    @property
    def _is_quick(self) -> bool:
        """True while an act is pending that may end before a note about it could be read."""
        return any(number not in self._said_of for number in self._under_way)

    def show_state(self) -> None:
        """Update the header, the frame, the keys and the banner."""
        opens = sum(row.is_open for row in self.rows)
        says = next((self._under_way[number] for number in sorted(self._said_of)), "")
        self._bar.show(self.state, opens, says, self.feed.verification)
        self._banner.show(self.problems)
        self.show_frame()

    def show_frame(self) -> None:
        """Update the frame's title and the key line."""
        title = "changes" if not self.only_open else "open changes"
        if by := self.table.columns.sorted_by:
            title = f"{title} · sort: {by}"
        if self.query_text:
            title = f"{title} · /{self.query_text}"
        shown = len(self.table.shown.rows)
        subtitle = f"{shown} of {present.plural(len(self.rows), 'change')}" if shown != len(self.rows) else ""
        words = (present.clean(title), subtitle)
        if words != self._frame_words:  # setting them paints the whole frame again
            self._frame_words = words
            self._frame.border_title, self._frame.border_subtitle = map(Content, words)
        self._keys.show(self.situation())

    # messages of widgets

    def on_cursor_moved(self) -> None:
        """Update the key line; let the right pane follow the cursor."""
        if not self._is_quick:
            self.show_frame()
        self.pane.follow()

    def _on_scrolled(self) -> None:
        """Verify first what is on the screen now."""
        if self.feed.verification is not None and self.feed.verification.is_active:
            self.want_first()

    def on_line_opened(self) -> None:
        """Act on a click as on Enter."""
        self.action_press("open")

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        """Switch to the tab that was clicked."""
        self.action_press(f"show_{event.tab}")

    def on_alternatives_view_chosen(self) -> None:
        """Choose the text that was clicked twice."""
        self.action_press("pick")

    def on_alternatives_view_compared(self) -> None:
        """Update the key line: keys may work on the comparison now."""
        self.show_frame()

    def on_review_pane_diff_read(self) -> None:
        """Update the key line: keys may work on the diff now."""
        self.show_frame()
