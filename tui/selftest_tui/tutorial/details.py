"""The right half of the tutorial screen: all details of the line under the cursor.

It shows a block with numbered lines, the tests that cite it and their results, or a stale citation beside its nearest
block, with the differing words marked. All text comes from files and agents: it is put into `Content` piece by piece
and never parsed as markup. This module reads no files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from selftest_core.draft.proposals import ProposalKind
from selftest_core.tutorial.citation_differences import differences
from selftest_tui.run import words as run_words
from selftest_tui.shared import present
from selftest_tui.shared.keys import shown
from selftest_tui.shared.widgets.screen_text import block as harmless
from selftest_tui.tutorial.lines import DECISIONS, NOTE, STALE, UNCITED
from selftest_tui.tutorial.view import (
    PROPOSED,
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
    from collections.abc import Iterator

    from textual.app import ComposeResult

    from selftest_core.tutorial.coverage import Stale
    from selftest_tui.tutorial.drafts import HeadingDraft, ProposalView
    from selftest_tui.tutorial.results import Result
    from selftest_tui.tutorial.view import BlockView, CitingTest, Line

MOST_LINES = 400
"""Lines of a block that are shown; a generated tutorial may have ten thousand in one."""

type Piece = tuple[str, str]
_MUTED = "$foreground-muted"
_TITLE = "bold"
_STYLES = {"good": "$text-success", "muted": "$foreground-muted", "warning": "$text-warning"}


class TutorialDetails(VerticalScroll, can_focus=False):
    """Details of one line of the tutorial's table."""

    DEFAULT_CSS = """
    TutorialDetails { padding: 0 1; scrollbar-size-vertical: 1; }
    TutorialDetails > Static { height: auto; width: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[Line | None, str] | None = None

    def compose(self) -> ComposeResult:
        """Make one text widget."""
        yield Static()

    def scroll_text(self, lines: int) -> None:
        """Scroll down, or up if negative."""
        self.scroll_relative(y=lines, animate=False, immediate=True)

    def pan_text(self, cells: int) -> None:
        """Scroll right, or left if negative."""
        self.scroll_relative(x=cells, animate=False, immediate=True)

    def show(self, line: Line | None, tutorial: str) -> None:
        """Show another line. `tutorial`: the file's name."""
        if self._shown == (line, tutorial):
            return
        before, self._shown = self._shown, (line, tutorial)
        self.border_title = Content(title_of(line, tutorial))
        self.query_one(Static).update(Content.assemble(*pieces_of(line, tutorial)))
        if before is None or before[0] != line:
            self.scroll_home(animate=False)


def title_of(line: Line | None, tutorial: str) -> str:
    """Make the title of the frame: the place of the line."""
    match line:
        case None:
            return ""
        case Section():
            return present.clean(line.title)
        case BlockLine():
            return f"{present.clean(tutorial)}:{_span(line.view)}"
        case TestLine():
            return present.clean(f"{line.test.path}:{line.test.line}")
        case StaleLine():
            return present.clean(f"{line.stale.citation.path}:{line.stale.citation.line}")
        case WriterLine():
            return present.clean(line.result.agent)
        case OfferedLine():
            return present.clean(line.test)
        case DrafterLine():
            return present.clean(line.heading.title)
        case ProposalLine():
            return present.clean(f"{tutorial}: {line.heading.title}")
        case NoteLine():
            return present.clean(f"{line.note.path or tutorial}:{line.note.line}")


def pieces_of(line: Line | None, tutorial: str) -> list[Piece]:
    """Return the text as pieces with styles."""
    match line:
        case None:
            return []
        case Section():
            return [(_about(line), _MUTED)]
        case BlockLine():
            return list(_of_block(line.view))
        case TestLine():
            return list(_of_test(line.test, line.view))
        case StaleLine():
            return list(_of_stale(line.stale, tutorial))
        case WriterLine() | OfferedLine():
            return list(_of_writer(line.result, line.view))
        case DrafterLine():
            return list(_of_drafter(line.heading))
        case ProposalLine():
            return list(_of_proposal(line.proposal, line.heading))
        case NoteLine():
            about: list[Piece] = [(f"{NOTE} ", "$text-warning bold"), (f"{present.clean(line.note.message)}\n\n", "")]
            return [*about, *(_text_of(line.view) if line.view is not None else ())]


def _about(section: Section) -> str:
    if section.title.startswith(PROPOSED):
        return (
            f"What an agent proposes beneath this heading. {shown('tutorial.keep', 'y')} keeps all of it, "
            f"{shown('tutorial.revert', 'x')} drops it, {shown('tutorial.publish', 'P')} publishes what is kept."
        )
    if section.is_open:
        return "What is open: each of these is a test to write, or a citation to bring up to date."
    return f"{present.plural(section.count, 'block')} under this heading."


def _span(view: BlockView) -> str:
    last = view.block.line + view.block.text.count("\n")
    return f"{view.block.line}-{last}" if last > view.block.line else str(view.block.line)


def _of_block(view: BlockView) -> Iterator[Piece]:
    if view.title:
        yield f"{present.clean(view.title)}\n\n", f"{_TITLE} $text-primary"
    yield from _text_of(view)
    for note in view.notes:
        yield f"\n{NOTE} ", "$text-warning bold"
        yield f"line {note.line}: {present.clean(note.message)}\n", ""
    if not view.tests:
        yield f"\n{UNCITED} No test cites this block.\n", "$text-error bold"
        yield "A test cites it with a docstring section `Tutorial block:`, or with ", _MUTED
        yield 'e2e.write_tutorial_block("""…""").\n', _MUTED
    else:
        yield f"\ncited by {present.plural(len(view.tests), 'test')}\n", _TITLE
    for test in view.tests:
        yield from _result_of(test)
    for stale in view.stale:
        yield f"\n{STALE} ", "$text-warning bold"
        yield f"{present.clean(stale.citation.test)}\n", ""
        yield from _difference(stale)


_KINDS = {
    ProposalKind.NEW: "a new block",
    ProposalKind.EDITED: "a block with another text",
    ProposalKind.REMOVED: "a block that is removed",
}


def _of_proposal(proposal: ProposalView, heading: HeadingDraft) -> Iterator[Piece]:
    block = proposal.block
    word, part = DECISIONS[proposal.decision]
    yield word, f"bold {_STYLES[part]}"
    yield f"  {_KINDS[block.kind]}, proposed by {present.clean(proposal.agent)}\n\n", _MUTED
    match block.kind:
        case ProposalKind.NEW:
            yield from _numbered(proposal.text)
        case ProposalKind.REMOVED:
            yield from _numbered(block.base, "$text-error")
        case ProposalKind.EDITED:
            yield from _compared(block.base, proposal.text, "- in the tutorial   + proposed")
    if proposal.is_edited:
        yield "\nYou edited it. The agent wrote:\n", _MUTED
        yield from _numbered(block.text)
    if proposal.finding:
        yield "\nYour finding: ", _TITLE
        yield f"{harmless(proposal.finding, 4_000)}\n", ""
    yield from _findings(heading)


def _of_drafter(heading: HeadingDraft) -> Iterator[Piece]:
    agent = heading.agent
    yield f"{run_words.symbol_and_word(agent.how)}", f"bold {run_words.STYLES[agent.how]}"
    yield f"  by {present.clean(agent.agent)}, run {present.clean(agent.run)}\n", _MUTED
    if agent.says:
        yield f"  {harmless(agent.says, 4_000)}\n", ""
    if heading.reason and heading.reason != agent.says:
        yield f"  {harmless(heading.reason, 4_000)}\n", "$text-warning"
    count = present.plural(len(heading.proposals), "proposed block")
    yield f"\n{count}, {heading.open} undecided\n" if heading.proposals else "\nIt proposes no block.\n", _TITLE
    if heading.noted:
        yield "\nYour finding: ", _TITLE
        yield f"{harmless(heading.noted, 4_000)}\n", ""
    yield from _findings(heading)


def _findings(heading: HeadingDraft) -> Iterator[Piece]:
    if heading.found:
        yield "\nWhat its agent found confusing\n", _TITLE
    for text in heading.found:
        yield f"  {harmless(text, 4_000)}\n", "$text-warning"


def _numbered(text: str, style: str = "") -> Iterator[Piece]:
    lines = text.split("\n")
    for number, line in enumerate(lines[:MOST_LINES], start=1):
        yield f"{number:>5}  ", _MUTED
        yield f"{harmless(line)}\n", style or (_MUTED if line.lstrip().startswith("#") else "")
    if len(lines) > MOST_LINES:
        yield f"{'':>5}  … {len(lines) - MOST_LINES:,} more lines\n", _MUTED


def _of_writer(result: Result, view: BlockView) -> Iterator[Piece]:
    yield f"{run_words.symbol_and_word(result.how)}", f"bold {run_words.STYLES[result.how]}"
    yield f"  by {present.clean(result.agent)}, run {present.clean(result.run)}\n", _MUTED
    if result.says:
        yield f"  {harmless(result.says, 4_000)}\n", ""
    if result.offers:
        how = f"{shown('tutorial.review', 'v')} reviews them."
        yield f"\nIt offers these tests, which pass, and fail without the command. {how}\n", _TITLE
    for test in result.offers:
        yield f"  {present.clean(test)}\n", ""
    yield "\nIt writes the tests of this block:\n", _MUTED
    yield from _text_of(view)


def _text_of(view: BlockView) -> Iterator[Piece]:
    lines = view.block.text.split("\n")
    for number, line in enumerate(lines[:MOST_LINES], start=view.block.line):
        yield f"{number:>5}  ", _MUTED
        yield f"{harmless(line)}\n", _MUTED if line.lstrip().startswith("#") else ""
    if len(lines) > MOST_LINES:
        yield f"{'':>5}  … {len(lines) - MOST_LINES:,} more lines\n", _MUTED


def _result_of(test: CitingTest) -> Iterator[Piece]:
    if not test.results:
        yield "  not in the last run  ", _MUTED
        yield f"{present.clean(test.node_id)}\n", ""
    for result in test.results:
        yield f"  {run_words.symbol_and_word(result.how)}  ", run_words.STYLES[result.how]
        yield f"{present.clean(result.node_id)}\n", ""
        if result.says:
            yield f"      {present.clean(result.says)}\n", _MUTED


def _of_test(test: CitingTest, view: BlockView) -> Iterator[Piece]:
    yield f"{present.clean(test.node_id)}\n\n", _TITLE
    if not test.results:
        yield "The last run did not have this test.\n", _MUTED
    for result in test.results:
        yield f"{run_words.symbol_and_word(result.how)}", f"bold {run_words.STYLES[result.how]}"
        yield f"  by {present.clean(result.agent)}\n", _MUTED
        if result.node_id != test.node_id:
            yield f"  {present.clean(result.node_id)}\n", ""
        if result.says:
            yield f"  {harmless(result.says, 4_000)}\n", ""
    yield f"\ncites the block at line {view.block.line}\n", _TITLE
    yield from _text_of(view)


def _of_stale(stale: Stale, tutorial: str) -> Iterator[Piece]:
    yield f"{STALE} ", "$text-warning bold"
    yield f"{present.clean(stale.citation.test)}\n", _TITLE
    if stale.nearest is None or stale.similarity is None:
        yield "cites something that is no block, and no block is like it:\n\n", ""
        for line in stale.citation.text.strip("\n").split("\n")[:MOST_LINES]:
            yield f"  {harmless(line)}\n", ""
        return
    where = f"{present.clean(tutorial)}:{stale.nearest.line}"
    yield f"cites text that no block has any more; {where} is {stale.similarity:.0%} alike.\n\n", ""
    yield from _difference(stale)


def _difference(stale: Stale) -> Iterator[Piece]:
    if stale.nearest is not None:
        yield from _compared(stale.citation.text, stale.nearest.text, "- cited   + in the tutorial")


def _compared(old: str, new: str, title: str) -> Iterator[Piece]:
    yield f"  {title}\n", _MUTED
    marks = {"-": "bold underline $text-error", "+": "bold underline $text-success", " ": ""}
    plain = {"-": "$text-error", "+": "$text-success", " ": _MUTED}
    for line in differences(old, new):
        yield f"  {line.sign} ", f"bold {plain[line.sign]}"
        for piece in line.pieces:
            yield harmless(piece.text), marks[line.sign] if piece.is_marked else plain[line.sign]
        yield "\n", ""
