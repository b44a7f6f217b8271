"""A run followed by its journal: nothing is read twice, nothing half, and what stands still is the same object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import a_plan, a_rehearsal
from selftest_core.errors import UsageError
from selftest_core.journal import Journal, encode, read
from selftest_core.run.events import Phase
from selftest_core.run.fold import begin, fold
from selftest_core.run.follower import RunFollower
from selftest_core.run.store import RunFolder, make_run_folder
from simulated.crew import Role

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run


def a_run(tmp_path: Path, tests: int = 3) -> RunFolder:
    repository = tmp_path / "repository"
    repository.mkdir()
    return make_run_folder(a_plan(tests, repository=str(repository)), {"XDG_STATE_HOME": str(tmp_path / "state")})


def test_every_prefix_of_a_journal_is_followed_to_what_a_whole_reading_gives(tmp_path: Path) -> None:
    folder = a_run(tmp_path, 4)
    roles = [Role.SUCCEEDS, Role.BLOCKED, Role.CRASHES, Role.FAILS_TO_LAUNCH_ONCE]
    rehearsal = a_rehearsal(tmp_path / "rehearsed", roles)
    assert rehearsal.conduct() == "done"
    entries = read(rehearsal.ledger.data).entries
    follower = RunFollower(folder)
    assert follower.refresh() == begin(folder.plan())
    told: list[int] = []

    def tell(run: Run, entry: Entry) -> None:
        assert run.last == entry.number
        told.append(entry.number)

    with folder.journal.open("ab") as file:
        for number, entry in enumerate(entries, 1):
            line = encode(entry)
            file.write(line[:-3])
            file.flush()
            before = follower.run
            assert follower.refresh(tell) is before, "half a line was taken"
            file.write(line[-3:])
            file.flush()
            assert follower.refresh(tell) == fold(folder.plan(), entries[:number])
            assert follower.refresh(tell) is follower.run
    assert told == [entry.number for entry in entries]
    assert follower.run.is_over


def test_who_conducts_is_noticed_and_the_look_keeps_no_conductor_out(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    follower = RunFollower(folder)
    seen = []

    def look() -> None:
        seen.append((follower.refresh().conductors, follower.is_conducted))

    look()
    with Journal(folder.journal) as journal:
        journal.append("conducting", 1.0, pid=1)
        look()
    look()
    assert seen == [(0, False), (1, True), (1, False)]


def test_a_line_that_was_changed_ends_what_is_followed(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    with Journal(folder.journal) as journal:
        journal.append("conducting", 1.0, pid=1)
        journal.append("paused", 2.0, reason="as asked", by="person", signature="")
    data = folder.journal.read_bytes()
    folder.journal.write_bytes(data.replace(b"as asked", b"as bsked"))
    follower = RunFollower(folder)
    assert follower.refresh().conductors == 1
    assert not follower.run.paused
    folder.journal.write_bytes(data)
    assert follower.refresh().paused == "as asked"


def test_a_journal_that_was_put_back_from_a_copy_is_read_anew(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    with Journal(folder.journal) as journal:
        journal.append("conducting", 1.0, pid=1)
        copy = folder.journal.read_bytes()
        journal.append("halted", 2.0)
    follower = RunFollower(folder)
    assert follower.refresh().is_halted
    other = folder.journal.with_suffix(".copy")
    other.write_bytes(copy)
    other.replace(folder.journal)
    run = follower.refresh()
    assert (run.is_halted, run.conductors, run.last) == (False, 1, 1)
    assert all(row.phase is Phase.WAITING for row in run.rows.values())


def test_following_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        RunFollower(RunFolder(tmp_path))
