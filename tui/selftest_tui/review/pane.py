"""The right half of a review's screen: the diff of the change under the cursor, and four tabs of words about it.

It shows what it is given, made harmless before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import ContentSwitcher, Static

from selftest_tui.review.diff.diff_view import DiffView

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

type ReviewTab = Literal["diff", "members", "evidence", "needs", "alternatives"]
TABS: tuple[ReviewTab, ...] = get_args(ReviewTab.__value__)


class _TabName(Static):
    """The name of a tab, to click on."""

    class Chosen(Message):
        def __init__(self, tab: ReviewTab) -> None:
            super().__init__()
            self.tab = tab

    def __init__(self, tab: ReviewTab) -> None:
        super().__init__(Content(f"{TABS.index(tab) + 1} {tab}"), id=f"tab-{tab}")
        self._tab: ReviewTab = tab

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Chosen(self._tab))


class ReviewPane(Vertical, can_focus=False):
    """Shows one change, or one group. Every `show_…` may be called as often as one likes."""

    DEFAULT_CSS = """
    ReviewPane {
        border: round $border-blurred;
        border-title-color: $text;
        border-subtitle-color: $text-muted;
    }
    ReviewPane #headline { height: auto; max-height: 4; padding: 0 1; }
    ReviewPane #tabs { height: 1; }
    ReviewPane _TabName { width: auto; padding: 0 1 0 0; color: $text-muted; }
    ReviewPane _TabName.-shown { color: $text; text-style: bold reverse; }
    ReviewPane ContentSwitcher { height: 1fr; }
    ReviewPane VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; padding: 0 1; }
    ReviewPane VerticalScroll Static { height: auto; width: 1fr; }
    """

    class TabChosen(Message):
        """A tab was clicked."""

        def __init__(self, tab: ReviewTab) -> None:
            super().__init__()
            self.tab = tab

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self.tab: ReviewTab = "diff"
        self.title = ""
        self._shown: dict[str, Content] = {}
        self._due: set[str] = set()
        # Held, not looked for: what a thread found out may come while the screen is being taken down.
        self.diff = DiffView(id="diff")
        self._switcher = ContentSwitcher(initial="diff")
        self._names = tuple(_TabName(tab) for tab in TABS)
        self._texts: dict[str, Static] = {tab: Static(id=f"{tab}-text") for tab in TABS[1:]}
        self._texts["headline"] = Static(id="headline")
        self._scrolls = {tab: VerticalScroll(id=tab, can_focus=False) for tab in TABS[1:]}

    def compose(self) -> ComposeResult:
        with Horizontal(id="tabs"):
            yield from self._names
        yield self._texts["headline"]
        with self._switcher:
            yield self.diff
            for tab, scroll in self._scrolls.items():
                with scroll:
                    yield self._texts[tab]

    def on_mount(self) -> None:
        self.show_tab("diff")

    def show_tab(self, tab: ReviewTab) -> None:
        """Go over to a tab."""
        self.tab = tab
        self._lay_out(tab)
        self._switcher.current = tab
        for name in self._names:
            name.set_class(name.id == f"tab-{tab}", "-shown")

    def show_title(self, title: str) -> None:
        """What it is about. Made harmless by who calls."""
        if title != self.title:
            self.title = title
            self.border_title = Content(title)

    def show_text(self, part: str, text: Content) -> None:
        """The words of a tab, or of the `headline`. Unchanged words are not laid out again, hidden ones not yet."""
        before = self._shown.get(part)
        if before is not None and before.is_same(text):
            return
        self._shown[part] = text
        self._due.add(part)
        if part in ("headline", self.tab):
            self._lay_out(part)

    def _lay_out(self, part: str) -> None:
        """Laying words out lays the whole screen out, so it waits until somebody wants to see them."""
        if part in self._due:
            self._due.discard(part)
            self._texts[part].update(self._shown[part])

    def text_of(self, part: str) -> str:
        """What a tab says."""
        found = self._shown.get(part)
        return "" if found is None else found.plain

    def scroll_text(self, lines: int) -> None:
        """Scroll what is shown: negative is up."""
        if self.tab == "diff":
            self.diff.scroll_lines(lines)
        else:
            self._scrolls[self.tab].scroll_relative(y=lines, animate=False)

    def pan_text(self, cells: int) -> None:
        """Scroll the diff sideways: negative is to the left."""
        self.diff.pan_by(cells)

    def scroll_top(self) -> None:
        """Another thing is shown: from its beginning."""
        for scroll in self._scrolls.values():
            scroll.scroll_home(animate=False)

    def on__tab_name_chosen(self, event: _TabName.Chosen) -> None:
        event.stop()
        self.post_message(self.TabChosen(event.tab))
