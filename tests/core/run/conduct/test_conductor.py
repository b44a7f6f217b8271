"""The conductor: limits, budget, requests, clusters, reminders, dead hosts and a clock that jumps."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import POLL, a_rehearsal
from selftest_core.run.conduct.policy import ASKS, TURN_ENDED, Policy
from selftest_core.run.events import RUNNING, Event, Phase
from selftest_core.run.store import RequestKind, RunRequest
from simulated.crew import Role

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run


def test_no_more_run_at_once_than_the_plan_allows(tmp_path: Path) -> None:
    most = 0

    def count(run: Run, entry: Entry) -> None:
        nonlocal most
        most = max(most, run.running)

    rehearsal = a_rehearsal(tmp_path, tests=9, max_running=3)
    assert rehearsal.conduct(on_change=count) == "done"
    assert most == 3


def test_the_budget_ends_the_launching_and_more_of_it_goes_on(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, tests=5, budget_usd=1.0, usd_per_agent=0.5)
    assert rehearsal.conduct() == "budget"
    assert [str(end) for end in rehearsal.outcomes().values()].count("succeeded") == 2
    assert rehearsal.run.ends()[next(e for e in rehearsal.run.ends() if e == "not_started")] == 3
    rehearsal.policy = Policy(poll=POLL, budget_usd=10.0)
    assert rehearsal.conduct() == "done"
    assert set(rehearsal.outcomes().values()) == {"succeeded"}
    assert len(rehearsal.world.creates) == 5


def test_an_agent_that_someone_else_stops_is_neither_a_timeout_nor_made_again(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.HANGS, Role.SUCCEEDS])

    def stop_it(run: Run, entry: Entry) -> None:
        if entry.event == Event.LAUNCHED and entry.fields["agent"] == "agent-00":
            rehearsal.world.agents[run.plan.tests[0].agent_id].stopped_at = rehearsal.clock.passed

    assert rehearsal.conduct(on_change=stop_it) == "done"
    assert list(rehearsal.outcomes().values()) == ["stopped", "succeeded"]
    row = rehearsal.run.rows["agent-00"]
    assert row.text.startswith("it was stopped by someone else")
    assert (row.attempt, len(rehearsal.world.creates)) == (1, 2)


def test_many_that_fail_alike_pause_the_run_until_somebody_says_go(tmp_path: Path) -> None:
    policy = Policy(poll=POLL, leave_when_paused=True)
    rehearsal = a_rehearsal(tmp_path, [Role.CRASHES] * 12, policy=policy, on_cluster="pause", max_running=3)
    assert rehearsal.conduct() == "paused"
    run = rehearsal.run
    assert run.paused_by == "cluster"
    assert "failed with the same error" in run.paused
    assert any(row.phase is Phase.WAITING for row in run.rows.values())
    rehearsal.folder.add_request(RunRequest(RequestKind.GO))
    assert rehearsal.conduct() == "done"
    assert set(rehearsal.outcomes().values()) == {"crash"}


def test_how_many_count_as_many_is_the_plan_s(tmp_path: Path) -> None:
    policy = Policy(poll=POLL, leave_when_paused=True)
    roles = [Role.CRASHES, Role.SUCCEEDS, Role.CRASHES, Role.SUCCEEDS, Role.CRASHES, Role.CRASHES, *[Role.CRASHES] * 4]
    rehearsal = a_rehearsal(
        tmp_path, roles, policy=policy, on_cluster="pause", max_running=1, cluster_alike=2, cluster_window=2
    )
    assert rehearsal.conduct() == "paused"
    assert rehearsal.run.paused.startswith("2 of the last 2 failed with the same error")
    assert len(rehearsal.run.order) == 6


@pytest.mark.parametrize(("retries", "attempts", "seconds"), [(0, 1, 0.0), (3, 4, 10.0 + 20.0 + 25.0)])
def test_a_launch_is_tried_as_often_and_as_late_as_the_plan_says(
    tmp_path: Path, retries: int, attempts: int, seconds: float
) -> None:
    rehearsal = a_rehearsal(
        tmp_path, [Role.FAILS_TO_LAUNCH], launch_retries=retries, retry_pause=10.0, longest_retry_pause=25.0
    )
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "launch"}
    launching = [entry.at for entry in rehearsal.ledger.entries if entry.event == Event.LAUNCHING]
    assert len(launching) == attempts
    assert launching[-1] - launching[0] >= seconds


@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (2, 3)])
def test_a_test_whose_hosts_go_gets_as_many_agents_as_the_plan_says(
    tmp_path: Path, retries: int, attempts: int
) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.VANISHES], lost_retries=retries)
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "lost"}
    assert rehearsal.run.rows["agent-00"].attempt == attempts


def test_killed_before_it_could_pause_the_next_one_pauses_before_it_makes_another_agent(tmp_path: Path) -> None:
    policy = Policy(poll=POLL, leave_when_paused=True)
    crashes = [Role.CRASHES] * 12
    whole = a_rehearsal(tmp_path / "whole", crashes, policy=policy, on_cluster="pause", max_running=3)
    assert whole.conduct() == "paused"
    (line,) = [entry.number for entry in whole.ledger.entries if entry.event == Event.PAUSED]
    killed = a_rehearsal(tmp_path / "killed", crashes, policy=policy, on_cluster="pause", max_running=3)
    assert killed.conduct(lives=line - 1) is None
    made = list(killed.world.creates)
    assert killed.conduct() == "paused"
    assert killed.world.creates == made
    assert killed.run.paused == whole.run.paused


def test_a_reminder_that_did_not_arrive_is_sent_again_and_is_still_the_only_one(tmp_path: Path) -> None:
    sent = Counter[int]()
    for seed in range(12):  # every third message does not arrive
        rehearsal = a_rehearsal(tmp_path / f"{seed}", [Role.NEEDS_A_REMINDER], seed=seed, timeout=900.0)
        rehearsal.world.trouble = 0.3
        rehearsal.conduct()
        lines = [entry.event for entry in rehearsal.ledger.entries]
        assert lines.count(Event.REMINDING) == lines.count(Event.REMINDED) == 1
        sent[len(rehearsal.world.reminders)] += 1
    assert 0 not in sent
    assert max(sent) in (2, 3)


def test_stopping_a_run_keeps_what_was_done_and_leaves_nobody(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.CHANGES_NOTHING, *[Role.HANGS] * 5], max_running=3)

    def stop(run: Run, entry: Entry) -> None:
        if entry.event == Event.ENDED and not run.is_halted and not rehearsal.folder.requests():
            rehearsal.folder.add_request(RunRequest(RequestKind.STOP))

    assert rehearsal.conduct(on_change=stop) == "stopped"
    ends = list(rehearsal.outcomes().values())
    assert ends[0] == "unchanged"
    assert set(ends[1:]) == {"stopped", "not_started"}
    assert rehearsal.world.live(rehearsal.passed) == []
    assert rehearsal.folder.requests() == ()


def test_one_test_is_skipped_and_one_is_tried_again_as_asked(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS, Role.CRASHES], max_running=1)
    rehearsal.folder.add_request(RunRequest(RequestKind.SKIP, "agent-01"))
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "succeeded", "agent-01": "not_started"}
    rehearsal.folder.add_request(RunRequest(RequestKind.RETRY, "agent-01"))
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "succeeded", "agent-01": "crash"}


def test_an_agent_is_reminded_once_and_then_needs_a_person(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.FORGETS, Role.ASKS], timeout=900.0)
    assert rehearsal.conduct() == "done"
    noticed = [entry.fields["reason"] for entry in rehearsal.ledger.entries if entry.event == Event.NOTICED]
    assert sorted(noticed) == sorted([TURN_ENDED, ASKS])
    assert len(rehearsal.world.reminders) == 1
    assert set(rehearsal.outcomes().values()) == {"timeout"}


def test_a_dead_host_delays_nobody(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.VANISHES, *[Role.SUCCEEDS] * 7], max_running=8)
    assert rehearsal.conduct() == "done"
    order = rehearsal.run.order
    stopped = {e.fields["agent"]: e.number for e in rehearsal.ledger.entries if e.event == Event.STOPPED}
    assert rehearsal.outcomes()["agent-00"] == "lost"
    assert rehearsal.run.rows["agent-00"].says
    assert len(order) == 8
    assert max(stopped, key=lambda name: stopped[name]) == "agent-00"


def test_launches_that_fail_alike_slow_the_launching(tmp_path: Path) -> None:
    def launch_times(role: Role) -> list[float]:
        rehearsal = a_rehearsal(tmp_path / role, [role] * 4)
        assert rehearsal.conduct() == "done"
        return [entry.at for entry in rehearsal.ledger.entries if entry.event == Event.LAUNCHING]

    failing, working = launch_times(Role.FAILS_TO_LAUNCH), launch_times(Role.SUCCEEDS)
    assert len(failing) == 12
    assert failing[-1] - failing[-2] >= 30.0 > working[-1] - working[-2]


def test_a_clock_that_jumps_ends_nobody_early(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS, Role.SUCCEEDS])
    assert rehearsal.conduct(lives=6) is None
    assert rehearsal.run.running > 0
    rehearsal.clock_jump = -1_000_000.0
    assert rehearsal.conduct() == "done"
    assert set(rehearsal.outcomes().values()) == {"succeeded"}


def test_no_phase_counts_as_running_after_the_end(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS])
    rehearsal.conduct()
    assert rehearsal.run.running == 0
    assert not any(row.phase in RUNNING for row in rehearsal.run.rows.values())
