"""Texts of the review screen: signs with their styles and meanings, problems, and texts of an empty table. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.fleet.view import Problem
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.kinds import Kind
from selftest_core.verify.verification import Mark, Verified
from selftest_tui.review.lines import MARKS
from selftest_tui.shared import present
from selftest_tui.shared.keys import shown

if TYPE_CHECKING:
    from selftest_core.review.state import ReviewState
    from selftest_tui.review.lines import ReviewRow

DECISIONS = {Decision.KEEP: "✓", Decision.REVERT: "✗", Decision.UNDECIDED: "·"}
DECISION_STYLES = {Decision.KEEP: "success", Decision.REVERT: "error", Decision.UNDECIDED: "muted"}
DECISION_WORDS = {Decision.KEEP: "kept", Decision.REVERT: "reverted", Decision.UNDECIDED: "undecided"}
STATUSES = {Status.LAID: " ", Status.HELD: "↯", Status.VOID: "∅", Status.DROPPED: " "}
STATUS_STYLES = {Status.LAID: "muted", Status.HELD: "warning", Status.VOID: "muted", Status.DROPPED: "muted"}
SETTLING = "…"
NEEDED_BY, NOTE, NEW, DIFFERING, HOT, WEAKENS, RESOLVED = "↧", "✎", "new", "≉", "⊛", "▼", "≠"
MARKED, SQUASHED, REWORDED = "●", "⊕", "reworded"
CLAIMED, CLAIMED_RED, NOT_CLAIMED = "✔", "✘", "·"
VERIFIED = {Verified.PASSED: "✓", Verified.FAILED: "✗", Verified.FLAKY: "~", Verified.UNKNOWN: "?"}
VERIFIED_STYLES = {
    Verified.PASSED: "success", Verified.FAILED: "error", Verified.FLAKY: "warning", Verified.UNKNOWN: "muted",
}  # fmt: skip
NOT_FINAL = "…"
KINDS = {Kind.IMPLEMENTATION: "impl", Kind.TEST: "test", Kind.DOCS: "docs", Kind.BUILD: "build", Kind.MIXED: "mixed"}
HOT_FROM = 3
"""Number of agents that changed a file from which the change gets a mark."""


def meanings() -> tuple[tuple[str, str], ...]:
    """Return every symbol of a review and its meaning, for the help, with the keys of now."""
    return (
        (DECISIONS[Decision.KEEP], "kept: it is published"),
        (DECISIONS[Decision.REVERT], "reverted: it is not on the branch"),
        (DECISIONS[Decision.UNDECIDED], "undecided: on the branch, to be looked at and tested, but never published"),
        (
            STATUSES[Status.HELD],
            "conflict: it cannot be applied, so it is not on the branch; tried again after every change",
        ),
        (
            "agent works",
            f"an agent resolves its conflict ({shown('review.integrate', 'A')}); its answer comes by itself",
        ),
        (STATUSES[Status.VOID], "empty: the branch has these changes already"),
        (SETTLING, "decided; the branch is being updated"),
        (
            RESOLVED,
            f"its conflict is resolved: what is applied is not its agent's commit; {shown('review.original', '=')} "
            "shows that",
        ),
        (
            WEAKENS,
            f"it weakens a test: an assertion, a test or a limit is changed; {shown('review.show_members', '2')} shows "
            "the lines",
        ),
        (f"{NEEDED_BY}2", "two later changes need it"),
        (
            DIFFERING,
            f"its texts say the same, and their verdicts differ: {shown('review.show_alternatives', '5')} shows them, "
            f"{shown('review.apart', '$')} sets one apart",
        ),
        (f"{SQUASHED}3", "three changes are squashed into its commit"),
        (REWORDED, "a person wrote its message"),
        ("1/2", "the first of two parts of a change that was split"),
        (MARKED, "marked for a squash; a hunk: selected for a split"),
        (f"{HOT}9", "nine agents changed one of its files"),
        (NOTE, "it has a note"),
        (NEW, "it arrived after the review was opened"),
        (CLAIMED, "tests, first mark: claimed: its agents report that all tests which they name pass"),
        (CLAIMED_RED, "claimed: an agent reports that one of them fails"),
        (NOT_CLAIMED, "its agents claim nothing"),
        (VERIFIED[Verified.PASSED], "tests, second mark: verified: its tests pass on the branch; we ran them"),
        (VERIFIED[Verified.FAILED], "verified: a test fails, or it breaks the test of another; the pane says which"),
        (VERIFIED[Verified.FLAKY], "verified: a test passes and fails on the same tree"),
        (VERIFIED[Verified.UNKNOWN], f"not verified ({shown('review.verify', 'v')}), or unknown: the pane says why"),
        (f"{VERIFIED[Verified.PASSED]}{NOT_FINAL}", "not final: it is being verified, or the branch has changed since"),
        (MARKS[Mark.LIAR], "its agent says that a test passes; it fails on the agent's own tree"),
        (MARKS[Mark.CULPRIT], "it breaks a test that passes without it"),
        (MARKS[Mark.OWN_JUDGE], "it changes how its own tests are judged: conftest.py, settings of pytest"),
        (MARKS[Mark.EDITED], "a test passes only as it edits it; with the test files of the base it does not"),
        (MARKS[Mark.FEWER], "fewer assertions of a test run with it than before"),
        (MARKS[Mark.NO_FIX], "its agent claims a fix of the product, and none of its changes is one"),
    )


def marks(row: ReviewRow) -> str:
    """Return the marks of a change in few cells, the gravest first."""
    said = [
        *(word for mark, word in MARKS.items() if row.verdict is not None and mark in row.verdict.marks),
        status_words(row),
        RESOLVED if row.is_resolved else "",
        WEAKENS if row.weakens else "",
        f"{NEEDED_BY}{row.needed_by}" if row.needed_by else "",
        DIFFERING if row.differing else "",
        f"{SQUASHED}{len(row.commit_mates) + 1}" if row.commit_mates else "",
        REWORDED if row.change.is_reworded else "",
        f"{HOT}{row.hot}" if row.hot >= HOT_FROM else "",
        NOTE if row.has_note else "",
        NEW if row.is_new else "",
    ]
    return " ".join(word for word in said if word)


def texts(row: ReviewRow) -> str:
    """Return how many texts of how many agents say the same; "" for a change that stands alone."""
    return f"{row.texts} texts of {present.plural(len(row.agents), 'agent')}" if row.others else ""


def claim(row: ReviewRow) -> str:
    """Return what its agents claim of their tests; "" where they claim nothing."""
    if not row.tests:
        return ""
    return CLAIMED if row.passing == row.tests else f"{CLAIMED_RED} {row.passing}/{row.tests}"


def claim_mark(row: ReviewRow) -> str:
    """Return the claim as one mark."""
    return claim(row)[:1] or NOT_CLAIMED


def verified_mark(row: ReviewRow) -> str:
    """Return our verdict as a mark, with a second one where it is not final; "" for what is not on the branch."""
    if row.decision is Decision.REVERT or row.status is Status.VOID:
        return ""
    if row.verdict is None:
        return NOT_FINAL if row.is_verifying else VERIFIED[Verified.UNKNOWN]
    return VERIFIED[row.verdict.verified] + ("" if row.is_settled else NOT_FINAL)


def tests(row: ReviewRow) -> str:
    """Return claim and verdict side by side, in at most four cells."""
    return f"{claim_mark(row)} {verified_mark(row)}".rstrip()


def status_words(row: ReviewRow) -> str:
    """Return the status of a change where it is not applied as expected."""
    if row.decision is Decision.REVERT:
        return ""
    if row.status is Status.HELD and row.integrating:
        return row.integrating
    return {Status.HELD: "conflict", Status.VOID: "empty"}.get(row.status, "")


def review_problems(state: ReviewState | None) -> tuple[Problem, ...]:
    """Return the problems of a review: branches that were left out, decisions whose commits are gone."""
    found = []
    if state is not None and state.plan.left_out:
        count = len(state.plan.left_out)
        title = "1 branch was left out" if count == 1 else f"{count} branches were left out"
        found.append(Problem("left out", title, "\n".join(f"{name}: {why}" for name, why in state.plan.left_out), ""))
    if state is not None and state.missing:
        title = f"{present.plural(len(state.missing), 'decision')} about commits that are gone"
        hint = "Their branches moved. All other decisions stay."
        found.append(Problem("gone", title, "\n".join(state.missing), hint))
    return tuple(found)


def instead_of_lines(state: ReviewState, changes: int, query: str, *, only_open: bool) -> tuple[str, ...]:
    """Return the text of an empty table; the first line is the headline."""
    if query and changes:
        return (f"Nothing matches “{query}”", "", f"{shown('review.back', 'esc')} clears the filter")
    if only_open and changes:
        return (
            "Nothing is open",
            "",
            "Every change is decided, and none is in conflict.",
            f"{shown('review.publish', 'P')} publishes; {shown('review.only_needing', 'a')} shows all again.",
        )
    if state.is_live:
        return ("Nothing to review yet", "", "What the agents of this run commit appears here by itself.")
    return ("Nothing to review", "", "These branches have nothing that the base does not have.")
