"""What the keys of a run's screen do that change nothing but what is shown: moving, finding, the right pane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.run_lines import RunGroup, key_of
from selftest_tui.screens.help import problems_page

if TYPE_CHECKING:
    from selftest_tui.screens.run import RunScreen
    from selftest_tui.widgets.run_pane import RunTab

SCROLL_LINES = 5
"""Lines that J and K scroll."""


class RunMoves:
    """The harmless half of the acts behind the keys of one run's screen."""

    def __init__(self, screen: RunScreen) -> None:
        self._screen = screen

    # moving

    def down(self) -> None:
        """One line down."""
        self._move(1)

    def up(self) -> None:
        """One line up."""
        self._move(-1)

    def page_down(self) -> None:
        """One page down."""
        self._move(self._screen.table.page - 1)

    def page_up(self) -> None:
        """One page up."""
        self._move(1 - self._screen.table.page)

    def first(self) -> None:
        """To the top."""
        self._screen.table.go_to(0)

    def last(self) -> None:
        """To the bottom."""
        self._screen.table.go_to(len(self._screen.table.shown.lines))

    def _move(self, lines: int) -> None:
        table = self._screen.table
        table.go_to(table.cursor + lines)

    def close_group(self) -> None:
        """Fold the group that the cursor is in; the cursor goes to its title."""
        group = self._screen.table.group
        if group is not None and not group.is_folded:
            self.fold(group, True)

    def open_group(self) -> None:
        """Unfold the group under the cursor."""
        group = self._screen.table.group
        if group is not None and group.is_folded:
            self.fold(group, False)

    def fold(self, group: RunGroup, closed: bool) -> None:
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
        ahead = [place for place in places if place > table.cursor]
        behind = [place for place in places if place < table.cursor]
        table.go_to((ahead or places)[0] if step > 0 else (behind or places)[-1])

    # finding

    def filter(self) -> None:
        """Open the prompt with the filter that holds."""
        self._screen.ask_filter()

    def only_open(self) -> None:
        """Only what is open, or all again."""
        self._screen.only_open = not self._screen.only_open
        self._screen.rearrange()

    def clear(self) -> None:
        """Peel off one layer: the zoomed pane, the filter, the restriction; then back to the fleet."""
        screen = self._screen
        if screen.is_zoomed:
            screen.zoom(False)
        elif screen.query_text:
            screen.filter_by("")
        elif screen.only_open:
            self.only_open()
        else:
            screen.app.pop_screen()

    def prompt_up(self) -> None:
        """The cursor, while typing."""
        self._move(-1)

    def prompt_down(self) -> None:
        """The cursor, while typing."""
        self._move(1)

    def prompt_cancel(self) -> None:
        """Leave the prompt."""
        self._screen.prompt.cancel()

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

    def zoom(self) -> None:
        """The right pane over all, or back."""
        self._screen.zoom(not self._screen.is_zoomed)

    def scroll_down(self) -> None:
        """The right pane, down."""
        self._screen.pane.scroll_text(SCROLL_LINES)

    def scroll_up(self) -> None:
        """The right pane, up."""
        self._screen.pane.scroll_text(-SCROLL_LINES)

    # the program

    def problems(self) -> None:
        """What does not work."""
        self._screen.app.push_screen(problems_page(self._screen.problems, self._screen.said))

    def theme(self) -> None:
        """Choose the colours."""
        self._screen.app.action_change_theme()
