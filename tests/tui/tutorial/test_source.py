"""What the tutorial's screen follows: files of a repository, and the journal of its newest run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from selftest_core.errors import UsageError
from selftest_core.journal import Journal
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_tui.tutorial.source import TutorialSource
from tui.tutorial.tutorials import RUN, a_run_folder, write_project, write_run
from worlds import a_world

if TYPE_CHECKING:
    from pathlib import Path

CARD = "tests/test_pay.py::test_card"


def environ_of(folder: Path) -> dict[str, str]:
    return {"PATH": "/nonexistent", "HOME": str(folder / "home"), "XDG_STATE_HOME": str(folder / "state")}


def how(source: TutorialSource, test: str = CARD) -> object:
    (found,) = {one.how for block in source.look().blocks for one in block.tests if one.node_id == test}
    return found


def test_nothing_new_is_the_same_view(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    project = write_project(tmp_path / "shop")
    write_run(project, environ)
    source = TutorialSource(project, environ)
    view = source.look()
    assert source.look() is view
    (project / "tutorial.sh").write_text((project / "tutorial.sh").read_text() + "\nshop close\n")
    assert [block.block.line for block in source.look().blocks][-1] == 38


def test_a_run_is_followed_and_a_newer_one_takes_its_place(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    project = write_project(tmp_path / "shop")
    source = TutorialSource(project, environ)
    assert source.look().run == ""
    folder = a_run_folder(project, environ, [CARD])
    assert source.look().run == RUN
    assert {project, project / "tests", folder.path, folder.path.parent} <= set(source.folders())
    assert str(how(source)) == "waiting"
    with Journal(folder.journal) as journal:
        journal.append(Event.LAUNCHING, 1.0, agent="st-7f3a-00", attempt=1)
        assert str(how(source)) == "launching"
    write_run(project, environ, {CARD: (End.SUCCEEDED, "")}, run="20261122-0931-0000")
    assert how(source) is End.SUCCEEDED


def test_a_newer_sync_keeps_the_results_and_stands_beneath_what_it_is_for(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    project = write_project(tmp_path / "shop")
    write_run(project, environ)
    refund, export = (
        "# Money back, if it was us.\nshop refund last --reason damaged",
        "shop export --format csv > sales.csv",
    )
    task, cited = "tutorial.sh:22 # Money back, if it was us.", "tutorial.sh:8 # What is in it."
    write_run(
        project, environ, {task: (End.RED, "test_refund passes without the command")}, ["tutorial.sh:25 shop export"],
        "20261122-0931-0abc", "writer", {task: refund, "tutorial.sh:25 shop export": export, cited: "shop cart empty"},
    )  # fmt: skip
    source = TutorialSource(project, environ)

    view = source.look()

    assert (view.run, how(source)) == (RUN, End.BLOCKED)
    writers = {block.block.text: [str(one.how) for one in block.writers] for block in view.blocks if block.writers}
    assert writers == {refund: ["red"], export: ["working"]}
    assert {one.run for block in view.blocks for one in block.writers} == {"20261122-0931-0abc"}
    assert source.look() is view


def test_a_run_that_cannot_be_read_is_no_failure(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    project = write_project(tmp_path / "shop")
    folder = write_run(project, environ)
    (folder.path / "plan.json").write_text('{"version": 99}')
    source = TutorialSource(project, environ)
    assert source.look().run == ""


def test_from_a_folder_below_the_tutorial_of_the_repository_is_found() -> None:
    with a_world() as world:
        project = write_project(world.make_repository())
        source = TutorialSource(project / "tests", world.environment)
        assert source.tutorial == project / "tutorial.sh"
        assert source.look().tests == 9


def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No tutorial at"):
        TutorialSource(tmp_path, environ_of(tmp_path)).look()
