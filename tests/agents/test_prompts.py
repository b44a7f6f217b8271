"""Runs of the real Claude Code: each agent gets its prompt exactly once, and a smoke agent finds out what is wrong."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from agents.real_agents import real_agents
from selftest_core.journal import read
from selftest_core.run.plan.prompt import PROMPT_LINE
from worlds import BIN, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agents.real_agents import Real
    from selftest_core.journal import Entry
    from worlds import World

pytestmark = [pytest.mark.agents, pytest.mark.timeout(900)]
OURS = BIN / "selftest-tui"
PATIENCE = 300.0


@pytest.fixture
def real() -> Iterator[Real]:
    """A repository of two tests that pass."""
    with real_agents() as made:
        world = made.world
        tests = "".join(f"def test_{number}():\n    assert True\n\n\n" for number in range(2))
        (world.repository / "test_all.py").write_text(tests)
        world.run(["git", "add", "."])
        world.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "Test"])
        yield made


def journal(world: World) -> list[Entry]:
    """The lines of the only run."""
    found = list(world.repository.glob(".selftest/runs/*/journal.jsonl"))
    return list(read(found[0].read_bytes()).entries) if found else []


def prompts(world: World) -> dict[str, int]:
    """How often each agent of the run was told its prompt, by its own session."""
    told: dict[str, int] = {}
    for line in journal(world):
        if line.event in ("launching", "smoking"):
            agent_id = line.fields["agent_id"]
            sessions = world.agent_dir(agent_id).glob("plugin/claude/anthropic/projects/*/*.jsonl")
            said = [json.loads(one) for session in sessions for one in session.read_text().splitlines()]
            told[agent_id] = sum(json.dumps(one).count(PROMPT_LINE) for one in said if one.get("type") == "user")
    return told


def run_of(world: World, *more: str) -> list[str]:
    """The command of a run with Claude Code. As root it needs to be told that it is in a sandbox."""
    sandbox = ["--env", "IS_SANDBOX"] if "IS_SANDBOX" in world.environment else []
    return [str(OURS), "run", "--batch", "--agent", "claude", *sandbox, *more]


def summary(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The last line."""
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


def still_running(world: World) -> list[str]:
    """Agents that are not stopped."""
    return [agent["name"] for agent in world.listing()["agents"] if agent["state"] != "STOPPED"]


def test_a_smoke_agent_and_two_others_get_their_prompts_once(real: Real) -> None:
    done = real.world.run(run_of(real.world), check=False, timeout=PATIENCE * 2)
    assert done.returncode == 0, done.stderr
    said = summary(done)
    assert said["outcomes"]["unchanged"] == 2
    assert [(one["type"], one["outcome"]) for one in said["smoke"]] == [("claude", "succeeded")]
    assert list(prompts(real.world).values()) == [1, 1, 1]
    assert still_running(real.world) == []


@pytest.mark.parametrize("moment", ["launching", "prompting"])
def test_killed_on_the_way_no_agent_gets_two_prompts(real: Real, moment: str) -> None:
    world = real.world
    arguments = run_of(world, "--no-smoke")
    with subprocess.Popen(
        arguments, cwd=world.repository, env=world.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as conductor:
        eventually(lambda: [line for line in journal(world) if line.event == moment], moment, PATIENCE)
        conductor.send_signal(signal.SIGKILL)
    done = world.run([OURS, "resume", "--batch"], check=False, timeout=PATIENCE * 2)
    assert done.returncode == 0, done.stderr
    assert summary(done)["outcomes"]["unchanged"] == 2
    launched = [line.fields["agent"] for line in journal(world) if line.event == "launched"]
    assert sorted(launched) == sorted(set(launched))
    assert max(prompts(world).values()) == 1
    assert sum(prompts(world).values()) == 2
    assert still_running(world) == []


def test_a_dialog_at_its_start_ends_the_smoke_agent_and_nothing_else_starts(real: Real) -> None:
    world = real.world
    (world.home / ".claude.json").write_text("{}")
    done = world.run(run_of(world), check=False, timeout=PATIENCE * 2)
    assert done.returncode == 1, done.stderr
    said = summary(done)
    assert said["outcomes"]["not_started"] == 2
    (smoke,) = said["smoke"]
    assert smoke["outcome"] == "failed"
    assert "did not get its prompt" in smoke["says"]
    assert "auto mode" in smoke["says"], "the dialog's own text"
    assert "selftest-tui doctor" in done.stderr
    assert list(prompts(world).values()) == [0]
    assert still_running(world) == []
