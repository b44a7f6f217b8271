"""What the signs on a review's screen are, which styles they have, and what they mean. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.kinds import Kind

if TYPE_CHECKING:
    from selftest_tui.review.lines import ReviewRow

DECISIONS = {Decision.KEEP: "✓", Decision.REVERT: "✗", Decision.UNDECIDED: "·"}
DECISION_STYLES = {Decision.KEEP: "success", Decision.REVERT: "error", Decision.UNDECIDED: "muted"}
DECISION_WORDS = {Decision.KEEP: "kept", Decision.REVERT: "reverted", Decision.UNDECIDED: "undecided"}
STATUSES = {Status.LAID: " ", Status.HELD: "↯", Status.VOID: "∅", Status.DROPPED: " "}
STATUS_STYLES = {Status.LAID: "muted", Status.HELD: "warning", Status.VOID: "muted", Status.DROPPED: "muted"}
SETTLING = "…"
NEEDED_BY, NOTE, NEW, ALIKE, HOT = "↧", "✎", "new", "≈", "⊛"
CLAIMED, CLAIMED_RED, UNVERIFIED = "✔", "✘", "?"
KINDS = {Kind.IMPLEMENTATION: "impl", Kind.TEST: "test", Kind.DOCS: "docs", Kind.BUILD: "build", Kind.MIXED: "mixed"}
HOT_FROM = 3
"""Agents that touched a file from which it is worth a mark."""

MEANINGS = (
    (DECISIONS[Decision.KEEP], "kept: it is published"),
    (DECISIONS[Decision.REVERT], "reverted: it is dropped from the line"),
    (DECISIONS[Decision.UNDECIDED], "undecided: laid, to be seen and tested, and never published"),
    (STATUSES[Status.HELD], "held: it is in conflict, so it is out of the line; tried again when anything changes"),
    (STATUSES[Status.VOID], "void: what it changes is there already"),
    (SETTLING, "decided; the line for it is being laid"),
    (f"{NEEDED_BY}2", "two later changes need it"),
    (f"{ALIKE}2", "two other changes are nearly the same"),
    (f"{HOT}9", "nine agents touched one of its files"),
    (NOTE, "it has a note"),
    (NEW, "it came after the review was opened"),
    (CLAIMED, "its agents say that all tests which they name pass now; not run again by us"),
    (CLAIMED_RED, "an agent says that one of them does not"),
)


def marks(row: ReviewRow) -> str:
    """What else is to be said of a change, in few cells, the gravest first."""
    said = [
        status_words(row),
        f"{NEEDED_BY}{row.needed_by}" if row.needed_by else "",
        f"{ALIKE}{row.alternatives}" if row.alternatives else "",
        f"{HOT}{row.hot}" if row.hot >= HOT_FROM else "",
        NOTE if row.has_note else "",
        NEW if row.is_new else "",
    ]
    return " ".join(word for word in said if word)


def claim(row: ReviewRow) -> str:
    """What its agents say of their tests; empty where they say nothing."""
    if not row.tests:
        return ""
    return CLAIMED if row.passing == row.tests else f"{CLAIMED_RED} {row.passing}/{row.tests}"


def status_words(row: ReviewRow) -> str:
    """What became of it, where that is not what one expects."""
    if row.decision is Decision.REVERT:
        return ""
    return {Status.HELD: "held", Status.VOID: "void"}.get(row.status, "")
