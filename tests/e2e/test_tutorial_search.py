"""The blocks of tutorial.sh that search, as they stand, on a run that has ended."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from recorder.search.past import make_past
from run_scenes import RUN
from selftest_recorder.e2e.expect import expect

if TYPE_CHECKING:
    from pathlib import Path

    from recorder.search.past import Past
    from selftest_recorder.e2e.end_to_end import EndToEnd, TutorialBlock
    from selftest_recorder.e2e.results import Result
    from worlds import World

WORDS = """
    # Search everything that agents did, over all runs of this repository: words, or the beginnings of words. Each hit
    # comes with the command that opens its place.
    selftest-tui search coupon
"""
PLACE = """
    # A path or a test id as it is written, only what was on terminals; 1 where nothing is found, as grep.
    selftest-tui search 'test_login.py::redirect' --kind terminal > places.txt || test $? = 1
"""
REGEX = """
    # A regular expression over every line of one run, at most five hits, as JSON.
    selftest-tui search --regex 'port 4[0-9]+' --run 20261121 --limit 5 --json > hits.json
"""


@pytest.fixture
def past(tmp_path: Path) -> Past:
    return make_past(tmp_path)


def ran(block: TutorialBlock, world: World, past: Past) -> Result:
    return block.run(environment=world.environment, cwd=past.top, timeout=120.0)


def test_a_word_is_found_in_all_kinds_of_places(e2e: EndToEnd, world: World, past: Past) -> None:
    block = e2e.write_tutorial_block(WORDS)

    done = ran(block, world, past)

    expect(done).to_succeed()
    heading, *lines = done.stdout.partition("\n\n")[0].splitlines()
    assert heading.split() == [RUN, past.story.row(0).planned.node_id]
    hits = {line.split()[0]: command.strip() for line, command in zip(lines[::2], lines[1::2], strict=True)}
    assert hits["outcome"] == f"selftest-tui runs {RUN}"
    assert hits["diff"] == f"selftest-tui review {RUN}"
    assert "coupon_of(request)" in done.stdout


@pytest.mark.unhappy
def test_nothing_is_found_where_no_run_is(e2e: EndToEnd, world: World, past: Past) -> None:
    block = e2e.write_tutorial_block(WORDS)
    shutil.rmtree(past.top / ".selftest")
    done = ran(block, world, past)
    assert (done.exit_status, done.stdout) == (1, "")
    assert "Nothing was found" in done.stderr


def test_a_test_id_on_a_terminal_is_played_at_its_time(e2e: EndToEnd, world: World, past: Past) -> None:
    block = e2e.write_tutorial_block(PLACE)

    done = ran(block, world, past)

    expect(done).to_succeed()
    _, hit, command = (past.top / "places.txt").read_text().splitlines()
    assert hit.split()[:2] == ["terminal", "0:01"]
    assert hit.endswith("tests/test_login.py::redirect FAILED")
    assert command.strip() == f"selftest-tui replay '{past.first / 'terminal.cast'}' --at 1.0"


@pytest.mark.unhappy
def test_a_search_outside_of_a_repository_is_an_error_and_no_miss(e2e: EndToEnd, world: World, tmp_path: Path) -> None:
    block = e2e.write_tutorial_block(PLACE)

    done = block.run(environment=world.environment, cwd=tmp_path, timeout=120.0)

    expect(done).to_have_exit_code(1)
    assert "not in a git repository" in done.stderr


def test_a_regular_expression_gives_hits_as_json(e2e: EndToEnd, world: World, past: Past) -> None:
    block = e2e.write_tutorial_block(REGEX)

    done = ran(block, world, past)

    expect(done).to_succeed()
    document = json.loads((past.top / "hits.json").read_text())
    (hit,) = document["hits"]
    assert (hit["run"], hit["kind"], hit["test"]) == (RUN, "outcome", past.story.row(1).planned.node_id)
    ((begin, end),) = hit["matches"]
    assert hit["text"][begin:end] == "port 40001"
    assert document["more"] is False


@pytest.mark.unhappy
def test_a_run_that_is_not_there_is_named(e2e: EndToEnd, world: World, past: Past) -> None:
    block = e2e.write_tutorial_block(REGEX)
    shutil.rmtree(past.story.folder.path)

    done = ran(block, world, past)

    expect(done).to_have_exit_code(2)
    assert "There is no run 20261121" in done.stderr
