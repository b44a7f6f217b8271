"""The columns of a table to choose from: each by itself (where there is room), always, or never.

Returns the choices, None if the user cancelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from selftest_tui.shared import present
from selftest_tui.shared.widgets.columns import Choice

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from selftest_tui.shared.widgets.columns import Column

_NEXT: dict[Choice | None, Choice | None] = {None: Choice.ALWAYS, Choice.ALWAYS: Choice.NEVER, Choice.NEVER: None}
_SIGNS = {None: "auto  ", Choice.ALWAYS: "always", Choice.NEVER: "never "}


class ChooseColumns(ModalScreen["Mapping[str, Choice] | None"]):
    """Offers `columns`; `shown` are the names of those that are on the screen now."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,ctrl+c", "leave", show=False),
        Binding("enter", "accept", show=False, priority=True),
        Binding("space", "change", show=False, priority=True),
        Binding("0", "reset", show=False),
        Binding("j", "move('down')", show=False),
        Binding("k", "move('up')", show=False),
    ]
    CSS_PATH = "choose.tcss"

    def __init__(self, columns: Sequence[Column[Any]], chosen: Mapping[str, Choice], shown: Sequence[str]) -> None:
        super().__init__()
        self._columns = tuple(columns)
        self.choices = {name: choice for name, choice in chosen.items() if choice}
        self._shown = frozenset(shown)

    def compose(self) -> ComposeResult:
        """A framed list, one line for each column."""
        chooser = OptionList(*(Option(self._line(column)) for column in self._columns), markup=False)
        chooser.border_title = Content("columns")
        chooser.border_subtitle = Content("space change  0 all auto  ⏎ keep  esc back")
        yield chooser

    def _line(self, column: Column[Any]) -> Content:
        now = " (shown now)" if column.name in self._shown else ""
        name = present.fit(column.title or column.name, 30)
        return Content.assemble(f"{_SIGNS[self.choices.get(column.name)]}  {name}", (now, "$foreground-muted"))

    def action_change(self) -> None:
        """Select the next choice for the column under the cursor."""
        chooser = self.query_one(OptionList)
        if chooser.highlighted is None:
            return
        column = self._columns[chooser.highlighted]
        choice = _NEXT[self.choices.pop(column.name, None)]
        if choice is not None:
            self.choices[column.name] = choice
        chooser.replace_option_prompt_at_index(chooser.highlighted, self._line(column))

    def action_reset(self) -> None:
        """Reset all columns to be shown by width."""
        self.choices.clear()
        chooser = self.query_one(OptionList)
        for place, column in enumerate(self._columns):
            chooser.replace_option_prompt_at_index(place, self._line(column))

    def action_move(self, way: str) -> None:
        """Move up or down."""
        chooser = self.query_one(OptionList)
        if way == "down":
            chooser.action_cursor_down()
        else:
            chooser.action_cursor_up()

    def action_accept(self) -> None:
        """Keep the choices."""
        self.dismiss(dict(self.choices))

    def action_leave(self) -> None:
        """Leave the columns as they are."""
        self.dismiss(None)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Change a column by a click."""
        event.stop()
        self.action_change()
