"""Pages to read, over the screen: all keys (made from the key table), and all problems. They scroll and close."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from selftest_tui import keys, present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from selftest_core.view import Problem

KEY_WIDTH = 12


class Page(ModalScreen[None]):
    """A framed text. Escape, q, ctrl+c and the key that opened it close it."""

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,ctrl+c,question_mark,e", "close", show=False),
        Binding("down,j", "scroll(1)", show=False),
        Binding("up,k", "scroll(-1)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
    ]

    def __init__(self, title: str, text: Content) -> None:
        super().__init__()
        self._title = title
        self.text = text

    def compose(self) -> ComposeResult:
        """The frame and the text."""
        with VerticalScroll(id="page") as page:
            page.border_title = Content(self._title)
            page.border_subtitle = Content("↑↓ scroll  esc close")
            yield Static(self.text)

    def action_close(self) -> None:
        """Back to what is below."""
        self.dismiss(None)

    def action_scroll(self, lines: int) -> None:
        """Down, or up with a negative number."""
        self.query_one("#page").scroll_relative(y=lines, animate=False)


def help_page() -> Page:
    """All keys under their headings, and what the symbols mean."""
    parts: list[Content | tuple[str, str] | str] = []
    for topic, members in keys.by_topic():
        parts.append((f"{topic.value}\n", "bold $text-accent"))
        for key in members:
            parts.append((f"  {present.fit(key.shows, KEY_WIDTH)} ", "bold"))
            parts.append(f"{key.help}\n")
        parts.append("\n")
    parts.append(("Symbols\n", "bold $text-accent"))
    for category, sign in present.SYMBOLS.items():
        parts.append((f"  {present.fit(sign, KEY_WIDTH)} ", "bold"))
        parts.append(f"{present.MEANINGS[category]}\n")
    parts.append((f"  {present.fit(present.STALE_SYMBOL, KEY_WIDTH)} ", "bold"))
    parts.append("its provider no longer answers: what was last known, and when\n")
    return Page("keys", Content.assemble(*parts))


def problems_page(problems: Sequence[Problem]) -> Page:
    """Every problem with its details and what mends it."""
    parts: list[tuple[str, str] | str] = []
    for problem in problems:
        parts.append((f"▲ {present.clean(problem.title)}\n", "bold $text-warning"))
        parts += [f"  {present.clean(line)}\n" for line in problem.detail.splitlines()]
        if problem.hint:
            parts.append(("  To mend it: ", "bold"))
            parts.append("\n  ".join(present.clean(line) for line in problem.hint.splitlines()) + "\n")
        parts.append("\n")
    return Page("problems", Content.assemble(*parts))
