"""What a review's screen says when there is nothing to list, and what hinders it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.fleet.view import Problem
from selftest_tui.shared import present

if TYPE_CHECKING:
    from selftest_core.review.state import ReviewState


def review_problems(state: ReviewState | None) -> tuple[Problem, ...]:
    """What could not be taken, and decisions that are about nothing any more."""
    found = []
    if state is not None and state.plan.left_out:
        count = len(state.plan.left_out)
        title = "1 branch was left out" if count == 1 else f"{count} branches were left out"
        found.append(Problem("left out", title, "\n".join(f"{name}: {why}" for name, why in state.plan.left_out), ""))
    if state is not None and state.missing:
        title = f"{present.plural(len(state.missing), 'decision')} about commits that are not there any more"
        hint = "Their branches moved. What was decided of others stays."
        found.append(Problem("gone", title, "\n".join(state.missing), hint))
    return tuple(found)


def instead_of_lines(state: ReviewState, changes: int, query: str, *, only_open: bool) -> tuple[str, ...]:
    """What stands in the middle when no change is shown: the first is the headline."""
    if query and changes:
        return (f"Nothing matches “{query}”", "", "esc clears the filter")
    if only_open and changes:
        return ("Nothing is open", "", "Every change is decided, and none is held.", "P publishes; a shows all again.")
    if state.is_live:
        return ("Nothing to review yet", "", "What the agents of this run commit appears here by itself.")
    return ("Nothing to review", "", "These branches have nothing that the base does not have.")
