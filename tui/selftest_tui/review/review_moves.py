"""What the keys of a review's screen do that decides nothing: moving, finding, the diff, the right pane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_tui.review.lines import FILTER, ReviewGroup, ReviewRow, filters_for, key_of
from selftest_tui.review.pane import TABS
from selftest_tui.shared.dialogs.choose import Choose
from selftest_tui.shared.table_moves import TableMoves

if TYPE_CHECKING:
    from selftest_tui.review.pane import ReviewTab
    from selftest_tui.review.screen import ReviewScreen


class ReviewMoves(TableMoves):
    """The harmless half of the acts behind the keys of one review's screen."""

    _screen: ReviewScreen

    # moving

    def fold(self, group: ReviewGroup, closed: bool) -> None:
        """Fold a group, or unfold it."""
        screen = self._screen
        screen.table.go_to_key(key_of(group))
        screen.folded = screen.folded | {group.key} if closed else screen.folded - {group.key}
        screen.rearrange()

    def next_needing(self) -> None:
        """To the next change that needs a person."""
        self._go_to_open(1)

    def previous_needing(self) -> None:
        """To the one before."""
        self._go_to_open(-1)

    def _go_to_open(self, step: int) -> None:
        screen, table = self._screen, self._screen.table
        opens = [row.oid for row in table.shown.rows if row.is_open]
        if not opens:
            raise RefusedError("Nothing that is shown is open", "", "esc clears the filter, which hides what is.")
        closed = {table.shown.group_of.get(oid, "") for oid in opens} & screen.folded
        if closed:
            screen.folded -= closed
            screen.rearrange()
        places = sorted(table.shown.places[oid] for oid in opens if oid in table.shown.places)
        self.go_round(places, step)

    # finding

    def filter(self) -> None:
        """Open the prompt with the filter that holds."""
        self._screen.open_filter(FILTER, self._screen.query_text)

    def filter_to(self, text: str) -> None:
        """Show only changes that the filter lets through."""
        if text.strip() != self._screen.query_text:
            self._screen.query_text = text.strip()
            self._screen.rearrange()

    async def filter_by(self) -> None:
        """Choose a filter from a list."""
        offered = filters_for(self._screen.table.row)
        names = [f"{says}{f'  {terms}' if terms else ''}" for terms, says in offered]
        holds = [name for name, (terms, _) in zip(names, offered, strict=True) if terms == self._screen.query_text]
        chosen = await self._screen.app.push_screen_wait(Choose("show only", names, next(iter(holds), ""), "F"))
        if chosen is not None:
            self.filter_to(offered[names.index(chosen)][0])

    def only_needing(self) -> None:
        """Only what is undecided or held, or all again."""
        self._screen.only_open = not self._screen.only_open
        self._screen.rearrange()

    def back(self) -> None:
        """Peel off one layer: the zoomed pane, the filter, the restriction; then back to where one came from."""
        screen = self._screen
        if screen.is_zoomed:
            screen.zoom(False)
        elif screen.query_text:
            self.filter_to("")
        elif screen.only_open:
            self.only_needing()
        else:
            screen.app.pop_screen()

    # the diff

    def next_hunk(self) -> None:
        """To the next hunk."""
        if not self._screen.pane.diff.go_to_hunk(1):
            raise RefusedError("This is the last hunk")

    def previous_hunk(self) -> None:
        """To the hunk before."""
        if not self._screen.pane.diff.go_to_hunk(-1):
            raise RefusedError("This is the first hunk")

    def next_file(self) -> None:
        """To the next file."""
        if not self._screen.pane.diff.go_to_file(1):
            raise RefusedError("This is the last file")

    def previous_file(self) -> None:
        """To the file before."""
        if not self._screen.pane.diff.go_to_file(-1):
            raise RefusedError("This is the first file")

    def fold_hunk(self) -> None:
        """Fold the chosen hunk, or open it."""
        self._screen.pane.diff.fold_hunk()

    def fold_file(self) -> None:
        """Fold the file, or open it."""
        self._screen.pane.diff.fold_file()

    def sides(self) -> None:
        """One column, or two."""
        self._screen.pane.diff.toggle_sides()

    # the right pane

    def open(self) -> None:
        """The right pane over all, or back; a group opens or closes."""
        line = self._screen.table.line
        if isinstance(line, ReviewGroup):
            self.fold(line, not line.is_folded)
        elif isinstance(line, ReviewRow):
            self._screen.zoom(not self._screen.is_zoomed)

    def show_diff(self) -> None:
        """What it changes."""
        self._show("diff")

    def show_members(self) -> None:
        """The commits that make it."""
        self._show("members")

    def show_evidence(self) -> None:
        """What its agents said."""
        self._show("evidence")

    def show_needs(self) -> None:
        """What it needs, and what needs it."""
        self._show("needs")

    def show_alternatives(self) -> None:
        """What is nearly the same."""
        self._show("alternatives")

    def conflicts(self) -> None:
        """What it is in conflict with."""
        self._show("needs")

    def next_tab(self) -> None:
        """The next of the right pane."""
        self._show(TABS[(TABS.index(self._screen.pane.tab) + 1) % len(TABS)])

    def previous_tab(self) -> None:
        """The one before."""
        self._show(TABS[TABS.index(self._screen.pane.tab) - 1])

    def _show(self, tab: ReviewTab) -> None:
        screen = self._screen
        if screen.is_narrow:
            screen.zoom(True)
        screen.pane.show_tab(tab)
        screen.sight.tab_changed()
        screen.show_frame()

    # the program

    def fleet(self) -> None:
        """To the fleet."""
        app = self._screen.app
        while app.screen is not self._screen.fleet:
            app.pop_screen()
