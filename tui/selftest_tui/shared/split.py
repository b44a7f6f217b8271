"""A main screen with a table on the left and a pane on the right, which lies over the table on narrow terminals.

Base of the screens of fleet, run, review and tutorial: the keys that move the cursor, the prompt at the bottom, the
right pane, the split and the columns, which the user chooses and which are stored, and the problems.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from textual.message import Message
from textual.widget import Widget

from selftest_core.errors import RefusedError
from selftest_tui.shared.commands import command_named, named, problem_of_command, with_aliases
from selftest_tui.shared.filter import problem_of
from selftest_tui.shared.keyed import KeyedScreen
from selftest_tui.shared.preferences import LEAST_SPLIT, MOST_SPLIT
from selftest_tui.shared.widgets.columns import chosen_again, clicked_again

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Protocol

    from textual import events

    from selftest_core.config import Config
    from selftest_core.fleet.view import Problem
    from selftest_tui.shared.filter import Language
    from selftest_tui.shared.preferences import PreferenceStore
    from selftest_tui.shared.widgets.columns import Choice, Sort
    from selftest_tui.shared.widgets.cursor_table import CursorTable
    from selftest_tui.shared.widgets.prompt import Prompt
    from selftest_tui.shared.widgets.table_messages import HeadingClicked

    class Pane(Protocol):
        """The right pane, a widget."""

        def scroll_text(self, lines: int) -> None: ...
        def pan_text(self, cells: int) -> None: ...


NARROW = 100
"""Columns below which the right pane is a key away."""
SCROLL_LINES = 5
"""Lines that J and K scroll."""
STEP = 4
"""Cells by which a key moves the split."""
PAN_CELLS = 20
"""Cells that shift+arrows scroll sideways."""


class SplitScreen(KeyedScreen):
    """Main screen with a table, a pane and a prompt once it is mounted."""

    UNSORTED: ClassVar[str] = ""
    """The order of lines that no column sorts, in words; empty where columns do not sort them."""

    table: CursorTable[Any]
    pane: Pane
    prompt: Prompt
    _is_dragging = False
    _commands: Mapping[str, Callable[[], object]] = MappingProxyType({})

    def rearrange(self) -> None:
        """Lay the lines out anew."""
        raise NotImplementedError

    def show_frame(self) -> None:
        """Show the title of the frame, and the keys that work now."""
        raise NotImplementedError

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All present problems, the gravest first."""
        raise NotImplementedError

    @property
    def field(self) -> Prompt:
        """The prompt."""
        return self.prompt

    def open_prompt(self, purpose: str, sign: str, hint: str, text: str = "") -> None:
        """Open the prompt in place of the key line."""
        self.add_class("-asking")
        self.prompt.ask(purpose, sign, hint, text)

    def open_filter(self, language: Language, text: str) -> None:
        """Open the prompt with the present filter; it shows the problem of a term while it is typed."""
        self.open_prompt("filter", "/", "⏎ keep  esc clear", text)
        self.prompt.check(lambda query: problem_of(query, language))

    # moving the cursor

    def do_down(self) -> None:
        """Move one line down."""
        self._move_by(1)

    def do_up(self) -> None:
        """Move one line up."""
        self._move_by(-1)

    def do_page_down(self) -> None:
        """Move one page down."""
        self._move_by(self.table.page - 1)

    def do_page_up(self) -> None:
        """Move one page up."""
        self._move_by(1 - self.table.page)

    def do_first(self) -> None:
        """Move to the first line."""
        self.table.go_to(0)

    def do_last(self) -> None:
        """Move to the last line."""
        self.table.go_to(len(self.table.lines))

    def _move_by(self, lines: int) -> None:
        self.table.go_to(self.table.cursor + lines)

    def go_round(self, places: list[int], step: int) -> None:
        """Move to the next (1) or previous (-1) of these places (in order, at least one), wrapping around."""
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
        """Move one line up while the user types a filter."""
        self._move_by(-1)

    def do_prompt_down(self) -> None:
        """Move one line down while the user types a filter."""
        self._move_by(1)

    def do_prompt_cancel(self) -> None:
        """Leave the prompt."""
        self.prompt.cancel()

    @property
    def settings(self) -> Config | None:
        """The settings; None in an app that has none."""
        return getattr(self.app, "settings", None)

    def commands(self) -> dict[str, Callable[[], object]]:
        """The commands of `:` by name, without aliases."""
        return {key.action: partial(self.run_press, key) for key in named(self.KEYS.rows) if key.action != "command"}

    def do_command(self) -> None:
        """Ask for the name of a command."""
        aliases = self.settings.aliases if self.settings is not None else {}
        self._commands = with_aliases(self.commands(), aliases)
        self.add_class("-asking")
        self.prompt.ask_command(self._commands, lambda text: problem_of_command(text, self._commands, aliases))

    def on_prompt_command_given(self, event: Prompt.CommandGiven) -> None:
        """Run the command, as its key would."""
        self.leave_prompt()
        name = command_named(event.text, self._commands) if event.text.strip() else None
        if name is not None:
            self.call_later(self._commands[name])

    def leave_prompt(self) -> None:
        """Show the key line again, in place of the prompt."""
        self.remove_class("-asking")
        self.table.focus()

    # columns

    @property
    def _preferences(self) -> PreferenceStore | None:
        """The user's choices; None in an app that stores none."""
        return getattr(self.app, "preferences", None)

    @property
    def chosen_columns(self) -> Mapping[str, Choice]:
        """The user's choice of columns for this table."""
        store = self._preferences
        return store.now.columns.get(self.table.columns.columns.table, {}) if store is not None else {}

    def keep_columns(self, choices: Mapping[str, Choice]) -> None:
        """Show the table with these choices of columns, and remember them."""
        self.table.choose_columns(choices)
        if (store := self._preferences) is not None:
            store.choose_columns(self.table.columns.columns.table, choices)
            self._tell_of_preferences(store)

    @property
    def hides_old_agents(self) -> bool:
        """True if the user chose to hide agents of old runs."""
        store = self._preferences
        return store.now.hides_old_agents if store is not None else False

    def keep_hiding(self, hides: bool) -> None:
        """Remember whether agents of old runs are hidden."""
        if (store := self._preferences) is not None:
            store.hide_old_agents(hides)
            self._tell_of_preferences(store)

    def _tell_of_preferences(self, store: PreferenceStore) -> None:
        if store.notice:
            self.say(store.notice, "Preferences", "warning")
            store.notice = ""

    def do_sort(self) -> None:
        """Choose the column by which the lines of each group are sorted."""
        from selftest_tui.shared.dialogs.choose import Choose  # not needed for the first frame

        layout = self.table.columns
        titles = {one.title: one.name for one in layout.columns.columns}
        current = layout.sorted_by.removesuffix(", reversed") or self.UNSORTED

        def chosen(title: str | None) -> None:
            if title is not None:
                self.sort_by(chosen_again(layout.sort, titles[title]) if title in titles else None)

        choices, again = [self.UNSORTED, *titles], self.KEYS.row_now("sort")
        self.app.push_screen(Choose("sort by; the same again: reversed", choices, current, again), chosen)

    def sort_by(self, sort: Sort | None) -> None:
        """Sort the lines of each group by a column, or not. Lines with an order of their own stay as they are."""
        if self.UNSORTED:
            self.table.columns.sort = sort
            self.table.columns_moved()
            self.rearrange()

    def on_heading_clicked(self, event: HeadingClicked) -> None:
        """Sort by the column that was clicked, then reversed, then as before."""
        self.sort_by(clicked_again(self.table.columns.sort, event.column))

    def do_choose_columns(self) -> None:
        """Choose the columns of the table."""
        from selftest_tui.shared.dialogs.columns import ChooseColumns  # not needed for the first frame

        def chosen(choices: Mapping[str, Choice] | None) -> None:
            if choices is not None:
                self.keep_columns(choices)

        shown = [one.column.name for one in self.table.columns.place(self.table.scrollable_content_region.width)]
        dialog = ChooseColumns(self.table.columns.columns.optional(), self.chosen_columns, shown)
        self.app.push_screen(dialog, chosen)

    # the split

    def do_table_wider(self) -> None:
        """Move the split to the right."""
        self.move_split(STEP)

    def do_table_narrower(self) -> None:
        """Move the split to the left."""
        self.move_split(-STEP)

    def on_mount(self) -> None:
        """Show what was chosen before. Called after the screen's own."""
        self.table.choose_columns(self.chosen_columns)
        self._lay_split_out()

    @property
    def _share(self) -> float | None:
        """The table's share of the width, if the user chose one."""
        store = self._preferences
        return store.now.splits.get(self.table.columns.columns.table) if store is not None else None

    @property
    def _frame_of_table(self) -> Widget:
        frame = self.table.parent
        assert isinstance(frame, Widget)
        return frame

    def _lay_split_out(self) -> None:
        """Set the widths of table and pane: the user's if they are side by side, else those of the style sheet."""
        frame, pane, share = self._frame_of_table, self.pane, self._share
        assert isinstance(pane, Widget)
        for widget in (frame, pane):
            for rule in ("width", "min_width", "max_width"):
                widget.styles.clear_rule(rule)
        if share is not None and not self.is_narrow and not self.is_zoomed:
            for widget in (frame, pane):
                widget.styles.min_width, widget.styles.max_width = 10, "100%"
            frame.styles.width, pane.styles.width = f"{share * 100:.2f}%", "1fr"

    def move_split(self, cells: int) -> None:
        """Make the table wider by so many cells (narrower where negative), and remember it."""
        if self.is_narrow or self.is_zoomed:
            why = f"Below {NARROW} columns the right pane covers the table." if self.is_narrow else ""
            raise RefusedError("Table and pane are not beside each other now", why)
        self._split_at(self._frame_of_table.outer_size.width + cells)
        self._keep_split()

    def _split_at(self, x: int) -> None:
        width = max(1, self.size.width)
        share = min(MOST_SPLIT, max(LEAST_SPLIT, x / width))
        if (store := self._preferences) is not None:
            store.now = replace(store.now, splits={**store.now.splits, self.table.columns.columns.table: share})
        self._lay_split_out()

    def _keep_split(self) -> None:
        store, share = self._preferences, self._share
        if store is not None and share is not None:
            store.split(self.table.columns.columns.table, share)
            self._tell_of_preferences(store)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Start dragging the border between table and pane."""
        frame = self._frame_of_table
        is_beside = not self.is_narrow and not self.is_zoomed
        if (
            is_beside
            and frame.region.right - 1 <= event.screen_x <= frame.region.right
            and (frame.region.y <= event.screen_y < frame.region.bottom)
        ):
            frame.capture_mouse()
            self._is_dragging = True
            event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Move the split with the mouse."""
        if self._is_dragging:
            self._split_at(int(event.screen_x) + 1)

    def on_mouse_up(self) -> None:
        """Remember where the split was left."""
        if self._is_dragging:
            self._is_dragging = False
            self._frame_of_table.release_mouse()
            self._keep_split()

    # the right pane

    def do_zoom(self) -> None:
        """Zoom the right pane, or unzoom it."""
        self.zoom(not self.is_zoomed)

    def do_scroll_down(self) -> None:
        """Scroll the right pane down."""
        self.pane.scroll_text(SCROLL_LINES)

    def do_scroll_up(self) -> None:
        """Scroll the right pane up."""
        self.pane.scroll_text(-SCROLL_LINES)

    def do_pan_right(self) -> None:
        """Scroll the right pane to the right."""
        self.pane.pan_text(PAN_CELLS)

    def do_pan_left(self) -> None:
        """Scroll the right pane to the left."""
        self.pane.pan_text(-PAN_CELLS)

    @property
    def is_narrow(self) -> bool:
        """True if the right pane covers the table, or is closed."""
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
        """Show the right pane over the table, or beside it; on narrow terminals, show or hide it."""
        self.set_class(on, "-zoomed")
        self._lay_split_out()
        self.show_frame()

    def on_resize(self, event: events.Resize) -> None:
        """Set the class of narrow terminals."""
        self.set_class(event.size.width < NARROW, "-narrow")
        self._lay_split_out()

    # search

    class SearchWanted(Message):
        """A request to search everything that agents did. `folder`: in its repository; None for the app's."""

        def __init__(self, folder: Path | None) -> None:
            super().__init__()
            self.folder = folder

    @property
    def repository_folder(self) -> Path | None:
        """A folder in the repository that this screen is about; None for the one that the app was started in."""
        return None

    def do_search_all(self) -> None:
        """Search everything that agents did."""
        self.post_message(self.SearchWanted(self.repository_folder))

    # problems

    def do_problems(self) -> None:
        """Show the problems and the last messages."""
        from selftest_tui.shared.dialogs.help import problems_page  # not needed for the first frame

        self.clear_toasts()
        self.app.push_screen(problems_page(self.problems, self.said))

    def on_banner_clicked(self) -> None:
        """Show the problems."""
        self.action_press("problems")
