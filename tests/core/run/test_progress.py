"""How far a run is: the counts sum, nothing is claimed before a test ended, and time left shrinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import run_scenes
from fleet_parts import NOW
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_core.run.progress import progress

if TYPE_CHECKING:
    from pathlib import Path


def test_the_counts_sum_to_the_tests(tmp_path: Path) -> None:
    made = progress(run_scenes.halfway(tmp_path).run, NOW)
    assert made.tests == 96
    assert made.ended + made.running + made.waiting == 96
    assert sum(made.ends.values()) == made.ended
    assert made.launched == 81
    assert made.needing == 2
    assert made.limited == 1
    assert made.spent.usd is not None
    assert round(made.spent.usd, 2) == 4.05, "80 that are there, and the one that was lost; not the one being made"


def test_time_left_is_not_known_before_a_test_has_ended(tmp_path: Path) -> None:
    told = run_scenes.story(tmp_path, 4, max_running=2)
    told.note(Event.CONDUCTING, 0, pid=1)
    told.launch(0, 0.0)
    told.launch(1, 0.0)
    assert progress(told.run, run_scenes.BEGAN + 50).seconds_left is None
    told.end(0, 100.0, End.SUCCEEDED)
    told.launch(2, 110.0)
    # One has taken 100 s: the second is at its end, the third needs 90 s more, and one waits for a place.
    early = progress(told.run, run_scenes.BEGAN + 120).seconds_left
    late = progress(told.run, run_scenes.BEGAN + 150).seconds_left
    assert early is not None
    assert late is not None
    assert 100 <= late < early <= 200


def test_no_time_is_promised_while_launching_rests_or_when_all_is_over(tmp_path: Path) -> None:
    assert progress(run_scenes.paused(tmp_path / "a").run, NOW).seconds_left is None
    assert progress(run_scenes.over(tmp_path / "b").run, NOW).seconds_left is None
    assert progress(run_scenes.abandoned(tmp_path / "c").run, NOW).seconds_left is None


def test_money_is_unknown_where_nobody_said_what_an_agent_costs(tmp_path: Path) -> None:
    assert progress(run_scenes.story(tmp_path, 2, usd_per_agent=None).run, NOW).spent.usd is None
