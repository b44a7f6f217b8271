"""Mutants of the core, the recorder and the screens: one decision each that users rely on, with its room's tests."""

from __future__ import annotations

from dataclasses import dataclass

_REVIEW = "core/selftest_core/review"
_RUN = "core/selftest_core/run"
_VERIFY = "core/selftest_core/verify"
_FLEET = "core/selftest_core/fleet"


@dataclass(frozen=True)
class Mutant:
    """One fault. `before` stands exactly once in `path`. `tests`: arguments for pytest, such as files and node ids."""

    name: str
    path: str
    before: str
    after: str
    tests: tuple[str, ...]


MUTANTS = (
    Mutant(
        "ranking: tests fixed before the number of agents",
        f"{_REVIEW}/changes/ranking.py",
        "-self.votes, -self.turned_green,",
        "-self.turned_green, -self.votes,",
        ("tests/core/review/changes/test_collect_changes.py",),
    ),
    Mutant(
        "split: lines after the last hunk are lost",
        f"{_REVIEW}/changes/parts.py",
        "yield from old[at:]\n",
        "yield from old[at + 1 :]\n",
        ("tests/core/review/changes/test_parts.py",),
    ),
    Mutant(
        "split: a folder in the place of a file is lost",
        f"{_REVIEW}/changes/parts.py",
        "key=lambda one: one[1] is not None",
        "key=lambda one: one[1] is None",
        ("tests/core/review/changes/test_parts.py",),
    ),
    Mutant(
        "split: parts are not made again before publishing",
        f"{_REVIEW}/apply_decisions.py",
        "prepare=lambda fresh: shape(fresh.shapes, plan.ranked, reviewed.decisions),",
        "prepare=lambda fresh: None,",
        ("tests/core/review/test_shaping.py",),
    ),
    Mutant(
        "reword: the trailers of the author are lost",
        f"{_REVIEW}/changes/messages.py",
        "[*own, *split_trailers(message)[1], *_credits([message])]",
        "[*own, *_credits([message])]",
        ("tests/core/review/test_shaping.py",),
    ),
    Mutant(
        "ranking: little changes last",
        f"{_REVIEW}/changes/ranking.py",
        "self.meets, self.files, self.lines)",
        "self.meets, -self.files, -self.lines)",
        ("tests/core/review/changes/test_collect_changes.py",),
    ),
    Mutant(
        "ranking: an agent's changes out of their order",
        f"{_REVIEW}/changes/ranking.py",
        "    waiting = [len(others) for others in needed]",
        "    waiting = [0 for others in needed]",
        ("tests/core/review/changes/test_collect_changes.py",),
    ),
    Mutant(
        "conduct: stopped by someone else is not seen",
        f"{_RUN}/conduct/policy.py",
        '    if seen.life is Life.STOPPED:\n        return End.STOPPED, "it was stopped by someone else"\n',
        "",
        ("tests/core/run/conduct/test_policy.py",),
    ),
    Mutant(
        "conduct: an agent that is late is waited for",
        f"{_RUN}/conduct/policy.py",
        "worked >= timeout",
        "worked > 10 * timeout",
        ("tests/core/run/conduct/test_policy.py",),
    ),
    Mutant(
        "conduct: an accepted cause pauses again",
        f"{_RUN}/conduct/circuit_breaker.py",
        " and key not in run.accepted",
        "",
        ("tests/core/run/conduct/test_conductor.py",),
    ),
    Mutant(
        "run: a line that was applied is applied again",
        f"{_RUN}/fold.py",
        "        if entry.number <= draft.last:",
        "        if entry.number < draft.last:",
        ("tests/core/run/test_fold.py",),
    ),
    Mutant(
        "run: a line of an earlier attempt counts",
        f"{_RUN}/fold.py",
        'phase is None or entry.fields.get("attempt") != row.attempt + (event is Event.LAUNCHING)',
        "phase is None",
        ("tests/core/run/test_fold.py",),
    ),
    Mutant(
        "run: a claim that failed stays a success",
        f"{_RUN}/fold.py",
        "            if result == ClaimResult.FAILED:",
        "            if not result:",
        ("tests/core/run/conduct/test_claims.py",),
    ),
    Mutant(
        "gate: work that cannot be judged passes",
        f"{_RUN}/conduct/finisher.py",
        '        reason = f"it could not be checked: {describe_unexpected(error)}"',
        '        reason = ""',
        ("tests/core/run/conduct/test_gate.py",),
    ),
    Mutant(
        "crew: a command in a variable with a blank is executed",
        f"{_RUN}/crew/mngr_commands.py",
        '        return re.sub(r"([\\\\$`])", r"\\\\\\1", text)',
        "        return text",
        ("tests/core/run/crew/test_sourced_values.py",),
    ),
    Mutant(
        "draft: an agent may change the blocks of another heading",
        "core/selftest_core/draft/proposals.py",
        "        if number != at and _texts(one.blocks) != _texts(other.blocks)",
        "        if False",
        ("tests/core/draft/test_proposals.py",),
    ),
    Mutant(
        "draft: a block that nobody decided is kept",
        "core/selftest_core/draft/decisions.py",
        "        return BlockDecision.KEEP if block.id in self.edits else self.default",
        "        return BlockDecision.KEEP",
        ("tests/core/draft/test_draft_log.py",),
    ),
    Mutant(
        "budget: running agents need nothing more",
        f"{_RUN}/spending.py",
        "wanted + expected <= budget",
        "wanted <= budget",
        ("tests/core/run/test_spending.py",),
    ),
    Mutant(
        "budget: the next agent costs nothing",
        f"{_RUN}/spending.py",
        "spent + (making + 1) * each",
        "spent",
        ("tests/core/run/test_spending.py",),
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
        "outcome: a fix without a commit is a success",
        f"{_RUN}/outcome/outcome.py",
        "    if lacks_its_commit(outcome, has_commits=has_commits):\n        return End.RED\n",
        "",
        ("tests/core/run/outcome",),
    ),
    Mutant(
        "outcome: a key that occurs twice is taken",
        f"{_RUN}/outcome/outcome_file.py",
        "    if len(made) != len(pairs):",
        "    if len(made) > len(pairs):",
        ("tests/core/run/outcome/test_outcome.py",),
    ),
    Mutant(
        "fleet: an idle agent works",
        f"{_FLEET}/state_rules.py",
        "        if is_active and not (is_blocked and has_markers(agent_type)):",
        "        if not (is_blocked and has_markers(agent_type)):",
        ("tests/core/fleet",),
    ),
    Mutant(
        "fleet: an agent at a dialog works",
        f"{_FLEET}/state_rules.py",
        "        if is_active and not (is_blocked and has_markers(agent_type)):",
        "        if is_active:",
        ("tests/core/fleet",),
    ),
    Mutant(
        "fleet: mngr's stopped wins over a session that is there",
        f"{_FLEET}/state_rules.py",
        "    if by_mngr is State.STOPPED and local.session is not None:",
        "    if by_mngr is State.STOPPED and local.session is None:",
        ("tests/core/fleet",),
    ),
    Mutant(
        "decisions: a rule keeps what weakens a test",
        f"{_REVIEW}/decisions.py",
        "    if decision is None or is_guarded(change, decisions):",
        "    if decision is None:",
        ("tests/core/review/test_review.py",),
    ),
    Mutant(
        "decisions: the rule of a kind before a person's decision",
        f"{_REVIEW}/decisions.py",
        "explicit[change.oid] or by_rule(change, decisions)[0]",
        "by_rule(change, decisions)[0]",
        ("tests/core/review/test_review.py",),
    ),
    Mutant(
        "decisions: two on one change are taken",
        f"{_REVIEW}/decisions.py",
        "            if values[other] != values[found[0]]:",
        "            if values[other] is None:",
        ("tests/core/review/changes/test_collect_changes.py",),
    ),
    Mutant(
        "weakening: a changed assertion is none",
        f"{_REVIEW}/changes/weakening.py",
        "        elif not _is_tighter(one, added[number]):",
        "        elif _is_tighter(one, added[number]):",
        ("tests/core/review/changes/test_weakening.py",),
    ),
    Mutant(
        "weakening: a looser comparison is tighter",
        f"{_REVIEW}/changes/weakening.py",
        "(ast.LtE, ast.Eq), (ast.GtE, ast.Eq)",
        "(ast.Eq, ast.LtE), (ast.Eq, ast.GtE)",
        ("tests/core/review/changes/test_weakening.py",),
    ),
    Mutant(
        "publish: undecided changes go along",
        f"{_REVIEW}/apply_decisions.py",
        "Decision.REVERT if decision is Decision.UNDECIDED else decision",
        "Decision.KEEP if decision is Decision.UNDECIDED else decision",
        (
            "tests/core/review/test_review.py",
            "tests/core/review/test_session.py",
        ),
    ),
    Mutant(
        "publish: over a branch that moved",
        f"{_REVIEW}/publishing.py",
        "        if existing not in (None, last):",
        "        if existing is not None and last is None:",
        ("tests/core/review/test_publishing.py",),
    ),
    Mutant(
        "publish: over a branch that is checked out",
        f"{_REVIEW}/publishing.py",
        "        if ref in self.folders:",
        "        if ref in self.folders.values():",
        ("tests/core/review/test_publishing.py",),
    ),
    Mutant(
        "publish: a wrong branch is not found by rebuilding",
        f"{_REVIEW}/publishing.py",
        "    if (again.tree, again.tip) != (line.tree, line.tip):",
        "    if again.tree is None:",
        ("tests/core/review/test_publishing.py",),
    ),
    Mutant(
        "verdict: one green run is green",
        f"{_VERIFY}/verdicts.py",
        "Verdict.GREEN if all(one is Result.PASSED for one in results) else Verdict.FLAKY",
        "Verdict.GREEN",
        ("tests/core/verify/test_verdicts.py",),
    ),
    Mutant(
        "verdict: a broken test is only red",
        f"{_VERIFY}/verdicts.py",
        "Effect.KEPT if is_green else Effect.BROKEN",
        "Effect.KEPT if is_green else Effect.STILL_RED",
        ("tests/core/verify/test_verdicts.py",),
    ),
    Mutant(
        "verdict: a timeout is kept for its tree",
        f"{_VERIFY}/verdicts.py",
        "Result.FLAKY, Result.TIMEOUT, Result.CRASHED, Result.NOT_RUN)",
        "Result.FLAKY, Result.CRASHED, Result.NOT_RUN)",
        ("tests/core/verify",),
    ),
    Mutant(
        "paths: .GIT is allowed",
        "core/selftest_core/git/unsafe_paths.py",
        '.casefold().rstrip(". ")',
        '.rstrip(". ")',
        ("tests/core/review/changes/test_inputs.py",),
    ),
    Mutant(
        "paths: a submodule has no caution",
        "core/selftest_core/git/unsafe_paths.py",
        '_SUBMODULE = "160000"',
        '_SUBMODULE = "040000"',
        ("tests/core/review/changes/test_inputs.py",),
    ),
    Mutant(
        "journal: a changed line is read",
        "core/selftest_core/journal.py",
        "if len(checksum) != 8 or int(checksum, 16) != zlib.crc32(text):",
        "if len(checksum) != 8:",
        ("tests/core/test_journal.py",),
    ),
    Mutant(
        "journal: a line may be missing",
        "core/selftest_core/journal.py",
        " or entry.number != len(entries) + 1",
        "",
        ("tests/core/test_journal.py",),
    ),
    Mutant(
        "citations: a block with a line more is cited",
        "core/selftest_core/tutorial/coverage.py",
        "not self.stale and all(cited.tests for cited in self.blocks)",
        "not self.stale",
        ("tests/core/tutorial",),
    ),
    Mutant(
        "citations: tests in classes are not read",
        "core/selftest_core/tutorial/citations.py",
        "            yield from each_test(statement.body, (*names, statement.name))\n",
        "            continue\n",
        ("tests/core/tutorial/test_citations.py",),
    ),
    Mutant(
        "keys: a step beyond the end",
        "tui/selftest_tui/replay/keys.py",
        "if now.is_at_end else None",
        "if now.is_at_start else None",
        ("tests/tui/replay",),
    ),
    Mutant(
        "redaction: a value that reads cut is shown",
        "recorder/selftest_recorder/onhost/masking.py",
        "self._give(max(self._value_may_begin(), self._shape_may_begin()))",
        "self._give(0)",
        ("tests/recorder/onhost/test_masking.py",),
    ),
    Mutant(
        "redaction: only the first place of a value",
        "recorder/selftest_recorder/onhost/masking.py",
        "place = whole.find(value, place + len(value))",
        "place = -1",
        ("tests/recorder/onhost/test_masking.py",),
    ),
    Mutant(
        "sync: an agent may change the tutorial",
        "core/selftest_core/sync/judging.py",
        "if after.tutorial != before.tutorial:",
        "if after.tutorial is None:",
        ("tests/core/sync/test_judging.py",),
    ),
    Mutant(
        "sync: refused work is offered in the review",
        f"{_REVIEW}/changes/inputs.py",
        "row.gate == ClaimResult.PASSED",
        "not row.is_verifying",
        ("tests/core/review/changes/test_inputs.py",),
    ),
)
