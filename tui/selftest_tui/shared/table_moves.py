"""What the keys of every main screen do alike: the cursor, the prompt, scrolling the right pane, problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from selftest_tui.shared.dialogs.help import problems_page

if TYPE_CHECKING:
    from selftest_tui.shared.split import SplitScreen

SCROLL_LINES = 5
"""Lines that J and K scroll."""


class TableMoves:
    """One method for each action, named as it is in the tables of keys."""

    def __init__(self, screen: SplitScreen) -> None:
        self._screen = screen

    def do(self, action: str) -> object:
        """Do what the key table calls `action`; an awaitable where it takes time."""
        done: object = getattr(self, action)()
        return done

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
        self._screen.table.go_to(len(self._screen.table.lines))

    def _move(self, lines: int) -> None:
        table = self._screen.table
        table.go_to(table.cursor + lines)

    def go_round(self, places: list[int], step: int) -> None:
        """To the next (1) or previous (-1) of these places, which are in order and at least one, round the end."""
        cursor = self._screen.table.cursor
        ahead = [place for place in places if place > cursor]
        behind = [place for place in places if place < cursor]
        self._screen.table.go_to((ahead or places)[0] if step > 0 else (behind or places)[-1])

    # groups

    def close_group(self) -> None:
        """Fold the group that the cursor is in."""
        group = self._screen.table.group
        if group is not None and not group.is_folded:
            self.fold(group, True)

    def open_group(self) -> None:
        """Unfold the group under the cursor."""
        group = self._screen.table.group
        if group is not None and group.is_folded:
            self.fold(group, False)

    def fold(self, group: Any, closed: bool) -> None:
        """Fold one of the table's groups, or unfold it; the cursor goes to its title."""
        raise NotImplementedError

    # the prompt

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

    def zoom(self) -> None:
        """The right pane over all, or back."""
        self._screen.zoom(not self._screen.is_zoomed)

    def scroll_down(self) -> None:
        """The right pane, down."""
        self._screen.pane.scroll_text(SCROLL_LINES)

    def scroll_up(self) -> None:
        """The right pane, up."""
        self._screen.pane.scroll_text(-SCROLL_LINES)

    def pan_right(self) -> None:
        """The right pane, to the right."""
        self._screen.do_pan_right()

    def pan_left(self) -> None:
        """The right pane, to the left."""
        self._screen.do_pan_left()

    # the table

    def table_wider(self) -> None:
        """Move the split to the right."""
        self._screen.do_table_wider()

    def table_narrower(self) -> None:
        """Move the split to the left."""
        self._screen.do_table_narrower()

    def choose_columns(self) -> None:
        """Choose the columns of the table."""
        self._screen.do_choose_columns()

    # the program

    def problems(self) -> None:
        """What does not work."""
        self._screen.app.push_screen(problems_page(self._screen.problems, self._screen.said))
