"""Two moments of `make chaos`: kill -9 of a conductor's process, with real agents of the real mngr."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from core.run import killing

if TYPE_CHECKING:
    from worlds import World

# A deadline for a hang, far beyond what a busy machine needs for the calls of mngr.
pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]
SEED = 20261121


def test_killed_while_it_launches_and_while_it_fetches_it_ends_the_same(world: World) -> None:
    """Four of the twelve stories, since each call of mngr takes seconds."""
    dice = random.Random(SEED)
    # What takes its time to end is no part of it: an hour is more than any machine makes of it.
    killed = killing.begin(world, "bundles", "crashes", "dribbles", "renames", timeout=3600.0, is_held=True)
    # Launches were begun, and not all of them are done.
    assert killed.conduct_and_kill(dice, lines=dice.randrange(3, 7), seconds=0.5)
    launching = [row for row in killed.run.rows.values() if row.attempt == 1]
    assert launching
    # The first lines of the second one take up what was begun; then come the fetches.
    assert killed.conduct_and_kill(dice, lines=dice.randrange(8, 13), seconds=0.5)
    assert not killed.run.is_over
    killed.release()
    killed.conduct()
    killed.assert_as_if_undisturbed()
    assert killed.run.conductors == 3
