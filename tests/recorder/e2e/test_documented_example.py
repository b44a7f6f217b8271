"""The project that docs/testing.md shows, as it stands there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from recorder.e2e.pytest_runs import make_project, run_pytest
from worlds import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

PAGE = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
NAMES = ("conftest.py", "todo", "tutorial.sh", "test_todo.py")


@pytest.fixture
def project(world: World) -> Path:
    """The example's files."""
    blocks = re.findall(r"^```(?:python|sh)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return make_project(world, dict(zip(NAMES, blocks, strict=False)))


def test_the_example_passes_one_by_one_and_side_by_side(world: World, project: Path) -> None:
    done = run_pytest(world, "--e2e-artifacts", "build/e2e", "--e2e-run-name", "alone")
    assert "4 passed" in done.stdout, done.stdout
    done = run_pytest(world, "--e2e-artifacts", "build/e2e", "--e2e-run-name", "beside", "-n", "2")
    assert "4 passed" in done.stdout, done.stdout
    transcripts = {}
    for run in ("alone", "beside"):
        found = sorted((project / "build/e2e" / run).glob("*/transcript.txt"))
        transcripts[run] = [path.read_text() for path in found]
        assert [path.parent.name for path in found] == [
            f"test_todo.py-test_{name}"
            for name in ("an_unknown_word_is_refused", "it_asks", "it_serves", "what_is_added_is_listed")
        ]
    assert transcripts["alone"] == transcripts["beside"]
    assert transcripts["alone"][0] == (
        "# test: test_todo.py::test_an_unknown_word_is_refused\n# there is no such word\n"
        "$ todo sing\n! usage: todo add TEXT | list | ask | serve\n? 2\n"
    )
    assert list((world.root / "d").glob("selftest-*")) == []


def test_a_failure_is_shown_as_on_the_page(world: World, project: Path) -> None:
    test = project / "test_todo.py"
    test.write_text(test.read_text().replace('to_contain("usage: todo")', 'to_contain("usage: do")'))
    done = run_pytest(world, "-k", "unknown")
    (sample,) = re.findall(r"^```\n(stderr .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    shown = "\n".join(line.removeprefix("E").strip() for line in done.stdout.splitlines())
    assert "\n".join(line.strip() for line in sample.splitlines()) in shown, done.stdout


def test_without_its_program_only_tests_of_a_block_fail(world: World, project: Path) -> None:
    done = run_pytest(world, "--e2e-noop", "todo")
    assert "FAILED test_todo.py::test_what_is_added_is_listed" in done.stdout
    assert "1 failed, 3 passed" in done.stdout, done.stdout
    assert "4 passed" in run_pytest(world, "--e2e-noop", "todo", "--e2e-noop-block", "2").stdout
