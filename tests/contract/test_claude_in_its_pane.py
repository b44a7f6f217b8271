"""An agent of mngr's type claude whose program is a stand-in: the processes beside it in its pane are mngr's own.

The sessions file is written by the test, as Claude Code writes it. What the real program does is held by
`tests/agents`; here the rules of the probe are: which process is the agent, and whose sessions file counts.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from selftest_core.agent_types.condition import Kind
from selftest_core.agents import State
from selftest_core.fleet.sources.probe import Probe
from worlds import World, a_world, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.fleet.observations import LocalAgent

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the start of a process is read from /proc"),
]

NAME = "stands-in"
# It makes the files that mngr's hooks make when the real program starts and begins a turn.
CLAUDE = """#!/bin/sh
case "$1" in --version) echo "2.1.330 (Claude Code)"; exit 0 ;; esac
cd "$MNGR_AGENT_STATE_DIR" && touch session_started claude_process_started active
while read -r line; do :; done
"""


@dataclass
class StandIn:
    """The agent, and its program's process."""

    world: World
    folder: Path
    pid: int

    def write(self, status: str, *, pid: int | None = None, start: str | None = None, **more: Any) -> None:
        """Write the sessions file of the program, or one that tells of another process."""
        session = f"{self.folder.name.removeprefix('agent-')}"
        document = {
            "pid": self.pid, "sessionId": session, "cwd": str(self.world.repository), "version": "2.1.330",
            "startedAt": time.time() * 1000, "procStart": start or start_of(self.pid), "status": status,
            "statusUpdatedAt": time.time() * 1000, **more,
        }  # fmt: skip
        sessions = self.folder / "plugin" / "claude" / "anthropic" / "sessions"
        sessions.mkdir(parents=True, exist_ok=True)
        (sessions / f"{pid or self.pid}.json").write_text(json.dumps(document))

    def seen(self) -> LocalAgent:
        """The agent as a probe sees it that has never looked before."""
        (agent,) = Probe(self.world.environment).look(time.time()).agents
        return agent

    def kind(self) -> Kind | None:
        """Its condition."""
        condition = self.seen().condition
        return condition.kind if condition is not None else None


def start_of(pid: int) -> str:
    """Field 22 of /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


@pytest.fixture
def agent() -> Iterator[StandIn]:
    with a_world() as world:
        program = world.script("claude", CLAUDE)
        world.extra["PATH"] = f"{program.parent}:{world.environment['PATH']}"
        (world.home / ".claude").mkdir()
        (world.home / ".claude.json").write_text("{}")
        world.make_repository()
        out = world.mngr(
            "create", NAME, "--type", "claude", "--no-connect", "--headless", "--yes", "--format", "json",
            "--transfer", "none", "--no-ensure-clean", "-S", "agent_ready_timeout=60",
        )  # fmt: skip
        folder = world.agent_dir(str(json.loads(out.strip().splitlines()[-1])["agent_id"]))
        made = StandIn(world, folder, 0)
        made.pid = eventually(lambda: made.seen().pid or 0, "its program's process")
        assert Path(f"/proc/{made.pid}/comm").read_text().strip() == "claude"
        yield made


def test_the_sessions_file_tells_what_it_does(agent: StandIn) -> None:
    agent.write("busy")
    assert (agent.seen().state, agent.kind()) == (State.RUNNING, Kind.WORKING)
    agent.write("waiting", waitingFor="permission prompt")
    assert (agent.seen().state, agent.kind()) == (State.WAITING, Kind.PERMISSION)
    agent.write("waiting", waitingFor="dialog open")
    assert agent.kind() is Kind.DIALOG
    agent.write("idle")
    # mngr's marker still says that it is in a turn: the program's own word is newer.
    assert (agent.folder / "active").exists()
    assert (agent.seen().state, agent.kind()) == (State.WAITING, Kind.READY)


def test_a_sessions_file_of_another_process_does_not_count(agent: StandIn) -> None:
    agent.write("waiting", start="1", waitingFor="permission prompt")
    condition = agent.seen().condition
    assert condition is not None
    assert (condition.kind, condition.source) == (Kind.WORKING, "mngr's markers")


def test_helpers_in_the_pane_are_not_the_agent(agent: StandIn) -> None:
    agent.write("busy")
    shell = int(agent.world.tmux("display-message", "-p", "-t", f"=mngr-{NAME}:", "#{pane_pid}"))
    helpers = eventually(lambda: children(shell) - {agent.pid}, "mngr's helpers beside it")
    os.kill(agent.pid, signal.SIGKILL)
    eventually(lambda: agent.seen().state is State.DONE, "the end of its program")
    assert agent.kind() is Kind.CRASHED
    (listed,) = agent.world.listing()["agents"]
    assert listed["state"] == "DONE"
    assert [pid for pid in helpers if Path(f"/proc/{pid}").exists()], "no helper outlived the program"


def test_an_end_at_rest_is_no_crash(agent: StandIn) -> None:
    agent.write("idle")
    (agent.folder / "active").unlink()
    os.kill(agent.pid, signal.SIGKILL)
    eventually(lambda: agent.seen().state is State.DONE, "the end of its program")
    assert agent.kind() is None


def children(pid: int) -> set[int]:
    """The processes that this one started."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.add(int(entry.name))
    return found
