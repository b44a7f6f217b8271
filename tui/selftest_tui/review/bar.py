"""Header of a review: progress of the decisions, size of the branch, and whether it can be published.

Every count has a fixed place that does not move when it grows, up to the number of all changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from selftest_core.review.candidate_branch import Decision, Status
from selftest_tui.review import words as review_words
from selftest_tui.shared import present
from selftest_tui.shared.widgets.pieces import PiecesWidget, width_of

if TYPE_CHECKING:
    from selftest_core.review.state import ReviewState
    from selftest_tui.shared.widgets.pieces import Piece


_MUTED = "$foreground-muted"
FULL, EMPTY = "█", "░"
MINUS = "\N{MINUS SIGN}"
LEAST_BAR, MOST_BAR = 8, 30


class ReviewBar(PiecesWidget):
    """Shows the progress of a review."""

    DEFAULT_CSS = """
    ReviewBar { height: 2; background: $panel; color: $foreground; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(id=id)
        self._state: ReviewState | None = None
        self._says = ""
        self._opens = 0

    def show(self, state: ReviewState | None, opens: int, says: str) -> None:
        """Show a newer state. `opens`: number of open changes; `says`: the act that is pending, if any."""
        self._state, self._opens, self._says = state, opens, says
        self.repaint()

    def lines_of_pieces(self, width: int) -> list[list[Piece]]:
        """Return two lines, one before the review is open."""
        if self._state is None:
            return [[(" review", "bold"), (f"  {self._says}", _MUTED)]]
        return [_first(self._state, self._opens, self._says, width), _second(self._state, self._opens, width)]


def _first(state: ReviewState, opens: int, says: str, width: int) -> list[Piece]:
    """Return name, decisions and conflicts; on the right the pending act, or that main has moved."""
    digits = len(str(state.total))
    done = max(0, state.total - opens)
    void = sum(placed.status is Status.VOID for placed in state.reviewed.line.items)
    right: list[Piece] = []
    if says:
        right = [(f"{review_words.SETTLING} {says} ", _MUTED)]
    elif state.main_moved:
        right = [(f"{present.clean(state.main)} +{state.main_moved} (B rebase) ", "bold $text-warning")]
    counts: list[Piece] = [
        (f"{done:>{digits}} of {state.total} decided", "bold $text-success" if not opens else "bold"),
        (f" · {state.held:>{digits}} in conflict", "bold $text-warning" if state.held else _MUTED),
    ]
    more: list[Piece] = []
    if state.new:
        more.append((f" · {len(state.new)} new", "bold $text-primary"))
    if void:
        more.append((f" · {void} empty", _MUTED))
    if state.is_live:
        more.append((" · agents still at work", _MUTED))
    room = width - width_of(right) - 2
    head: list[Piece] = [(" review ", "bold")]
    name = present.clean(state.name).removeprefix("review-")
    onto = f" onto {state.plan.base[:8]}"
    spare = room - width_of(head) - width_of(counts) - 2
    if cell_len(name) <= spare:
        head.append((name, "bold"))
        spare -= cell_len(name)
        if cell_len(onto) <= spare - width_of(more):
            head.append((onto, _MUTED))
    middle = [*head, ("  ", ""), *counts]
    for piece in more:
        if width_of(middle) + cell_len(piece[0]) <= room:
            middle.append(piece)
    return [*middle, (" " * max(1, width - width_of(middle) - width_of(right)), ""), *right]


def _second(state: ReviewState, opens: int, width: int) -> list[Piece]:
    """Return a bar of the decisions, the size of the branch, and whether it can be published."""
    undecided = sum(
        placed.status is Status.LAID and state.reviewed.decided[placed.item.oid] is Decision.UNDECIDED
        for placed in state.reviewed.line.items
    )
    added, removed = state.stat
    right: list[Piece]
    if state.publish_disabled_reason:
        right = [(f"▲ cannot publish: {present.clean(state.publish_disabled_reason)} ", "$text-warning")]
    elif state.published is not None and state.published.is_current:
        right = [(f"✓ published as {present.clean(state.published.ref.removeprefix('refs/heads/'))} ", "$text-success")]
    else:
        behind = "; the published branch is out of date" if state.published is not None else ""
        right = [(f"✓ can be published (P){behind} ", "$text-success")]
    branch: list[Piece] = [
        (f" branch now: {present.plural(state.kept, 'change')} ", _MUTED),
        (f"+{added}", "$text-success"),
        (" ", ""),
        (f"{MINUS}{removed}", "$text-error"),
        (f" · {undecided} more undecided" if undecided else "", _MUTED),
    ]
    # Nothing runs the tests again yet, so no result is shown.
    if width_of(branch) + width_of(right) + 24 <= width:
        branch.append((f" · tests {review_words.UNVERIFIED} not re-run", _MUTED))
    left = branch if width_of(branch) + width_of(right) + 1 <= width else branch[:4]
    room = width - width_of(left) - width_of(right) - 3
    bar: list[Piece] = []
    if room >= LEAST_BAR:
        size = min(room, MOST_BAR)
        full = size if not state.total else size * max(0, state.total - opens) // state.total
        bar = [(" ", ""), (FULL * full, "$success"), (EMPTY * (size - full), "$foreground-disabled")]
    gap = max(1, width - width_of(left) - width_of(bar) - width_of(right))
    return [*bar, *left, (" " * gap, ""), *right]
