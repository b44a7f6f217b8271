"""A question with more than two answers: the consequences, and a key for each answer.

The last answer changes nothing; it is the default, and escape is the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from selftest_core.frozen import dataclass
from selftest_tui.shared.present import clean
from selftest_tui.shared.widgets.screen_text import block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType


@dataclass(frozen=True, slots=True)
class Way:
    """One answer: its key, and its effect."""

    key: str
    label: str


class Options(ModalScreen[str]):
    """Returns the key of the chosen answer; "" if the user cancelled. `lines` are listed above the answers."""

    CSS_PATH = "options.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,ctrl+c,n", "leave", show=False),
        Binding("j", "move('down')", show=False),
        Binding("k", "move('up')", show=False),
        Binding("J,pagedown", "scroll_lines(5)", show=False),
        Binding("K,pageup", "scroll_lines(-5)", show=False),
    ]

    def __init__(self, title: str, says: str, lines: Sequence[str], ways: Sequence[Way]) -> None:
        super().__init__()
        self._title = clean(title)
        self._says = block(says)
        self.listed = [clean(line) for line in lines]
        self.ways = (*ways, Way("n", "Leave it as it is"))

    def compose(self) -> ComposeResult:
        """The consequences, and the answers."""
        with Vertical(id="dialog") as dialog:
            dialog.border_title = Content(self._title)
            dialog.border_subtitle = Content("⏎ choose   esc leave")
            if self._says:
                yield Static(Content(self._says), id="says")
            if self.listed:
                with VerticalScroll(id="lines", can_focus=False):
                    yield Static(Content("\n".join(self.listed)))
            ways = OptionList(*(Option(Content(f"{way.key}  {clean(way.label)}")) for way in self.ways), markup=False)
            ways.highlighted = len(self.ways) - 1
            yield ways

    def on_mount(self) -> None:
        """Focus the list."""
        self.query_one(OptionList).focus()

    def on_key(self, event: events.Key) -> None:
        """Choose the answer with this key."""
        if any(way.key == event.character for way in self.ways[:-1]):
            event.stop()
            self.dismiss(event.character or "")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Return the chosen one."""
        is_last = event.option_index == len(self.ways) - 1
        self.dismiss("" if is_last else self.ways[event.option_index].key)

    def action_leave(self) -> None:
        """Leave everything as it is."""
        self.dismiss("")

    def action_move(self, way: str) -> None:
        """Move up or down."""
        ways = self.query_one(OptionList)
        if way == "down":
            ways.action_cursor_down()
        else:
            ways.action_cursor_up()

    def action_scroll_lines(self, lines: int) -> None:
        """Scroll the list."""
        for box in self.query("#lines").results(VerticalScroll):
            box.scroll_relative(y=lines, animate=False, immediate=True)
