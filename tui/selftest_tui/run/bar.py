"""Header of a run's screen: the run with its progress, and a bar with the counts of its tests.

Every count has a fixed place that does not move when it grows, up to the number of all tests.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.cells import cell_len

from selftest_core.run.events import Phase
from selftest_core.run.plan.plan import COMMANDS
from selftest_core.run.progress import progress
from selftest_tui.run import words as run_words
from selftest_tui.shared import present
from selftest_tui.shared.widgets.pieces import PiecesWidget, width_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.run.fold import Run
    from selftest_core.run.progress import Progress
    from selftest_core.usage.tokens import Usage
    from selftest_tui.shared.widgets.pieces import Piece


_NOTHING: Mapping[str, Usage] = MappingProxyType({})
FULL, HALF, EMPTY = "█", "▒", "░"
"""Ended, running, waiting: distinct without colour too."""
LEAST_BAR = 10
ROOMY = 100
"""Width from which the number of tests is shown by itself; `launched 80/96` has it too."""


class RunBar(PiecesWidget):
    """Shows a run at a moment."""

    DEFAULT_CSS = """
    RunBar { height: 2; background: $panel; color: $foreground; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._run: Run | None = None
        self._state = ""
        self._now = 0.0
        self._live: Mapping[str, Usage] = _NOTHING

    def show(self, run: Run, state: str, now: float, live: Mapping[str, Usage] = _NOTHING) -> None:
        """Show a newer run or a later moment. `state`: words of its state; `live`: usage of running agents by id."""
        self._run, self._state, self._now, self._live = run, state, now, live
        self.repaint()

    def lines_of_pieces(self, width: int) -> list[list[Piece]]:
        """Return two lines, none before a run is shown."""
        if self._run is None:
            return []
        made = progress(self._run, self._now, self._live)
        return [self._head(self._run, made, width), _bar(made, width)]

    def _head(self, run: Run, made: Progress, width: int) -> list[Piece]:
        facts = facts_of(run, made)
        head: list[Piece] = [(f" {COMMANDS[run.plan.role]} ", "bold"), (present.clean(run.plan.run), "bold")]
        repository = present.clean(run.plan.repository.rstrip("/").rpartition("/")[2])
        state: list[Piece] = [(f"{self._state} ", _style_of_state(self._state))]
        room = width - width_of(state) - 2
        count = f"  {present.plural(made.tests, run.plan.noun)}" if width >= ROOMY else ""
        for words, style in ((f"  {repository}", ""), (count, "")):
            if width_of(head) + cell_len(words) <= room:
                head.append((words, style))
        gap = "     " if width >= 120 else "  "
        for number, fact in enumerate(facts):
            words = f"{gap if number == 0 else ' · '}{fact}"
            if width_of(head) + cell_len(words) > room:
                break
            head.append((words, "$foreground-muted"))
        return [*head, (" " * max(1, width - width_of(head) - width_of(state)), ""), *state]


def facts_of(run: Run, made: Progress) -> list[str]:
    """Return the progress of a run in words, the most wanted first."""
    facts = [f"launched {made.launched}/{made.tests}"]
    if made.seconds_left is not None:
        facts.append(f"about {in_words(made.seconds_left)} left")
    if made.spent.usage is not None:
        budget = "" if run.plan.budget_usd is None else f" of ${run.plan.budget_usd:.2f}"
        facts.append(f"{present.cost(made.spent.usage)}{budget}")
    most = run.plan.max_running
    is_most = run.is_over or run.at_once == most
    facts.append(f"at most {most} at once" if is_most else f"{run.at_once} of {most} at once")
    if made.limited:
        facts.append(f"{made.limited} rate limited")
    return facts


def in_words(seconds: float) -> str:
    """Return an estimated span in minutes or hours."""
    minutes = max(1, math.ceil(seconds / 60))
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _style_of_state(state: str) -> str:
    if state.startswith("●"):
        return "$text-success"
    return "$text-success" if state.startswith("✓") else "bold $text-warning"


def _counts(made: Progress, width: int) -> list[list[Piece]]:
    """Return the counts with words and without."""
    digits = len(str(made.tests))
    ends = [
        (look.symbol, made.count(group), look.word, look.style, look.is_always)
        for group, look in run_words.GROUPS.items()
    ]
    parts: list[tuple[str, int, str, str, bool]] = [
        *(part for part in ends if part[4]),
        ("◆", made.needing, "need you", "$text-warning", True),
        ("●", made.running - made.needing, "working", run_words.STYLES[Phase.WORKING], True),
        ("…", made.waiting, "waiting", run_words.STYLES[Phase.WAITING], True),
        *(part for part in ends if not part[4]),
    ]
    found: list[list[Piece]] = []
    for in_words_ in (True, False):
        pieces: list[Piece] = []
        for sign, count, word, style, is_always in parts:
            if not count and not is_always:
                continue
            said = f" {word}" if in_words_ else ""
            shade = style if count else "$foreground-disabled"
            if count and sign in "◆✗":
                shade = f"bold {style}"
            pieces += [(f"{sign} {count:>{digits}}{said}", shade), ("  ", "")]
        found.append(pieces)
    return found


def _bar(made: Progress, width: int) -> list[Piece]:
    long, short = _counts(made, width)
    counts = long if width - width_of(long) - 3 >= 2 * LEAST_BAR else short
    room = width - width_of(counts) - 3
    if room < LEAST_BAR:
        return [(" ", ""), *short]
    room = min(room, 80)
    return [(" ", ""), *_cells(made, room), ("  ", ""), *counts]


def _cells(made: Progress, room: int) -> list[Piece]:
    """Return the bar: each kind has its share, and at least one cell where it occurs and there is room."""
    kinds = [
        *((made.count(group), FULL, look.bar) for group, look in run_words.GROUPS.items()),
        (made.running, HALF, "$success"),
        (made.waiting, EMPTY, "$foreground-disabled"),
    ]
    cells = shares([count for count, _, _ in kinds], room)
    return [(sign * size, style) for size, (_, sign, style) in zip(cells, kinds, strict=True) if size]


def shares(counts: Sequence[int], room: int) -> list[int]:
    """Share out `room` cells in proportion. Every count above 0 gets at least one, and all cells are given."""
    total = sum(counts)
    if not total:
        return [*[0] * (len(counts) - 1), room]
    cells = [max(1, room * count // total) if count else 0 for count in counts]
    while sum(cells) > room:
        cells[cells.index(max(cells))] -= 1
    cells[counts.index(max(counts))] += room - sum(cells)
    return cells
