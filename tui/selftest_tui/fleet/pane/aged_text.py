"""A tab of text with ages in it, which is written anew each second while it is visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.widgets import Static

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.content import Content


class AgedText(VerticalScroll, can_focus=False):
    """Shows `content`, which a subclass implements."""

    def __init__(self, clock: Callable[[], float], *, id: str, text_id: str) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._clock = clock
        self._text = Static(id=text_id)  # kept, not queried: news may arrive while the screen is removed

    def content(self, now: float, width: int) -> Content:
        """Return the text at this time, wrapped to `width` cells."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Place the text."""
        yield self._text

    def on_mount(self) -> None:
        """Start the clock of the ages."""
        self.set_interval(1.0, self._refresh_ages)

    def on_resize(self) -> None:
        """Wrap the text to the new width."""
        self.call_after_refresh(self.write)

    def on_show(self) -> None:
        """Write the text, which was not written while it was hidden."""
        self.write()
        self.call_after_refresh(self.write)  # once more, when the width is known

    def _refresh_ages(self) -> None:
        if self.is_on_screen:
            self.write()

    def write(self) -> None:
        """Write the text, if the tab is visible."""
        if self.is_mounted and self.display:
            width = self._text.size.width or self.scrollable_content_region.width
            self._text.update(self.content(self._clock(), width))
