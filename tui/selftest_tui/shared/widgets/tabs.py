"""The names of a pane's tabs, in one line, with the shown one marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual import events
    from textual.app import ComposeResult


class TabName(Static):
    """The number and the name of one tab, clickable."""

    def __init__(self, tab: str, text: str) -> None:
        super().__init__(Content(text), id=f"tab-{tab}")
        self._tab = tab

    def on_click(self, event: events.Click) -> None:
        """Ask for this tab."""
        event.stop()
        self.post_message(TabBar.Chosen(self._tab))


class TabBar(Horizontal):
    """Shows the captions of `tabs`. Posts Chosen when one is clicked."""

    DEFAULT_CSS = """
    TabBar { height: 1; }
    TabBar TabName { width: auto; padding: 0 1 0 0; color: $text-muted; }
    TabBar TabName.-shown { color: $text; text-style: bold reverse; }
    """

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, tab: str) -> None:
            super().__init__()
            self.tab = tab

    def __init__(self, tabs: Mapping[str, str]) -> None:
        super().__init__()
        # Kept as an attribute: a thread's result may arrive while the screen is being removed.
        self._names = {tab: TabName(tab, f"{number} {name}") for number, (tab, name) in enumerate(tabs.items(), 1)}

    def compose(self) -> ComposeResult:
        """Place the names side by side."""
        yield from self._names.values()

    def show(self, tab: str) -> None:
        """Mark this tab as the shown one."""
        for one, name in self._names.items():
            name.set_class(one == tab, "-shown")
