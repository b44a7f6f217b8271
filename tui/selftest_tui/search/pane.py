"""The right half of the search screen: the place of the hit under the cursor, and the lines around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from selftest_tui.search.lines import SearchGroup, opens, place_of
from selftest_tui.shared import present

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from textual.app import ComposeResult

    from selftest_recorder.search.hits import Hit
    from selftest_tui.search.lines import SearchLine

_MUTED = "$foreground-muted"
MARK = "▸"


class SearchPane(VerticalScroll, can_focus=False):
    """Details of one line of the table."""

    DEFAULT_CSS = """
    SearchPane { padding: 0 1; scrollbar-size-vertical: 1; }
    SearchPane > Static { height: auto; width: 1fr; }
    """

    def compose(self) -> ComposeResult:
        """Make one text widget."""
        yield Static()

    def scroll_text(self, lines: int) -> None:
        """Scroll down, or up if negative."""
        self.scroll_relative(y=lines, animate=False, immediate=True)

    def pan_text(self, cells: int) -> None:
        """Scroll right, or left if negative."""
        self.scroll_relative(x=cells, animate=False, immediate=True)

    def show(self, line: SearchLine | None, around: Sequence[tuple[int, str]] = ()) -> None:
        """Show a line with the lines around it, as far as they are known."""
        self.border_title = Content(present.clean(place_of(line)) if line and not isinstance(line, SearchGroup) else "")
        self.query_one(Static).update(Content.assemble(*_pieces(line, around)))
        self.scroll_home(animate=False)
        if len(around) > 2 and line is not None and not isinstance(line, SearchGroup):
            numbers = [number for number, _ in around]
            if line.id in numbers:
                # Lines that are wrapped make it stand lower: it is above the middle then.
                above = numbers.index(line.id) - self.size.height // 2
                self.scroll_to(y=max(0, above), animate=False)


def _pieces(line: SearchLine | None, around: Sequence[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    if line is None:
        return
    if isinstance(line, SearchGroup):
        yield f"{present.plural(line.count, 'hit')} in {present.clean(line.key)}", _MUTED
        return
    yield f"{present.clean(line.test or line.agent or line.run)}\n", "bold"
    yield f"{present.clean(line.run)}  {present.clean(line.agent)}\n", _MUTED
    if line.commit:
        file = f"  {present.clean(line.file)}:{line.line or ''}" if line.file else ""
        yield f"{present.clean(line.commit[:12])}{file}\n", _MUTED
    yield f"⏎ {opens(line)}\n\n", _MUTED
    for number, text in around or ((line.id, line.text),):
        is_hit = number == line.id
        yield f"{MARK if is_hit else ' '} ", "bold $text-warning"
        yield from _line(line, text, is_hit)
        yield "\n", ""


def _line(hit: Hit, text: str, is_hit: bool) -> Iterator[tuple[str, str]]:
    if not is_hit:
        yield present.clean(text), _MUTED
        return
    cut = hit.text.strip("…")
    begin = max(text.find(cut), 0) - (1 if hit.text.startswith("…") and cut in text else 0)
    at = 0
    for first, last in hit.spans if cut in text else ():
        yield present.clean(text[at : first + begin]), ""
        yield present.clean(text[first + begin : last + begin]), "bold underline $text-warning"
        at = last + begin
    yield present.clean(text[at:]), ""
