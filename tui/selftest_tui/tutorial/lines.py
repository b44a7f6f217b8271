"""One line of the tutorial's table as a strip of styled cells. It keeps nothing but the styles.

    sign  line  block, or below it a test  last run  what was said of it

Widths depend on the width of the table alone, so nothing moves when files change. Narrow tables lose the last column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from selftest_core.frozen import dataclass
from selftest_core.run.events import FAILURES, End, Phase
from selftest_tui.run import words as run_words
from selftest_tui.shared import present
from selftest_tui.tutorial.view import GRAVEST_FIRST, BlockLine, NoteLine, Section, StaleLine, TestLine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_tui.run.words import How
    from selftest_tui.tutorial.view import BlockView, CitingTest, Line, Note

CITED, UNCITED, STALE, NOTE = "✓", "✗", "≠", "!"
MEANINGS = (
    (CITED, "a block that a test cites"),
    (UNCITED, "a block that no test cites"),
    (STALE, "a citation that is no block any more; below the block that it is most like"),
    (NOTE, "something that is probably not meant"),
)
OPEN, FOLDED = "▾", "▸"

BACKGROUNDS = ("base", "cursor", "cursor-blurred")
PARTS = (*BACKGROUNDS, "heading", "section", "muted", "good", "same", "bad", "warning")

SIGN, NUMBER, RESULT, GAP = 4, 5, 15, 2
INDENT = 2
"""Of what stands below a block."""
WITH_SAYS = 96
"""Cells from which the table says what became of a test in words."""


@dataclass(frozen=True, slots=True)
class Widths:
    """Cells of the columns that give way: what it is, and what was said of it (0 where there is no room)."""

    text: int
    says: int


def widths(width: int) -> Widths:
    """Of a table so many cells wide."""
    room = max(0, width - SIGN - NUMBER - RESULT - 2 * GAP)
    says = room * 2 // 5 if width >= WITH_SAYS else 0
    return Widths(room - says - (GAP if says else 0), says)


def style_of(how: How) -> str:
    """The part whose colour repeats what `how` says."""
    if how in FAILURES:
        return "bad"
    if how is End.SUCCEEDED:
        return "good"
    if how is End.UNCHANGED:
        return "same"
    if how is End.BLOCKED:
        return "warning"
    return "muted" if how in (End.STOPPED, End.NOT_STARTED, Phase.WAITING) else "good"


class TutorialPainter:
    """Paints lines `width` cells wide. `styles` has every name of PARTS; all but the backgrounds are partial."""

    def __init__(self, styles: Mapping[str, Style], width: int) -> None:
        self._styles = styles
        self.width = width
        self._widths = widths(width)

    def heading(self) -> Strip:
        """The line of column titles."""
        style = self._styles["base"] + self._styles["heading"]
        text = f"{'':{SIGN}}{'line':>{NUMBER}}  " + present.fit("block, and tests that cite it", self._widths.text)
        text += "  " + present.fit("last run", RESULT) + ("  what was said of it" if self._widths.says else "")
        return Strip([Segment(present.fit(text, self.width), style)], self.width)

    def line(self, line: Line, *, is_cursor: bool, has_focus: bool) -> Strip:
        """One line."""
        base = self._styles["base"]
        if is_cursor:
            base += self._styles["cursor" if has_focus else "cursor-blurred"]
        match line:
            case Section():
                segments = self._section(line, base)
            case BlockLine():
                segments = self._block(line.view, base)
            case TestLine():
                segments = self._test(line.test, base)
            case StaleLine():
                segments = self._stale(line, base)
            case NoteLine():
                segments = self._note(line.note, base)
        return Strip(segments).adjust_cell_length(self.width, base)

    def _section(self, section: Section, base: Style) -> list[Segment]:
        colour = self._styles["warning"] if section.is_open else Style()
        count = f"  {section.count}"
        title = f" {FOLDED if section.is_folded else OPEN} {present.clean(section.title)}"
        title = present.fit(title, self.width - len(count)).rstrip()
        return [Segment(title, base + self._styles["section"] + colour), Segment(count, base + self._styles["muted"])]

    def _block(self, view: BlockView, base: Style) -> list[Segment]:
        is_cited = bool(view.tests)
        sign = self._styles["good" if is_cited else "bad"]
        commands = [line for line in view.block.text.splitlines() if not line.lstrip().startswith("#")]
        text = commands[0].strip() if commands else ""
        if len(commands) > 1:
            text += f"  (+{len(commands) - 1})"
        worst = next((how for how in GRAVEST_FIRST for test in view.tests if test.how is how), None)
        result = self._result(worst, [test.how for test in view.tests]) if is_cited else ("no test", "bad")
        return [
            Segment(f"  {CITED if is_cited else UNCITED} ", base + sign),
            Segment(f"{view.block.line:>{NUMBER}}  ", base + self._styles["muted"]),
            Segment(present.fit(text, self._widths.text), base + Style(bold=True)),
            *self._tail(result, "", base),
        ]

    def _test(self, test: CitingTest, base: Style) -> list[Segment]:
        says = next((result.says for result in test.results if result.how is test.how and result.says), "")
        several = f" ({len(test.results)} cases)" if len(test.results) > 1 else ""
        result = self._result(test.how, [result.how for result in test.results])
        return [
            Segment(" " * (SIGN + NUMBER + GAP + INDENT), base),
            Segment(present.fit_end(test.node_id + several, self._widths.text - INDENT), base),
            *self._tail(result, says, base),
        ]

    def _stale(self, line: StaleLine, base: Style) -> list[Segment]:
        citation, similarity = line.stale.citation, line.stale.similarity
        alike = f"{similarity:.0%} alike" if similarity is not None else "like no block"
        return [
            Segment(f"  {STALE} ", base + self._styles["warning"]),
            Segment(" " * (NUMBER + GAP + INDENT), base),
            Segment(present.fit_end(citation.test, self._widths.text - INDENT), base),
            *self._tail((alike, "warning"), f"cited at {citation.path}:{citation.line}", base),
        ]

    def _note(self, note: Note, base: Style) -> list[Segment]:
        where = "" if note.path is None else f"{note.path}:{note.line}  "
        number = f"{note.line:>{NUMBER}}" if note.path is None else " " * NUMBER
        return [
            Segment(f"  {NOTE} ", base + self._styles["warning"]),
            Segment(f"{number}  ", base + self._styles["muted"]),
            Segment(present.fit(" " * INDENT + where + note.message, max(0, self.width - SIGN - NUMBER - GAP)), base),
        ]

    @staticmethod
    def _result(how: How | None, of: Sequence[How | None]) -> tuple[str, str]:
        """The worst result, how many of several did so, and its part."""
        if how is None:
            return "", "muted"
        count = sum(one is how for one in of)
        return run_words.words(how) + (f" {count}/{len(of)}" if count < len(of) else ""), style_of(how)

    def _tail(self, result: tuple[str, str], says: str, base: Style) -> list[Segment]:
        """The columns on the right."""
        segments = [Segment("  " + present.fit(result[0], RESULT), base + self._styles[result[1]])]
        if self._widths.says:
            segments.append(Segment("  " + present.fit(says, self._widths.says), base + self._styles["muted"]))
        return segments
