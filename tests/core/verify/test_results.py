"""Kept results: found again by tree, test and project, and nothing that proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from selftest_core.verify.kept.results import Results
from selftest_core.verify.verdicts import Execution, Result

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def results(tmp_path: Path) -> Iterator[Results]:
    opened = Results.open(tmp_path, "project")
    yield opened
    opened.close()


def test_a_run_is_found_again_by_another_process(tmp_path: Path, results: Results) -> None:
    run = Execution(Result.FAILED, 1.5, "output ü\0", "reason")
    results.keep("tree", "test", 0, run)
    again = Results.open(tmp_path, "project")
    assert again.find("tree", "test", 0) == run
    assert again.find("tree", "test", 1) is None
    assert again.find("other", "test", 0) is None
    assert Results.open(tmp_path, "other project").find("tree", "test", 0) is None
    again.close()


def test_the_first_result_stands(results: Results) -> None:
    results.keep("tree", "test", 0, Execution(Result.FAILED))
    results.keep("tree", "test", 0, Execution(Result.PASSED))
    found = results.find("tree", "test", 0)
    assert found is not None
    assert found.result is Result.FAILED


def test_timeouts_crashes_and_flaky_tests_are_no_results(results: Results) -> None:
    for name, result in (("slow", Result.TIMEOUT), ("dead", Result.CRASHED), ("red", Result.FAILED)):
        results.keep("tree", name, 0, Execution(result))
    for number, result in enumerate((Result.FAILED, Result.PASSED)):
        results.keep("tree", "flaky", number, Execution(result))
    results.purge([("flaky", "tree")])
    kept = [name for name in ("slow", "dead", "red", "flaky") if results.find("tree", name, 0) is not None]
    assert kept == ["red"]
    assert results.flakes() == {"flaky": 1}


def test_a_plan_is_kept_for_its_project(tmp_path: Path, results: Results) -> None:
    results.keep_plan("key", "plan")
    results.keep_plan("key", "newer")
    assert results.find_plan("key") == "newer"
    assert Results.open(tmp_path, "other").find_plan("key") is None


def test_a_run_can_be_forgotten(results: Results) -> None:
    results.keep("tree", "test", 0, Execution(Result.PASSED))
    results.forget("tree", "test", 0)
    assert results.find("tree", "test", 0) is None
