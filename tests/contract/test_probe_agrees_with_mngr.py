"""The probe and `mngr list` agree about real command agents in every reachable state.

One world, its agents made once; both sides are asked again until they agree, so nothing here depends on timing.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from selftest_core.agents import State
from selftest_core.fleet.sources.probe import Probe
from selftest_core.tools.tmux import SessionRef
from worlds import World, eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.fleet.observations import LocalAgent, Probed

# Some twenty calls of mngr, each of several seconds where the machine is busy.
pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

STOPPED_ELSEWHERE = "elsewhere"
# What mngr must say of each, so that two sides which agree on nonsense are found out.
EXPECTED = {
    "waits": "WAITING",
    "works": "RUNNING",
    "ended-well": "DONE",
    "ended-badly": "DONE",
    "killed": "DONE",
    "dead-pane": "DONE",
    "stopped": "STOPPED",
    "no-session": "STOPPED",
    "replaced": "REPLACED",
    "odd-type": "RUNNING_UNKNOWN_AGENT_TYPE",
    "new-name": "WAITING",
    "new-window": "WAITING",
    "long-command": "DONE",
    "no-work-dir": "WAITING",
    STOPPED_ELSEWHERE: "STOPPED",
}
# The probe leaves a type that it has never heard of to mngr, and finds what mngr cannot see.
OF_PROBE = {**EXPECTED, "odd-type": None, STOPPED_ELSEWHERE: "WAITING"}


@dataclass(frozen=True)
class Zoo:
    """One agent in each state."""

    world: World
    ids: Mapping[str, str]

    @property
    def other_socket(self) -> str:
        """The tmux server that mngr does not look at by itself."""
        return str(self.world.socket.with_name("other"))

    def look(self) -> Probed:
        """Look with a new probe."""
        return Probe(self.world.environment).look(time.time())

    def seen(self, name: str) -> LocalAgent:
        """One agent, as the probe sees it."""
        return next(agent for agent in self.look().agents if agent.id == self.ids[name])

    def states(self) -> dict[str, str | None]:
        """The states by name, as the probe sees them."""
        return {agent.name: agent.state for agent in self.look().agents}

    def add(self, name: str, *command: str) -> str:
        """Another agent, as mngr would have made it, copied from one that it did make: no second spent on each."""
        agent_id = f"agent-{uuid4().hex}"
        folder = self.world.agent_dir(agent_id)
        shutil.copytree(self.world.agent_dir(self.ids["waits"]), folder)
        data = json.loads((folder / "data.json").read_text())
        data |= {"id": agent_id, "name": name, "command": shlex.join(command), "labels": {"project": "r", "of": name}}
        (folder / "data.json").write_text(json.dumps(data))
        session = f"mngr-{name}"
        self.world.tmux("new-session", "-d", "-s", session, "-n", "agent", "-x", "200", "-y", "50", "/bin/bash")
        self.world.tmux("set-option", "-t", f"={session}:", "@mngr_agent_id", agent_id)
        self.world.tmux("send-keys", "-t", f"={session}:", "-l", "--", data["command"])
        self.world.tmux("send-keys", "-t", f"={session}:", "Enter")
        return agent_id

    def listed(self, **env: str) -> list[dict[str, Any]]:
        """The agents as mngr lists them with this added to its environment."""
        agents: list[dict[str, Any]] = World(self.world.root, env).listing()["agents"]
        return agents

    def told(self, **env: str) -> dict[str, str]:
        """The states by name, as mngr tells them with this added to its environment."""
        return {agent["name"]: agent["state"] for agent in self.listed(**env)}


@pytest.fixture(scope="module")
def zoo(shared_world: World) -> Zoo:
    """Real agents, each brought into its state."""
    world = shared_world
    long_name = world.script("a-name-longer-than-fifteen", "#!/bin/sh\nwhile :; do sleep 1000; done\n")
    well, badly = world.script("ends-well", "#!/bin/sh\nexit 0\n"), world.script("ends-badly", "#!/bin/sh\nexit 3\n")
    sleep = ("sleep", "100000")
    world.make_repository()
    world.tmux("-L", "other", "-f", "/dev/null", "new-session", "-d", "-s", "somebody", "sleep 100000")
    there = World(world.root, {"TMUX": f"{world.socket.with_name('other')},0,0"})
    ids = {
        "waits": world.create("waits", *sleep, labels={"of": "waits"}),
        "no-work-dir": world.create("no-work-dir", *sleep, more=("--transfer", "git-worktree")),
        STOPPED_ELSEWHERE: there.create(STOPPED_ELSEWHERE, *sleep),
    }
    made = Zoo(world, ids)
    ids |= {
        "works": made.add("works", *sleep),
        "new-name": made.add("old-name", *sleep),
        "ended-well": made.add("ended-well", str(well)),
        "killed": made.add("killed", *sleep),
        "stopped": made.add("stopped", *sleep),
        "ended-badly": made.add("ended-badly", str(badly)),
        "dead-pane": made.add("dead-pane", *sleep),
        "no-session": made.add("no-session", *sleep),
        "replaced": made.add("replaced", "env", "A=1", *sleep),
        "odd-type": made.add("odd-type", "env", "A=1", *sleep),
        "new-window": made.add("new-window", *sleep),
        "long-command": made.add("long-command", str(long_name)),
    }
    (world.agent_dir(ids["works"]) / "active").touch()
    process = eventually(lambda: made.seen("killed").pid or 0, "the process to kill")
    os.kill(process, signal.SIGKILL)
    world.tmux("set-option", "-w", "-t", "=mngr-dead-pane:", "remain-on-exit", "on")
    shell = int(world.tmux("display-message", "-p", "-t", "=mngr-dead-pane:", "#{pane_pid}"))
    os.kill(shell, signal.SIGKILL)
    world.mngr("stop", "stopped")
    world.tmux("kill-session", "-t", "=mngr-no-session")
    data = world.agent_dir(ids["odd-type"]) / "data.json"
    data.write_text(json.dumps({**json.loads(data.read_text()), "type": "unheard-of"}))
    world.mngr("rename", "old-name", "new-name")
    world.tmux("rename-window", "-t", "=mngr-new-window:", "something else")
    shutil.rmtree(made.seen("no-work-dir").work_dir)
    eventually(lambda: made.states() == OF_PROBE, "every agent in its state")
    return made


@dataclass(frozen=True)
class BothSides:
    """mngr's listing and the probe's look after it."""

    listed: list[dict[str, Any]]
    seen: tuple[LocalAgent, ...]

    def differing_states(self) -> dict[str, tuple[str | None, str | None, str]]:
        """By name (mngr, probe, expected) where they are not as expected."""
        told = {agent["name"]: agent["state"] for agent in self.listed}
        seen = {agent.name: agent.state for agent in self.seen}
        return {
            name: (told.get(name), seen.get(name), EXPECTED.get(name, "no such agent"))
            for name in EXPECTED.keys() | told.keys() | seen.keys()
            if told.get(name) != EXPECTED.get(name) or seen.get(name) != OF_PROBE.get(name)
        }

    def details(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """By name the process, folder, labels and branch that each side tells."""
        told = {
            agent["name"]: (agent["pid"], agent["work_dir"], agent["labels"], agent["initial_branch"])
            for agent in self.listed
            if agent["name"] != STOPPED_ELSEWHERE
        }
        seen = {
            agent.name: (agent.pid, agent.work_dir, dict(agent.labels), agent.branch)
            for agent in self.seen
            if agent.name != STOPPED_ELSEWHERE
        }
        return told, seen

    def agree(self) -> bool:
        """True where both sides are as expected."""
        told, seen = self.details()
        return told == seen and not self.differing_states()


@pytest.fixture(scope="module")
def sides(zoo: Zoo) -> BothSides:
    """Both sides when they agreed, or the last answers where they never did: mngr costs seconds, so once for all."""
    asked: list[BothSides] = []

    def agree() -> bool:
        asked.append(BothSides(zoo.listed(), zoo.look().agents))
        return asked[-1].agree()

    with contextlib.suppress(AssertionError):  # the tests below say in what they differ
        eventually(agree)
    return asked[-1]


def test_states_agree(sides: BothSides) -> None:
    assert sides.differing_states() == {}


def test_processes_and_work_dirs_agree(sides: BothSides) -> None:
    told, seen = sides.details()
    assert told == seen
    assert seen["waits"][0] is not None


def test_an_agent_on_another_server_is_found_there_and_mngr_agrees_when_it_looks_there(zoo: Zoo) -> None:
    seen = zoo.seen(STOPPED_ELSEWHERE)
    assert seen.state is State.WAITING
    assert seen.session == SessionRef(zoo.other_socket, f"mngr-{STOPPED_ELSEWHERE}")
    assert any(zoo.other_socket in line for line in seen.notes)
    assert zoo.told(TMUX=f"{zoo.other_socket},0,0")[STOPPED_ELSEWHERE] == "WAITING"


def test_who_asks_makes_no_difference(zoo: Zoo) -> None:
    inside = {**zoo.world.environment, "TMUX": f"{zoo.other_socket},1,0", "TMUX_PANE": "%0"}
    outside = zoo.look()
    assert {agent.id: agent.state for agent in Probe(inside).look(time.time()).agents} == {
        agent.id: agent.state for agent in outside.agents
    }


def test_one_corrupt_file_hides_every_agent_from_mngr_and_one_detail_from_the_probe(zoo: Zoo) -> None:
    before = {agent.id: agent.state for agent in zoo.look().agents}
    data = zoo.world.agent_dir(zoo.ids["new-name"]) / "data.json"
    whole = data.read_text()
    try:
        data.write_text(whole[: len(whole) // 2])
        assert zoo.told() == {}
        probed = zoo.look()
        assert {agent.id: agent.state for agent in probed.agents} == {
            each: state for each, state in before.items() if each != zoo.ids["new-name"]
        }
        assert [each.agent_id for each in probed.unreadable] == [zoo.ids["new-name"]]
        assert Path(probed.unreadable[0].path) == data
    finally:
        data.write_text(whole)
    assert zoo.seen("new-name").state is before[zoo.ids["new-name"]]
