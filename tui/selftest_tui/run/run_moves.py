"""What the keys of a run's screen do that change nothing but what is shown: moving, finding, the right pane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.run.lines import FILTER, RunGroup, key_of
from selftest_tui.shared.table_moves import TableMoves

if TYPE_CHECKING:
    from selftest_tui.run.pane import RunTab
    from selftest_tui.run.screen import RunScreen


class RunMoves(TableMoves):
    """The harmless half of the acts behind the keys of one run's screen."""

    _screen: RunScreen

    # moving

    def fold(self, group: RunGroup, closed: bool) -> None:
        """Fold a cluster or a state, or unfold it; the cursor goes to its title."""
        screen = self._screen
        screen.table.go_to_key(key_of(group))
        screen.folded = screen.folded | {group.key} if closed else screen.folded - {group.key}
        screen.rearrange()

    def next_needing(self) -> None:
        """To the next test whose agent needs a person."""
        self._go_to_needing(1)

    def previous_needing(self) -> None:
        """To the one before."""
        self._go_to_needing(-1)

    def _go_to_needing(self, step: int) -> None:
        table, run = self._screen.table, self._screen.run_now
        if run is None:
            return
        needing = [name for name, row in run.rows.items() if row.attention and row.end is None]
        closed = {table.shown.group_of.get(name, "") for name in needing} & self._screen.folded
        if closed or not all(name in table.shown.places for name in needing):
            self._screen.folded -= closed
            self._screen.query_text = ""
            self._screen.rearrange()
        places = sorted(table.shown.places[name] for name in needing)
        self.go_round(places, step)

    # finding

    def filter(self) -> None:
        """Open the prompt with the filter that holds."""
        self._screen.open_filter(FILTER, self._screen.query_text)

    def only_needing(self) -> None:
        """Only what is open, or all again."""
        self._screen.only_open = not self._screen.only_open
        self._screen.rearrange()

    def back(self) -> None:
        """Peel off one layer: the zoomed pane, the filter, the restriction; then back to the fleet."""
        screen = self._screen
        if screen.is_zoomed:
            screen.zoom(False)
        elif screen.query_text:
            screen.filter_by("")
        elif screen.only_open:
            self.only_needing()
        else:
            screen.app.pop_screen()

    # the right pane

    def outcome(self) -> None:
        """What its agent reported."""
        self._toggle("outcome")

    def preview(self) -> None:
        """Its terminal."""
        self._toggle("terminal")

    def details(self) -> None:
        """All that is known."""
        self._toggle("details")

    def artifacts(self) -> None:
        """The files that came back."""
        self._toggle("artifacts")

    def _toggle(self, tab: RunTab) -> None:
        """Show a tab; on narrow terminals, asking for the one that is shown closes the pane."""
        screen = self._screen
        if screen.is_narrow:
            screen.zoom(not (screen.is_zoomed and screen.pane.tab == tab))
        screen.pane.show_tab(tab)
