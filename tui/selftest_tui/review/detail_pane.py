"""What the right pane of a review shows: the diff and the words of what is under the cursor, read when it rests.

Reading a diff starts a program, and fingers move on: it is asked for once the cursor rests, and an answer that came
too late is kept for when the cursor comes back, and not shown.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from selftest_core.errors import SelftestError
from selftest_core.review.candidate_branch import Status
from selftest_tui.review import facts as review_facts
from selftest_tui.review import words as review_words
from selftest_tui.review.facts import Conflicts
from selftest_tui.review.lines import JOINT, ReviewGroup, ReviewRow, subject_of
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from textual.timer import Timer

    from selftest_core.git.diffs import FileDiff
    from selftest_tui.review.moves import ReviewMoves

    type _Read = Callable[[], Awaitable[tuple[FileDiff, ...]]]

SECONDS_OF_REST = 0.05


class ReviewSight:
    """Keeps the right pane of one screen at what is under its cursor."""

    def __init__(self, screen: ReviewMoves) -> None:
        self._screen = screen
        self._rest: Timer | None = None
        self._in_pane: str | None = None
        self._diff_of: str | None = None
        self._is_reading = False
        self._conflicts: dict[tuple[str, object], Conflicts] = {}

    @property
    def is_at_rest(self) -> bool:
        """The right pane shows what is under the cursor, and its diff has been read."""
        return self._rest is None and not self._is_reading

    @property
    def is_due(self) -> bool:
        """The right pane shows what was under the cursor before."""
        return self._rest is not None

    def cursor_moved(self) -> None:
        """Show what is there once it rests: drawing the right pane costs several times what a moved cursor does."""
        if self._rest is not None:
            self._rest.stop()
        self._rest = self._screen.set_timer(SECONDS_OF_REST, self.show_now)

    def show_now(self) -> None:
        """Show what is under the cursor, now."""
        if self._rest is not None:
            self._rest.stop()
            self._rest = None
        screen = self._screen
        line = screen.table.line
        key = None if line is None else line.key if isinstance(line, ReviewGroup) else line.oid
        if key != self._in_pane:
            self._in_pane = key
            screen.pane.scroll_top()
        match line:
            case None:
                self._show_nothing()
            case ReviewGroup():
                self._show_group(line)
            case ReviewRow():
                self._show_change(line)

    def _show_nothing(self) -> None:
        pane = self._screen.pane
        pane.show_title("")
        for part in ("headline", "members", "evidence", "needs", "alternatives"):
            pane.show_text(part, Content(""))
        self._want_diff(None)

    def _show_group(self, group: ReviewGroup) -> None:
        pane = self._screen.pane
        pane.show_title(f"{present.clean(group.title)} · {present.plural(len(group.members), 'change')}")
        hint = "y keeps them all, x reverts them all; → opens the group"
        pane.show_text("headline", Content.styled(hint, "$foreground-muted"))
        pane.show_text("members", review_facts.group_members(group))
        one = Content.styled("This is a group: move to one of its changes.", "$foreground-muted")
        for part in ("evidence", "needs", "alternatives"):
            pane.show_text(part, one)
        state = self._screen.state
        assert state is not None, "there is no line without a state"
        oid = state.reviewed.line.joint_commit if group.key == JOINT else ""
        if oid:
            self._want_diff(oid, read=partial(self._screen.feed.joint_diff, oid, state.reviewed))
        else:
            names = [f"{review_words.DECISIONS[row.decision]} {subject_of(row.change)}" for row in group.members]
            self._want_diff(None, ("2 says more of each; move to one of them to see what it changes", "", *names))

    def _show_change(self, row: ReviewRow) -> None:
        screen, pane, state = self._screen, self._screen.pane, self._screen.state
        assert state is not None, "there is no line without a state"
        by_oid = {one.oid: one for one in screen.rows}
        subject = subject_of(row.change)
        pane.show_title(f"{row.number} ─ {subject}" if row.number else f"∑ ─ {subject}")
        pane.show_text("headline", review_facts.headline(row))
        pane.show_text("members", review_facts.members(row))
        pane.show_text("evidence", review_facts.evidence(row, state.evidence, state.notes.get(row.oid, "")))
        others = [by_oid[oid] for oid in state.similar.get(row.oid, ()) if oid in by_oid]
        pane.show_text("alternatives", review_facts.alternatives(row, others))
        self._show_needs(row)
        self._want_diff(row.oid, read=partial(screen.feed.diff, row.oid))

    def _show_needs(self, row: ReviewRow) -> None:
        screen, state = self._screen, self._screen.state
        assert state is not None, "there is no line without a state"
        key = (row.oid, state.reviewed.line.tip)
        known = self._conflicts.get(key)
        by_oid = {one.oid: one for one in screen.rows}
        screen.pane.show_text("needs", review_facts.needs(row, state, by_oid, known))
        if row.status is Status.HELD and known is None and screen.pane.tab == "needs":
            screen.run_worker(partial(self._read_conflicts, row, key), group="conflicts", exclusive=True)  # type: ignore[arg-type]  # its type admits no coroutine function

    async def _read_conflicts(self, row: ReviewRow, key: tuple[str, object]) -> None:
        screen = self._screen
        try:
            files = await screen.feed.act(lambda session: session.conflict_files(row.oid))
        except SelftestError as error:
            found = Conflicts(error="\n".join(part for part in (error.title, error.detail, error.hint) if part))
        else:
            found = Conflicts(tuple(files))
        self._conflicts = {key: found}
        if screen.table.row is not None and screen.table.row.oid == row.oid:
            self._show_needs(screen.table.row)

    def tab_changed(self) -> None:
        """Another tab is in sight: what it shows may not have been read yet."""
        if self._screen.table.row is not None:
            self._show_needs(self._screen.table.row)

    def _want_diff(self, oid: str | None, words: tuple[str, ...] = (), read: _Read | None = None) -> None:
        if oid == self._diff_of and (oid is not None or not words):
            return
        self._diff_of = oid
        diff = self._screen.pane.diff
        if oid is None or read is None:
            self._is_reading = False
            diff.show_words(words)
            return
        self._is_reading = True
        self._screen.run_worker(partial(self._read_diff, oid, read), group="diff", exclusive=True)  # type: ignore[arg-type]  # its type admits no coroutine function

    async def _read_diff(self, oid: str, read: _Read) -> None:
        screen = self._screen
        files: tuple[FileDiff, ...] = ()
        words: tuple[str, ...] = ("It changes no file.",)
        try:
            files = await read()
        except SelftestError as error:
            words = (error.title, *error.detail.splitlines()[:10], error.hint)
        if self._diff_of != oid:
            return
        self._is_reading = False
        if files:
            screen.pane.diff.show(files)
        else:
            screen.pane.diff.show_words(words)
        screen.show_frame()
