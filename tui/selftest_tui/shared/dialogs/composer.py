"""The dialog for a message or a prompt, with its exact targets listed above it.

Enter sends; alt+enter or ctrl+j begins a new line, and a paste keeps its lines. The dialog returns the text and sends
nothing itself. A text that is left with escape is kept for the next time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Static, TextArea

from selftest_core.frozen import dataclass
from selftest_tui.shared.present import clean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.app import ComposeResult


@dataclass(frozen=True, slots=True)
class Composed:
    """The text. `is_sent` is False if the dialog was left; `with_enter`: press Enter after the text."""

    text: str
    is_sent: bool
    with_enter: bool = True


class PromptArea(TextArea):
    """A text area in which Enter submits."""

    class Submitted(Message):
        """Enter was pressed."""

    is_submitted = False
    """Keys after Enter are ignored."""

    def on_key(self, event: events.Key) -> None:
        if self.is_submitted:
            event.stop()
            event.prevent_default()
        elif event.key == "enter":
            event.stop()
            event.prevent_default()
            self.is_submitted = True
            self.post_message(self.Submitted())
        elif event.key in ("alt+enter", "ctrl+j", "shift+enter"):
            event.stop()
            event.prevent_default()
            self.insert("\n")


class Composer(ModalScreen["Composed | None"]):
    """Writes one text for the targets that it names. With `asks_enter` it also asks whether Enter follows the text.

    `send`: what Enter does, in the frame.
    """

    CSS_PATH = "composer.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave, keep the text")]

    def __init__(
        self,
        title: str,
        lines: Sequence[str],
        text: str = "",
        *,
        asks_enter: bool = False,
        may_be_empty: bool = False,
        send: str = "send",
    ) -> None:
        super().__init__()
        self._title = clean(title)
        self._lines = [clean(line) for line in lines]
        self._text = text
        self._asks_enter = asks_enter
        self._send = send
        self._may_be_empty = may_be_empty

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as dialog:
            dialog.border_title = Content(self._title)
            keys = f"⏎ {self._send}   alt+⏎ or ^j new line   esc leave"
            dialog.border_subtitle = Content(keys + ("   tab options" if self._asks_enter else ""))
            with VerticalScroll(id="lines", can_focus=False):
                yield Static(Content("\n".join(self._lines)))
            yield PromptArea(self._text, id="text", soft_wrap=True, show_line_numbers=False, tab_behavior="focus")
            if self._asks_enter:
                yield Checkbox("press Enter after the text", value=True, id="enter")

    def on_mount(self) -> None:
        area = self.query_one(PromptArea)
        area.move_cursor(area.document.end)
        area.focus()

    def on_prompt_area_submitted(self, event: PromptArea.Submitted) -> None:
        event.stop()
        written = self._written(is_sent=True)
        if written.text.strip() or self._may_be_empty or (self._asks_enter and written.with_enter):
            self.dismiss(written)
        else:
            self.query_one(PromptArea).is_submitted = False
            self.notify("Nothing is written yet.", markup=False)

    def action_leave(self) -> None:
        self.dismiss(self._written(is_sent=False))

    def _written(self, *, is_sent: bool) -> Composed:
        boxes = list(self.query("#enter").results(Checkbox))
        return Composed(self.query_one(PromptArea).text, is_sent, all(box.value for box in boxes))
