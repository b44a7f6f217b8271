"""Header of a review: progress of the decisions, size of the branch, and whether it can be published.

Every count has a fixed place that does not move when it grows, up to the number of all changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len

from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.verify.background.background_verifier import Phase
from selftest_core.verify.verification import Verified
from selftest_tui.review import words as review_words
from selftest_tui.shared import present
from selftest_tui.shared.keys import shown
from selftest_tui.shared.widgets.pieces import PiecesWidget, width_of

if TYPE_CHECKING:
    from selftest_core.review.state import ReviewState
    from selftest_core.verify.background.background_verifier import VerificationState
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
        self._verification: VerificationState | None = None

    def show(
        self, state: ReviewState | None, opens: int, says: str, verification: VerificationState | None = None
    ) -> None:
        """Show a newer state. `opens`: number of open changes; `says`: the act that is pending, if any."""
        self._state, self._opens, self._says, self._verification = state, opens, says, verification
        self.repaint()

    def lines_of_pieces(self, width: int) -> list[list[Piece]]:
        """Return two lines, one before the review is open."""
        if self._state is None:
            return [[(" review", "bold"), (f"  {self._says}", _MUTED)]]
        verifying = verifying_words(self._verification)
        first = _first(self._state, self._opens, self._says, verifying, width)
        return [first, _second(self._state, self._opens, self._verification, width)]


def verifying_words(verification: VerificationState | None) -> str:
    """Return the progress of a verification in words, with an estimate; "" where nothing is to be said."""
    if verification is None:
        return ""
    match verification.phase:
        case Phase.WAITING:
            return "verifies soon"
        case Phase.PAUSED:
            return f"verification paused ({shown('review.pause', 'H')})"
        case Phase.FAILED:
            return f"verification failed ({shown('review.problems', 'e')})"
        case Phase.RUNNING:
            what = "verifying what is kept" if verification.is_of_kept else "verifying"
            if not verification.known:
                return f"{what} …"
            left = "" if verification.seconds_left is None else f", about {present.ago(verification.seconds_left)}"
            return f"{what}: {verification.done} of {verification.known} runs{left}"
    return ""


def _first(state: ReviewState, opens: int, says: str, verifying: str, width: int) -> list[Piece]:
    """Return name, decisions and conflicts; on the right the pending act, that main has moved, or a verification."""
    digits = len(str(state.total))
    done = max(0, state.total - opens)
    void = sum(placed.status is Status.VOID for placed in state.reviewed.line.items)
    right: list[Piece] = []
    if says:
        right = [(f"{review_words.SETTLING} {says} ", _MUTED)]
    elif state.main_moved:
        right = [(f"{present.clean(state.main)} +{state.main_moved} (B rebase) ", "bold $text-warning")]
    elif verifying:
        right = [(f"{verifying} ", _MUTED)]
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


def _second(state: ReviewState, opens: int, verification: VerificationState | None, width: int) -> list[Piece]:
    """Return a bar of the decisions, the size of the branch, verdicts, and whether it can be published."""
    laid = [placed.item.oid for placed in state.reviewed.line.items if placed.status is Status.LAID]
    opened = sum(state.reviewed.decided[oid] is Decision.UNDECIDED for oid in laid)
    added, removed = state.stat
    right = _publishing(state, verification)
    tests = _verdicts(laid, verification)
    size: list[Piece] = [(f"+{added}", "$text-success"), (" ", ""), (f"{MINUS}{removed}", "$text-error")]
    undecided: list[Piece] = [(f" · {opened} more undecided", _MUTED)] if opened else []
    branch: list[Piece] = [(f" branch now: {present.plural(state.kept, 'change')} ", _MUTED), *size]
    suite: list[Piece] = [(_suite(verification), _MUTED)] if tests else []
    fitting = (
        [*branch, *undecided, *tests, *suite], [*branch, *tests, *suite], [*branch, *tests], [(" ", ""), *size, *tests],
        [*tests],
    )  # fmt: skip
    left = next((one for one in fitting if width_of(one) + width_of(right) + 1 <= width), [])
    room = width - width_of(left) - width_of(right) - 3
    bar: list[Piece] = []
    if room >= LEAST_BAR:
        cells = min(room, MOST_BAR)
        full = cells if not state.total else cells * max(0, state.total - opens) // state.total
        bar = [(" ", ""), (FULL * full, "$success"), (EMPTY * (cells - full), "$foreground-disabled")]
    gap = max(1, width - width_of(left) - width_of(bar) - width_of(right))
    return [*bar, *left, (" " * gap, ""), *right]


_SAID = {
    Verified.PASSED: "verified",
    Verified.FAILED: "tests fail",
    Verified.FLAKY: "tests are flaky",
    Verified.UNKNOWN: "verified in part",
}


def _publishing(state: ReviewState, verification: VerificationState | None) -> list[Piece]:
    """Return whether it can be published, and what our own run of the tests of exactly that says of it."""
    if state.publish_disabled_reason:
        return [(f"▲ cannot publish: {present.clean(state.publish_disabled_reason)} ", "$text-warning")]
    found = None if verification is None else verification.finished.get(state.kept_line.tree)
    mark = review_words.VERIFIED[Verified.UNKNOWN if found is None else found.verified]
    is_green = found is not None and found.verified is Verified.PASSED
    said = "not verified" if found is None else _SAID[found.verified]
    style = "$text-success" if is_green else "$text-warning"
    if state.published is not None and state.published.is_current:
        name = present.clean(state.published.ref.removeprefix("refs/heads/"))
        return [(f"{mark} published as {name}{'' if is_green else f', {said}'} ", style)]
    behind = "; the published branch is out of date" if state.published is not None else ""
    if is_green:
        return [(f"{mark} safe to publish ({shown('review.publish', 'P')}){behind} ", style)]
    return [(f"{mark} {said}: {shown('review.publish', 'P')} asks first{behind} ", style)]


def _verdicts(laid: list[str], verification: VerificationState | None) -> list[Piece]:
    """Return how many applied changes have which verdict."""
    if verification is None or not verification.items:
        return []
    found = [verification.items[oid].verified if oid in verification.items else Verified.UNKNOWN for oid in laid]
    pieces: list[Piece] = [(" ·", _MUTED)]
    for verified, mark in review_words.VERIFIED.items():
        count = found.count(verified)
        if count or verified is not Verified.FLAKY:
            style = f"$text-{review_words.VERIFIED_STYLES[verified]}" if count else _MUTED
            pieces.append((f" {mark} {count}", _MUTED if verified is Verified.UNKNOWN else style))
    if not verification.is_settled:
        pieces.append((review_words.NOT_FINAL, _MUTED))
    return pieces


def _suite(verification: VerificationState | None) -> str:
    is_whole = verification is not None and verification.is_whole_suite
    return " (whole suite)" if is_whole else " (owned tests)"
