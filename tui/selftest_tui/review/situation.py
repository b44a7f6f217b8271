"""Where the person stands on a review's screen when a key is pressed, and why a key cannot do its work there. Pure.

A reason is a whole sentence that says what is in the way and, where there is one, the way out. None: the key works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.review.candidate_branch import Decision, Status

if TYPE_CHECKING:
    from selftest_tui.review.lines import ReviewRow


@dataclass(frozen=True, slots=True)
class ReviewSituation:
    """What the keys' reasons depend on. `targets`: the changes of the group under the cursor, or the one under it.

    `changes` of the whole review, `shown` of them pass the filter; `opens`: how many still need a person. `undo_says`,
    `redo_says`: what that would take back or do again. `main_moved`: commits that the ground has gained. `hunks` of
    the diff that is shown. `authors`: agents of the change that the fleet knows. `editor`: what edits, or "".
    """

    row: ReviewRow | None = None
    on_group: bool = False
    targets: tuple[ReviewRow, ...] = ()
    changes: int = 0
    shown: int = 0
    opens: int = 0
    problems: int = 0
    is_opening: bool = False
    is_linear: bool = False
    undo_says: str = ""
    redo_says: str = ""
    main_moved: int = 0
    is_relaid: bool = False
    hunks: int = 0
    authors: int = 0
    recordings: int = 0
    published: str = ""
    editor: str = ""
    pane_is_open: bool = True
    shows_diff: bool = True
    is_filtered: bool = False


def change_here(now: ReviewSituation) -> str | None:
    """The cursor must be on one change."""
    if now.row is not None:
        return None
    return _none_shown(now) or "The cursor is on a group: → opens it, and one of its changes can be chosen."


def some_target(now: ReviewSituation) -> str | None:
    """There must be a change to decide."""
    return None if now.targets else _none_shown(now)


def _none_shown(now: ReviewSituation) -> str | None:
    if now.is_opening:
        return "The review is still being opened."
    if now.shown:
        return None
    return "No change is shown: esc clears the filter." if now.changes else "This review has no change."


def can_keep(now: ReviewSituation) -> str | None:
    """Something must change by it."""
    return some_target(now) or _is_so(now, Decision.KEEP, "kept already: space makes it undecided again")


def can_revert(now: ReviewSituation) -> str | None:
    """Something must change by it."""
    return some_target(now) or _is_so(now, Decision.REVERT, "reverted already: space makes it undecided again")


def can_unset(now: ReviewSituation) -> str | None:
    """Something must change by it."""
    return some_target(now) or _is_so(now, Decision.UNDECIDED, "undecided already")


def _is_so(now: ReviewSituation, decision: Decision, words: str) -> str | None:
    if any(row.decision is not decision for row in now.targets):
        return None
    return f"It is {words}." if len(now.targets) == 1 else f"All {len(now.targets)} are {words}."


def can_pick(now: ReviewSituation) -> str | None:
    """There must be something to pick it out of."""
    why = change_here(now)
    if why is not None or now.row is None:
        return why
    return None if now.row.alternatives else "No other change is nearly the same as this one."


def something_open(now: ReviewSituation) -> str | None:
    """Tab needs somewhere to go."""
    if now.is_opening:
        return _none_shown(now)
    return None if now.opens else "Nothing is open: every change is decided, and none is held."


def can_undo(now: ReviewSituation) -> str | None:
    """There must be something to take back."""
    return None if now.undo_says else "Nothing was decided yet, so there is nothing to take back."


def can_redo(now: ReviewSituation) -> str | None:
    """Something must have been taken back."""
    return None if now.redo_says else "Nothing was taken back since the last decision."


def can_move(now: ReviewSituation) -> str | None:
    """One item of the line is moved at a time."""
    why = change_here(now)
    if why is not None or now.row is None:
        return why
    if now.is_filtered:
        return "A filter hides some of the line, so its places cannot be told: esc clears it."
    if not now.is_linear and not now.row.change.kind.is_implementation:
        return "Tests, docs and build files are one commit together: their order means nothing."
    return None


def can_relay(now: ReviewSituation) -> str | None:
    """The ground must be another now."""
    if now.main_moved or now.is_relaid:
        return None
    return "What the line is laid on has not moved."


def held_here(now: ReviewSituation) -> str | None:
    """Only what is held has a conflict to see."""
    why = change_here(now)
    if why is not None or now.row is None:
        return why
    return None if now.row.status is Status.HELD else "It is not in conflict."


def can_resolve(now: ReviewSituation) -> str | None:
    """A conflict, and an editor."""
    why = held_here(now)
    if why is not None:
        return why
    return None if now.editor else "Neither VISUAL nor EDITOR is set in the environment, so no editor is known."


def can_message(now: ReviewSituation) -> str | None:
    """Somebody must be there to hear it."""
    why = change_here(now)
    if why is not None or now.row is None:
        return why
    return None if now.authors else "No agent that made it is in the fleet any more, so nobody would hear it."


def can_replay(now: ReviewSituation) -> str | None:
    """There must be a recording."""
    return change_here(now) or (None if now.recordings else "No agent that made it was recorded.")


def can_publish(now: ReviewSituation) -> str | None:
    """There must be a line."""
    return _none_shown(now) if not now.changes or now.is_opening else None


def diff_here(now: ReviewSituation) -> str | None:
    """A diff must be on the screen."""
    if not now.pane_is_open:
        return "The right pane is closed: ⏎ opens it."
    return None if now.shows_diff else "The diff is not shown: 1 shows it."


def hunk_here(now: ReviewSituation) -> str | None:
    """The diff must have a hunk."""
    return diff_here(now) or (None if now.hunks else "This diff has no hunk.")


def pane_open(now: ReviewSituation) -> str | None:
    """The right pane must be on the screen."""
    return None if now.pane_is_open else "The right pane is closed: ⏎ opens it."


def some_problem(now: ReviewSituation) -> str | None:
    """There must be something to tell."""
    return None if now.problems else "Nothing is wrong, and nothing was said."
