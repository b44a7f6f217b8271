"""The right pane of a review: the diff of the change under the cursor, and tabs with more about it.

It follows the cursor with a short delay, because reading a diff starts a program. A diff that arrives late is kept for
the next time, and not shown. Texts come from `facts`, made harmless.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from textual.containers import VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import ContentSwitcher, Static

from selftest_core.errors import SelftestError
from selftest_core.review.candidate_branch import Status
from selftest_tui.review import facts as review_facts
from selftest_tui.review import verdict_facts
from selftest_tui.review import words as review_words
from selftest_tui.review.alternatives.alternatives_view import AlternativesView
from selftest_tui.review.diff.diff_view import DiffView
from selftest_tui.review.facts import Conflicts
from selftest_tui.review.lines import JOINT, ReviewGroup, ReviewRow, subject_of, titled
from selftest_tui.shared import present
from selftest_tui.shared.keys import shown
from selftest_tui.shared.widgets.tabs import TabBar, TabbedPane

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from textual.app import ComposeResult
    from textual.timer import Timer

    from selftest_core.git.diffs import FileDiff
    from selftest_core.review.apply_decisions import ChangeDiff
    from selftest_core.review.state import ReviewState
    from selftest_core.verify.verification import Verified
    from selftest_recorder.index.moments import Moment
    from selftest_tui.review.feed import ReviewFeed
    from selftest_tui.review.lines import ReviewLine

    type _Read = Callable[[], Awaitable[ChangeDiff]]

SECONDS_OF_REST, SECONDS_OF_REST_MOVING = 0.05, 0.12
"""The cursor must rest this long before the pane follows it: after one key, and after several in a row."""
IN_A_ROW = 0.2
"""Seconds between two moves that belong together."""

type ReviewTab = Literal["diff", "members", "evidence", "needs", "alternatives", "tests"]
TABS: tuple[ReviewTab, ...] = get_args(ReviewTab.__value__)
_TEXTS = tuple(tab for tab in TABS if tab not in ("diff", "alternatives"))
"""Tabs that are one text."""
_CAPTIONS: dict[ReviewTab, str] = {"members": "commits", "alternatives": "texts"}
"""Captions of tabs that are not their names."""


class ReviewSource(Protocol):
    """The data that the pane shows; implemented by the screen."""

    feed: ReviewFeed
    state: ReviewState | None
    rows: tuple[ReviewRow, ...]

    @property
    def line(self) -> ReviewLine | None: ...

    @property
    def final_verdicts(self) -> Mapping[str, Verified]: ...


class ReviewPane(TabbedPane, can_focus=False):
    """Shows one change or one group. `source` tells what is under the cursor."""

    DEFAULT_CSS = """
    ReviewPane #headline { height: auto; max-height: 6; padding: 0 1; }
    """

    class DiffRead(Message):
        """The diff of the change under the cursor was read."""

    def __init__(self, source: ReviewSource, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._source = source
        self._rest: Timer | None = None
        self._moved_at = -IN_A_ROW
        self._shown_key: str | None = None
        self._diff_of: str | None = None
        self._read: ChangeDiff | None = None
        self._original_of = ""
        self._is_reading = False
        self._conflicts: dict[tuple[str, object], Conflicts] = {}
        self._moment: tuple[object, Moment | None] = (None, None)
        self.tab: ReviewTab = "diff"
        self.title = ""
        self._shown: dict[str, Content] = {}
        self._due: set[str] = set()
        # Kept as attributes: a thread's result may arrive while the screen is being removed.
        self.diff = DiffView(id="diff")
        self._switcher = ContentSwitcher(initial="diff")
        self._tabs = TabBar({tab: _CAPTIONS.get(tab, tab) for tab in TABS})
        self._texts: dict[str, Static] = {tab: Static(id=f"{tab}-text") for tab in _TEXTS}
        self._texts["headline"] = Static(id="headline")
        self._scrolls = {tab: VerticalScroll(id=tab, can_focus=False) for tab in _TEXTS}
        self.alternatives = AlternativesView(source.feed, id="alternatives")

    def compose(self) -> ComposeResult:
        yield self._tabs
        yield self._texts["headline"]
        with self._switcher:
            yield self.diff
            yield self.alternatives
            for tab, scroll in self._scrolls.items():
                with scroll:
                    yield self._texts[tab]

    def on_mount(self) -> None:
        self.show_tab("diff")

    # the line under the cursor

    @property
    def is_at_rest(self) -> bool:
        """True when the pane shows the line under the cursor, and its diff has been read."""
        return self._rest is None and not self._is_reading and not self.alternatives.is_reading

    @property
    def shown_diff(self) -> DiffView:
        """The diff that keys are about: of the change, or of two texts of its row."""
        return self.alternatives.diff if self.tab == "alternatives" else self.diff

    @property
    def shows_diff(self) -> bool:
        """True while a diff is shown."""
        return self.tab == "diff" or (self.tab == "alternatives" and bool(self.alternatives.marked))

    @property
    def is_due(self) -> bool:
        """True while the pane still shows the line that was under the cursor before."""
        return self._rest is not None

    @property
    def differs(self) -> bool:
        """True for a change that is applied otherwise than its agent committed it."""
        return self._read is not None and self._read.differs

    @property
    def shows_original(self) -> bool:
        """True while the agent's own commit is shown instead of what is applied."""
        return self.differs and self._row is not None and self._row.oid == self._original_of

    @property
    def files(self) -> tuple[FileDiff, ...]:
        """The files of the agent's own commit, none while it is being read."""
        return () if self._read is None else self._read.original

    @property
    def has_hunks_of_its_commit(self) -> bool:
        """True where the hunks that are shown are those of the agent's own commit."""
        shown, own = self.diff.layout_of_rows.files, self.files
        return [[one.id for one in file.hunks] for file in shown] == [[one.id for one in file.hunks] for file in own]

    def toggle_original(self) -> None:
        """Show the agent's own commit, or what is applied again."""
        if self._row is not None and self._read is not None:
            self._original_of = "" if self.shows_original else self._row.oid
            self._show_read(self._read)

    def follow(self) -> None:
        """Show the line under the cursor once the cursor rests: drawing the pane is slower than moving the cursor.

        While keys come one after the other it rests longer, so that none of them waits for the pane to be drawn.
        """
        if self._rest is not None:
            self._rest.stop()
        now = time.monotonic()
        is_in_a_row, self._moved_at = now - self._moved_at < IN_A_ROW, now
        self._rest = self.set_timer(SECONDS_OF_REST_MOVING if is_in_a_row else SECONDS_OF_REST, self.show_line)

    def show_line(self) -> None:
        """Show the line under the cursor now."""
        if self._rest is not None:
            self._rest.stop()
            self._rest = None
        line = self._source.line
        key = None if line is None else line.key if isinstance(line, ReviewGroup) else line.oid
        if key != self._shown_key:
            self._shown_key = key
            for scroll in self._scrolls.values():
                scroll.scroll_home(animate=False)
        match line:
            case None:
                self._show_nothing()
            case ReviewGroup():
                self._show_group(line)
            case ReviewRow():
                self._show_change(line)

    def _show_nothing(self) -> None:
        self._show_title("")
        for part in ("headline", *_TEXTS):
            self._show_text(part, Content(""))
        self.alternatives.show_words("")
        self._show_diff(None)

    def _show_group(self, group: ReviewGroup) -> None:
        state = self._state
        self._show_title(f"{present.clean(group.title)} · {present.plural(len(group.members), 'change')}")
        weaker = sum(row.weakens for row in group.members)
        hint = (
            f"{shown('review.keep', 'y')} keeps them all, "
            f"{shown('review.revert', 'x')} reverts them all; → opens the group"
        )
        if weaker:
            what = "1 that weakens a test" if weaker == 1 else f"{weaker} that weaken a test"
            hint = (
                f"{shown('review.keep', 'y')} keeps all but {what}, "
                f"{shown('review.revert', 'x')} reverts them all; → opens the group"
            )
        self._show_text("headline", Content.styled(hint, "$foreground-muted"))
        self._show_text("members", review_facts.group_members(group))
        words = "This is a group: move to one of its changes."
        for part in ("evidence", "needs", "tests"):
            self._show_text(part, Content.styled(words, "$foreground-muted"))
        self.alternatives.show_words(words)
        oid = state.reviewed.line.joint_commit if group.key == JOINT else ""
        if oid:
            self._show_diff(oid, read=partial(self._source.feed.joint_diff, oid, state.reviewed))
        else:
            names = [f"{review_words.DECISIONS[row.decision]} {subject_of(row.change)}" for row in group.members]
            self._show_diff(None, ("Move to one of these changes to see its diff.", "", *names))

    def _show_change(self, row: ReviewRow) -> None:
        state = self._state
        number = f"{row.number} ─ " if row.number else ""
        self._show_title(f"{number}{titled(row.change)}")
        self._show_text("headline", review_facts.headline(row, self._difference))
        placed = next(one for one in state.reviewed.line.items if one.item.oid == row.oid)
        self._show_text("members", review_facts.members(row, placed.answers))
        self._show_evidence(row)
        if self.tab == "tests":
            self._show_tests(row)
        if self.tab == "alternatives":
            self._show_alternatives(row)
        self._show_needs(row)
        key = f"{row.oid} {placed.commit}"
        self._show_diff(key, read=partial(self._source.feed.diff, row.oid, key, state.reviewed))

    @property
    def _state(self) -> ReviewState:
        assert self._source.state is not None, "there are no lines before the review is open"
        return self._source.state

    @property
    def _row(self) -> ReviewRow | None:
        line = self._source.line
        return line if isinstance(line, ReviewRow) else None

    def _show_needs(self, row: ReviewRow) -> None:
        state = self._state
        key = (row.oid, state.reviewed.line.tip)
        known = self._conflicts.get(key)
        by_oid = {one.oid: one for one in self._source.rows}
        self._show_text("needs", review_facts.needs(row, state, by_oid, known))
        has_conflict = row.status is Status.HELD or row.is_resolved
        if has_conflict and known is None and self.tab == "needs":
            read = partial(self._read_conflicts, row, key)
            self.run_worker(read, group="conflicts", description="conflicts", exclusive=True)  # type: ignore[arg-type]  # no coroutine function

    def _show_alternatives(self, row: ReviewRow) -> None:
        # Comparing reads both texts: that is done when they are looked at.
        if row.others:
            self.alternatives.show(row, self._source.final_verdicts, self._state.reviewed)
        elif row.is_apart:
            self.alternatives.show_words(
                f"It was set apart from others that say the same: {shown('review.apart', '$')} puts it back."
            )
        else:
            self.alternatives.show_words("No other change says the same as this one.")

    def _show_tests(self, row: ReviewRow) -> None:
        # Output of tests is long: it is laid out when it is looked at.
        by_oid = {one.oid: one for one in self._source.rows}
        self._show_text("tests", verdict_facts.tests(row, by_oid, self._source.feed.verification))

    def _show_evidence(self, row: ReviewRow) -> None:
        state = self._state
        key = (row.oid, self.diff.here)
        moment = self._moment[1] if self._moment[0] == key else None
        note = state.notes.get(row.oid, "")
        self._show_text("evidence", review_facts.evidence(row, state.evidence, note, moment))
        if (
            self.tab == "evidence"
            and self._moment[0] != key
            and any(one in state.evidence for one in row.change.agents)
        ):
            read = partial(self._read_moment, row, key)
            self.run_worker(read, group="moment", description="moment", exclusive=True)  # type: ignore[arg-type]  # no coroutine function

    async def _read_moment(self, row: ReviewRow, key: tuple[str, object]) -> None:
        agent = next(one for one in row.change.agents if one in self._state.evidence)
        self._moment = key, await self.find_moment(row, agent)
        if self._row is not None and self._row.oid == row.oid:
            self._show_evidence(self._row)

    async def find_moment(self, row: ReviewRow, agent: str) -> Moment | None:
        """Find the moment at which an agent made the selected hunk; on the tab "tests", of its own run of the red test.

        Without a hunk: of its commit. None where nothing is known of it.
        """
        moments = await self._source.feed.moments(agent, self._state.evidence[agent])
        commit = next(source.commit for source in row.change.sources if source.agent == agent)
        if self.tab == "tests":
            found = verdict_facts.first_test(row, self._state.evidence[agent])
            moment = moments.of_test(found) if found else None
            if moment is not None:
                return moment
        hunk = self.diff.hunk
        return moments.of_commit(commit) if hunk is None else moments.of_hunk(hunk[0].path, hunk[1], commit)

    async def _read_conflicts(self, row: ReviewRow, key: tuple[str, object]) -> None:
        try:
            files = await self._source.feed.act(
                lambda session: session.resolved_files(row.oid) if row.is_resolved else session.conflict_files(row.oid)
            )
        except SelftestError as error:
            found = Conflicts(error="\n".join(part for part in (error.title, error.detail, error.hint) if part))
        else:
            found = Conflicts(tuple(files))
        self._conflicts = {key: found}
        if self._row is not None and self._row.oid == row.oid:
            self._show_needs(self._row)

    def _show_diff(self, oid: str | None, words: tuple[str, ...] = (), read: _Read | None = None) -> None:
        if oid == self._diff_of and (oid is not None or not words):
            return
        if oid is None or self._diff_of is None or oid.split()[0] != self._diff_of.split()[0]:
            self.diff.selected = frozenset()
        self._diff_of = oid
        self._read = None
        if oid is None or read is None:
            self._is_reading = False
            self.diff.show_words(words)
            return
        self._is_reading = True
        # With a description: Textual would make one of the arguments, which hold the whole review.
        self.run_worker(partial(self._read_diff, oid, read), group="diff", description="read a diff", exclusive=True)  # type: ignore[arg-type]  # its type admits no coroutine function

    async def _read_diff(self, oid: str, read: _Read) -> None:
        found: ChangeDiff | None = None
        words: tuple[str, ...] = ()
        try:
            found = await read()
        except SelftestError as error:
            words = (error.title, *error.detail.splitlines()[:10], error.hint)
        if self._diff_of != oid:
            return
        self._is_reading = False
        if found is None:
            self.diff.show_words(words)
        else:
            self._show_read(found)
        self.post_message(self.DiffRead())

    def _show_read(self, found: ChangeDiff) -> None:
        """Show a diff that was read, with its scroll position where it is the one that is shown."""
        self._read = found
        files = found.original if self.shows_original else found.applied
        if not files:
            self.diff.show_words(("It changes no file.",))
        elif files != self.diff.layout_of_rows.files:
            self.diff.show(files)
        if self._row is not None:
            self._show_text("headline", review_facts.headline(self._row, self._difference))
            self._show_evidence(self._row)

    @property
    def _difference(self) -> str:
        """The note about a change that is applied otherwise than its agent committed it."""
        if not self.differs:
            return ""
        how = f"({shown('review.original', '=')} shows that)"
        if self.shows_original:
            return f"its agent's commit, not what is applied {how}"
        return f"as it is applied; its agent's commit differs {how}"

    def _show_title(self, title: str) -> None:
        if title != self.title:
            self.title = title
            self.border_title = Content(title)

    def _show_text(self, part: str, text: Content) -> None:
        """Show the text of a tab or of the `headline`. Unchanged texts are not laid out again, hidden ones later."""
        before = self._shown.get(part)
        if before is not None and before.is_same(text):
            return
        self._shown[part] = text
        self._due.add(part)
        if part in ("headline", self.tab):
            self._lay_out(part)

    def _lay_out(self, part: str) -> None:
        # A layout draws the whole screen anew: texts of hidden tabs wait, and a headline of the same height needs none.
        if part in self._due:
            self._due.discard(part)
            widget, text = self._texts[part], self._shown[part]
            size = widget.content_size
            is_as_high = part == "headline" and size.width > 0 and text.get_height({}, size.width) == size.height
            widget.update(text, layout=not is_as_high)

    # tabs

    def show_tab(self, tab: ReviewTab) -> None:
        """Switch to a tab."""
        self.tab = tab
        if tab == "tests" and self._row is not None:
            self._show_tests(self._row)
        if tab == "alternatives" and self._row is not None:
            self._show_alternatives(self._row)
        self._lay_out(tab)
        self._switcher.current = tab
        self._tabs.show(tab)
        if tab == "evidence" and self._row is not None:
            self._show_evidence(self._row)  # and so are the words around the selected hunk
        if tab == "needs" and self._row is not None:
            self._show_needs(self._row)  # conflicts are read when they are looked at

    def text_of(self, part: str) -> str:
        """Return the text of a tab or of the `headline`."""
        if part == "alternatives":
            return self.alternatives.text
        found = self._shown.get(part)
        return "" if found is None else found.plain

    def scroll_text(self, lines: int) -> None:
        """Scroll the tab that is shown; negative is up."""
        if self.tab in ("diff", "alternatives"):
            self.shown_diff.scroll_lines(lines)
        else:
            self._scrolls[self.tab].scroll_relative(y=lines, animate=False, immediate=True)

    def pan_text(self, cells: int) -> None:
        """Scroll the diff sideways: negative is to the left."""
        self.shown_diff.pan_by(cells)
