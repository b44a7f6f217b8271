"""The probe's look at a Claude Code agent: a program of that name in a real tmux, mngr's helpers beside it in its pane.

The sessions file is written by the test; that the real program writes such files, the contract with it shows.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest

from selftest_core.agent_types.condition import Kind
from selftest_core.agents import State
from selftest_core.fleet.sources.probe import Probe
from worlds import eventually

if TYPE_CHECKING:
    from selftest_core.fleet.observations import LocalAgent
    from worlds import World

LONG_AGO = "2020-01-01T00:00:00+00:00"


class Claude:
    """One agent: a folder as mngr leaves it, and a pane with a shell, two helpers and a program named claude."""

    def __init__(self, world: World) -> None:
        self.world = world
        (world.host_dir / "host_id").write_text("host-1")
        self.folder = world.agent_dir("agent-1")
        self.config = self.folder / "plugin" / "claude" / "anthropic"
        (self.config / "sessions").mkdir(parents=True)
        (self.folder / "activity").mkdir()
        (self.folder / "activity" / "start").touch()
        data = {"name": "one", "type": "claude", "command": "claude", "work_dir": "/w", "create_time": LONG_AGO}
        (self.folder / "data.json").write_text(json.dumps(data))
        (self.folder / "env").write_text(f"CLAUDE_CONFIG_DIR={self.config}\n")
        program = world.root / "claude"
        sleep = shutil.which("sleep")
        assert sleep is not None
        shutil.copy(sleep, program)
        script = world.script(
            "pane", f"#!/bin/bash\nsleep 1000 &\nsleep 1001 | tee /dev/null &\n{program} 1000\nbash --norc"
        )
        world.tmux("-f", "/dev/null", "new-session", "-d", "-s", "mngr-one", "-n", "agent", f"bash --norc {script}")
        # Starts and ends are told apart from flashes by their age.
        os.utime(self.folder / "activity" / "start", (time.time() - 60, time.time() - 60))
        self.probe = Probe(world.environment)
        eventually(lambda: self.look().pid is not None, "the program")
        (self.folder / "claude_process_started").touch()
        pid = self.look().pid
        assert pid is not None
        self.pid = pid

    def says(self, status: str, waiting_for: str = "") -> None:
        said = {"pid": self.pid, "sessionId": "0a1b2c3d-0000", "cwd": "/w", "status": status, "statusUpdatedAt": 5_000}
        path = self.config / "sessions" / f"{self.pid}.json"
        path.write_text(json.dumps({**said, "waitingFor": waiting_for} if waiting_for else said))

    def look(self) -> LocalAgent:
        (agent,) = self.probe.look(time.time()).agents
        return agent

    def kind(self) -> Kind | None:
        condition = self.look().condition
        return condition.kind if condition is not None else None


@pytest.fixture
def claude(world: World) -> Claude:
    return Claude(world)


def test_its_own_file_stands_before_the_markers(claude: Claude) -> None:
    (claude.folder / "active").touch()
    (claude.folder / "permissions_waiting").touch()
    assert (claude.look().state, claude.kind()) == (State.WAITING, Kind.PERMISSION)
    assert claude.look().waits_for_permission
    claude.says("busy")
    agent = claude.look()
    assert (agent.state, claude.kind(), agent.waits_for_permission) == (State.RUNNING, Kind.WORKING, False)
    assert any("Claude Code's sessions file: busy" in line for line in agent.notes)
    claude.says("waiting", "dialog open")
    assert (claude.look().state, claude.kind()) == (State.WAITING, Kind.DIALOG)
    (claude.folder / "active").unlink()
    claude.says("busy")
    (claude.folder / "compacting").touch()
    assert claude.kind() is Kind.COMPACTING


def test_the_folder_of_its_file_is_watched(claude: Claude) -> None:
    claude.says("idle")
    claude.look()
    assert claude.config / "sessions" in claude.probe.watched_paths()


def test_a_program_killed_in_a_turn_has_crashed_though_helpers_live_on_in_its_pane(claude: Claude) -> None:
    claude.says("busy")
    (claude.folder / "active").touch()
    assert claude.kind() is Kind.WORKING
    assert claude.pid in claude.probe.pids
    os.kill(claude.pid, signal.SIGKILL)
    eventually(lambda: claude.look().state is State.DONE, "the end")
    assert claude.kind() is Kind.CRASHED
    (claude.folder / "active").unlink()
    assert claude.look().state is State.DONE
    assert claude.kind() is None


def test_a_crash_is_as_old_as_its_last_words_though_mngr_marks_activity_after_it(claude: Claude) -> None:
    (claude.folder / "active").touch()
    (claude.folder / "stderr.log").write_text("Killed\n")
    os.utime(claude.folder / "stderr.log", (5_000, 5_000))
    os.kill(claude.pid, signal.SIGKILL)
    eventually(lambda: claude.kind() is Kind.CRASHED, "the crash")
    (claude.folder / "activity" / "agent").touch()
    condition = claude.look().condition
    assert condition is not None
    assert condition.since == 5_000


def test_a_request_that_is_sent_again_is_seen_on_the_screen_of_its_pane(claude: Claude) -> None:
    (claude.folder / "active").touch()
    claude.says("busy")
    claude.look()
    claude.world.tmux("send-keys", "-t", "=mngr-one:", "-l", "API error - retrying in 8s - attempt 2/10")
    eventually(lambda: claude.kind() is Kind.RETRYING, "the retry")
    condition = claude.look().condition
    assert condition is not None
    assert condition.text == "API error · attempt 2/10"
    claude.says("idle")
    assert claude.kind() is Kind.READY
