"""Pages to read, over the screen: all keys (made from the screen's table), and all problems. They scroll and close."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.table import Table
from rich.text import Text
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

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
    """A heading, and lines of a term and what it means. All of it is harmless text."""

    heading: str
    lines: tuple[tuple[str, str], ...]


class Page(ModalScreen[None]):
    """A framed text: headings, and under each its lines of a term and what it means.

    Escape, q, ctrl+c and the keys that open pages close it.
    """

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,ctrl+c,question_mark,e", "close", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
    ]

    def __init__(self, title: str, sections: Sequence[Section]) -> None:
        super().__init__()
        self._title = title
        self.sections = tuple(sections)

    def compose(self) -> ComposeResult:
        """The frame and the text."""
        with VerticalScroll(id="page") as page:
            page.border_title = Content(self._title)
            page.border_subtitle = Content("↑↓ scroll  esc close")
            for section in self.sections:
                yield Static(Content(section.heading), classes="heading")
                yield Static(_aligned(section.lines), classes="lines")

    def action_close(self) -> None:
        """Back to what is below."""
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        """Down, or up with a negative number."""
        self.query_one("#page").scroll_relative(y=lines, animate=False)


def _aligned(lines: Sequence[tuple[str, str]]) -> Table:
    """Terms on the left, meanings wrapped beside them. One renderable: a widget for each line opens slowly."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=TERM_WIDTH, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    for term, meaning in lines:
        table.add_row(Text(term, style="bold"), Text(meaning))
    return table


def help_page(table: KeyTable, symbols: Sequence[tuple[str, str]] = ()) -> Page:
    """All keys of a screen under their headings, and what its symbols mean."""
    sections = [Section(topic, tuple((key.shows, key.help) for key in members)) for topic, members in table.by_topic()]
    if symbols:
        sections.append(Section("Symbols", tuple(symbols)))
    return Page(f"keys · {table.screen.lower()}", sections)


def problems_page(problems: Sequence[Problem], said: Sequence[Toast]) -> Page:
    """Every problem with its details and what mends it, then what was said last, the newest first."""
    sections = [_section_of(problem) for problem in problems]
    if said:
        lines = [
            (present.clean(toast.title), present.clean(line))
            for toast in reversed(said)
            for line in toast.text.splitlines() or [""]
        ]
        sections.append(Section("What was said last", tuple(lines)))
    return Page("problems", sections)


def _section_of(problem: Problem) -> Section:
    lines = [("what", line) for line in problem.detail.splitlines() if line.strip()]
    lines += [("to mend it", line) for line in problem.hint.splitlines() if line.strip()]
    return Section(f"▲ {present.clean(problem.title)}", tuple((term, present.clean(line)) for term, line in lines))
