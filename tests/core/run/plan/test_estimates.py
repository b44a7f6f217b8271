"""What a run will take is told with its basis, and what is not known is said to be unknown."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import pytest

from core.run.rehearsals import a_plan
from selftest_core.journal import Journal
from selftest_core.run.plan.estimates import Estimates, Typical, estimate, typical
from selftest_core.run.plan.plan import PlannedTest, RunPlan
from selftest_core.run.plan.source import Size
from selftest_core.run.store import make_run_folder

if TYPE_CHECKING:
    from pathlib import Path

PLAN = RunPlan(
    run="20261121-0931-7f3a", repository="/home/ann/shop", base="1" * 40, provider="local", agent_type="claude",
    agent_command=None, transfer="mirror", env_names=("API_KEY", "TOKEN"), max_running=4, launch_rate=10.0,
    timeout=1800.0, budget_usd=None, usd_per_agent=None, create_args=(), on_cluster="ask",
    pytest_command=("pytest",), pytest_args=(), left_out=(), created_at=0.0,
    tests=tuple(PlannedTest(f"t.py::test_{n}", f"a-{n}", f"agent-{n:032x}", ()) for n in range(10)),
)  # fmt: skip
SIZE = Size(files=100, checkout=1000, history=500)


def estimated(size: Size = SIZE, typical: Typical | None = None, **fields: Any) -> Estimates:
    return estimate(dataclasses.replace(PLAN, **fields), size, typical)


def test_time_is_rounds_of_agents_and_says_where_it_is_from() -> None:
    found = estimated(typical=Typical(120.0, "the median of run 20261120-0900-1111", making=1.0))
    assert (found.seconds, found.longest) == (3 * 120.0, 3 * 1800.0)
    assert "10 tests, 4 at once, 2 min each" in found.time_basis
    assert "the median of run 20261120-0900-1111" in found.time_basis
    assert "guess" in estimated().time_basis
    slower = estimated(typical=Typical(120.0, "x", making=1.0), adapt=True, start_running=2)
    assert slower.seconds == 5 * 120.0
    assert "10 tests, 2 at once" in slower.time_basis


@pytest.mark.parametrize(
    ("agent_type", "making", "rate", "seconds"),
    [
        ("command", None, 10.0, 11.0),
        ("command", None, 0.1, 101.0),
        ("claude", None, 10.0, 61.0),  # each takes mngr's lock for longer than a command agent does
        ("claude", 4.5, 10.0, 46.0),
        ("claude", 4.5, 0.1, 101.0),
    ],
)
def test_making_the_agents_takes_its_time_too(
    agent_type: str, making: float | None, rate: float, seconds: float
) -> None:
    command = ("./agent",) if agent_type == "command" else None
    found = estimated(
        typical=Typical(1.0, "x", making=making, making_run="r1"), launch_rate=rate, max_running=100,
        agent_type=agent_type, agent_command=command,
    )  # fmt: skip
    assert found.seconds == pytest.approx(seconds)
    assert ("as in run r1" in found.time_basis) is (making is not None)


def test_of_two_runs_of_one_minute_the_later_one_is_typical(tmp_path: Path) -> None:
    for number, run in enumerate(("20261121-0931-dd20", "20261121-0931-950e")):
        plan = a_plan(1, run=run, repository=str(tmp_path))
        folder = make_run_folder(plan, {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
        agent = plan.tests[0].agent_name
        with Journal(folder.journal) as journal:
            journal.append("launching", 0.0, agent=agent, attempt=1, agent_id=plan.tests[0].agent_id, name="x")
            journal.append("launched", 1.0, agent=agent, attempt=1, host_id="h", provider="local")
            journal.append("ended", 61.0 + number, agent=agent, attempt=1, end="succeeded", stage="work")
        os.utime(folder.path / "plan.json", (number, number))
    found = typical(tmp_path, dataclasses.replace(plan, run="20261122-0000-0000"))
    assert found is not None
    assert (found.seconds, found.basis) == (61.0, "the median of 1 agents of run 20261121-0931-950e")


def test_how_fast_agents_are_made_is_taken_from_launches_that_waited_for_nobody(tmp_path: Path) -> None:
    plan = a_plan(6, max_running=4, repository=str(tmp_path))
    folder = make_run_folder(plan, {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")})
    with Journal(folder.journal) as journal:
        for n, (test, launched) in enumerate(zip(plan.tests, (15, 20, 24, 30, 500, 900), strict=True)):
            journal.append("launching", float(n), agent=test.agent_name, attempt=1, agent_id=test.agent_id, name="x")
            journal.append("launched", float(launched), agent=test.agent_name, attempt=1, host_id="h", provider="local")
            journal.append("pulling", launched + 60.0, agent=test.agent_name, attempt=1, stamp="s")
            journal.append("ended", launched + 60.0, agent=test.agent_name, attempt=1, end="succeeded", stage="work")
    found = typical(tmp_path, dataclasses.replace(plan, run="20261122-0000-0000"))
    assert found is not None
    assert (found.seconds, found.making, found.making_run) == (60.0, 5.0, plan.run)


@pytest.mark.parametrize(
    ("budget", "each", "usd", "affordable"),
    [
        (None, None, None, None),
        (None, 2.0, 20.0, None),
        (7.0, 2.0, 6.0, 3),
        (100.0, 2.0, 20.0, 10),
        (0.3, 0.1, 0.3, 3),
        (1.0, 0.0, 0.0, 10),
    ],
)
def test_money_is_an_estimate_within_the_budget_or_unknown(
    budget: float | None, each: float | None, usd: float | None, affordable: int | None
) -> None:
    found = estimated(budget_usd=budget, usd_per_agent=each)
    assert found.usd == (None if usd is None else pytest.approx(usd))
    assert found.affordable == affordable
    assert ("unknown" if usd is None else "estimated: ") in found.usd_basis
    assert ("launching stops after" in found.usd_basis) is (affordable is not None and affordable < 10)


def test_money_goes_by_what_earlier_runs_metered() -> None:
    metered = Typical(60.0, "x", 0.0425, "metered: the average of 3 agents of run r")
    found = estimated(typical=metered, usd_per_agent=2.0, budget_usd=0.1)
    assert found.usd == pytest.approx(0.085)
    assert found.usd_basis == (
        "10 agents at 0.043 USD (metered: the average of 3 agents of run r); launching stops after 2, at the budget of "
        "0.10 USD"
    )


def test_disk_counts_every_copy_where_it_lies() -> None:
    assert (estimated().disk, estimated().disk_each) == (11 * 1500, None)
    assert estimated(transfer="worktree").disk == 1500 + 10 * 1000
    remote = estimated(provider="modal")
    assert (remote.disk, remote.disk_each) == (1500, 1500)
    unknown = estimated(dataclasses.replace(SIZE, history=None))
    assert unknown.disk is None
    assert "unknown" in unknown.disk_basis


def test_what_leaves_and_to_whom_depends_on_where_agents_run_and_what_they_are() -> None:
    def leaves(**fields: Any) -> str:
        return "\n".join(f"{one.what} -> {one.to}" for one in estimated(**fields).leaves)

    local = leaves()
    assert "111111111111" in local
    assert "-> Anthropic" in local
    assert "the values of API_KEY, TOKEN -> the agents on this machine" in local
    assert "history" not in local
    remote = leaves(provider="modal", agent_type="codex")
    assert "with its history, and the prompts -> modal" in remote
    assert "-> OpenAI" in remote
    assert "TOKEN -> the agents on modal" in remote
    along = estimate(dataclasses.replace(PLAN, provider="modal"), SIZE, along=("/home/ann/agent.sh",)).leaves
    assert ("/home/ann/agent.sh, which the command names", "modal, with each prompt") in [
        (one.what, one.to) for one in along
    ]
    command = leaves(agent_type="command", agent_command=("./agent.sh",), env_names=())
    assert "-> `./agent.sh`" in command
    assert "values" not in command
    assert "the service that newcomer talks to" in leaves(agent_type="newcomer")
