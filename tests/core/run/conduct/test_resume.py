"""Resume of a run: ended tests stay ended, and one conductor at a time (`test_chaos` kills conductors)."""

from __future__ import annotations

import fcntl
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import RUN, Rehearsal, a_rehearsal
from selftest_core.errors import RefusedError
from selftest_core.journal import Journal
from selftest_core.run.events import Phase
from selftest_core.run.fold import Member
from simulated.crew import Role
from worlds import eventually

if TYPE_CHECKING:
    from pathlib import Path

TWELVE = (
    Role.SUCCEEDS, Role.CHANGES_NOTHING, Role.STAYS_RED, Role.BLOCKED, Role.CRASHES, Role.HANGS, Role.WRITES_NONSENSE,
    Role.WRITES_SLOWLY, Role.VANISHES_ONCE, Role.FAILS_TO_LAUNCH_ONCE, Role.FAILS_TO_LAUNCH, Role.NEEDS_A_REMINDER,
)  # fmt: skip
EXPECTED = (
    "succeeded", "unchanged", "red", "blocked", "crash", "timeout", "unreadable",
    "succeeded", "succeeded", "succeeded", "launch", "succeeded",
)  # fmt: skip


def assert_whole(rehearsal: Rehearsal) -> None:
    """Assert the ends of all roles, and that no agent was made twice, fetched twice or left behind."""
    world, run = rehearsal.world, rehearsal.run
    assert tuple(rehearsal.outcomes().values()) == EXPECTED
    assert sum(run.ends().values()) == len(run.rows)
    assert world.wrongs == []
    assert all(row.attempt == 1 + len(row.retries) for row in run.rows.values())
    assert len(world.agents) == len(run.rows)  # one is never made, and one is made twice: its host vanished
    assert len(set(run.order)) == len(run.order) == len(run.rows)
    assert [agent.member.name for agent in world.live(rehearsal.passed)] == []
    for row in run.rows.values():
        if row.member is not None and row.end is not None and row.end not in ("launch", "lost"):
            assert rehearsal.folder.attempt(row.member).is_dir()


def test_a_run_that_nobody_disturbs_ends_every_test_by_its_role(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, TWELVE)
    assert rehearsal.conduct() == "done"
    assert_whole(rehearsal)
    assert max(Counter(rehearsal.world.reminders).values()) == 1


def test_the_end_of_a_run_is_the_end_for_whoever_resumes_it(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, (Role.SUCCEEDS, Role.CRASHES))
    rehearsal.conduct()
    before, pulls = rehearsal.run, list(rehearsal.world.pulls)
    assert rehearsal.conduct() == "done"
    assert rehearsal.run.rows == before.rows
    assert rehearsal.world.pulls == pulls
    assert all(row.phase is Phase.ENDED for row in rehearsal.run.rows.values())


def test_a_second_conductor_is_refused_while_the_first_has_the_journal(tmp_path: Path) -> None:
    rehearsal = a_rehearsal(tmp_path, (Role.SUCCEEDS,))
    path = rehearsal.folder.journal
    assert not rehearsal.folder.is_conducted()
    with Journal(path):
        assert rehearsal.folder.is_conducted()
        with pytest.raises(RefusedError, match="open in another process"):
            Journal(path)
    assert not rehearsal.folder.is_conducted()


def test_one_who_looks_and_is_held_up_meanwhile_keeps_no_conductor_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.touch()
    with path.open("rb") as reader, ThreadPoolExecutor(1) as pool:
        fcntl.flock(reader, fcntl.LOCK_SH)
        until = time.monotonic() + 2.5  # a writer in the way is waited for that long, at most
        opening = pool.submit(Journal, path)
        eventually(lambda: opening.done() or time.monotonic() > until)
        assert not opening.done()
        fcntl.flock(reader, fcntl.LOCK_UN)
        opening.result().close()


def test_what_a_killed_conductor_had_outside_its_folder_goes_and_nothing_of_another_run(tmp_path: Path) -> None:
    folder, other = (a_rehearsal(tmp_path / name / RUN, (Role.SUCCEEDS,)).folder for name in ("one", "other"))
    member = Member("agent-00", "tests/test_all.py::test_00", 1, f"agent-{7:032x}", "agent-00")
    left, kept = folder.make_staging(member), other.make_staging(member)
    try:
        (left / "outcome.json").write_text("{}")
        folder.clear_temporary()
        assert not left.exists()
        assert kept.is_dir()
    finally:
        kept.rmdir()
