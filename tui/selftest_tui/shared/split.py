"""A main screen with a table on the left and a pane on the right, which lies over the table on narrow terminals.

Base of the screens of fleet, run, review and tutorial: the keys that move the cursor, the prompt at the bottom, the
right pane, the problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from selftest_tui.shared.filter import problem_of
from selftest_tui.shared.keyed import KeyedScreen

if TYPE_CHECKING:
    from typing import Protocol

    from textual import events

    from selftest_core.fleet.view import Problem
    from selftest_tui.shared.filter import Language
    from selftest_tui.shared.widgets.cursor_table import CursorTable
    from selftest_tui.shared.widgets.prompt import Prompt

    class Pane(Protocol):
        """What lies on the right."""

        def scroll_text(self, lines: int) -> None: ...


NARROW = 100
"""Columns below which the right pane is a key away."""
SCROLL_LINES = 5
"""Lines that J and K scroll."""


class SplitScreen(KeyedScreen):
    """Has a table, a pane and a prompt once it is mounted."""

    table: CursorTable[Any]
    pane: Pane
    prompt: Prompt

    def show_frame(self) -> None:
        """Say in the frame what is shown, and in the key line what works now."""
        raise NotImplementedError

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All that does not work right now, the gravest first."""
        raise NotImplementedError

    @property
    def field(self) -> Prompt:
        """What is typed behind a key that opens the prompt is for it."""
        return self.prompt

    def open_prompt(self, purpose: str, sign: str, hint: str, text: str = "") -> None:
        """Open the prompt in place of the key line."""
        self.add_class("-asking")
        self.prompt.ask(purpose, sign, hint, text)

    def open_filter(self, language: Language, text: str) -> None:
        """Open the prompt with the filter that holds; it shows what it cannot understand while it is typed."""
        self.open_prompt("filter", "/", "⏎ keep  esc clear", text)
        self.prompt.check(lambda query: problem_of(query, language))

    # moving the cursor

    def do_down(self) -> None:
        """One line down."""
        self._move_by(1)

    def do_up(self) -> None:
        """One line up."""
        self._move_by(-1)

    def do_page_down(self) -> None:
        """One page down."""
        self._move_by(self.table.page - 1)

    def do_page_up(self) -> None:
        """One page up."""
        self._move_by(1 - self.table.page)

    def do_first(self) -> None:
        """To the first line."""
        self.table.go_to(0)

    def do_last(self) -> None:
        """To the last line."""
        self.table.go_to(len(self.table.lines))

    def _move_by(self, lines: int) -> None:
        self.table.go_to(self.table.cursor + lines)

    def go_round(self, places: list[int], step: int) -> None:
        """To the next (1) or previous (-1) of these places, in order and at least one; past the end, to the first."""
        ahead = [place for place in places if place > self.table.cursor]
        behind = [place for place in places if place < self.table.cursor]
        self.table.go_to((ahead or places)[0] if step > 0 else (behind or places)[-1])

    def do_close_group(self) -> None:
        """Fold the group that the cursor is in."""
        group = self.table.group
        if group is not None and not group.is_folded:
            self.fold(group, True)

    def do_open_group(self) -> None:
        """Unfold the group under the cursor."""
        group = self.table.group
        if group is not None and group.is_folded:
            self.fold(group, False)

    def fold(self, group: Any, closed: bool) -> None:
        """Fold one of the table's groups, or unfold it; the cursor goes to its title."""
        raise NotImplementedError

    # the prompt

    def do_prompt_up(self) -> None:
        """One line up, while a filter is typed."""
        self._move_by(-1)

    def do_prompt_down(self) -> None:
        """One line down, while a filter is typed."""
        self._move_by(1)

    def do_prompt_cancel(self) -> None:
        """Leave the prompt."""
        self.prompt.cancel()

    def leave_prompt(self) -> None:
        """Show the key line again, in place of the prompt."""
        self.remove_class("-asking")
        self.table.focus()

    # the right pane

    def do_zoom(self) -> None:
        """The right pane over the table, or back."""
        self.zoom(not self.is_zoomed)

    def do_scroll_down(self) -> None:
        """Scroll the right pane down."""
        self.pane.scroll_text(SCROLL_LINES)

    def do_scroll_up(self) -> None:
        """Scroll the right pane up."""
        self.pane.scroll_text(-SCROLL_LINES)

    @property
    def is_narrow(self) -> bool:
        """The right pane lies over the table, or is closed."""
        return self.has_class("-narrow")

    @property
    def is_zoomed(self) -> bool:
        """The right pane covers the table."""
        return self.has_class("-zoomed")

    @property
    def pane_is_open(self) -> bool:
        """The right pane is on the screen."""
        return self.is_zoomed or not self.is_narrow

    def zoom(self, on: bool) -> None:
        """The right pane over the table, or beside it (on narrow terminals: away)."""
        self.set_class(on, "-zoomed")
        self.show_frame()

    def on_resize(self, event: events.Resize) -> None:
        """Narrow terminals are one class."""
        self.set_class(event.size.width < NARROW, "-narrow")

    # problems

    def do_problems(self) -> None:
        """Show the problems and the last messages."""
        from selftest_tui.shared.dialogs.help import problems_page  # not needed for the first frame

        self.app.push_screen(problems_page(self.problems, self.said))

    def on_banner_clicked(self) -> None:
        """Show the problems."""
        self.action_press("problems")
