"""Work of agents that are no testers is judged by their gate: what it refuses is red, and a kill loses nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.run.rehearsals import a_rehearsal
from selftest_core.run.events import Event
from selftest_core.run.log_lines import log_line
from selftest_core.run.outcome.ends import End
from selftest_core.schema.run import exit_status, run_summary
from simulated.crew import Role

if TYPE_CHECKING:
    from pathlib import Path

    from core.run.rehearsals import Rehearsal
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.plan.plan import PlannedTest

REASON = "it drafts the whole file anew"


@dataclass
class SomeGate:
    """A gate that refuses the second task, and fails on the third. `asked`: what it was given."""

    asked: list[tuple[str, str, str]] = field(default_factory=list)

    async def judge(self, task: PlannedTest, folder: Path, outcome: Outcome, tip: str) -> str:
        assert (folder / "outcome.json").is_file()
        self.asked.append((task.agent_name, folder.parent.name, tip))
        match task.agent_name:
            case "agent-01":
                return REASON
            case "agent-02":
                raise KeyError("tutorial.sh")
            case _:
                return ""

    async def close(self) -> None: ...


def a_drafting(folder: Path) -> Rehearsal:
    roles = [Role.SUCCEEDS, Role.SUCCEEDS, Role.CHANGES_NOTHING, Role.STAYS_RED, Role.BLOCKED]
    rehearsal = a_rehearsal(folder, roles, role="drafter")
    rehearsal.gate = SomeGate()
    return rehearsal


def test_what_a_gate_refuses_is_red_with_its_reason(tmp_path: Path) -> None:
    told: list[str] = []
    rehearsal = a_drafting(tmp_path)
    assert rehearsal.conduct(on_change=lambda run, entry: told.append(log_line(run, entry))) == "done"
    rows = list(rehearsal.run.rows.values())
    assert [row.end for row in rows] == [End.SUCCEEDED, End.RED, End.RED, End.RED, End.BLOCKED]
    assert [row.gate for row in rows] == ["passed", "failed", "failed", "", ""]
    assert [row.stage for row in rows[1:3]] == ["gate", "gate"]
    assert rows[1].text == REASON
    assert "it could not be checked: KeyError" in rows[2].text
    # It is no claim about a test.
    assert {row.verified for row in rows} == {""}
    assert not any(run_summary(rehearsal.run, 0.0).verified.values())
    assert exit_status(rehearsal.run) == 1
    assert isinstance(rehearsal.gate, SomeGate)
    assert sorted(rehearsal.gate.asked) == [(row.name, row.name, row.tip) for row in rows[:3]]
    assert f"{rows[1].planned.node_id} was checked, and cannot be used: {REASON}" in told
    assert "of 5 headings started" in told[0]


def test_killed_at_any_line_each_attempt_is_judged_and_noted_once(tmp_path: Path) -> None:
    whole = a_drafting(tmp_path / "whole")
    assert whole.conduct() == "done"
    for lives in range(1, len(whole.ledger.entries)):
        rehearsal = a_drafting(tmp_path / str(lives))
        rehearsal.conduct(lives=lives)
        assert rehearsal.conduct() == "done"
        assert [row.gate for row in rehearsal.run.rows.values()] == ["passed", "failed", "failed", "", ""]
        noted = [entry.fields["agent"] for entry in rehearsal.ledger.entries if entry.event == Event.VERIFIED]
        assert sorted(noted) == ["agent-00", "agent-01", "agent-02"]
