"""The outcome that an agent reports of its test, as values, and the end that is derived from it.

An outcome is claimed by the agent; nothing here verifies it. `outcome_file` reads it from `outcome.json`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_core.run.outcome.ends import End

if TYPE_CHECKING:
    from collections.abc import Mapping


NO_COMMIT = "claims a fix of the product (FIX_IMPL), and its branch has no commit"


class ChangeKind(StrEnum):
    """The known kinds of change. Only FIX_IMPL is a fix of the product."""

    IMPROVE_TEST = "IMPROVE_TEST"
    FIX_TEST = "FIX_TEST"
    FIX_IMPL = "FIX_IMPL"
    FIX_TUTORIAL = "FIX_TUTORIAL"
    CREATE_TEST = "CREATE_TEST"


class ChangeStatus(StrEnum):
    """The status of a change."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    BLOCKED = "BLOCKED"


class EscalationKind(StrEnum):
    """The known kinds of reports to a user."""

    BLOCKER = "BLOCKER"
    SHARED_PATTERN = "SHARED_PATTERN"
    UNCAUGHT_BUG = "UNCAUGHT_BUG"
    FIX_DIRECTION_AMBIGUOUS = "FIX_DIRECTION_AMBIGUOUS"
    HARNESS_DEFECT = "HARNESS_DEFECT"
    SUITE_DUPLICATION = "SUITE_DUPLICATION"
    CONFUSING_INTERFACE = "CONFUSING_INTERFACE"


@dataclass(frozen=True, slots=True)
class Change:
    """A change that the agent claims it made or tried. `kind`, `status`: as the agent wrote them, known or not."""

    kind: str
    status: str
    summary: str


@dataclass(frozen=True, slots=True)
class TestRun:
    """One run of the test that the agent recorded."""

    __test__ = False  # not for pytest

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the repository, as the agent wrote it: it may not exist. `line` is 1-based."""

    path: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Escalation:
    """Something that the agent reports to a user."""

    kind: str
    title: str
    detail: str
    locations: tuple[Location, ...]


@dataclass(frozen=True, slots=True)
class Importance:
    """The importance of the changes, as the agent judges it. `level`: critical, high, normal, low, or another word."""

    level: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One report. Texts are untrusted Markdown. `more`: unknown fields."""

    errored: bool
    tests_passing_before: bool | None
    tests_passing_after: bool | None
    summary: str
    changes: tuple[Change, ...]
    test_runs: tuple[TestRun, ...]
    escalations: tuple[Escalation, ...]
    importance: Importance | None
    more: Mapping[str, Any]


def reported_end(outcome: Outcome, has_commits: bool | None) -> End:
    """Decide the end that an outcome claims. `has_commits`: the agent's branch has commits; None if unknown.

    Blocked comes before red: the prompt tells a blocked agent to leave its test red. A fix of the product without a
    commit is red: there is nothing that could make the test pass.
    """
    statuses = {change.status.strip().upper() for change in outcome.changes}
    if ChangeStatus.BLOCKED in statuses or any(_is_block(escalation) for escalation in outcome.escalations):
        return End.BLOCKED
    if outcome.errored or outcome.tests_passing_after is False or ChangeStatus.FAILED in statuses:
        return End.RED
    if lacks_its_commit(outcome, has_commits=has_commits):
        return End.RED
    return End.SUCCEEDED if outcome.changes or has_commits else End.UNCHANGED


def lacks_its_commit(outcome: Outcome, *, has_commits: bool | None) -> bool:
    """True if an agent claims a fix of the product, and its branch has no commit."""
    return has_commits is False and claims_fix(outcome)


def claims_fix(outcome: Outcome) -> bool:
    """True if an agent claims a fix of the product."""
    return any(
        _is(change.kind, ChangeKind.FIX_IMPL) and _is(change.status, ChangeStatus.SUCCEEDED)
        for change in outcome.changes
    )


def evidence(outcome: Outcome, end: End, *, has_commits: bool = True) -> str:
    """Return the part of a report that tells why its test is blocked or red; clusters compare it."""
    if end is End.BLOCKED:
        told = [one.title or one.detail for one in outcome.escalations if _is_block(one)]
        told += [one.summary for one in outcome.changes if _is(one.status, ChangeStatus.BLOCKED)]
    elif end is End.RED:
        told = [one.summary for one in outcome.changes if _is(one.status, ChangeStatus.FAILED)]
        is_own_word = outcome.errored or outcome.tests_passing_after is False
        if not told and not is_own_word and lacks_its_commit(outcome, has_commits=has_commits):
            told = [NO_COMMIT]
    else:
        told = []
    return next((text for text in told if text.strip()), outcome.summary)


def _is_block(escalation: Escalation) -> bool:
    """True if the agent cannot continue without a user."""
    blocks = (EscalationKind.BLOCKER, EscalationKind.FIX_DIRECTION_AMBIGUOUS)
    return any(_is(escalation.kind, kind) for kind in blocks)


def _is(word: str, known: StrEnum) -> bool:
    return word.strip().upper() == known
