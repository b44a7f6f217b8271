"""The keys of a review's screen that change only what is shown: moving, finding, the diff, the right pane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_tui.review.lines import FILTER, ReviewGroup, ReviewRow, filters_for
from selftest_tui.review.pane import TABS
from selftest_tui.shared.dialogs.choose import Choose
from selftest_tui.shared.filtered import FilteredScreen
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from selftest_core.review.changes.inputs import Request
    from selftest_core.review.state import ReviewState
    from selftest_tui.fleet.screen import FleetScreen
    from selftest_tui.review.feed import ReviewFeed
    from selftest_tui.review.pane import ReviewPane, ReviewTab
    from selftest_tui.review.table import LineTable


class ReviewMoves(FilteredScreen):
    """The part of a review's screen that keys reach without changing the review."""

    FILTER = FILTER
    UNSORTED = "the order of the branch"

    table: LineTable
    pane: ReviewPane
    feed: ReviewFeed

    def __init__(self, request: Request, fleet: FleetScreen, clock: Callable[[], float]) -> None:
        super().__init__()
        self.request = request
        self.fleet = fleet
        self.clock = clock
        self.state: ReviewState | None = None
        self.rows: tuple[ReviewRow, ...] = ()
        self.needle = ""
        self._match = -1

    # moving

    def do_next_needing(self) -> None:
        """Move to the next change that needs a person."""
        self._go_to_open(1)

    def do_previous_needing(self) -> None:
        """Move to the previous change that needs a person."""
        self._go_to_open(-1)

    def _go_to_open(self, step: int) -> None:
        table = self.table
        opens = [row.key for row in table.shown.rows if row.is_open]
        if not opens:
            raise RefusedError(
                "Nothing that is shown is open",
                "",
                f"{shown('review.back', 'esc')} clears the filter, which hides what is.",
            )
        closed = {table.shown.group_of.get(key, "") for key in opens} & self.folded
        if closed:
            self.folded -= closed
            self.rearrange()
        places = sorted(table.shown.places[key] for key in opens if key in table.shown.places)
        self.go_round(places, step)

    # finding

    async def do_filter_by(self) -> None:
        """Choose a filter from a list."""
        offered = filters_for(self.table.row)
        names = [f"{says}{f'  {terms}' if terms else ''}" for terms, says in offered]
        holds = [name for name, (terms, _) in zip(names, offered, strict=True) if terms == self.query_text]
        again = self.KEYS.row_now("filter_by")
        chosen = await self.app.push_screen_wait(Choose("show only", names, next(iter(holds), ""), again))
        if chosen is not None:
            self.filter_by(offered[names.index(chosen)][0])

    # the diff

    def do_next_hunk(self) -> None:
        """Move to the next hunk."""
        if not self.pane.shown_diff.go_to_hunk(1):
            raise RefusedError("This is the last hunk")

    def do_previous_hunk(self) -> None:
        """Move to the previous hunk."""
        if not self.pane.shown_diff.go_to_hunk(-1):
            raise RefusedError("This is the first hunk")

    def do_next_file(self) -> None:
        """Move to the next file."""
        if not self.pane.shown_diff.go_to_file(1):
            raise RefusedError("This is the last file")

    def do_previous_file(self) -> None:
        """Move to the previous file."""
        if not self.pane.shown_diff.go_to_file(-1):
            raise RefusedError("This is the first file")

    def do_fold_hunk(self) -> None:
        """Fold the chosen hunk, or open it."""
        self.pane.shown_diff.fold_hunk()

    def do_fold_file(self) -> None:
        """Fold the file, or open it."""
        self.pane.shown_diff.fold_file()

    def do_sides(self) -> None:
        """Switch between one column and two."""
        self.pane.shown_diff.toggle_sides()

    def do_search_text(self) -> None:
        """Ask for a text to search for in the diff."""
        self.open_prompt("search_diff", "~", "⏎ search  esc leave", self.needle)

    async def search(self, needle: str) -> None:
        """Move to the first line of the diff with this text."""
        self.needle = needle.strip()
        self.show_frame()
        if self.needle:
            self._go_to_match(1, from_row=-1)

    def do_next_hit(self) -> None:
        """Move to the next match; in a row of several texts mark the next one."""
        if self.pane.tab == "alternatives":
            self.pane.alternatives.walk(1)
        else:
            self._go_to_match(1, from_row=self._match)

    def do_previous_hit(self) -> None:
        """Move to the previous match; in a row of several texts mark the previous one."""
        if self.pane.tab == "alternatives":
            self.pane.alternatives.walk(-1)
        else:
            self._go_to_match(-1, from_row=self._match)

    def _go_to_match(self, step: int, from_row: int) -> None:
        """Move to the next (1) or previous (-1) match, wrapping around, and tell which one it is."""
        rows = self.pane.shown_diff.find(self.needle)
        if not rows:
            raise RefusedError(f"“{self.needle}” is not in this diff")
        ahead = [row for row in rows if row > from_row] if step > 0 else [row for row in rows if row < from_row]
        self._match = (ahead or rows)[0 if step > 0 else -1]
        self.pane.shown_diff.go_to_row(self._match)
        self.say(f"{rows.index(self._match) + 1} of {len(rows)}", f"“{self.needle}”")

    def do_copy_diff(self) -> None:
        """Copy the diff that is shown, as a patch."""
        self.app.copy_to_clipboard(self.pane.shown_diff.text)
        self.say("as a patch", "Diff copied")

    def do_original(self) -> None:
        """Show the agent's own commit, or what is applied again."""
        self.pane.toggle_original()

    # the right pane

    def do_open(self) -> None:
        """Zoom the right pane, or unzoom it; on a group, open or close it."""
        line = self.table.line
        if isinstance(line, ReviewGroup):
            self.fold(line, not line.is_folded)
        elif isinstance(line, ReviewRow):
            self.zoom(not self.is_zoomed)

    def do_show_diff(self) -> None:
        """Show the diff of the change."""
        self._show("diff")

    def do_show_members(self) -> None:
        """Show the commits of the change."""
        self._show("members")

    def do_show_evidence(self) -> None:
        """Show the reports of its agents."""
        self._show("evidence")

    def do_show_needs(self) -> None:
        """Show its dependencies, and the changes that depend on it."""
        self._show("needs")

    def do_show_alternatives(self) -> None:
        """Show the changes that say the same."""
        self._show("alternatives")

    def do_conflicts(self) -> None:
        """Show the changes that it conflicts with."""
        self._show("needs")

    def do_next_tab(self) -> None:
        """Show the next tab."""
        self._show(TABS[(TABS.index(self.pane.tab) + 1) % len(TABS)])

    def do_previous_tab(self) -> None:
        """Show the previous tab."""
        self._show(TABS[TABS.index(self.pane.tab) - 1])

    def _show(self, tab: ReviewTab) -> None:
        if self.is_narrow:
            self.zoom(True)
        self.pane.show_tab(tab)
        self.show_frame()

    # the program

    def do_fleet(self) -> None:
        """Return to the fleet."""
        app = self.app
        while app.screen is not self.fleet:
            app.pop_screen()
