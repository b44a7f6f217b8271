"""The page that `C` opens: the run compared with the one before it. Read in a thread, from the journals of both.

Each test is a line of a list; enter or a click opens it: in this run, or in the run before where only that has it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.padding import Padding
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from selftest_core.compare.reading import compare_runs, previous_run
from selftest_core.compare.words import counts, sections
from selftest_core.errors import UsageError
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.help import TERM_WIDTH, Page, aligned, has_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from textual.app import ComposeResult

    from selftest_core.compare.comparison import Comparison
    from selftest_core.run.fold import Run
    from selftest_core.run.store import RunFolder

_FRAME, _AROUND = 110, 9
"""Cells of the frame at most, and those of its border, padding and scrollbar."""
_INDENT = 2
_WIDEST = 26
"""Cells of how a test differs; `succeeded → unreadable` needs 22."""
type OpenTest = Callable[[RunFolder, str], None]
"""Shows a test of a run, by the planned name of its agent."""


class Compared(NamedTuple):
    """The comparison, with the folders of both runs."""

    found: Comparison
    before: RunFolder
    after: RunFolder


class Entry(NamedTuple):
    """Lines of a term and what it means, harmless. `open_test` shows their test; None where there is none."""

    lines: tuple[tuple[str, str], ...]
    open_test: Callable[[], None] | None = None


class Part(NamedTuple):
    """A heading with its entries. `width`: of the terms, in cells."""

    heading: str
    entries: tuple[Entry, ...]
    width: int = TERM_WIDTH


class ComparisonPage(Page):
    """Shows parts; the cursor is on an entry with a test."""

    HINT = "↑↓ move  ⏎ open the test  / search  esc close"

    def __init__(self, title: str, parts: tuple[Part, ...]) -> None:
        super().__init__(title, ())
        self._parts = parts
        self._entries: list[Entry | None] = []
        """The entry of each option; None for a heading."""

    def body(self) -> ComposeResult:
        """Make the list."""
        yield ComparedTests(id="page", markup=False)

    def on_mount(self) -> None:
        """Show everything."""
        self.show_matching("")

    def show_matching(self, query: str) -> bool:
        """Show only entries with these words; False if there is none."""
        found = [(part, [one for one in part.entries if has_words(one.lines, query)]) for part in self._parts]
        self._entries = []
        options: list[Option] = []
        room = min(_FRAME, self.app.size.width * 9 // 10) - _AROUND
        for part, entries in found:
            if entries:
                self._entries += [None, *entries]
                blank = "\n" if options else ""
                options.append(Option(Content.assemble((f"{blank}{part.heading}", "bold $primary")), disabled=True))
                options += [_option(one, part.width, room) for one in entries]
        self._list.clear_options().add_options(options)
        self.action_go("home")
        return bool(options)

    @property
    def _list(self) -> OptionList:
        return self.query_one("#page", OptionList)

    def action_scroll(self, lines: int) -> None:
        """Move the cursor down, or up with a negative number."""
        (self._list.action_cursor_down if lines > 0 else self._list.action_cursor_up)()

    def action_page(self, pages: int) -> None:
        """Move the cursor by pages."""
        (self._list.action_page_down if pages > 0 else self._list.action_page_up)()  # type: ignore[no-untyped-call]

    def action_go(self, place: str) -> None:
        """Move the cursor to the first test ("home") or the last ("end")."""
        (self._list.action_first if place == "home" else self._list.action_last)()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show what is above the first test too: the cursor cannot go there."""
        if all(option.disabled for option in self._list.options[: event.option_index]):
            self._list.scroll_home(animate=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Close the page, and open the test."""
        entry = self._entries[event.option_index]
        self.dismiss(None)
        if entry is not None and entry.open_test is not None:
            entry.open_test()


class ComparedTests(OptionList):
    """The list of tests, as plain as the text of other pages."""

    DEFAULT_CSS = """
    ComparedTests, ComparedTests:focus {
        border: none;
        padding: 0;
        background: $surface;
        background-tint: $surface 0%;
        & > .option-list--option, & > .option-list--option-disabled { color: $foreground; padding: 0; }
        & > .option-list--option-highlighted { padding: 0; text-style: none; }
    }
    """


def _option(entry: Entry, width: int, room: int) -> Option:
    """Return the option of an entry in `room` cells. A table wraps long lines, and is slow: hundreds take seconds."""
    lines = [(f"{' ' * _INDENT}{present.fit(term, width)} ", meaning) for term, meaning in entry.lines]
    if all(cell_len(term) <= width and _INDENT + width + 1 + cell_len(says) <= room for term, says in entry.lines):
        shown = Content("\n").join(Content.assemble((term, "bold"), meaning) for term, meaning in lines)
        return Option(shown, disabled=entry.open_test is None)
    return Option(Padding(aligned(entry.lines, width), (0, 0, 0, _INDENT)), disabled=entry.open_test is None)


def read_comparison(folder: RunFolder, environ: Mapping[str, str]) -> Compared:
    """Compare a run with the one before it. Raises UsageError if there is none."""
    before = previous_run(folder, environ)
    if before is None:
        detail = "An earlier run of this repository with results is needed."
        raise UsageError(f"There is no run before {folder.run}", detail, "`selftest-tui runs` lists the runs.")
    return Compared(compare_runs(before, folder, environ), before, folder)


def comparison_page(compared: Compared, now: float, open_test: OpenTest) -> ComparisonPage:
    """Return the page; `now` in seconds since the epoch."""
    found = compared.found
    before = found.before.plan
    head = [
        ("since", f"run {before.run}, {present.ago(now - before.created_at)} ago"),
        ("in short", counts(found)),
        *(("!", problem) for problem in found.problems),
    ]
    places = {
        **{test: (compared.before, name) for test, name in _agents(found.before)},
        **{test: (compared.after, name) for test, name in _agents(found.after)},
    }
    parts = [Part("The run before", tuple(Entry(_harmless([line])) for line in head))]
    for one in sections(found):
        entries = []
        for test, words, says in zip(one.tests, one.words, one.says, strict=True):
            lines = _harmless([(words, test.test), *([("", says)] if says else [])])
            entries.append(Entry(lines, partial(open_test, *places[test.test])))
        width = min(_WIDEST, max(cell_len(words) for words in one.words))
        parts.append(Part(f"{one.title} ({len(one.tests)})", tuple(entries), width))
    return ComparisonPage(f"run {present.clean(found.after.plan.run)} compared", tuple(parts))


def _agents(run: Run) -> Iterator[tuple[str, str]]:
    """Yield each test of a run with the planned name of its agent."""
    return ((row.planned.node_id, name) for name, row in run.rows.items())


def _harmless(lines: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((present.clean(term), present.clean(meaning)) for term, meaning in lines)
