"""The columns of the tutorial's table, and its lines as strips of styled cells.

sign  line  block, or below it a test  last run  reason
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from selftest_core.draft.decisions import BlockDecision
from selftest_core.draft.proposals import ProposalKind
from selftest_tui.run import words as run_words
from selftest_tui.shared import present
from selftest_tui.shared.widgets.columns import Column, Columns
from selftest_tui.tutorial.results import GRAVEST_FIRST
from selftest_tui.tutorial.view import (
    BlockLine,
    DrafterLine,
    NoteLine,
    OfferedLine,
    ProposalLine,
    Section,
    StaleLine,
    TestLine,
    WriterLine,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_tui.run.words import How
    from selftest_tui.shared.widgets.columns import Placed
    from selftest_tui.tutorial.view import CitingTest, Line, Note

CITED, UNCITED, STALE, NOTE = "✓", "✗", "≠", "!"
WRITER = "✎"
PROPOSED = {ProposalKind.NEW: "+", ProposalKind.EDITED: "~", ProposalKind.REMOVED: "-"}
DECISIONS = {
    BlockDecision.KEEP: ("✓ kept", "good"),
    BlockDecision.DROP: ("✗ dropped", "muted"),
    BlockDecision.UNDECIDED: ("· undecided", "warning"),
}
"""The word of a decision, and its style part."""
MEANINGS = (
    (CITED, "a block that a test cites"),
    (UNCITED, "a block that no test cites"),
    (STALE, "a citation without its block; below the most similar block"),
    (PROPOSED[ProposalKind.NEW], "a block that an agent proposes beneath its heading, or a test that it offers"),
    (PROPOSED[ProposalKind.EDITED], "a block with another text, which an agent proposes"),
    (PROPOSED[ProposalKind.REMOVED], "a block that an agent proposes to remove"),
    (WRITER, "an agent: of the last draft above its proposed blocks, of the last sync below the block that it tests"),
    (NOTE, "something that is probably not meant"),
)
OPEN, FOLDED = "▾", "▸"

BACKGROUNDS = ("base", "cursor", "cursor-blurred")
PARTS = (*BACKGROUNDS, "heading", "section", "muted", "good", "same", "bad", "warning")

SIGN, NUMBER, GAP = 4, 5, 2
INDENT = 2
"""Cells before the text of lines below a block."""


def command_of(block: str) -> str:
    """Return the first command of a block's text, and the number of further lines."""
    commands = [line for line in block.splitlines() if not line.lstrip().startswith("#")]
    text = commands[0].strip() if commands else ""
    return f"{text}  (+{len(commands) - 1})" if len(commands) > 1 else text


def _text(line: Line, now: float) -> str:
    match line:
        case BlockLine():
            return command_of(line.view.block.text)
        case TestLine():
            return " " * INDENT + test_text(line.test)
        case StaleLine():
            return " " * INDENT + line.stale.citation.test
        case WriterLine():
            return " " * INDENT + line.result.agent
        case OfferedLine():
            return " " * INDENT + line.test
        case DrafterLine():
            return " " * INDENT + line.heading.agent.agent
        case ProposalLine():
            return command_of(line.proposal.text or line.proposal.block.base)
        case _:
            return ""


def test_text(test: CitingTest) -> str:
    """Return the id of a test, and its number of cases if there are several."""
    return test.node_id + (f" ({len(test.results)} cases)" if len(test.results) > 1 else "")


def result_of(line: Line) -> tuple[str, str]:
    """Return the worst result of a line, its share if there are several, and the style part that colours it."""
    match line:
        case BlockLine():
            tests = line.view.tests
            if not tests:
                return "no test", "bad"
            worst = next((how for how in GRAVEST_FIRST for test in tests if test.how is how), None)
            return _counted(worst, [test.how for test in tests])
        case TestLine():
            return _counted(line.test.how, [result.how for result in line.test.results])
        case StaleLine():
            similarity = line.stale.similarity
            return f"{similarity:.0%} alike" if similarity is not None else "like no block", "warning"
        case WriterLine():
            return _counted(line.result.how, [line.result.how])
        case OfferedLine():
            return "offered", "good"
        case DrafterLine():
            return _counted(line.heading.agent.how, [line.heading.agent.how])
        case ProposalLine():
            word, part = DECISIONS[line.proposal.decision]
            return word + (", edited" if line.proposal.is_edited else ""), part
        case _:
            return "", "muted"


def _counted(how: How | None, results: Sequence[How | None]) -> tuple[str, str]:
    if how is None:
        return "", "muted"
    count = sum(one is how for one in results)
    return run_words.symbol_and_word(how) + (f" {count}/{len(results)}" if count < len(results) else ""), style_of(how)


def _reason(line: Line, now: float) -> str:
    match line:
        case TestLine():
            test = line.test
            return next((result.says for result in test.results if result.how is test.how and result.says), "")
        case StaleLine():
            return f"cited at {line.stale.citation.path}:{line.stale.citation.line}"
        case WriterLine():
            return line.result.says
        case DrafterLine():
            found = present.plural(len(line.heading.found), "finding") if line.heading.found else ""
            return " · ".join(filter(None, (line.heading.noted, found, line.heading.reason or line.heading.agent.says)))
        case ProposalLine():
            return line.proposal.finding
        case _:
            return ""


TEXT: Column[Line] = Column("text", "block, and tests that cite it", 24, _text, good=40, most=100)
RESULT: Column[Line] = Column("result", "last run", 10, lambda line, now: result_of(line)[0], good=15, most=24, drops=2)
REASON: Column[Line] = Column("reason", "reason", 16, _reason, good=24, drops=1, fills=True)

COLUMNS: Columns[Line] = Columns("tutorial", SIGN + NUMBER + GAP, (TEXT, RESULT, REASON))
"""All columns, in their order. The prefix holds the sign and the number of the line in the file."""


_PARTS = {
    "$text-success": "good",
    "$text-primary": "same",
    "$text-warning": "warning",
    "$text-error": "bad",
    "$foreground-muted": "muted",
}


def style_of(how: How) -> str:
    """Return the style part that colours a result."""
    return _PARTS[run_words.STYLES[how]]


class TutorialPainter:
    """Paints lines `width` cells wide. `styles` has every name of PARTS; all but the backgrounds are partial."""

    def __init__(self, styles: Mapping[str, Style], width: int, placed: tuple[Placed[Line], ...]) -> None:
        self._styles = styles
        self.width = width
        self._placed = placed

    def heading(self) -> Strip:
        """Return the line of column titles."""
        style = self._styles["base"] + self._styles["heading"]
        titles = "".join(one.column.heading(one.width) + " " * one.gap for one in self._placed)
        return Strip([Segment(present.fit(f"{'':{SIGN}}{'line':>{NUMBER}}  {titles}", self.width), style)], self.width)

    def line(self, line: Line, *, is_cursor: bool, has_focus: bool) -> Strip:
        """Paint one line."""
        base = self._styles["base"]
        if is_cursor:
            base += self._styles["cursor" if has_focus else "cursor-blurred"]
        match line:
            case Section():
                segments = self._section(line, base)
            case BlockLine():
                segments = [*self._prefix(*_sign(line), str(line.view.block.line), base), *self._cells(line, base)]
            case TestLine():
                segments = [*self._prefix(" ", "muted", "", base), *self._cells(line, base)]
            case StaleLine():
                segments = [*self._prefix(STALE, "warning", "", base), *self._cells(line, base)]
            case WriterLine():
                segments = [*self._prefix(WRITER, "same", "", base), *self._cells(line, base)]
            case OfferedLine():
                segments = [*self._prefix(PROPOSED[ProposalKind.NEW], "same", "", base), *self._cells(line, base)]
            case DrafterLine():
                segments = [*self._prefix(WRITER, "same", "", base), *self._cells(line, base)]
            case ProposalLine():
                sign = PROPOSED[line.proposal.block.kind]
                segments = [*self._prefix(sign, "same", str(line.proposal.block.line), base), *self._cells(line, base)]
            case NoteLine():
                segments = self._note(line.note, base)
        return Strip(segments).adjust_cell_length(self.width, base)

    def _section(self, section: Section, base: Style) -> list[Segment]:
        colour = self._styles["warning"] if section.is_open else Style()
        count = f"  {section.count}"
        title = f" {FOLDED if section.is_folded else OPEN} {present.clean(section.title)}"
        title = present.fit(title, self.width - len(count)).rstrip()
        return [Segment(title, base + self._styles["section"] + colour), Segment(count, base + self._styles["muted"])]

    def _note(self, note: Note, base: Style) -> list[Segment]:
        where = "" if note.path is None else f"{note.path}:{note.line}  "
        number = str(note.line) if note.path is None else ""
        text = present.fit(" " * INDENT + where + note.message, max(0, self.width - COLUMNS.prefix))
        return [*self._prefix(NOTE, "warning", number, base), Segment(text, base)]

    def _prefix(self, sign: str, part: str, number: str, base: Style) -> list[Segment]:
        return [
            Segment(f"  {sign} ", base + self._styles[part]),
            Segment(f"{number:>{NUMBER}}  ", base + self._styles["muted"]),
        ]

    def _cells(self, line: Line, base: Style) -> list[Segment]:
        segments = []
        for one in self._placed:
            if one.column.name == "text":
                text, style = (
                    self._text_cell(line, one.width),
                    Style(bold=isinstance(line, BlockLine | ProposalLine) or None),
                )
            else:
                text = one.column.cell(line, 0.0, one.width)
                style = self._styles[result_of(line)[1] if one.column.name == "result" else "muted"]
            segments.append(Segment(text + " " * one.gap, base + style))
        return segments

    @staticmethod
    def _text_cell(line: Line, width: int) -> str:
        """Cut commands at their end, and ids of tests at their beginning, after the indent."""
        text = _text(line, 0.0)
        if isinstance(line, BlockLine | ProposalLine):
            return present.fit(text, width)
        return " " * INDENT + present.fit_end(text[INDENT:], width - INDENT)


def _sign(line: BlockLine) -> tuple[str, str]:
    return (CITED, "good") if line.view.tests else (UNCITED, "bad")
