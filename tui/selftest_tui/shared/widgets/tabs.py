"""The right pane of a screen: a frame with tabs, whose names are in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal, Vertical
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


class TabbedPane(Vertical, can_focus=False):
    """A frame with a TabBar and a ContentSwitcher, which a subclass places."""

    DEFAULT_CSS = """
    TabbedPane {
        border: round $border-blurred;
        border-title-color: $text;
        border-subtitle-color: $text-muted;
    }
    TabbedPane ContentSwitcher { height: 1fr; }
    TabbedPane VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; padding: 0 1; }
    TabbedPane VerticalScroll Static { height: auto; width: 1fr; }
    """
