"""Whatever agents and clocks do: a row with a reason, and the run goes on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import TIMEOUT, a_rehearsal
from selftest_core.run.events import Event, Phase
from selftest_core.run.fetch.received_files import SCREEN
from simulated.crew import Role

if TYPE_CHECKING:
    from pathlib import Path

BAD = {
    Role.WRITES_NONSENSE: ("unreadable", "pull", "it is not JSON"),
    Role.WRITES_ANOTHER_SHAPE: ("unreadable", "pull", "errored is neither true nor false"),
    Role.WRITES_A_GIANT: ("unreadable", "pull", "52,428,800 bytes"),
    Role.BREAKS_ITS_BUNDLE: ("unreadable", "pull", "The bundle cannot be used"),
    Role.CRASHES: ("crash", "work", "its program ended without an outcome"),
    Role.HANGS: ("timeout", "work", "it timed out"),
    Role.VANISHES: ("lost", "work", "is gone"),
    Role.FALLS_SILENT: ("lost", "work", "does not answer"),
    Role.FAILS_TO_LAUNCH: ("launch", "launch", "quota"),
    Role.STAYS_RED: ("red", "test", "This agent stays red."),
    Role.BLOCKED: ("blocked", "blocked", "Needs a decision"),
}
STRANGE = (
    "tests/test_a.py::test_it[a/b/../c]",
    "tests/test_a.py::test_it[two words and\ttab]",
    "tests/test_a.py::test_it[\u00fc\u4e2d\U0001f600]",
    "tests/test_a.py::test_it[\\u202e]",
    "tests/test_a.py::test_it[a::b[0]]",
    "tests/a b/test_c.py::TestD::test_e[--help]",
    "tests/test_a.py::test_it[$(reboot);'\"`x`]",
    "tests/test_a.py::test_it[" + "x" * 3000 + "]",
    "tests/test_a.py::test_it[%s {} [bold]]",
    "tests/test_a.py::test_it[1]",
)


def test_every_kind_of_failure_is_a_row_with_its_evidence_and_the_others_go_on(tmp_path: Path) -> None:
    roles = [one for bad in BAD for one in (bad, Role.SUCCEEDS)]
    rehearsal = a_rehearsal(tmp_path, roles, timeout=900.0)
    ids = [f"{STRANGE[n % len(STRANGE)]}#{n}" for n in range(len(roles))]
    tests = tuple(
        dataclasses.replace(test, node_id=node_id) for test, node_id in zip(rehearsal.plan.tests, ids, strict=True)
    )
    rehearsal.plan = dataclasses.replace(rehearsal.plan, tests=tests)
    assert rehearsal.conduct() == "done"
    rows = list(rehearsal.run.rows.values())
    for row, role, node_id in zip(rows, roles, ids, strict=True):
        assert row.planned.node_id == node_id
        if role is Role.SUCCEEDS:
            assert row.end == "succeeded"
            continue
        end, stage, reason = BAD[role]
        assert (row.end, row.stage) == (end, stage), role
        assert reason in row.text, role
        assert row.signature, role
    assert rehearsal.world.wrongs == []
    assert rehearsal.world.live(rehearsal.passed) == []


def test_an_id_that_cannot_be_written_costs_its_own_test_alone(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS] * 3)
    first, *others = rehearsal.plan.tests
    broken = dataclasses.replace(first, node_id="tests/test_a.py::test_it[\ud800]")
    rehearsal.plan = dataclasses.replace(rehearsal.plan, tests=(broken, *others))
    assert rehearsal.conduct() == "done"
    assert list(rehearsal.outcomes().values()) == ["lost", "succeeded", "succeeded"]
    assert "surrogates not allowed" in rehearsal.run.rows[first.agent_name].text


def test_the_last_screen_of_one_that_hangs_is_kept_and_tells_its_cluster(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.HANGS, Role.HANGS, Role.CRASHES])
    assert rehearsal.conduct() == "done"
    first, second, third = rehearsal.run.rows.values()
    assert first.text != second.text
    assert first.signature == second.signature == "hangs at <id>"
    assert third.signature != first.signature
    assert first.member is not None
    assert "hangs at 0x" in (rehearsal.folder.attempt(first.member) / SCREEN).read_text()


def test_a_branch_that_is_none_does_not_keep_its_test_waiting_until_its_time_is_up(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.BREAKS_ITS_BUNDLE], timeout=36_000.0)
    assert rehearsal.conduct() == "done"
    assert rehearsal.passed < 600.0
    assert rehearsal.outcomes() == {"agent-00": "unreadable"}


def test_a_fetch_that_was_cut_off_or_failed_is_made_again_at_once(tmp_path: Path) -> None:
    roles = [Role.SUCCEEDS] * 3
    whole = a_rehearsal(tmp_path / "whole", roles, timeout=36_000.0)
    assert whole.conduct() == "done"
    begun = next(entry.number for entry in whole.ledger.entries if entry.event == Event.PULLING)
    rehearsal = a_rehearsal(tmp_path / "killed", roles, timeout=36_000.0)
    assert rehearsal.conduct(lives=begun) is None
    assert rehearsal.conduct() == "done"
    assert rehearsal.passed < 600.0
    begins = whole.ledger.entries[begun - 1].at - whole.ledger.entries[0].at
    failing = a_rehearsal(tmp_path / "failing", roles, timeout=36_000.0)
    failing.world.outages = ((begins, begins + 60.0),)
    assert failing.conduct() == "done"
    assert failing.passed < 900.0
    assert set(failing.outcomes().values()) == {"succeeded"}


@pytest.mark.parametrize("jump", [-1_000_000.0, 1_000_000.0])
def test_a_clock_that_is_set_between_two_conductors_or_under_one_ends_nobody(tmp_path: Path, jump: float) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS] * 3)
    assert rehearsal.conduct(lives=8) is None
    assert rehearsal.run.running > 0
    rehearsal.clock_jump = jump
    assert rehearsal.conduct(lives=2) is None

    def jump_back(*_: object) -> None:
        rehearsal.clock.jump = -jump

    assert rehearsal.conduct(on_change=jump_back) == "done"
    assert set(rehearsal.outcomes().values()) == {"succeeded"}
    assert [row.retries for row in rehearsal.run.rows.values()] == [()] * 3


def test_agents_that_a_restart_of_their_machine_ended_are_replaced_unless_they_were_done(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS] * 6, timeout=900.0)
    rehearsal.world.provider = "local"
    assert rehearsal.conduct(seconds=70.0) is None
    before = rehearsal.run
    assert 0 < sum(row.phase is Phase.WORKING for row in before.rows.values()) < 6
    rehearsal.world.restart(rehearsal.passed)
    rehearsal.booted, rehearsal.passed = "another", rehearsal.passed + 60.0
    assert rehearsal.conduct() == "done"
    assert set(rehearsal.outcomes().values()) == {"succeeded"}
    again = {row.name: row.retries[0].text for row in rehearsal.run.rows.values() if row.retries}
    assert again
    assert set(again.values()) == {"this machine was restarted while it worked"}
    assert not set(again) & {row.name for row in before.rows.values() if row.end is not None}
    assert rehearsal.world.wrongs == []


def test_time_counts_on_across_a_reboot_and_the_one_that_hangs_is_ended(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.HANGS])
    assert rehearsal.conduct(lives=4) is None
    rehearsal.booted, rehearsal.passed = "another", rehearsal.passed + TIMEOUT
    before = rehearsal.passed
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "timeout"}
    assert rehearsal.passed - before < TIMEOUT
