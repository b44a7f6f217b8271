"""The order of runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from run_scenes import story
from selftest_core.run.store import find_run, run_folders

if TYPE_CHECKING:
    from pathlib import Path


def test_of_two_runs_of_one_minute_the_later_one_is_the_newest(tmp_path: Path) -> None:
    began = ("20261120-0200-ffff", "20261121-0931-dd20", "20261121-0931-950e")
    for number, run in enumerate(began):
        told = story(tmp_path / ".selftest" / "runs", 1, run=run, repository=str(tmp_path))
        os.utime(told.folder.path / "plan.json", (number, number))
    environ = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    assert [one.run for one in run_folders(environ, tmp_path)] == list(reversed(began))
    assert find_run(environ, tmp_path).run == "20261121-0931-950e"
