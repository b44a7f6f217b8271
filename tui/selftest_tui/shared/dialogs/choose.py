"""A choice from a short list, as for `g` and `o`. Returns the chosen value, None for none."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from selftest_tui.shared.keys import Key


class Choose(ModalScreen[str | None]):
    """Offers `choices`. `again`: what opened it; its keys move down here, so pressing one twice chooses the next."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,ctrl+c", "choose_nothing", show=False),
        Binding("j", "move('down')", show=False),
        Binding("k", "move('up')", show=False),
    ]
    CSS_PATH = "choose.tcss"

    def __init__(self, title: str, choices: Sequence[str], current: str, again: Key) -> None:
        super().__init__()
        self._title = title
        self._choices = tuple(choices)
        self._current = current
        self._again = again

    def compose(self) -> ComposeResult:
        """The list, with the current choice under the cursor."""
        options = [
            Option(Content(f"{'●' if choice == self._current else ' '} {present.clean(choice)}"))
            for choice in self._choices
        ]
        chooser = OptionList(*options, markup=False)
        chooser.border_title = Content(self._title)
        following = f"{self._again.shows} next  " if self._again.keys else ""
        chooser.border_subtitle = Content(f"{following}⏎ choose  esc back")
        if self._current in self._choices:
            chooser.highlighted = self._choices.index(self._current)
        yield chooser

    def on_mount(self) -> None:
        """Bind the keys that open it."""
        for key in self._again.keys:
            self._bindings.bind(key, "move('down')", show=False)

    def action_move(self, way: str) -> None:
        """Move up or down, wrapping around."""
        chooser = self.query_one(OptionList)
        if way == "down":
            chooser.action_cursor_down()
        else:
            chooser.action_cursor_up()

    def action_choose_nothing(self) -> None:
        """Return nothing."""
        self.dismiss(None)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Return the chosen one."""
        self.dismiss(self._choices[event.option_index])
