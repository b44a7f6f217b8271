"""The order of runs, and damaged ones among them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from run_scenes import story
from selftest_core.compare.reading import flaky_tests
from selftest_core.paths import runs_registry
from selftest_core.run.overview import glances
from selftest_core.run.store import find_run, run_folders
from selftest_core.verify.kept.verification_file import FILE_NAME

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


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\xff", "7"])
def test_damaged_files_of_a_run_cost_that_run_alone(tmp_path: Path, text: str) -> None:
    repository = tmp_path / "r"
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    whole = story(repository / ".selftest" / "runs", 1, run="20261121-0931-0001", repository=str(repository)).write()
    damaged = story(repository / ".selftest" / "runs", 1, run="20261121-0931-0002", repository=str(repository)).write()
    registry = runs_registry(environ)
    registry.mkdir(parents=True)
    (damaged.path / "wishes").mkdir(exist_ok=True)
    for path in (damaged.path / "plan.json", damaged.path / "wishes" / "000000001.json", registry / "x.json"):
        path.write_text(text, encoding="latin-1")
    (damaged.path / FILE_NAME).write_text(text, encoding="latin-1")

    assert {one.state for one in glances(environ, repository)} == {"unreadable", "resumable"}
    assert [one.error != "" for one in glances(environ, repository) if one.folder.run == damaged.run] == [True]
    assert damaged.requests() == ()
    assert flaky_tests(damaged) == frozenset()
    assert whole.read().plan.run == whole.run
