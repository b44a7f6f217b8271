"""Requests of a person are done, wait, or are declined with a reason; and a stopped run can be resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.run.rehearsals import POLL, a_rehearsal
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.events import Event, Phase
from selftest_core.run.store import RequestKind, RunRequest
from simulated.crew import Role

if TYPE_CHECKING:
    from pathlib import Path

    from core.run.rehearsals import Rehearsal
    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run


def declined(rehearsal: Rehearsal) -> list[tuple[str, str]]:
    found = [entry.fields for entry in rehearsal.ledger.entries if entry.event == Event.DECLINED]
    return [(str(fields["wish"]), str(fields["says"])) for fields in found]


def test_one_agent_is_stopped_and_its_test_is_not_tried_again(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.HANGS, Role.SUCCEEDS, Role.VANISHES_ONCE], timeout=36_000.0)

    def stop(run: Run, entry: Entry) -> None:
        if entry.event == Event.LAUNCHED and entry.fields["agent"] in ("agent-00", "agent-02"):
            rehearsal.folder.add_request(RunRequest(RequestKind.STOP_ONE, entry.fields["agent"]))

    assert rehearsal.conduct(on_change=stop) == "done"
    assert list(rehearsal.outcomes().values()) == ["stopped", "succeeded", "lost"]
    assert rehearsal.passed < 1000.0
    assert rehearsal.run.rows["agent-02"].attempt == 1
    assert rehearsal.folder.requests() == ()
    assert declined(rehearsal) == []


def test_skipping_means_the_same_for_one_that_waits_and_one_that_runs(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.HANGS, Role.SUCCEEDS], max_running=1, timeout=36_000.0)
    rehearsal.folder.add_request(RunRequest(RequestKind.STOP_ONE, "agent-01"))

    def skip(run: Run, entry: Entry) -> None:
        if entry.event == Event.LAUNCHED:
            rehearsal.folder.add_request(RunRequest(RequestKind.SKIP, "agent-00"))

    assert rehearsal.conduct(on_change=skip) == "done"
    assert rehearsal.outcomes() == {"agent-00": "stopped", "agent-01": "not_started"}
    assert rehearsal.passed < 600.0


def test_a_wish_to_try_again_waits_until_the_old_agent_is_stopped(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.CRASHES])

    def retry(run: Run, entry: Entry) -> None:
        if entry.event == Event.ENDED and run.rows["agent-00"].attempt == 1:
            assert run.rows["agent-00"].phase is Phase.STOPPING
            rehearsal.folder.add_request(RunRequest(RequestKind.RETRY, "agent-00"))

    assert rehearsal.conduct(on_change=retry) == "done"
    row = rehearsal.run.rows["agent-00"]
    assert (row.attempt, [one.reason for one in row.retries]) == (2, ["asked"])
    assert rehearsal.world.wrongs == []


def test_what_cannot_be_done_is_declined_with_the_reason(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS])
    for request in (
        RunRequest(RequestKind.RETRY, "agent-00"),
        RunRequest(RequestKind.SKIP, "nobody"),
        RunRequest(RequestKind.PAUSE),
    ):
        rehearsal.folder.add_request(request)
    rehearsal.folder.add_request(RunRequest(RequestKind.PAUSE))
    rehearsal.folder.add_request(RunRequest(RequestKind.GO))
    assert rehearsal.conduct() == "done"
    rehearsal.folder.add_request(RunRequest(RequestKind.STOP_ONE, "agent-00"))
    assert rehearsal.conduct() == "done"
    assert declined(rehearsal) == [
        ("retry", "it has not ended yet"),
        ("skip", "there is no such test in this run"),
        ("pause", "it is already paused: on request"),
        ("stop_one", "it has already ended"),
    ]
    assert rehearsal.outcomes() == {"agent-00": "succeeded"}


def test_a_run_that_was_stopped_goes_on_where_a_person_wants_it(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS] * 3, max_running=1)
    rehearsal.folder.add_request(RunRequest(RequestKind.STOP))
    assert rehearsal.conduct() == "stopped"
    assert set(rehearsal.outcomes().values()) == {"not_started"}
    rehearsal.folder.add_request(RunRequest(RequestKind.RETRY, "agent-01"))
    assert rehearsal.conduct() == "done"
    assert list(rehearsal.outcomes().values()) == ["not_started", "succeeded", "not_started"]


def test_a_stop_that_was_cut_off_is_taken_back_by_going_on(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.HANGS, Role.SUCCEEDS], max_running=1)
    rehearsal.folder.add_request(RunRequest(RequestKind.STOP))
    assert rehearsal.conduct(lives=2) is None
    assert rehearsal.run.is_halted
    rehearsal.folder.add_request(RunRequest(RequestKind.GO))
    assert rehearsal.conduct() == "done"
    assert rehearsal.outcomes() == {"agent-00": "timeout", "agent-01": "succeeded"}


def test_stopping_a_run_waits_for_no_host_that_is_out_of_sight(tmp_path: Path) -> None:
    roles = [Role.FALLS_SILENT, Role.SUCCEEDS]
    rehearsal = a_rehearsal(tmp_path, roles, policy=Policy(poll=POLL, outage_after=36_000.0), timeout=72_000.0)

    def stop(run: Run, entry: Entry) -> None:
        if entry.event == Event.STOPPED and not run.is_halted:
            rehearsal.folder.add_request(RunRequest(RequestKind.STOP))

    assert rehearsal.conduct(on_change=stop) == "stopped"
    assert rehearsal.outcomes() == {"agent-00": "stopped", "agent-01": "succeeded"}
    assert rehearsal.passed < 900.0
