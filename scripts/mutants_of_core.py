"""Mutants of the core and the recorder: one decision each that users rely on, with the tests of its room."""

from __future__ import annotations

from scripts.mutants import Mutant

_REVIEW = "core/selftest_core/review"
_RANKING = ("tests/core/review/changes/test_collect_changes.py",)
_RUN = "core/selftest_core/run"

MUTANTS = (
    Mutant(
        "ranking: tests fixed before the number of agents",
        f"{_REVIEW}/changes/ranking.py",
        "-self.votes, -self.turned_green,",
        "-self.turned_green, -self.votes,",
        _RANKING,
    ),
    Mutant(
        "ranking: little changes last",
        f"{_REVIEW}/changes/ranking.py",
        "self.meets, self.files, self.lines)",
        "self.meets, -self.files, -self.lines)",
        _RANKING,
    ),
    Mutant(
        "conduct: stopped by someone else is not seen",
        f"{_RUN}/conduct/policy.py",
        '    if seen.life is Life.STOPPED:\n        return End.STOPPED, "it was stopped by someone else"\n',
        "",
        ("tests/core/run/conduct/test_policy.py",),
    ),
    Mutant(
        "outcome: red before blocked",
        f"{_RUN}/outcome/outcome.py",
        "    if ChangeStatus.BLOCKED in statuses or any(_is_block(escalation) for escalation in outcome.escalations):\n"
        "        return End.BLOCKED\n"
        "    if outcome.errored or outcome.tests_passing_after is False or ChangeStatus.FAILED in statuses:\n"
        "        return End.RED\n",
        "    if outcome.errored or outcome.tests_passing_after is False or ChangeStatus.FAILED in statuses:\n"
        "        return End.RED\n"
        "    if ChangeStatus.BLOCKED in statuses or any(_is_block(escalation) for escalation in outcome.escalations):\n"
        "        return End.BLOCKED\n",
        ("tests/core/run/outcome",),
    ),
    Mutant(
        "decisions: a rule keeps what weakens a test",
        f"{_REVIEW}/decisions.py",
        "    if decision is None or is_guarded(change, decisions):",
        "    if decision is None:",
        ("tests/core/review/test_review.py",),
    ),
)
