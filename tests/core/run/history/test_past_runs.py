"""Answers of earlier runs: who was green and unchanged, which runs count, and which suites are compared."""

from __future__ import annotations

from os import utime
from typing import TYPE_CHECKING, Any

import pytest

from run_scenes import BEGAN, FIXED, Story, a_plan, story
from selftest_core.run.events import Event
from selftest_core.run.history.growth import comparable, new_and_gone, suite_tests
from selftest_core.run.history.past_runs import earlier_plans, past_runs
from selftest_core.run.history.scheduled_log import scheduled_log
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import PlannedTest, RestingTest, Suite

if TYPE_CHECKING:
    from pathlib import Path

GREEN = {**FIXED, "changes": {}, "escalations": []}
DAY = 86_400.0


def a_run(repository: Path, run: str = "20261120-0200-0000", tests: int = 1, **changes: Any) -> Story:
    return story(repository / ".selftest" / "runs", tests, run=run, repository=str(repository), **changes)


def test_of_two_runs_of_one_minute_the_later_one_comes_first(tmp_path: Path) -> None:
    began = ("20261120-0200-ffff", "20261121-0931-dd20", "20261121-0931-950e")
    for number, run in enumerate(began):
        utime(a_run(tmp_path, run).folder.path / "plan.json", (number, number))
    plans, _ = earlier_plans(tmp_path, BEGAN + DAY, 2)
    assert [plan.run for plan in plans] == ["20261121-0931-950e", "20261121-0931-dd20"]


@pytest.mark.parametrize(
    ("end", "claimed", "verified", "is_green"),
    [
        (End.UNCHANGED, True, "", True),
        (End.UNCHANGED, True, "unknown", True),
        (End.UNCHANGED, None, "", False),
        (End.UNCHANGED, None, "passed", True),
        (End.UNCHANGED, True, "flaky", False),
        (End.UNCHANGED, True, "failed", False),
        (End.SUCCEEDED, True, "passed", False),
        (End.CRASH, True, "", False),
        (End.NOT_STARTED, True, "", None),
    ],
)
def test_a_test_is_green_as_verified_else_as_reported(
    tmp_path: Path, end: End, claimed: bool | None, verified: str, is_green: bool | None
) -> None:
    told = a_run(tmp_path)
    told.launch(0, 1)
    told.end(0, 2, end, outcome={**GREEN, "tests_passing_after": claimed})
    if verified:
        row = told.row(0)
        told.note(Event.VERIFIED, 3, agent=row.name, attempt=row.attempt, result=verified, reason="", text="")
    told.write()
    plans, _ = earlier_plans(tmp_path, BEGAN + DAY, 9)

    (past,) = past_runs(tmp_path, plans, BEGAN + DAY)

    assert past.worked is not None
    assert past.worked.get(told.plan.tests[0].node_id) is is_green
    assert (past.run, past.base) == (told.plan.run, told.plan.base)


def test_runs_of_testers_count_newest_first_and_not_those_of_the_future(tmp_path: Path) -> None:
    for day in range(4):
        a_run(tmp_path, f"2026111{day}-0200-0000", created_at=BEGAN - (9 - day) * DAY).write()
    a_run(tmp_path, "20261114-0200-0000", role="drafter", tutorial="tutorial.sh").write()
    a_run(tmp_path, "20991114-0200-0000", created_at=BEGAN + 30_000 * DAY).write()
    (a_run(tmp_path, "20261115-0200-0000").write().path / "plan.json").write_text("{")
    with scheduled_log(tmp_path) as log:
        log.write({"at": "2026-11-19T02:00:00.000Z", "skipped": "all rest", "rested": ["a", "b"]})
        log.write({"at": "no time", "rested": ["a"]})
        log.write({"at": 7, "rested": ["a"]})
        log.write({"at": "0001-01-01T00:00:00", "rested": ["a"]})
        log.write({"rested": ["a"]})
        # By a clock that jumped: counted as a rest, it would end each later one.
        log.write({"at": "2099-11-19T02:00:00.000Z", "skipped": "all rest", "rested": ["a", "b"]})
        log.write({"at": "2026-11-14T02:00:00.000Z", "rested": "a"})

    plans, future = earlier_plans(tmp_path, BEGAN, 3)
    past = past_runs(tmp_path, plans, BEGAN)

    assert [plan.run[:8] for plan in plans] == ["20261113", "20261112", "20261111"]
    assert future == ("20991114-0200-0000",)
    assert [(one.run[:8], one.rested) for one in past] == [
        ("", frozenset({"a", "b"})), ("20261113", frozenset()), ("20261112", frozenset()), ("20261111", frozenset()),
    ]  # fmt: skip


def test_suites_are_compared_where_the_same_was_asked() -> None:
    resting = RestingTest("tests/b.py::test_rests", "green", 1)
    left_out = ("tests/b.py::test_not_affected",)
    suite = Suite(asked=("tests",), unselected=left_out, resting=(resting,), unknown=("tests/d.py",))
    names = ("tests/a.py::test_a", "tests/c.py")
    tests = tuple(PlannedTest(name, f"a{n}", f"agent-{n:032x}", ()) for n, name in enumerate(names))
    plan = a_plan(0, tests=tests, suite=suite, pytest_args=("-k", "x"))
    old = a_plan(1, pytest_args=("-k", "x"))

    assert comparable((old, plan), ["tests"], ["-k", "x"]) == plan
    assert comparable((old, plan), [], ["-k", "x"]) is None
    assert comparable((old, plan), ["tests"], []) is None
    assert suite_tests(plan) == {"tests/a.py::test_a", "tests/b.py::test_not_affected", "tests/b.py::test_rests"}
    found = (
        "tests/a.py::test_a", "tests/a.py::test_new", "tests/c.py::test_was_broken", "tests/d.py::test_skipped_itself",
    )  # fmt: skip
    assert new_and_gone(plan, found, ["tests/b.py"]) == (("tests/a.py::test_new",), [])
    assert new_and_gone(plan, found[1:2], []) == (
        ("tests/a.py::test_new",), ["tests/a.py::test_a", "tests/b.py::test_not_affected", "tests/b.py::test_rests"],
    )  # fmt: skip
