"""The right half of a run's screen: the outcome, the terminal, the facts and the files of what is under the cursor.

It shows what it is given. What an agent wrote is shown as Markdown (`markdown_lines`), and was made harmless and cut to
what is read before (`run.report`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from selftest_tui.fleet.pane.details import Details
from selftest_tui.fleet.pane.preview import PaneRef, Preview
from selftest_tui.fleet.pane.typist import OTHER_PANE, SUBTITLE, Typist
from selftest_tui.shared.markdown_lines import markdown_content

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.app import ComposeResult

    from selftest_tui.fleet.pane.details import Fact

type RunTab = Literal["outcome", "terminal", "details", "artifacts"]
TABS: tuple[RunTab, ...] = get_args(RunTab.__value__)


class Report(Static):
    """Markdown, laid out anew where the width is another."""

    def __init__(self) -> None:
        super().__init__(id="report", markup=False)
        self._text = ""

    def show(self, text: str) -> None:
        """Go over to another text."""
        self._text = text
        self.lay_out()

    def lay_out(self) -> None:
        """Break prose for the width of what this scrolls in; output of programs is cut there, and scrolls sideways."""
        parent = self.parent
        width = parent.scrollable_content_region.width if isinstance(parent, Widget) else 0
        if width:
            self.update(markdown_content(self._text, width))


class ReportScroll(VerticalScroll, can_focus=False):
    """Scrolls a report, sideways too."""

    def __init__(self, report: Report) -> None:
        super().__init__(id="outcome")
        self._report = report

    def compose(self) -> ComposeResult:
        yield self._report

    def on_resize(self) -> None:
        """Other words fit in a line."""
        self._report.lay_out()


class _TabName(Static):
    """The name of a tab, to click on."""

    class Chosen(Message):
        def __init__(self, tab: RunTab) -> None:
            super().__init__()
            self.tab = tab

    def __init__(self, tab: RunTab) -> None:
        super().__init__(Content(f"{TABS.index(tab) + 1} {tab}"), id=f"tab-{tab}")
        self._tab: RunTab = tab

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Chosen(self._tab))


class RunPane(Vertical, can_focus=False):
    """Shows one test, or one group. Every `show_…` may be called as often as one likes."""

    DEFAULT_CSS = """
    RunPane {
        border: round $border-blurred;
        border-title-color: $text;
        border-subtitle-color: $text-muted;
    }
    RunPane.-typing {
        border: heavy $warning;
        border-title-color: $text-warning;
        border-subtitle-color: $text-warning;
        border-subtitle-style: bold;
    }
    RunPane #tabs { height: 1; }
    RunPane _TabName { width: auto; padding: 0 1 0 0; color: $text-muted; }
    RunPane _TabName.-shown { color: $text; text-style: bold reverse; }
    RunPane ContentSwitcher { height: 1fr; }
    RunPane VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; padding: 0 1; }
    RunPane VerticalScroll Static { height: auto; width: 1fr; }
    RunPane ReportScroll { overflow-x: auto; scrollbar-size-horizontal: 1; }
    RunPane ReportScroll Report { width: auto; min-width: 100%; text-wrap: nowrap; text-overflow: clip; }
    """

    class TabChosen(Message):
        """A tab was clicked."""

        def __init__(self, tab: RunTab) -> None:
            super().__init__()
            self.tab = tab

    class TypingChanged(Message):
        """Typing into the agent's terminal began, or ended."""

    def __init__(self, clock: Callable[[], float], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.tab: RunTab = "outcome"
        self.markdown = ""
        self.artifacts = ""
        # Held, not looked for: what a thread has read may come while the screen is being taken down.
        self._names = tuple(_TabName(tab) for tab in TABS)
        self._switcher = ContentSwitcher(initial="outcome")
        self._report = Report()
        self._preview = Preview()
        self._typist = Typist()
        self._pane: PaneRef | None = None
        self._details = Details(clock)
        self._files = Static(id="files")
        self._outcome_scroll = ReportScroll(self._report)
        self._files_scroll = VerticalScroll(id="artifacts", can_focus=False)

    def compose(self) -> ComposeResult:
        with Horizontal(id="tabs"):
            yield from self._names
        with self._switcher:
            yield self._outcome_scroll
            with Vertical(id="terminal"):
                yield self._preview
            yield self._details
            with self._files_scroll:
                yield self._files
        yield self._typist

    def on_mount(self) -> None:
        self.show_tab("outcome")

    def show_tab(self, tab: RunTab) -> None:
        """Go over to a tab."""
        if tab != "terminal":
            self._typist.stop()
        self.tab = tab
        self._switcher.current = tab
        for name in self._names:
            name.set_class(name.id == f"tab-{tab}", "-shown")

    def show_title(self, title: str) -> None:
        """What it is about. Made harmless by who calls."""
        self.border_title = Content(title)

    def show_markdown(self, text: str) -> None:
        """A report. Unchanged text is not laid out again."""
        if text == self.markdown:
            return
        self.markdown = text
        self._report.show(text)

    def show_pane(self, pane: PaneRef | None, words: str = "") -> None:
        """The terminal of an agent that is there; without one, words."""
        self._go_over(pane)
        self._preview.show(pane, words)

    def show_screen(self, text: str) -> None:
        """What was kept of a terminal that is gone."""
        self._go_over(None)
        self._preview.show_text(text)

    def _go_over(self, pane: PaneRef | None) -> None:
        self._pane = pane
        if self._typist.is_typing and pane != self._typist.pane:
            self._typist.stop(OTHER_PANE)

    @property
    def is_typing(self) -> bool:
        """True while every key goes to the agent."""
        return self._typist.is_typing

    def start_typing(self) -> None:
        """From now on every key goes to the terminal that is shown; without one nothing happens."""
        if self._pane is not None:
            self.show_tab("terminal")
            self._typist.start(self._pane)

    def on_typist_began(self, event: Typist.Began) -> None:
        event.stop()
        self.add_class("-typing")
        self._preview.show_cursor(True)
        self.border_subtitle = Content(SUBTITLE)
        self.post_message(self.TypingChanged())

    def on_typist_ended(self, event: Typist.Ended) -> None:
        event.stop()
        self.remove_class("-typing")
        self._preview.show_cursor(False)
        self.border_subtitle = ""
        if event.why:
            self.notify(event.why, severity="warning", markup=False)
        self.post_message(self.TypingChanged())

    def on_typist_typed(self, event: Typist.Typed) -> None:
        event.stop()
        self._preview.hurry()

    def show_facts(self, ask: Callable[[float], tuple[Fact, ...]]) -> None:
        """The facts; they are asked for again as time passes."""
        self._details.show(ask)

    def show_artifacts(self, text: str) -> None:
        """The list of files, harmless."""
        if text != self.artifacts:
            self.artifacts = text
            self._files.update(Content(text))

    def scroll_text(self, lines: int) -> None:
        """Scroll what is shown: negative is up."""
        if self.tab == "terminal":
            self._preview.scroll_text(lines)
        else:
            self.query_one(f"#{self.tab}").scroll_relative(y=lines, animate=False)

    def pan_text(self, cells: int) -> None:
        """Scroll what is shown sideways: negative is to the left."""
        if self.tab == "terminal":
            self._preview.pan(cells)
        else:
            self.query_one(f"#{self.tab}").scroll_relative(x=cells, animate=False)

    def scroll_top(self) -> None:
        """Another thing is shown: from its beginning."""
        self._outcome_scroll.scroll_home(animate=False)
        self._files_scroll.scroll_home(animate=False)

    def on__tab_name_chosen(self, event: _TabName.Chosen) -> None:
        event.stop()
        self.post_message(self.TabChosen(event.tab))
