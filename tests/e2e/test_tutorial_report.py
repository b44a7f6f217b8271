"""The blocks of tutorial.sh about the report, run as they stand: a run's, and that of branches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import run_scenes
from core.review.desks import make_desk
from selftest_core.run.outcome.ends import End
from selftest_recorder.e2e.expect import expect

if TYPE_CHECKING:
    from core.review.repositories import Repository
    from selftest_recorder.e2e.end_to_end import EndToEnd
    from worlds import World

OF_A_RUN = """
    # The newest run of this repository as one folder of pages, which opens offline in any browser. A run writes it anyway.
    selftest-tui report --open
"""  # noqa: E501 -- the block's own line
OF_BRANCHES = """
    # The report of branches, by decisions that were made elsewhere, onto a newer main; and all of it as one JSON document.
    selftest-tui report --base main ada bob --onto newer --decisions decisions.json --json > report.json
"""  # noqa: E501 -- the block's own line


@pytest.fixture
def desk(tmp_path: Path) -> Repository:
    """A repository with the branches of agents, and a newer main, which is in conflict with the fix of bob."""
    made = make_desk(tmp_path / "a desk")
    made.git("checkout", "-q", "-b", "newer")
    made.commit("Go on", {"src/b.py": "newer\n"})
    made.git("checkout", "-q", "main")
    return made


def test_report_of_the_newest_run(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(OF_A_RUN)
    base = desk.git("rev-parse", "main")
    story = run_scenes.story(desk.folder / ".selftest" / "runs", 2, repository=str(desk.folder), base=base)
    story.launch(0, 0.0)
    story.end(0, 100.0, End.SUCCEEDED, "Done", commits=2, outcome=run_scenes.FIXED)
    folder = story.write()
    browser = world.script("browser", '#!/bin/sh\necho "$1" > "$HOME/address"\n')

    result = block.run(environment={**world.environment, "BROWSER": str(browser)}, cwd=desk.folder)

    index = folder.path / "report" / "index.html"
    expect(result).to_succeed().stdout.to_equal(f"{index}\n")
    expect(index).to_contain(*(test.node_id for test in story.plan.tests))
    expect(world.home / "address").to_have_text(f"{index.as_uri()}\n")


@pytest.mark.unhappy
def test_report_where_there_is_no_run(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(OF_A_RUN)

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_have_exit_code(2).stderr.to_contain("There is no run in this repository")
    expect(desk.folder / ".selftest").to_be_missing()


def test_report_of_branches(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(OF_BRANCHES)
    (desk.folder / "decisions.json").write_text(json.dumps({"items": {desk.git("rev-parse", "ada"): "keep"}}))

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_succeed()
    answer = json.loads((desk.folder / "report.json").read_text())
    changes = {change["subject"]: (change["decision"], change["status"]) for change in answer["report"]["changes"]}
    assert changes["[FIX_IMPL] Mend a"] == ("keep", "laid")
    assert changes["[FIX_IMPL] Mend b"] == ("undecided", "held")
    expect(Path(answer["path"])).to_contain("Mend a", "Mend b")


@pytest.mark.unhappy
def test_report_by_decisions_that_cannot_be_read(e2e: EndToEnd, world: World, desk: Repository) -> None:
    block = e2e.write_tutorial_block(OF_BRANCHES)
    (desk.folder / "decisions.json").write_text('{"default": ')

    result = block.run(environment=world.environment, cwd=desk.folder)

    expect(result).to_have_exit_code(2).stderr.to_contain("decisions.json is not JSON")
    expect(desk.folder / "report.json").to_have_text("")
