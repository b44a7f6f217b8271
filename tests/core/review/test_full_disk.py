"""A review whose disk is full: an act says what to do, loses nothing, and works once there is space."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from core.review.desks import make_desk, oid, opened
from selftest_core.journal import JournalWriteError, read
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from tui.review.review_driving import reviewing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.review.repositories import Repository


@pytest.fixture
def small_desk(tmp_path: Path) -> Iterator[Repository]:
    """A repository whose `.selftest` is a disk of four megabytes."""
    desk = make_desk(tmp_path / "desk")
    disk = desk.folder / ".selftest"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system can be mounted by root alone")
    try:
        yield desk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(desk: Repository) -> Path:
    """Leave no block free; returns the file that takes them."""
    filler = desk.folder / ".selftest" / "filler"
    with filler.open("ab", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return filler
    raise AssertionError("the disk has no end")


def test_an_act_on_a_full_disk_is_refused_and_works_once_there_is_space(small_desk: Repository) -> None:
    ada, bob = oid(small_desk, "ada"), oid(small_desk, "bob")
    with opened(small_desk) as session:
        session.decide([bob], Decision.KEEP)
        before, log = session.state, session.state.home / "review.jsonl"
        filler = fill(small_desk)
        for _ in range(40):  # the log has room in its last block, at first
            with pytest.raises(JournalWriteError, match="Cannot write") as told:
                session.decide([ada], Decision.KEEP)
            assert told.value.hint.startswith("Free some space")
            assert session.state is before
        assert (before.home / "decisions.json").stat().st_size, "as it was"
        filler.unlink()
        state = session.decide([ada], Decision.REVERT)
        assert state.reviewed.decided[ada] is Decision.REVERT
        assert state.reviewed.decided[bob] is Decision.KEEP
        assert session.undo().reviewed.decided[ada] is not Decision.REVERT
        session.redo()
    reading = read(log.read_bytes())
    assert (reading.torn, reading.is_damaged) == (0, False)
    with opened(small_desk) as session:
        assert session.state.reviewed.decided[ada] is Decision.REVERT
        assert session.state.reviewed.decided[bob] is Decision.KEEP


async def test_a_key_on_a_full_disk_says_what_to_do_and_the_screen_goes_on(small_desk: Repository) -> None:
    async with reviewing(small_desk, Request(("ada", "bob", "eve"), base="main")) as it:
        await it.go_to("Mend b")
        filler = fill(small_desk)
        for _ in range(3):
            await it.press("y")
        assert "Cannot write" in it.toasts
        assert "Free some space" in it.toasts
        assert it.state.decided == 0
        filler.unlink()
        await it.go_to("Mend b")
        await it.press("y")
        assert it.row("Mend b").decision is Decision.KEEP
