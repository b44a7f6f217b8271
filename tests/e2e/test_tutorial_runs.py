"""The blocks of tutorial.sh about runs that are there already, as they stand, on runs that no agent was made for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from core.compare.comparable_runs import GREEN, RED, Repository, Told
from core.run.rehearsals import a_plan
from selftest_core.journal import Journal
from selftest_core.run.store import RequestKind, RunRequest, make_run_folder
from selftest_recorder.e2e.expect import expect
from selftest_recorder.e2e.session import open_session
from worlds import BIN

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.store import RunFolder
    from selftest_recorder.e2e.end_to_end import EndToEnd, TutorialBlock
    from selftest_recorder.e2e.results import Result
    from worlds import World

BEGUN = "20261121-0931-7f3a"
ENDED = "20261120-0931-7f3a"
OLD, OTHER = "20261119-0931-7f3a", "20261118-0931-7f3a"


def a_run(world: World, run: str, *, is_over: bool) -> RunFolder:
    """A run of two tests whose agents were never made: it has ended, or its conductor is gone."""
    repository = world.make_repository()
    world.load_mngr()
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    folder = make_run_folder(a_plan(2, run=run, repository=str(repository), base=base), world.environment)
    with Journal(folder.journal) as journal:
        journal.append("conducting", 1.0, pid=1)
        for test in folder.plan().tests if is_over else ():
            journal.append("ended", 2.0, agent=test.agent_name, attempt=0, end="not_started", stage="launch", text="x")
    return folder


@pytest.fixture
def ended(world: World) -> RunFolder:
    """The run that has ended."""
    return a_run(world, ENDED, is_over=True)


def ran(block: TutorialBlock, world: World) -> Result:
    return block.run(environment=world.environment, cwd=world.repository, timeout=300.0)


RUNS = """
    # The runs of this repository and of others, with what is open in each; and as JSON.
    selftest-tui runs
    selftest-tui runs --json > runs.json
"""


def test_which_runs_there_are(e2e: EndToEnd, world: World, ended: RunFolder) -> None:
    block = e2e.write_tutorial_block(RUNS)
    a_run(world, BEGUN, is_over=False)

    done = ran(block, world)

    expect(done).to_succeed()
    _, begun, over = done.stdout.splitlines()
    assert begun.split()[1:3] == [BEGUN, "resumable"]
    assert "2 waiting" in begun
    assert over.split()[1:3] == [ENDED, "ended"]
    assert "2 not started" in over
    runs = json.loads((world.repository / "runs.json").read_text())["runs"]
    assert [(run["run"], run["state"], run["path"]) for run in runs] == [
        (BEGUN, "resumable", str(ended.path.with_name(BEGUN))), (ENDED, "ended", str(ended.path)),
    ]  # fmt: skip


@pytest.mark.unhappy
def test_runs_of_which_one_is_damaged(e2e: EndToEnd, world: World, ended: RunFolder) -> None:
    block = e2e.write_tutorial_block(RUNS)
    damaged = a_run(world, BEGUN, is_over=False)
    (damaged.path / "plan.json").write_text('{"run": ')

    result = block.run(environment=world.environment, cwd=world.repository)

    expect(result).to_succeed().stdout.to_match(f"{BEGUN} +unreadable").to_match(f"{ENDED} +ended")
    runs = json.loads((world.repository / "runs.json").read_text())["runs"]
    assert [(run["run"], run["state"]) for run in runs] == [(BEGUN, "unreadable"), (ENDED, "ended")]


ONE_RUN = """
    # One of them on the screen, also when it has ended. `q` leaves it and says the way back.
    selftest-tui runs 20261120
"""


@pytest.mark.unhappy
def test_a_run_that_is_not_there(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(ONE_RUN)
    a_run(world, BEGUN, is_over=False)

    result = block.run(environment=world.environment, cwd=world.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("There is no run 20261120", "`selftest-tui runs`")


def test_a_run_that_has_ended_is_opened_on_the_screen(e2e: EndToEnd, world: World, ended: RunFolder) -> None:
    block = e2e.write_tutorial_block(ONE_RUN)
    a_run(world, BEGUN, is_over=False)
    before = ended.journal.read_bytes()
    world.extra["SELFTEST_TUI_REMOTE"] = "false"
    with block.pty(environment=world.environment, cwd=world.repository, columns=140) as session:
        session.wait_for(f"run {ENDED}")
        session.wait_for("✓ ended")
        session.send_keys("q")
        assert session.wait_for_end() == 0
        session.wait_for(f"`selftest-tui runs {ENDED}` opens the run again")
    assert ended.journal.read_bytes() == before


@pytest.mark.parametrize("is_over", [False, True])
def test_a_plain_start_opens_on_a_run_that_can_be_gone_on_with(world: World, is_over: bool) -> None:
    a_run(world, ENDED, is_over=True)
    newest = a_run(world, BEGUN, is_over=is_over)
    world.extra["SELFTEST_TUI_REMOTE"] = "false"
    plain = [BIN / "selftest-tui"]
    with open_session(plain, environment=world.environment, cwd=world.repository, columns=140) as session:
        if is_over:
            session.wait_for("No agents yet")
            session.send_keys("q")
        else:
            session.wait_for(f"run {newest.run}")
            session.wait_for("no conductor")
            session.send_keys("q")
            session.wait_for(f"`selftest-tui resume {newest.run}` resumes it")
        assert session.wait_for_end() == 0
    assert newest.read().conductors == 1, "looking conducts nothing"


COMPARE = """
    # Two runs compared, the earlier one first: tests that are newly red, newly flaky, mended, slower, dearer, new or gone. It
    # ends with 1 where a test is worse. Without names: the newest run and the one before it; and as JSON.
    selftest-tui runs --compare 20261119 20261120
    selftest-tui runs --compare --json > compared.json
"""  # noqa: E501 -- the block's own line
FIRST, SECOND = "tests/test_a.py::test_one", "tests/test_a.py::test_two"


def test_two_runs_are_compared(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(COMPARE)
    runs = Repository(world.make_repository())
    runs.run(OLD, {FIRST: GREEN, SECOND: RED}, created_at=1.0)
    runs.run(ENDED, {FIRST: GREEN, SECOND: GREEN}, created_at=2.0)

    done = block.run(environment=world.environment, cwd=world.repository)

    expect(done).to_succeed().stdout.to_contain(f"run {ENDED} since run {OLD}", "1 mended, 1 with the same result")
    expect(done).stdout.to_match(f"failed → succeeded +{SECOND}")
    document = json.loads((world.repository / "compared.json").read_text())
    assert [(one["test"], one["before"]["outcome"]) for one in document["mended"]] == [(SECOND, "red")]
    assert (document["before"]["run"], document["after"]["run"], document["same"]) == (OLD, ENDED, 1)


@pytest.mark.unhappy
def test_a_comparison_ends_with_1_where_a_test_is_worse(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(COMPARE)
    runs = Repository(world.make_repository())
    runs.run(OLD, {FIRST: GREEN, SECOND: RED}, created_at=1.0)
    runs.run(ENDED, {FIRST: RED, SECOND: GREEN}, created_at=2.0)

    result = block.run(environment=world.environment, cwd=world.repository)

    expect(result).to_have_exit_code(1).stdout.to_match(f"succeeded → failed +{FIRST} +E +assert 1 == 2")


@pytest.mark.unhappy
def test_runs_that_cannot_be_compared(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(COMPARE)
    runs = Repository(world.make_repository())
    runs.run(OLD, {FIRST: GREEN}, created_at=1.0)
    runs.run(ENDED, {FIRST: Told(None)}, created_at=2.0)

    result = block.run(environment=world.environment, cwd=world.repository)

    expect(result).to_have_exit_code(2)
    expect(result).stderr.to_contain(f"The run {ENDED} has no results to compare", "None of its tests has ended.")


OUTCOMES = """
    # The outcomes in a folder, also those that another program left.
    selftest-tui runs outcomes
"""


def test_outcomes_of_another_program(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(OUTCOMES)
    outcomes = world.make_repository() / "outcomes" / "ada"
    outcomes.mkdir(parents=True)
    change = {"REPHRASE": {"status": "SUCCEEDED", "summary_markdown": "x"}}
    (outcomes / "outcome.json").write_text(json.dumps({"errored": False, "changes": change}))

    done = ran(block, world)

    expect(done).to_succeed()
    assert "succeeded" in done.stdout
    assert "1 REPHRASE" in done.stdout


@pytest.mark.unhappy
def test_outcomes_of_which_one_is_damaged(e2e: EndToEnd, plain: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(OUTCOMES)
    for name, text in (("ada", '{"errored": '), ("bob", '{"errored": false, "changes": {}}')):
        (tmp_path / "outcomes" / name).mkdir(parents=True)
        (tmp_path / "outcomes" / name / "outcome.json").write_text(text)

    result = block.run(environment=plain.environment, cwd=tmp_path)

    expect(result).to_succeed().stdout.to_match("unreadable +ada").to_match("unchanged +bob")


RESUME = """
    # Go on where a run stopped, after a crash too. One that has ended stays as it is.
    selftest-tui resume --batch > resumed.jsonl
"""


@pytest.mark.unhappy
def test_a_run_that_has_ended_is_not_resumed(e2e: EndToEnd, world: World, ended: RunFolder) -> None:
    block = e2e.write_tutorial_block(RESUME)
    before = ended.journal.read_bytes()

    done = ran(block, world)

    expect(done).to_have_exit_code(1)
    assert "has ended already" in done.stderr
    summary = json.loads((world.repository / "resumed.jsonl").read_text())
    assert (summary["event"], summary["run"], summary["outcomes"]["not_started"]) == ("summary", ENDED, 2)
    assert ended.journal.read_bytes() == before


STOP = """
    # End a run: its agents are emptied and stopped, the rest is not started.
    selftest-tui stop
"""


@pytest.mark.unhappy
def test_a_run_that_has_ended_is_not_stopped(e2e: EndToEnd, world: World, ended: RunFolder) -> None:
    block = e2e.write_tutorial_block(STOP)
    before = ended.journal.read_bytes()

    result = block.run(environment=world.environment, cwd=world.repository)

    expect(result).to_have_exit_code(1).stderr.to_contain("has ended already: there is nothing to stop")
    assert ended.journal.read_bytes() == before


@pytest.mark.unhappy
def test_a_run_without_a_conductor_is_stopped_from_here(e2e: EndToEnd, world: World, ended: RunFolder) -> None:
    block = e2e.write_tutorial_block(STOP)
    begun = a_run(world, BEGUN, is_over=False)
    # Somebody who lost patience before: the waiting request is the same one.
    begun.add_request(RunRequest(RequestKind.STOP))

    done = ran(block, world)

    expect(done).to_succeed()
    assert "2  not started" in done.stdout
    assert begun.read().is_over
    assert begun.read().is_halted
    assert not begun.is_conducted()
    assert begun.requests() == ()
    assert ended.read().conductors == 1
    assert list((world.host_dir / "agents").glob("*")) == []


SWEEP = """
    # Remove what one run left; then what all ended runs and reviews of this repository left. Other repositories and demos
    # are not touched.
    selftest-tui sweep --yes 20261120
    selftest-tui sweep --yes --here
"""  # noqa: E501 -- the block's own line


def test_a_sweep_of_one_run_and_of_this_repository(e2e: EndToEnd, world: World, ended: RunFolder) -> None:
    block = e2e.write_tutorial_block(SWEEP)
    old = a_run(world, OLD, is_over=True)
    elsewhere = make_run_folder(a_plan(1, run=OTHER, repository=str(world.home)), world.environment)
    with Journal(elsewhere.journal) as journal:
        test = elsewhere.plan().tests[0].agent_name
        journal.append("ended", 2.0, agent=test, attempt=0, end="not_started", stage="launch", text="x")

    done = ran(block, world)

    expect(done).to_succeed()
    of_one, _, of_here = done.stdout.partition("Removed 1 leftover.")
    assert ENDED in of_one
    assert OLD not in of_one
    assert OLD in of_here
    assert OTHER not in done.stdout
    assert not ended.path.exists()
    assert not old.path.exists()
    assert elsewhere.path.is_dir()


@pytest.mark.unhappy
def test_a_sweep_of_a_run_that_is_not_there_removes_nothing(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(SWEEP)
    old = a_run(world, OLD, is_over=True)

    result = block.run(environment=world.environment, cwd=world.repository)

    expect(result).to_have_exit_code(2).stderr.to_contain("There is no run or review 20261120")
    expect(old.path).to_be_a_folder()
