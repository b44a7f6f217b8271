"""A right pane with a terminal that the user can type into."""

from __future__ import annotations

from textual.content import Content
from textual.message import Message

from selftest_tui.fleet.pane.preview import PaneRef, Preview
from selftest_tui.fleet.pane.typist import OTHER_PANE, SUBTITLE, Typist
from selftest_tui.shared.widgets.tabs import TabbedPane


class TypingPane(TabbedPane):
    """Pane whose frame tells that every key goes to the agent. A subclass places `preview` and `typist`."""

    DEFAULT_CSS = """
    TypingPane.-typing {
        border: heavy $warning;
        border-title-color: $text-warning;
        border-subtitle-color: $text-warning;
        border-subtitle-style: bold;
    }
    """

    class TypingChanged(Message):
        """Typing into the terminal started or ended."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        # Kept as attributes: a thread's result may arrive while the screen is being removed.
        self.preview = Preview()
        self.typist = Typist()

    @property
    def is_typing(self) -> bool:
        """True while every key goes to the agent."""
        return self.typist.is_typing

    def stop_typing_elsewhere(self, pane: PaneRef | None) -> None:
        """Stop typing if it goes to another terminal than this one, which is shown now."""
        if self.is_typing and pane != self.typist.pane:
            self.typist.stop(OTHER_PANE)

    def on_typist_began(self, event: Typist.Began) -> None:
        """Show it in the frame and at the cursor of the terminal."""
        event.stop()
        self.add_class("-typing")
        self.preview.show_cursor(True)
        self.border_subtitle = Content(SUBTITLE)
        self.post_message(self.TypingChanged())

    def on_typist_ended(self, event: Typist.Ended) -> None:
        """Show the frame as before, and tell why if the user did not end it."""
        event.stop()
        self.remove_class("-typing")
        self.preview.show_cursor(False)
        self.border_subtitle = ""
        if event.why:
            self.notify(event.why, severity="warning", markup=False)
        self.post_message(self.TypingChanged())

    def on_typist_typed(self, event: Typist.Typed) -> None:
        """Show soon what was typed."""
        event.stop()
        self.preview.hurry()
