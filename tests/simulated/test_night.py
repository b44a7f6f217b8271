"""A small night of scheduled runs; `make night` plays it with 300 agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simulated.night import Night

if TYPE_CHECKING:
    from worlds import World

pytestmark = pytest.mark.slow  # three reports


def test_three_scheduled_runs_of_a_night_are_compared_and_reported_within_the_budget(world: World) -> None:
    said: list[str] = []
    night = Night(world, 40, said.append)

    night.play()

    assert [one.exits for one in night.runs] == [[1], [1], [3, 1]]
    assert sum(one.kills for one in night.runs) == 1
    assert [len(one.rehearsal.plan.tests) for one in night.runs] == [40, 40, 42]
    assert said[-1].startswith("budget of a day")
