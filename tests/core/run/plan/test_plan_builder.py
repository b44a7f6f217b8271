"""A plan is made whole from what a person chose, and what cannot work is refused before the first agent."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from selftest_core.errors import ConfigError, RefusedError, UsageError
from selftest_core.git.command import Place
from selftest_core.run.plan.plan import RunPlan, plan_from_json, plan_json
from selftest_core.run.plan.plan_builder import (
    Choices,
    blocks_by_test,
    make_plan,
    refuse_taken,
    run_id,
    without_parameters,
)
from selftest_core.run.plan.source import Size, Source
from selftest_core.tutorial.coverage import CitedBlock, Coverage
from selftest_core.tutorial.tutorial import Block

NOW = 1795253460.0
FOLDER = Path("/home/ann/shop")
SOURCE = Source(
    Place(FOLDER / ".git", FOLDER), FOLDER / ".git", "1" * 40, "1" * 40, Size(10, 40960, 9000), ("a.txt", "caf\udce9"),
    ("it is cold",),
)  # fmt: skip
TESTS = ("tests/t.py::test_a[x/../y z]", "tests/t.py::test_a[\u00fc]", "tests/t.py::TestB::test_b")
BLOCKS = {"tests/t.py::test_a": ("ls", "cat"), "tests/t.py::TestB::test_b": ("ls",)}
CHOICES = Choices(pytest_command=("python", "-m", "pytest"))


class Digits:
    """Hexadecimal digits that are never the same twice."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, size: int) -> str:
        self.count += 1
        return f"{self.count:0{2 * size}x}"


def planned(tests: tuple[str, ...] = TESTS, source: Source = SOURCE, **choices: Any) -> RunPlan:
    return make_plan(
        source,
        tests,
        BLOCKS,
        dataclasses.replace(CHOICES, **choices),
        environ={"API_KEY": "secret-value"},
        at=NOW,
        random_hex=Digits(),
        warnings=("tests/broken.py does not import",),
    )


def test_a_plan_holds_what_was_chosen_and_found() -> None:
    plan = planned(env_names=("API_KEY", "API_KEY"), max_running=7, create_args=("-t", "small"))
    assert plan.run == run_id(NOW, Digits())
    assert plan.repository == "/home/ann/shop"
    assert [test.node_id for test in plan.tests] == list(TESTS)
    assert [test.blocks for test in plan.tests] == [("ls", "cat"), ("ls", "cat"), ("ls",)]
    assert len({test.agent_id for test in plan.tests}) == 3
    assert (plan.env_names, plan.max_running, plan.create_args) == (("API_KEY",), 7, ("-t", "small"))
    assert plan.left_out == SOURCE.left_out
    assert plan.warnings == ("it is cold", "tests/broken.py does not import")
    written = json.dumps(plan_json(plan))
    assert "secret-value" not in written
    assert plan_from_json(json.loads(written)) == plan


def test_a_test_named_twice_runs_once_and_a_flood_of_changes_is_cut_and_both_are_told() -> None:
    many = dataclasses.replace(SOURCE, left_out=tuple(f"{number}.txt" for number in range(1500)))
    plan = planned((*TESTS, TESTS[0]), many)
    assert len(plan.tests) == 3
    assert len(plan.left_out) == 1000
    assert any("named more than once (1 extra" in warning for warning in plan.warnings)
    assert any("500 further paths" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    ("choices", "title"),
    [
        ({"agent_type": "command"}, "needs a command"),
        ({"agent_command": ("x.sh",)}, "not for claude"),
        ({"agent_type": "command", "agent_command": ("",)}, "cannot be planned"),
        ({"transfer": "worktree", "provider": "modal"}, "this machine only"),
        ({"max_running": 0}, "--max-running is 0"),
        ({"launch_rate": 0.0}, "--launch-rate is 0"),
        ({"timeout": float("inf")}, "--timeout is inf"),
        ({"env_names": ("API_KEY", "MISSING", "ALSO")}, "MISSING, ALSO"),
        ({"agent_type": "command", "agent_command": ("x",), "budget_usd": 5.0}, "the cost of an agent"),
        ({"budget_usd": 0.5, "usd_per_agent": 1.0}, "does not pay for one"),
        ({"usd_per_agent": -1.0}, "usd_per_agent is -1"),
        ({"pytest_command": ()}, "cannot be planned"),
        ({"provider": ""}, "cannot be planned"),
    ],
)
def test_what_cannot_work_is_refused(choices: dict[str, Any], title: str) -> None:
    with pytest.raises(UsageError) as raised:
        planned(**choices)
    assert title in raised.value.title
    assert raised.value.hint


def test_zero_tests_and_a_bad_template_are_refused() -> None:
    with pytest.raises(UsageError, match="no test to run"):
        planned(())
    with pytest.raises(ConfigError):
        planned(prompt_template="{{ tset }}")


@pytest.mark.parametrize(
    ("given", "made", "warns"),
    [
        ((), ("-b", "timeout=3900"), False),
        (("-t", "big"), ("-t", "big", "-b", "timeout=3900"), False),
        (("-b", "timeout=9000"), ("-b", "timeout=9000"), False),
        (("-btimeout=900",), ("-btimeout=900",), True),
        (("--build-arg=timeout=900",), ("--build-arg=timeout=900",), True),
    ],
)
def test_a_sandbox_outlives_its_agent(given: tuple[str, ...], made: tuple[str, ...], warns: bool) -> None:
    plan = planned(provider="modal", create_args=given)
    assert plan.create_args == made
    assert any("sandboxes live" in warning for warning in plan.warnings) is warns
    assert planned(create_args=given).create_args == given


def test_agents_that_are_there_already_are_refused_by_name() -> None:
    plan = planned()
    refuse_taken(plan, {"other"}, {f"agent-{0:032x}"})
    with pytest.raises(RefusedError) as raised:
        refuse_taken(plan, {plan.tests[1].agent_name})
    assert raised.value.detail == plan.tests[1].agent_name
    with pytest.raises(RefusedError):
        refuse_taken(plan, (), {plan.tests[0].agent_id})


def test_blocks_are_found_by_the_function_of_a_test() -> None:
    one, two = Block(3, "ls"), Block(6, "cat")
    coverage = Coverage((CitedBlock(one, ("t.py::test_a",)), CitedBlock(two, ("t.py::test_b", "t.py::test_a"))), ())
    assert blocks_by_test(coverage) == {"t.py::test_a": ("ls", "cat"), "t.py::test_b": ("cat",)}
    assert without_parameters("a[b]/t.py::TestC::test_d[x::y[0]]") == "a[b]/t.py::TestC::test_d"
