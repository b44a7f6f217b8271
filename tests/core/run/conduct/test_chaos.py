"""Conductors that are killed anywhere, thousands of times, with the simulated crew: the run ends the same.

Killed before any line of the journal (with nothing, some bytes or all but the newline of it written), or at any
moment between two lines, in the middle of whatever runs beside the loop; once, or again and again.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.run.rehearsals import ENDS, a_rehearsal, assert_told_rightly, doubled, lost
from selftest_core.journal import read
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.events import Phase
from selftest_core.run.outcome.ends import End
from selftest_core.run.store import RequestKind, RunRequest
from simulated.crew import Role

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from core.run.rehearsals import Rehearsal

pytestmark = pytest.mark.slow
HALTED = {
    Role.VANISHES_ONCE: (End.LOST,), Role.FAILS_TO_LAUNCH_ONCE: (End.LAUNCH,), Role.WRITES_SLOWLY: (End.UNREADABLE,),
}  # fmt: skip
"""How else it may end where the run was stopped: before the second try, or in the middle of writing."""
TORN = (0, 1, 9, 10_000)
"""Bytes of the line at which the kill came; the last is all of it but its newline."""
QUICK = Policy(poll=20.0)
ROLES = tuple(role for role in ENDS if role is not Role.IS_LIMITED)
PAIRS = tuple(itertools.zip_longest(ROLES[::2], ROLES[1::2], fillvalue=Role.SUCCEEDS))
SCALE = int(os.environ.get("CHAOS", "1"))
"""`make chaos` asks for more than every run of the tests can wait for."""
THOROUGH = settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck), print_blob=True
)


def assert_as_if_undisturbed(rehearsal: Rehearsal) -> None:
    """Assert the right end of every test, and that no agent was made twice, left behind, or reported wrongly."""
    world, run = rehearsal.world, rehearsal.run
    assert lost(rehearsal) == []
    assert doubled(rehearsal) == []
    assert sum(run.ends().values()) == len(run.rows)
    assert world.wrongs == []
    for row in run.rows.values():
        assert row.phase is Phase.ENDED
        assert row.attempt == 1 + len(row.retries)
        assert Counter(world.reminders)[row.planned.agent_id] <= 1 + run.conductors
        if row.member is not None and row.end not in (End.LAUNCH, End.LOST):
            assert rehearsal.folder.attempt(row.member).is_dir()
    # Whoever could not be stopped is told, and nobody else is left.
    told = {row.name for row in run.rows.values() if row.says}
    assert {agent.member.test for agent in world.live(rehearsal.passed)} <= told
    assert_told_rightly(rehearsal.plan, read(rehearsal.ledger.data).entries)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0]}, {pair[1]}")
def test_killed_before_any_line_it_ends_the_same(tmp_path: Path, pair: tuple[Role, Role]) -> None:
    whole = a_rehearsal(tmp_path / "whole", pair, policy=QUICK)
    assert whole.conduct() == "done"
    assert_as_if_undisturbed(whole)
    lines = len(whole.ledger.entries)
    assert lines >= 12
    for line in range(lines):
        rehearsal = a_rehearsal(tmp_path / f"{line}", pair, policy=QUICK)
        assert rehearsal.conduct(lives=line, torn=TORN[line % len(TORN)]) is None
        assert rehearsal.conduct() == "done", f"killed before line {line + 1}"
        assert_as_if_undisturbed(rehearsal)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0]}, {pair[1]}")
def test_killed_at_any_moment_it_ends_the_same(tmp_path: Path, pair: tuple[Role, Role]) -> None:
    """Kills between lines: while agents are made, fetched from, reminded and stopped."""
    dice = random.Random(f"{pair}")
    whole = a_rehearsal(tmp_path / "whole", pair, policy=QUICK)
    assert whole.conduct() == "done"
    for number in range(25 * SCALE):
        rehearsal = a_rehearsal(tmp_path / f"{number}", pair, seed=number, policy=QUICK)
        # Half of the moments are in the first seconds, for there the launches are.
        moment = dice.uniform(0.0, 9.0 if number % 2 else whole.passed)
        if rehearsal.conduct(seconds=moment) is None:
            assert rehearsal.conduct() == "done", f"killed after {moment} s"
        assert_as_if_undisturbed(rehearsal)


def test_every_cut_of_every_line_reads_as_if_the_line_had_never_begun(tmp_path: Path) -> None:
    """A resume does not depend on how much of the last line reached the disk."""
    rehearsal = a_rehearsal(tmp_path, ROLES, policy=QUICK)
    assert rehearsal.conduct() == "done"
    data = rehearsal.ledger.data
    start, cuts = 0, 0
    before = read(data[:0]).entries
    for line in data.splitlines(keepends=True)[:: max(1, 12 // SCALE)]:
        start = data.index(line)
        before = read(data[:start]).entries
        for cut in range(len(line)):
            reading = read(data[: start + cut])
            assert (reading.entries, reading.good_bytes, reading.torn) == (before, start, cut)
            cuts += 1
    assert cuts > 1000


KILLS = st.lists(
    st.one_of(
        st.tuples(st.just("line"), st.integers(1, 4), st.sampled_from(TORN)),
        st.tuples(st.just("moment"), st.floats(0.0, 12.0), st.just(0)),
    ),
    min_size=25,
    max_size=60,
)


def conduct_through(rehearsal: Rehearsal, kills: Sequence[tuple[str, float, int]], pauses: Sequence[float]) -> int:
    """Conduct to the end with the listed kills and pauses between them; return the number of kills."""
    killed = 0
    for (kind, when, torn), pause in zip(kills, itertools.cycle(pauses), strict=False):
        is_line = kind == "line"
        why = rehearsal.conduct(lives=int(when), torn=torn) if is_line else rehearsal.conduct(seconds=when)
        if why is not None:
            return killed
        killed += 1
        rehearsal.passed += pause
    assert rehearsal.conduct() is not None
    return killed


def test_killed_again_and_again_it_ends_the_same(tmp_path: Path) -> None:
    killed = 0
    folders = itertools.count()

    @settings(THOROUGH, max_examples=70 * SCALE)
    @given(
        roles=st.lists(st.sampled_from(ROLES), min_size=1, max_size=5),
        seed=st.integers(0, 1000),
        trouble=st.sampled_from((0.0, 0.03)),
        at_once=st.integers(1, 8),
        kills=KILLS,
        pauses=st.lists(st.sampled_from((0.0, 1.0, 8.0)), min_size=1, max_size=5),
    )
    def play(
        roles: list[Role], seed: int, trouble: float, at_once: int, kills: list[tuple[str, float, int]],
        pauses: list[float],
    ) -> None:  # fmt: skip
        nonlocal killed
        folder = tmp_path / f"{next(folders)}"
        # Whoever is killed for hours must not take the time for the agent's.
        rehearsal = a_rehearsal(
            folder, roles, seed=seed, trouble=trouble, policy=QUICK, max_running=at_once, timeout=900.0
        )
        killed += conduct_through(rehearsal, kills, pauses)
        assert_as_if_undisturbed(rehearsal)

    play()
    assert killed > 1000 * SCALE


def test_stopped_by_a_person_and_killed_on_the_way_it_leaves_nobody(tmp_path: Path) -> None:
    folders = itertools.count()

    @settings(THOROUGH, max_examples=25 * SCALE)
    @given(
        roles=st.lists(st.sampled_from(ROLES), min_size=1, max_size=6),
        before=st.floats(0.0, 90.0),
        kills=KILLS,
        seed=st.integers(0, 1000),
    )
    def play(roles: list[Role], before: float, kills: list[tuple[str, float, int]], seed: int) -> None:
        rehearsal = a_rehearsal(tmp_path / f"{next(folders)}", roles, seed=seed, policy=QUICK, max_running=3)
        if rehearsal.conduct(seconds=before) is not None:
            return
        rehearsal.folder.add_request(RunRequest(RequestKind.STOP))
        conduct_through(rehearsal, kills[:8], (0.0,))
        run, world = rehearsal.run, rehearsal.world
        roles_of = world.roles.items()
        assert run.is_over
        assert run.is_halted
        allowed = {name: {ENDS[role], End.STOPPED, End.NOT_STARTED, *HALTED.get(role, ())} for name, role in roles_of}
        assert all(row.end in allowed[row.name] for row in run.rows.values())
        told = {row.name for row in run.rows.values() if row.says}
        assert {agent.member.test for agent in world.live(rehearsal.passed)} <= told
        assert world.wrongs == []
        assert_told_rightly(rehearsal.plan, read(rehearsal.ledger.data).entries)

    play()
