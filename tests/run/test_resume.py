"""A conductor that is killed at any line of its journal, torn last line included, and one that takes the run up."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from run.rehearsals import Rehearsal, a_rehearsal
from selftest_core.demo.simulated_crew import Role
from selftest_core.errors import RefusedError
from selftest_core.journal import Journal
from selftest_core.run.events import Phase

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
CHAOS = int(os.environ.get("CHAOS", "1"))
"""How much of it: `make chaos` asks for more than every run of the tests can wait for."""


def assert_whole(rehearsal: Rehearsal) -> None:
    """The outcomes that the roles must lead to; nobody made twice, read twice or left behind."""
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


@pytest.mark.parametrize("seed", range(CHAOS))
def test_killed_at_any_line_and_resumed_it_ends_the_same(tmp_path: Path, seed: int) -> None:
    whole = a_rehearsal(tmp_path / "whole", TWELVE, seed=seed, trouble=0.03)
    assert whole.conduct() == "done"
    lines = len(whole.ledger.entries)
    assert lines > 60
    dice = random.Random(seed)
    for line in range(dice.randrange(3), lines, 3):
        rehearsal = a_rehearsal(tmp_path / f"{line}", TWELVE, seed=seed, trouble=0.03)
        assert rehearsal.conduct(lives=line, torn=dice.choice((0, 1, 9, 40))) is None
        rehearsal.passed += dice.choice((0.0, 0.0, 5.0, 90.0))
        assert rehearsal.conduct() == "done", f"killed before line {line + 1}"
        assert_whole(rehearsal)


@pytest.mark.parametrize("seed", range(6 * CHAOS))
def test_killed_again_and_again_it_ends_the_same(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    rehearsal = a_rehearsal(tmp_path, TWELVE, seed=seed, trouble=0.03)
    kills = 0
    while rehearsal.conduct(lives=dice.randrange(1, 12), torn=dice.randrange(0, 30)) is None:
        rehearsal.passed += dice.choice((0.0, 1.0, 30.0))
        kills += 1
    assert kills > 3
    assert_whole(rehearsal)


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
