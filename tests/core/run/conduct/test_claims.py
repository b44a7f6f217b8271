"""Claims are verified when they arrive: a lie turns its test red, nothing waits for it, and a kill loses nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.run.rehearsals import a_rehearsal
from selftest_core.run.events import RUNNING, Event, Phase
from selftest_core.run.log_lines import log_line, summary_lines
from selftest_core.run.outcome.claims import ClaimResult, ClaimVerdict
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import RequestKind, RunRequest
from selftest_core.schema.run import exit_status, run_summary
from simulated.crew import Role

if TYPE_CHECKING:
    from pathlib import Path

    from core.run.rehearsals import Rehearsal
    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run

LIE = ClaimVerdict(ClaimResult.FAILED, "it fails on its agent's own tree, 3 times", "E   assert 2 == 1")
HOLDS = ClaimVerdict(ClaimResult.PASSED)


@dataclass
class Verifier:
    """Verdicts by the number of the test; `hangs`: those that end only when they are cancelled."""

    verdicts: dict[int, ClaimVerdict] = field(default_factory=dict)
    hangs: frozenset[int] = frozenset()
    asked: list[tuple[str, str]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    async def verify(self, test: str, commit: str) -> ClaimVerdict:
        self.asked.append((test, commit))
        number = int(test[-2:])
        if number in self.hangs:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.append(test)
        return self.verdicts.get(number, HOLDS)

    async def close(self) -> None: ...


def lines(rehearsal: Rehearsal, event: Event) -> list[str]:
    return [entry.fields["agent"] for entry in rehearsal.ledger.entries if entry.event == event]


def test_a_lie_is_red_and_only_a_person_tries_it_again(tmp_path: Path) -> None:
    verdicts = {
        1: LIE,
        2: ClaimVerdict(ClaimResult.FLAKY, "it failed in 1 of 2 runs"),
        3: ClaimVerdict(ClaimResult.UNKNOWN, "not collected on this tree"),
    }
    told: list[str] = []
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS] * 4 + [Role.STAYS_RED, Role.CHANGES_NOTHING, Role.BLOCKED])
    rehearsal.claims = verifier = Verifier(verdicts)
    assert rehearsal.conduct(on_change=lambda run, entry: told.append(log_line(run, entry))) == "done"
    rows = list(rehearsal.run.rows.values())
    assert [row.end for row in rows] == [
        End.SUCCEEDED, End.RED, End.SUCCEEDED, End.SUCCEEDED, End.RED, End.UNCHANGED, End.BLOCKED,
    ]  # fmt: skip
    assert [row.verified for row in rows] == ["passed", "failed", "flaky", "unknown", "", "passed", ""]
    assert {row.attempt for row in rows} == {1}
    # Each on its own tree, which is the base where it changed nothing.
    assert sorted(verifier.asked) == [
        (row.planned.node_id, row.tip or rehearsal.plan.base) for row in rows if row.verified
    ]
    liar = rows[1]
    assert (liar.stage, liar.text) == ("verify", "E   assert 2 == 1\nclaimed green: " + LIE.reason)
    assert f"{liar.planned.node_id} was claimed green, and fails on its agent's tree: {LIE.reason}" in told
    assert liar.signature == "assert <n> == <n>"  # its cluster is named after pytest's report
    assert exit_status(rehearsal.run) == 1
    summary = run_summary(rehearsal.run, 0.0)
    assert summary.verified == {"passed": 2, "failed": 1, "flaky": 1, "unknown": 1}
    assert summary.outcomes.failed.red == 2  # type: ignore[attr-defined]
    assert any("2 passed, 1 failed, 1 flaky, 1 unknown" in line for line in summary_lines(rehearsal.run))
    assert liar.planned.node_id in [test for cluster in summary.clusters for test in cluster.tests]

    # The person tries it again, and now the claim holds.
    verdicts[1] = HOLDS
    rehearsal.folder.add_request(RunRequest(RequestKind.RETRY, liar.name))
    assert rehearsal.conduct() == "done"
    again = rehearsal.run.rows[liar.name]
    assert (again.end, again.attempt, again.verified) == (End.SUCCEEDED, 2, "passed")


def test_nothing_waits_for_a_claim_that_is_being_verified_but_the_end_of_the_run(tmp_path: Path) -> None:
    seen: list[Run] = []

    def follow(run: Run, entry: Entry) -> None:
        seen.append(run)
        if sum(row.phase is Phase.ENDED for row in run.rows.values()) == len(run.rows) and not run.is_halted:
            rehearsal.folder.add_request(RunRequest(RequestKind.STOP))

    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS] * 4, max_running=1)
    rehearsal.claims = verifier = Verifier(hangs=frozenset({0}))
    assert rehearsal.conduct(on_change=follow) == "stopped"
    # The other agents were launched, stopped and verified while the first claim was being verified.
    assert any(
        run.rows["agent-00"].is_verifying and run.rows["agent-03"].phase in RUNNING and run.running == 1 for run in seen
    )
    assert any(all(row.phase is Phase.ENDED for row in run.rows.values()) and not run.is_over for run in seen)
    # A stop ends its processes, and the claim stays a claim.
    assert verifier.cancelled == [rehearsal.run.rows["agent-00"].planned.node_id]
    first = rehearsal.run.rows["agent-00"]
    assert (first.end, first.verified, first.verified_reason) == (End.SUCCEEDED, "unknown", "the run was stopped")


def test_killed_at_any_line_the_next_conductor_verifies_what_is_left(tmp_path: Path) -> None:
    whole = a_rehearsal(tmp_path / "whole", [Role.SUCCEEDS] * 2)
    whole.claims = Verifier({1: LIE})
    assert whole.conduct() == "done"
    assert lines(whole, Event.VERIFIED) != []
    for lives in range(1, len(whole.ledger.entries)):
        rehearsal = a_rehearsal(tmp_path / str(lives), [Role.SUCCEEDS] * 2)
        rehearsal.claims = Verifier({1: LIE})
        rehearsal.conduct(lives=lives)
        assert rehearsal.conduct() == "done"
        assert [row.verified for row in rehearsal.run.rows.values()] == ["passed", "failed"]
        assert sorted(lines(rehearsal, Event.VERIFIED)) == ["agent-00", "agent-01"]
