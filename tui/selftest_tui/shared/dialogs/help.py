"""Pages to read, over the screen: help (all keys of the screen), problems, and others.

They scroll, search and close.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.table import Table
from rich.text import Text
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from selftest_core.frozen import dataclass
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from selftest_core.fleet.view import Problem
    from selftest_tui.shared.keys import KeyTable
    from selftest_tui.shared.problems import Toast

TERM_WIDTH = 12


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, and lines of a term and what it means. All of it is harmless text. `width`: of the terms, in cells."""

    heading: str
    lines: tuple[tuple[str, str], ...]
    width: int = TERM_WIDTH


class Page(ModalScreen[None]):
    """A framed text: headings, and under each its lines of a term and what it means.

    `/` opens a search field: only lines that contain its words stay. Escape leaves the search, then the page; q, ctrl+c
    and the keys that open pages close it.
    """

    CSS_PATH = Path(__file__).with_name("help.tcss")  # whole: a subclass of another folder has it too
    HINT = "↑↓ scroll  / search  esc close"
    AUTO_FOCUS = "#page"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c,question_mark,e,C", "close", show=False),
        Binding("escape", "back", show=False, priority=True),
        Binding("slash", "search", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("home", "go('home')", show=False),
        Binding("end,G", "go('end')", show=False),
    ]

    def __init__(self, title: str, sections: Sequence[Section]) -> None:
        super().__init__()
        self._title = title
        self.sections = tuple(sections)

    def compose(self) -> ComposeResult:
        """The frame, the text, and the search field, which is hidden."""
        with Vertical(id="frame") as frame:
            frame.border_title = Content(self._title)
            frame.border_subtitle = Content(self.HINT)
            yield from self.body()
            yield Static("No match", id="none")
            yield Input(id="search", compact=True, placeholder="search")

    def body(self) -> ComposeResult:
        """Make the text."""
        with _Text(id="page"):
            for section in self.sections:
                yield Static(Content(section.heading), classes="heading")
                yield Static(aligned(section.lines, section.width), classes="lines")

    def action_close(self) -> None:
        """Return to the screen below."""
        self.dismiss(None)

    def action_search(self) -> None:
        """Open the search field."""
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def action_back(self) -> None:
        """Leave the search, else the page."""
        field = self.query_one(Input)
        if not field.display:
            self.dismiss(None)
            return
        field.value = ""
        field.display = False
        self.query_one("#page").focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show only lines with these words."""
        self.query_one("#none").display = not self.show_matching(event.value)

    def show_matching(self, query: str) -> bool:
        """Show only lines with these words; False if there is none."""
        lines_found = [matching(section.lines, query) for section in self.sections]
        headings, texts = self.query(".heading"), self.query(".lines").results(Static)
        for section, heading, text, lines in zip(self.sections, headings, texts, lines_found, strict=True):
            heading.display = text.display = bool(lines)
            text.update(aligned(lines, section.width))
        self.action_go("home")
        return any(lines_found)

    def on_input_submitted(self) -> None:
        """Keep the matches, and scroll through them."""
        self.query_one("#page").focus()

    def action_scroll(self, lines: int) -> None:
        """Scroll down, or up with a negative number."""
        self.query_one("#page").scroll_relative(y=lines, animate=False, immediate=True)

    def action_page(self, pages: int) -> None:
        """Scroll by pages."""
        page = self.query_one("#page")
        page.scroll_relative(y=pages * max(1, page.size.height - 1), animate=False, immediate=True)

    def action_go(self, place: str) -> None:
        """Scroll to the first line ("home") or the last ("end")."""
        page = self.query_one("#page")
        page.scroll_to(y=0 if place == "home" else page.max_scroll_y, animate=False, immediate=True)


class _Text(VerticalScroll, inherit_bindings=False):
    """The text. Without Textual's own keys, which scroll with an animation: `end` took a second."""


def matching(lines: Sequence[tuple[str, str]], query: str) -> tuple[tuple[str, str], ...]:
    """The lines that contain all words of the query, in any case."""
    return tuple(line for line in lines if has_words((line,), query))


def has_words(lines: Sequence[tuple[str, str]], query: str) -> bool:
    """Return True if these lines together contain all words of the query, in any case."""
    text = " ".join(map(" ".join, lines)).casefold()
    return all(word in text for word in query.casefold().split())


def aligned(lines: Sequence[tuple[str, str]], width: int) -> Table:
    """Terms on the left, meanings wrapped beside them. One renderable: a widget for each line opens slowly."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=width, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    for term, meaning in lines:
        table.add_row(Text(term, style="bold"), Text(meaning))
    return table


def help_page(
    table: KeyTable, symbols: Sequence[tuple[str, str]] = (), filter_forms: Sequence[tuple[str, str]] = ()
) -> Page:
    """Help of one screen: its own keys, the forms of its filter, its symbols, then the keys of several screens."""
    sections = [
        Section(topic, tuple((key.shows, key.help) for key in members)) for topic, members in table.own_by_topic()
    ]
    if filter_forms:
        sections.append(Section("The filter ( / )", tuple(filter_forms)))
    if symbols:
        sections.append(Section("Symbols", tuple(symbols)))
    sections.append(Section("On other screens too", tuple((key.shows, key.help) for key in table.now(table.shared))))
    return Page(f"keys · {table.screen.lower()}", sections)


def problems_page(problems: Sequence[Problem], said: Sequence[Toast]) -> Page:
    """Every problem with its details and solution, then the last messages, the newest first."""
    sections = [_section_of(problem) for problem in problems]
    if said:
        lines = [
            (present.clean(toast.title), present.clean(line))
            for toast in reversed(said)
            for line in toast.text.splitlines() or [""]
        ]
        sections.append(Section("The last messages", tuple(lines)))
    return Page("problems", sections)


def _section_of(problem: Problem) -> Section:
    lines = [("what", line) for line in problem.detail.splitlines() if line.strip()]
    lines += [("solution", line) for line in problem.hint.splitlines() if line.strip()]
    return Section(f"▲ {present.clean(problem.title)}", tuple((term, present.clean(line)) for term, line in lines))
