"""The block of tutorial.sh in which agents resolve the conflicts of a review, by the real mngr."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from core.integrate.agents import answering, put_agent
from core.integrate.counters import BOTH, make_counter
from core.integrate.fixtures import CONFTEST, ONE, make_fixtures
from core.verify.desks import SETTINGS
from selftest_recorder.e2e.expect import expect
from worlds import World, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.review.repositories import Repository
    from selftest_recorder.e2e.end_to_end import EndToEnd

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

INTEGRATE = """
    # Let agents resolve the conflicts. Each gets both sides, their intents and tests; its answer is used where it keeps both
    # sides and their tests pass with it. The settings of runs say which agents; 1 says that changes are undecided.
    selftest-tui review --batch --integrate --base main ada eve --set agent=command --set agent_command=./integrator.sh > review.jsonl || test $? = 1
"""  # noqa: E501 -- the block's own lines


@pytest.fixture
def away() -> Iterator[World]:
    """A world whose mngr is loaded, and whose tests this interpreter runs."""
    with a_world(**SETTINGS) as world:
        world.load_mngr()
        yield world


def counter(world: World, script: str) -> Repository:
    """The review with one conflict, and the agent's script beside it."""
    repository = make_counter(world.repository)
    put_agent(world.repository, script)
    return repository


def summaries(path: Path) -> list[dict[str, Any]]:
    """The summaries of the run and of the review."""
    return [line for line in map(json.loads, path.read_text().splitlines()) if line["event"] == "summary"]


def test_an_agent_resolves_a_conflict(e2e: EndToEnd, away: World) -> None:
    block = e2e.write_tutorial_block(INTEGRATE)
    repository = counter(away, answering(f"cat <<'END'\n{BOTH}END"))
    checkout = repository.git("status", "--porcelain")

    result = block.run(environment=away.environment, cwd=away.repository)

    expect(result).to_have_exit_code(0).stderr.to_contain(
        "an agent for: ", "was checked, and can be used", ": resolved by Add-a-"
    )
    run, review = summaries(away.repository / "review.jsonl")
    (item,) = [one for one in review["items"] if one["integration"] is not None]
    assert (item["status"], item["resolved"], item["integration"]["state"]) == ("laid", ["shop/price.py"], "resolved")
    assert item["resolved_by"] == [item["integration"]["agent"]]
    assert item["integration"]["run"] == run["run"]
    assert repository.git("show", f"{review['candidate']}:shop/price.py") + "\n" == BOTH
    # The user's files and branches are as they were.
    assert repository.git("status", "--porcelain") == f"{checkout}\n?? review.jsonl"
    assert repository.git("branch", "--format=%(refname:short)").split() == ["ada", "eve", "main"]


@pytest.mark.unhappy
def test_an_agent_that_leaves_markers_changes_nothing(e2e: EndToEnd, away: World) -> None:
    block = e2e.write_tutorial_block(INTEGRATE)
    counter(away, answering("cat .selftest/task/1-1.merged"))

    result = block.run(environment=away.environment, cwd=away.repository)

    expect(result).to_have_exit_code(0).stderr.to_contain("not used: shop/price.py still has a conflict marker")
    _, review = summaries(away.repository / "review.jsonl")
    (item,) = [one for one in review["items"] if one["integration"] is not None]
    assert (item["status"], item["integration"]["state"]) == ("held", "refused")
    assert item["integration"]["reason"].startswith("shop/price.py still has a conflict marker: <<<<<<<")


@pytest.mark.unhappy
def test_without_an_agent_nothing_is_started(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(INTEGRATE)
    make_counter(world.repository)

    result = block.run(environment=world.environment, cwd=world.repository)

    expect(result).to_fail().stderr.to_contain("There is no script", "integrator.sh")
    assert not list(world.repository.glob(".selftest/runs/*/plan.json"))


TEXTS = """
    # One text instead of many that say the same: agents write it, and it joins their row, where you choose it or not.
    selftest-tui review --batch --integrate --texts --base main ada bob eve --set agent=command --set agent_command=./integrator.sh > review.jsonl || test $? = 1
"""  # noqa: E501 -- the block's own lines


def test_an_agent_writes_one_text_for_many(e2e: EndToEnd, away: World) -> None:
    block = e2e.write_tutorial_block(TEXTS)
    make_fixtures(away.repository)
    put_agent(away.repository, answering(f"cat <<'END'\n{ONE}END", CONFTEST))

    result = block.run(environment=away.environment, cwd=away.repository)

    expect(result).to_have_exit_code(0).stderr.to_contain(
        "an agent for: One for 3: ", "one text is proposed by One-for-3"
    )
    _, review = summaries(away.repository / "review.jsonl")
    row = [item for item in review["items"] if item["subject"] == "[FIX_TEST] Give tests a home"]
    assert len({item["row"] for item in row}) == 1
    assert [len(item["agents"]) for item in row] == [1, 1, 1, 1]
    (new,) = (item for item in row if item["agents"][0].startswith("One-for-3"))
    assert (new["chosen"], new["status"]) == (False, "dropped")


@pytest.mark.unhappy
def test_a_text_that_is_broken_is_not_proposed(e2e: EndToEnd, away: World) -> None:
    block = e2e.write_tutorial_block(TEXTS)
    make_fixtures(away.repository)
    put_agent(away.repository, answering("echo 'def home('", CONFTEST))

    result = block.run(environment=away.environment, cwd=away.repository)

    expect(result).to_have_exit_code(0).stderr.to_contain("not used: conftest.py does not parse")
    _, review = summaries(away.repository / "review.jsonl")
    assert {agent for item in review["items"] for agent in item["agents"]} == {"ada", "bob", "eve"}


@pytest.mark.unhappy
def test_without_a_row_of_several_texts_nothing_is_started(e2e: EndToEnd, world: World) -> None:
    block = e2e.write_tutorial_block(TEXTS)
    make_counter(world.repository)
    world.run(["git", "branch", "bob", "main"])

    result = block.run(environment=world.environment, cwd=world.repository)

    expect(result).to_have_exit_code(0).stderr.to_contain("No row is for an agent", "No row has several texts.")
    assert not list(world.repository.glob(".selftest/runs/*/plan.json"))
