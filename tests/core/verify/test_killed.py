"""A verification that is killed at any moment goes on where it was: nothing lost, nothing twice, nothing left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.verify.desks import SANDBOX, make_shop
from core.verify.killed import kill_again_and_again

if TYPE_CHECKING:
    from pathlib import Path

# Not part of `make quick`: each test starts several processes of pytest.
pytestmark = pytest.mark.real

RUNS_BEFORE_A_KILL = (1, 3, 6, 4)
"""Runs of tests that each process may finish before it is killed. `make proof` does this at twenty moments."""


@pytest.mark.skipif(not SANDBOX.is_isolated, reason=SANDBOX.reason)
def test_killed_again_and_again_it_ends_as_if_undisturbed(tmp_path: Path) -> None:
    repository = make_shop(tmp_path / "shop").folder
    found = kill_again_and_again(tmp_path / "user", repository, ("ada", "bob", "eve", "gus"), RUNS_BEFORE_A_KILL)
    # Where this process stalls, one that is to be killed goes further, even to its end: then there are fewer kills.
    assert found.kills
    assert found.exit_status == 1
    assert len(found.runs) == len(set(found.runs))
    assert found.verdicts == {"ada": "passed", "bob": "passed", "eve": "failed", "gus": "passed"}
    assert found.broken == ["tests/test_common.py::test_rate"]
    assert found.summary["verification"]["from_cache"] >= RUNS_BEFORE_A_KILL[0]
    assert found.left == []
