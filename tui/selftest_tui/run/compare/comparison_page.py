"""The page that `C` opens: the run compared with the one before it. Read in a thread, from the journals of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from selftest_core.compare.reading import compare_runs, previous_run
from selftest_core.compare.words import counts, sections
from selftest_core.errors import UsageError
from selftest_tui.shared import present
from selftest_tui.shared.dialogs.help import Page, Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.compare.comparison import Comparison
    from selftest_core.run.store import RunFolder

_WIDEST = 26
"""Cells of how a test differs; `succeeded → unreadable` needs 22."""


def read_comparison(folder: RunFolder, environ: Mapping[str, str]) -> Comparison:
    """Compare a run with the one before it. Raises UsageError if there is none."""
    before = previous_run(folder, environ)
    if before is None:
        detail = "An earlier run of this repository with results is needed."
        raise UsageError(f"There is no run before {folder.run}", detail, "`selftest-tui runs` lists the runs.")
    return compare_runs(before, folder, environ)


def comparison_page(found: Comparison, now: float) -> Page:
    """Return the page; `now` in seconds since the epoch."""
    before = found.before.plan
    head = [
        ("since", f"run {before.run}, {present.ago(now - before.created_at)} ago"),
        ("in short", counts(found)),
        *(("!", problem) for problem in found.problems),
    ]
    shown = [Section("The run before", _harmless(head))]
    for one in sections(found):
        width = min(_WIDEST, max(cell_len(words) for words in one.words))
        lines = []
        for test, words, says in zip(one.tests, one.words, one.says, strict=True):
            lines += [(words, test.test), *([("", says)] if says else [])]
        shown.append(Section(f"{one.title} ({len(one.tests)})", _harmless(lines), width))
    return Page(f"run {present.clean(found.after.plan.run)} compared", shown)


def _harmless(lines: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((present.clean(term), present.clean(meaning)) for term, meaning in lines)
