"""The contents of the tutorial's screen: blocks, the tests that cite them, and their results in the last run. Pure.

    view = join(check, run)             blocks with citations and results
    lines = lay_out(view, Layout(...))  the lines of the screen

A test's citations and rows of the run are joined by its node id without parameters, which is all that a syntax tree
knows. A stale citation is shown below its nearest block.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.draft.decisions import BlockDecision
from selftest_core.frozen import dataclass
from selftest_core.run.events import Phase
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan_builder import without_parameters
from selftest_tui.shared.filter import Finder, Language, facts, hyphenated
from selftest_tui.tutorial.drafts import HeadingDraft
from selftest_tui.tutorial.results import GRAVEST_FIRST, result_of_row, worst

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from selftest_core.errors import SelftestError
    from selftest_core.run.fold import Run
    from selftest_core.tutorial.check import Check
    from selftest_core.tutorial.coverage import Stale
    from selftest_core.tutorial.tutorial import Block, Heading
    from selftest_tui.shared.filter import Facts
    from selftest_tui.tutorial.drafts import DraftView, ProposalView
    from selftest_tui.tutorial.results import Result

_TITLE = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class CitingTest:
    """A test that cites a block. `results`: of the last run, one for each set of parameters; empty if it was not in it.

    `path` and `line`: of its first citation.
    """

    node_id: str
    path: str
    line: int
    results: tuple[Result, ...] = ()

    @property
    def how(self) -> End | Phase | None:
        """The worst of its results; None if it was not in the last run."""
        return min((result.how for result in self.results), key=GRAVEST_FIRST.index, default=None)


@dataclass(frozen=True, slots=True)
class Note:
    """A warning at a line of a file. `path`: None for the tutorial."""

    path: str | None
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class BlockView:
    """A block with its tests, stale citations and warnings. `title`: of its heading, "" before the first. `nth`: its
    number among equal blocks. `writers`: the agents of the last sync that write its tests, while it is open.
    """

    block: Block
    nth: int
    title: str
    tests: tuple[CitingTest, ...] = ()
    stale: tuple[Stale, ...] = ()
    notes: tuple[Note, ...] = ()
    writers: tuple[Result, ...] = ()

    @property
    def result(self) -> Result | None:
        """The worst result of its tests in the last run; None if none of them was in it."""
        return worst(result for test in self.tests for result in test.results)

    @property
    def is_open(self) -> bool:
        """True if no test cites it, or a citation of it is stale."""
        return not self.tests or bool(self.stale)


@dataclass(frozen=True, slots=True)
class HeadingView:
    """A heading, for the choice of what is drafted. `id`: its words, as drafts name it. `line`: its first.

    `title`: as the screen shows it.
    """

    id: str
    line: int
    title: str
    has_blocks: bool


@dataclass(frozen=True, slots=True)
class TutorialView:
    """The whole view. `astray`: stale citations that resemble no block. `run`: the id of the last run, or "".

    `draft`: the newest draft of the repository, None without one, and where it cannot be read (`draft_error`).
    """

    blocks: tuple[BlockView, ...] = ()
    astray: tuple[Stale, ...] = ()
    notes: tuple[Note, ...] = ()
    """Notes without a block: about the preamble, and about unreadable test files."""
    tests: int = 0
    run: str = ""
    headings: tuple[HeadingView, ...] = ()
    draft: DraftView | None = None
    draft_error: SelftestError | None = None

    @property
    def uncited(self) -> int:
        """Number of blocks that no test cites."""
        return sum(not block.tests for block in self.blocks)

    @property
    def stale(self) -> int:
        """Number of citations that match no block."""
        return len(self.astray) + sum(len(block.stale) for block in self.blocks)

    @property
    def warnings(self) -> int:
        """Number of warnings."""
        return len(self.notes) + sum(len(block.notes) for block in self.blocks)

    def results(self) -> dict[End | Phase, int]:
        """Count the citing tests by result in the last run, the worst first; tests without a result are not counted.

        A test that cites several blocks is counted once.
        """
        once = {test.node_id: test.how for block in self.blocks for test in block.tests}
        counted: defaultdict[End | Phase, int] = defaultdict(int)
        for how in once.values():
            if how is not None:
                counted[how] += 1
        return dict(sorted(counted.items(), key=lambda item: GRAVEST_FIRST.index(item[0])))


def join(
    check: Check,
    run: Run | None,
    sync: Run | None = None,
    headings: tuple[HeadingView, ...] = (),
    offered: Mapping[str, Sequence[str]] | None = None,
) -> TutorialView:
    """Join a check with the last run and the last sync, None if there is no readable one.

    `offered`: by the commits of writers, the tests that cite their blocks there.
    """
    results = _results(run)
    writers = _writers(sync, offered or {})
    places = {one.test: (one.path, one.line) for one in reversed(check.citations)}
    titles = _titles(check)
    beside: defaultdict[int, list[Stale]] = defaultdict(list)
    astray: list[Stale] = []
    for stale in check.coverage.stale:
        if stale.nearest is None:
            astray.append(stale)
        else:
            beside[stale.nearest.line].append(stale)
    notes: defaultdict[int, list[Note]] = defaultdict(list)
    loose: list[Note] = []
    warnings = {warning.line: warning for warning in check.tutorial.warnings}
    for cited in check.coverage.blocks:
        first = cited.block.line
        for line in range(first, first + cited.block.text.count("\n") + 1):
            if (warning := warnings.pop(line, None)) is not None:
                notes[first].append(Note(None, line, warning.message))
    loose += [Note(None, warning.line, warning.message) for warning in warnings.values()]
    loose += [Note(one.path, one.line, one.message) for one in check.unreadable]
    seen: defaultdict[str, int] = defaultdict(int)
    blocks = []
    for cited in check.coverage.blocks:
        block = cited.block
        tests = tuple(CitingTest(test, *places.get(test, ("", 1)), results.get(test, ())) for test in cited.tests)
        nth, seen[block.text] = seen[block.text], seen[block.text] + 1
        view = BlockView(
            block, nth, titles[block.line], tests,
            tuple(beside.get(block.line, ())), tuple(notes.get(block.line, ())),
        )  # fmt: skip
        blocks.append(replace(view, writers=writers.get(block.text, ())) if view.is_open else view)
    return TutorialView(
        tuple(blocks), tuple(astray), tuple(loose), check.tests, "" if run is None else run.plan.run,
        headings,
    )  # fmt: skip


def _results(run: Run | None) -> Mapping[str, tuple[Result, ...]]:
    found: defaultdict[str, list[Result]] = defaultdict(list)
    for row in run.rows.values() if run is not None else ():
        found[without_parameters(row.planned.node_id)].append(result_of_row(row, run))
    return {test: tuple(results) for test, results in found.items()}


def _writers(sync: Run | None, offered: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[Result, ...]]:
    """Map the text of a block to the agents that write its tests."""
    found: defaultdict[str, list[Result]] = defaultdict(list)
    for row in sync.rows.values() if sync is not None else ():
        for text in row.planned.blocks[:1]:
            found[text].append(replace(result_of_row(row, sync), offers=tuple(offered.get(row.tip, ()))))
    return {text: tuple(results) for text, results in found.items()}


def _titles(check: Check) -> Mapping[int, str]:
    """Map the line of each block to the title above it, in one pass over all headings."""
    titles: dict[int, str] = {}
    headings = iter(check.tutorial.headings)
    coming = next(headings, None)
    title = ""
    for cited in check.coverage.blocks:
        while coming is not None and coming.line < cited.block.line:
            title = title_of(coming)
            coming = next(headings, None)
        titles[cited.block.line] = title
    return titles


def title_of(heading: Heading) -> str:
    """Return the text of a heading: its first line with words, without `#` and decoration."""
    for line in heading.text.splitlines():
        if _TITLE.search(line):
            return line.strip().strip("#=-*~ \t")
    return heading.text.splitlines()[0].strip()


# The lines of the screen


@dataclass(frozen=True, slots=True)
class Section:
    """The title of a section. `is_open`: the section collects what is open, else it is a heading of the tutorial."""

    title: str
    count: int
    is_open: bool = False
    is_folded: bool = False

    @property
    def key(self) -> str:
        """The identity of the section."""
        return self.title


@dataclass(frozen=True, slots=True)
class BlockLine:
    """One block."""

    view: BlockView


@dataclass(frozen=True, slots=True)
class TestLine:
    """A test, below a block that it cites."""

    __test__ = False  # not for pytest

    view: BlockView
    test: CitingTest


@dataclass(frozen=True, slots=True)
class StaleLine:
    """A stale citation below its nearest block; `view`: None if no block is near."""

    view: BlockView | None
    stale: Stale


@dataclass(frozen=True, slots=True)
class WriterLine:
    """An agent that writes tests, below the block that they are for."""

    view: BlockView
    result: Result


@dataclass(frozen=True, slots=True)
class OfferedLine:
    """A test that a writer offers, below its agent."""

    view: BlockView
    result: Result
    test: str


@dataclass(frozen=True, slots=True)
class DrafterLine:
    """An agent that drafts the blocks beneath a heading."""

    heading: HeadingDraft


@dataclass(frozen=True, slots=True)
class ProposalLine:
    """A proposed block, beneath its heading."""

    heading: HeadingDraft
    proposal: ProposalView


@dataclass(frozen=True, slots=True)
class NoteLine:
    """A warning below its block; `view`: None if it has none."""

    view: BlockView | None
    note: Note


type Line = (
    Section | BlockLine | TestLine | StaleLine | WriterLine | OfferedLine | DrafterLine | ProposalLine | NoteLine
)

PROPOSED = "proposed: "
"""Begins the title of the section with the proposed blocks of a heading, where what is open comes first."""
NOT_CITED = "blocks without a test"
STALE = "citations without a block"
NOTES = "warnings"


@dataclass(frozen=True, slots=True)
class Layout:
    """The options of the layout. `open_first`: what is open comes first, in sections of its own.

    `query`: in the language of `shared.filter`. `folded`: titles of closed sections.
    """

    open_first: bool = True
    only_open: bool = False
    query: str = ""
    folded: frozenset[str] = frozenset()

    @property
    def words(self) -> str:
        """The options as text, for the frame."""
        order = "open only" if self.only_open else "open first" if self.open_first else "in file order"
        return order + (f" · /{self.query}" if self.query else "")


FILTER = Language(
    states=(
        "open",
        "cited",
        "uncited",
        "stale",
        "noted",
        "proposed",
        "kept",
        "dropped",
        *map(hyphenated, (*End, *Phase)),
    ),
    fields=("block", "heading", "test", "file"),
)
"""The filter of a tutorial: states of a block, and how the tests that cite it ended in the last run."""


def _facts_of(item: BlockView | Stale | Note | HeadingDraft) -> Facts:
    """The searchable facts of a block or a draft with all that belongs to it, or of a line that belongs to none."""
    if isinstance(item, HeadingDraft):
        texts = tuple(text for one in item.proposals for text in (one.block.base, one.text, one.finding))
        decided = {_DECIDED[one.decision] for one in item.proposals}
        is_open = ["open"] if item.open else []
        words = (item.title, item.agent.agent, *texts, *item.found, item.noted)
        return facts(
            words,
            ["proposed", *is_open, *filter(None, decided), item.agent.how],
            {"block": texts, "heading": (item.title,), "test": (), "file": ()},
        )
    if isinstance(item, Note):
        return facts((item.message, item.path or ""), ("noted",), {"file": (item.path or "",)})
    if not isinstance(item, BlockView):
        one = item.citation
        return facts(
            (one.test, one.text), ("open", "stale"), {"block": (one.text,), "test": (one.test,), "file": (one.path,)}
        )
    states: list[str] = ["cited" if item.tests else "uncited", *(test.how for test in item.tests if test.how)]
    marks = {"open": item.is_open, "stale": bool(item.stale), "noted": bool(item.notes)}
    states += [word for word, has in marks.items() if has]
    tests = (*(test.node_id for test in item.tests), *(stale.citation.test for stale in item.stale))
    fields = {
        "block": (item.block.text,), "heading": (item.title,), "test": tests,
        "file": tuple(test.path for test in item.tests),
    }  # fmt: skip
    return facts((item.title, item.block.text, *tests), states, fields)


_DECIDED = {BlockDecision.KEEP: "kept", BlockDecision.DROP: "dropped", BlockDecision.UNDECIDED: ""}


def lay_out(view: TutorialView, how: Layout) -> tuple[Line, ...]:
    """Lay out the lines. What is open appears once: in a section at the top if it comes first, else in file order."""
    drafts = view.draft.headings if view.draft is not None else ()
    finder: Finder[int, BlockView | Stale | Note | HeadingDraft] = Finder(_facts_of, FILTER)
    found = finder.find(enumerate((*view.blocks, *view.astray, *view.notes, *drafts)), how.query)

    def passing[T](items: Sequence[T], first: int) -> list[T]:
        return [item for place, item in enumerate(items, start=first) if found is None or place in found]

    wanted = passing(view.blocks, 0)
    lines: list[Line] = []
    gathers = how.open_first or how.only_open
    drafted = passing(drafts, len(view.blocks) + len(view.astray) + len(view.notes))
    if gathers:
        for draft in drafted:
            if draft.open or not how.only_open:
                below_it = list(_of_draft(draft))
                _section(lines, how, f"{PROPOSED}{draft.title}", len(draft.proposals), below_it, is_open=True)
        uncited = [block for block in wanted if not block.tests]
        _section(lines, how, NOT_CITED, len(uncited), [line for block in uncited for line in _of(block)], is_open=True)
    stale = [StaleLine(None, one) for one in passing(view.astray, len(view.blocks))]
    drifted = [block for block in wanted if block.tests and block.stale] if gathers else []
    below: list[Line] = [line for block in drifted for line in _of(block)]
    count = len(stale) + sum(len(block.stale) for block in drifted)
    if gathers:
        _section(lines, how, STALE, count, [*below, *stale], is_open=True)
    notes = [NoteLine(None, note) for note in passing(view.notes, len(view.blocks) + len(view.astray))]
    if gathers:
        noted = [block for block in wanted if block.notes and not block.is_open] if how.only_open else []
        of_blocks = [line for block in noted for line in _of(block)]
        _section(lines, how, NOTES, len(notes) + sum(len(b.notes) for b in noted), [*of_blocks, *notes], is_open=True)
    if not how.only_open:
        shown = [block for block in wanted if not (gathers and block.is_open)]
        for title, count, members in _by_heading(shown, () if gathers else drafted):
            _section(lines, how, title, count, members)
    if not gathers:
        _section(lines, how, STALE, count, stale, is_open=True)
        _section(lines, how, NOTES, len(notes), notes, is_open=True)
    return tuple(lines)


def _of(block: BlockView) -> Iterable[Line]:
    yield BlockLine(block)
    yield from (NoteLine(block, note) for note in block.notes)
    yield from (StaleLine(block, stale) for stale in block.stale)
    for result in block.writers:
        yield WriterLine(block, result)
        yield from (OfferedLine(block, result, test) for test in result.offers)
    yield from (TestLine(block, test) for test in block.tests)


def _section(
    lines: list[Line], how: Layout, title: str, count: int, members: Sequence[Line], *, is_open: bool = False
) -> None:
    if not members:
        return
    is_folded = title in how.folded
    if title:
        lines.append(Section(title, count, is_open, is_folded))
    if not (title and is_folded):
        lines += members


def _of_draft(draft: HeadingDraft) -> Iterable[Line]:
    yield DrafterLine(draft)
    yield from (ProposalLine(draft, one) for one in draft.proposals)


def _by_heading(blocks: Sequence[BlockView], drafts: Sequence[HeadingDraft]) -> Iterable[tuple[str, int, list[Line]]]:
    """Yield the sections of the tutorial's headings in the file's order: title, number of blocks, and lines.

    Proposed blocks stand behind the blocks of their heading; a drafted heading without blocks is a section too.
    """
    sections = [
        (group[0].block.line, title, len(group), [line for block in group for line in _of(block)])
        for title, group in _by_title(blocks)
    ]
    for draft in drafts:
        own = next((one for one in sections if one[1] == draft.title and one[0] > draft.line), None)
        if own is None:
            sections.append((draft.line, draft.title, 0, list(_of_draft(draft))))
        else:
            own[3].extend(_of_draft(draft))
    for _, title, count, members in sorted(sections, key=lambda one: one[0]):
        yield title, count, members


def _by_title(blocks: Sequence[BlockView]) -> Iterable[tuple[str, list[BlockView]]]:
    """Group consecutive blocks with one title: a title that occurs again later is a section of its own."""
    group: list[BlockView] = []
    for block in blocks:
        if group and block.title != group[-1].title:
            yield group[-1].title, group
            group = []
        group.append(block)
    if group:
        yield group[-1].title, group


type Identity = tuple[str, ...]


def identity(line: Line) -> Identity:
    """Return the identity of a line across edits: a block has its text, since its line number changes."""
    match line:
        case Section():
            return ("section", line.title)
        case BlockLine():
            return ("block", *_block_identity(line.view))
        case TestLine():
            return ("test", *_block_identity(line.view), line.test.node_id)
        case StaleLine():
            return ("stale", line.stale.citation.test, line.stale.citation.text)
        case WriterLine():
            return ("writer", *_block_identity(line.view), line.result.node_id)
        case OfferedLine():
            return ("offered", *_block_identity(line.view), line.test)
        case DrafterLine():
            return ("drafter", line.heading.id)
        case ProposalLine():
            return ("proposal", line.proposal.block.id)
        case NoteLine():
            return ("note", line.note.path or "", str(line.note.line), line.note.message)


def _block_identity(view: BlockView) -> Identity:
    return (view.block.text, str(view.nth))
