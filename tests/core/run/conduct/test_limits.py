"""Causes that slow or pause a run without any agent's fault: rate limits, a lost network, a full disk."""

from __future__ import annotations

import errno
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import POLL, a_rehearsal
from selftest_core.errors import ToolFailedError
from selftest_core.journal import JournalWriteError
from selftest_core.run.cluster_view import ClusterKind, cluster_rows
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.events import Event
from selftest_core.run.fetch.fetching import OwnDiskError, refuse_own_disk
from simulated.crew import Role

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run


def test_agents_that_a_service_turns_away_are_a_cluster_and_slow_the_launching_while_they_are(tmp_path: Path) -> None:
    most: list[int] = []
    slow: list[str] = []

    def watch(run: Run, entry: Entry) -> None:
        limited = [one for one in cluster_rows(run) if one.kind is ClusterKind.LIMITED]
        most.append(max((len(one.members) for one in limited), default=0))
        if entry.event == Event.SLOWED:
            slow.append(run.slowed)

    policy = Policy(poll=2.0, screen_pause=4.0)
    rehearsal = a_rehearsal(tmp_path / "a", [Role.IS_LIMITED] * 12, policy=policy, max_running=12, launch_rate=0.2)
    assert rehearsal.conduct(on_change=watch) == "done"
    assert set(rehearsal.outcomes().values()) == {"succeeded"}
    assert max(most) >= 3
    assert most[-1] == 0
    assert slow[0]
    assert slow[-1] == ""
    free = a_rehearsal(tmp_path / "b", [Role.SUCCEEDS] * 12, policy=policy, max_running=12, launch_rate=0.2)
    assert free.conduct() == "done"

    def last_launch(entries: list[Entry]) -> float:
        return max(entry.at for entry in entries if entry.event == Event.LAUNCHING) - entries[0].at

    assert last_launch(list(rehearsal.ledger.entries)) > 2 * last_launch(list(free.ledger.entries))


def test_where_a_provider_has_no_room_tests_wait_for_the_end_of_others_and_fewer_hosts_start(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path / "a", [Role.SUCCEEDS] * 14, max_running=14, launch_rate=50.0, provider="modal")
    rehearsal.world.slots, rehearsal.world.provider = 3, "modal"
    assert rehearsal.conduct() == "done"
    assert set(rehearsal.outcomes().values()) == {"succeeded"}
    assert rehearsal.world.most_at_once <= 3
    assert rehearsal.world.wrongs == []
    reasons = [retry.reason for row in rehearsal.run.rows.values() for retry in row.retries]
    assert set(reasons) == {"no room"}
    launching = [entry.at for entry in rehearsal.ledger.entries if entry.event == Event.LAUNCHING]
    assert all(after - before >= 0.2 for before, after in pairwise(launching))  # four a second at most

    full = a_rehearsal(tmp_path / "b", [Role.SUCCEEDS] * 2, max_running=2, provider="modal")
    full.world.slots = 0
    assert full.conduct() == "done"
    assert set(full.outcomes().values()) == {"launch"}


def test_a_network_that_is_gone_for_ten_minutes_costs_no_agent(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS] * 6, timeout=3600.0)
    rehearsal.world.outages = ((15.0, 615.0),)
    assert rehearsal.conduct() == "done"
    assert set(rehearsal.outcomes().values()) == {"succeeded"}
    assert [row.attempt for row in rehearsal.run.rows.values()] == [1] * 6
    assert rehearsal.world.wrongs == []


def test_one_silent_host_among_others_is_lost_long_before_a_silent_network(tmp_path: Path) -> None:
    policy = Policy(poll=POLL)
    alone = a_rehearsal(tmp_path / "alone", [Role.FALLS_SILENT], policy=policy, timeout=3600.0, lost_retries=0)
    assert alone.conduct() == "done"
    roles = [Role.FALLS_SILENT, Role.HANGS]
    among = a_rehearsal(tmp_path / "among", roles, policy=policy, timeout=3600.0, lost_retries=0)
    assert among.conduct() == "done"
    lost = [
        next(entry.at for entry in one.ledger.entries if entry.event == Event.ENDED) - one.ledger.entries[0].at
        for one in (among, alone)
    ]
    assert policy.lost_after < lost[0] < 2 * policy.lost_after
    assert policy.outage_after < lost[1]
    assert set(alone.outcomes().values()) == {"lost"}


@pytest.mark.parametrize("line", range(1, 22, 4))
def test_a_full_disk_ends_the_conductor_with_the_reason_and_the_run_goes_on_later(tmp_path: Path, line: int) -> None:
    rehearsal = a_rehearsal(tmp_path, [Role.SUCCEEDS, Role.CRASHES, Role.CHANGES_NOTHING, Role.HANGS])
    rehearsal.is_full = True
    with pytest.raises(JournalWriteError, match="Cannot write") as raised:
        rehearsal.conduct(lives=line)
    assert raised.value.exit_status == 3
    rehearsal.is_full = False
    assert rehearsal.conduct() == "done"
    assert list(rehearsal.outcomes().values()) == ["succeeded", "crash", "unchanged", "timeout"]
    assert rehearsal.world.wrongs == []
    assert rehearsal.world.live(rehearsal.passed) == []


def test_only_our_own_disk_is_our_own_disk(tmp_path: Path) -> None:
    with pytest.raises(OwnDiskError) as raised:
        refuse_own_disk(OSError(errno.ENOSPC, "No space left on device"), tmp_path)
    assert (raised.value.exit_status, "resume" in raised.value.hint) == (3, True)
    refuse_own_disk(OSError(errno.EACCES, "Permission denied"), tmp_path)
    refuse_own_disk(ToolFailedError("rsync failed", "No space left on device (far away)"), tmp_path, None)
    refuse_own_disk(ToolFailedError("rsync failed"), tmp_path / "gone")
