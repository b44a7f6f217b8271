"""A plan is written and read back whole, and what is no plan is refused by the name of its field."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from selftest_core.run.plan.plan import PlannedTest, RunPlan, UnreadablePlanError, plan_from_json, plan_json

if TYPE_CHECKING:
    from collections.abc import Callable

TEST = PlannedTest("tests/test_it.py::test_ü[a/b c]", "a-b-c-1f2e3d", f"agent-{7:032x}", ("ls\n",))
PLAN = RunPlan(
    run="20261121-0931-7f3a", repository="/home/ann/shop", base="1" * 40, provider="local", agent_type="command",
    agent_command=("/usr/bin/agent", "--fast"), transfer="mirror", env_names=("API_KEY",), max_running=20,
    launch_rate=0.5, timeout=1800.0, budget_usd=10.0, usd_per_agent=None, create_args=("-b", "timeout=2100"),
    on_cluster="ask", pytest_command=("python", "-m", "pytest"), pytest_args=("-x",), tests=(TEST,),
    left_out=("caf\udce9.txt",), created_at=1795253460.5, prompt_template="{{ test }}", warnings=("it is shallow",),
    cluster_alike=3, cluster_window=4, launch_retries=0, lost_retries=5, retry_pause=0.5, longest_retry_pause=9.0,
    budget_day_usd=30.0, budget_day_tokens=9_000_000, adapt=True, start_running=7,
)  # fmt: skip


def test_a_plan_survives_its_file() -> None:
    assert plan_from_json(json.loads(json.dumps(plan_json(PLAN)))) == PLAN


def test_a_plan_without_the_optional_things_is_read() -> None:
    least = dataclasses.replace(
        PLAN, agent_command=None, budget_usd=None, tests=(), left_out=(), prompt_template="", warnings=()
    )
    document = plan_json(least)
    del document["prompt_template"], document["warnings"]
    assert plan_from_json(document) == least


def test_a_plan_of_an_older_version_keeps_the_limits_of_that_version() -> None:
    limits = ("cluster_alike", "cluster_window", "launch_retries", "lost_retries", "retry_pause", "longest_retry_pause")
    newer = (*limits, "budget_day_usd", "budget_day_tokens", "adapt", "start_running")
    old = plan_from_json({name: value for name, value in plan_json(PLAN).items() if name not in newer})
    assert [getattr(old, name) for name in limits] == [5, 10, 2, 1, 5.0, 60.0]
    assert (old.budget_day_usd, old.budget_day_tokens, old.adapt) == (None, 0, False)


def changed(**fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: {**document, **fields}


def changed_test(**fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: {**document, "tests": [{**document["tests"][0], **fields}]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda _: None, "no object"),
        (lambda _: [], "no object"),
        (changed(version=2), "version is 2"),
        (lambda document: {name: value for name, value in document.items() if name != "base"}, "base is missing"),
        (changed(sandbox=True), "sandbox is not known"),
        (changed(base="HEAD"), "base is 'HEAD'"),
        (changed(run="../../etc"), "run is '../../etc'"),
        (changed(repository="shop"), "no absolute path"),
        (changed(max_running=0), "max_running"),
        (changed(max_running=True), "max_running"),
        (changed(max_running=2.5), "max_running"),
        (changed(launch_rate=0), "launch_rate is 0"),
        (changed(timeout=float("nan")), "timeout is no number"),
        (changed(timeout=10**400), "timeout is no number"),
        (changed(budget_usd=-1), "budget_usd is -1"),
        (changed(transfer="rsync"), "mirror, worktree"),
        (changed(transfer=["mirror"]), "mirror, worktree"),
        (changed(on_cluster="stop"), "ask, pause, go"),
        (changed(cluster_alike=0), "cluster_alike"),
        (changed(launch_retries=-1), "launch_retries"),
        (changed(lost_retries=False), "lost_retries"),
        (changed(retry_pause=0), "retry_pause is 0"),
        (changed(budget_day_tokens=1.5), "budget_day_tokens"),
        (changed(adapt=1), "adapt is neither true nor false"),
        (changed(env_names=["A=1"]), "env_names[0]"),
        (changed(env_names="PATH"), "env_names is no list"),
        (changed(pytest_command=[]), "pytest_command names no program"),
        (changed(agent_command=[""]), "agent_command names no program"),
        (changed(left_out=["a\0b"]), "left_out[0]"),
        (changed(tests={}), "tests is no list"),
        (changed(tests=[7]), "tests[0] is no object"),
        (changed_test(node_id=""), "tests[0].node_id is empty"),
        (changed_test(agent_name="-rf"), "tests[0].agent_name"),
        (changed_test(agent_name="a" * 51), "tests[0].agent_name"),
        (changed_test(agent_id="agent-7"), "tests[0].agent_id"),
        (changed_test(colour="red"), "tests[0].colour is not known"),
        (lambda document: {**document, "tests": document["tests"] * 2}, "is there twice"),
    ],
)
def test_what_is_no_plan_is_refused_by_name(change: Callable[[dict[str, Any]], object], reason: str) -> None:
    with pytest.raises(UnreadablePlanError) as raised:
        plan_from_json(change(plan_json(PLAN)))
    assert reason in raised.value.detail
    assert raised.value.hint
