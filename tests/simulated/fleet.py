"""A simulated fleet: agents that cost almost nothing, for the fake mngr and the real probe.

Each agent has mngr's files. Most have a session on the world's own tmux server with one sleeping process; one tmux
process makes all sessions. The number of an agent determines its state, so two fleets of one size are equal.
Use it in a `PrivateWorld` only.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError
from selftest_core.frozen import dataclass
from selftest_core.tools.process import run
from simulated import mngr

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.demo.private_world import PrivateWorld

HOST_ID = "host-fa4e0000000000000000000000000000"
COMMAND = "sleep 100000"
_TOPICS = ("login", "cart", "pay", "search", "mail", "admin", "import", "tax")
_CASES = ("redirect", "empty", "limit", "refund", "merge", "retry", "unicode", "timeout", "guest", "large")
_FIRST = 1_795_250_000.0


@dataclass(frozen=True, slots=True)
class FakeAgent:
    """One agent of a fake fleet. `kind`: working, waiting, asking, done, failed or stopped."""

    id: str
    name: str
    kind: str
    folder: Path
    work_dir: Path

    @property
    def has_session(self) -> bool:
        """True for an agent with a terminal."""
        return self.kind != "stopped"


def fake_agents(world: PrivateWorld, count: int) -> tuple[FakeAgent, ...]:
    """Return the agents of a fleet of this size, before anything is on the disk."""
    return tuple(
        FakeAgent(
            id=f"agent-{number:032x}",
            name=f"st-7f-{_TOPICS[number % 8]}-{_CASES[number // 8 % 10]}-{number}",
            kind=_kind(number),
            folder=world.host_dir / "agents" / f"agent-{number:032x}",
            work_dir=world.root / "w" / str(number),
        )
        for number in range(count)
    )


def lay_out(world: PrivateWorld, count: int, *, sessions: bool = True, flapping: int = 0) -> tuple[FakeAgent, ...]:
    """Create the fleet: files, `sessions`, and a program `mngr` in `bin_folder(world)`.

    `flapping`: so many agents more, of a remote provider that flaps; only mngr knows them.
    """
    agents = fake_agents(world, count)
    (world.host_dir / mngr.MARKER).touch()
    (world.host_dir / "host_id").write_text(HOST_ID, encoding="utf-8")
    if flapping:
        (world.host_dir / mngr.FLAPPING).write_text(f"{flapping} 0", encoding="utf-8")
    for number, agent in enumerate(agents):
        _write(agent, number)
    program = bin_folder(world) / "mngr"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{mngr.__file__}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    if sessions:
        _make_sessions(world, [agent for agent in agents if agent.has_session])
    return agents


def bin_folder(world: PrivateWorld) -> Path:
    """Return the folder of the fake `mngr`."""
    return world.root / "bin"


def fake_environ(world: PrivateWorld, environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment of the world in which `mngr` is the fake one."""
    return {**environ, "PATH": f"{bin_folder(world)}{os.pathsep}{environ.get('PATH', os.defpath)}"}


def _kind(number: int) -> str:
    """Of ten: six work, two wait, one asks or is stopped, one is done or failed."""
    tenth, turn = number % 10, number // 10 % 4
    if tenth < 6:
        return "working"
    if tenth < 8:
        return "waiting"
    if tenth == 8:
        return "asking" if turn else "stopped"
    return "done" if turn else "failed"


def _write(agent: FakeAgent, number: int) -> None:
    agent.folder.mkdir(parents=True)
    (agent.work_dir / ".selftest/out").mkdir(parents=True)
    data: dict[str, object] = {
        "id": agent.id,
        "name": agent.name,
        "type": "command",
        "work_dir": str(agent.work_dir),
        "create_time": datetime.fromtimestamp(_FIRST + number, UTC).isoformat(timespec="microseconds"),
        "command": COMMAND,
        "additional_commands": [],
        "initial_message": None,
        "resume_message": None,
        "ready_timeout_seconds": None,
        "start_on_boot": False,
        "labels": {"project": "acme-shop", "selftest_run": "7f", "selftest_test": f"tests/test_{number}.py::test_it"},
        "created_branch_name": f"mngr/{agent.name}",
        "checked_out_branch_name": f"mngr/{agent.name}",
        "tmux": {"width": None, "height": None, "window_size": None},
    }
    (agent.folder / "data.json").write_text(json.dumps(data, indent=2), encoding="utf-8")
    if agent.kind == "working":
        (agent.folder / "active").touch()
    if agent.kind == "asking":
        (agent.folder / "permissions_waiting").touch()
    if agent.kind in ("done", "failed"):
        status = "3" if agent.kind == "failed" else "0"
        (agent.work_dir / ".selftest/out/exit_status").write_text(status, encoding="utf-8")


def _make_sessions(world: PrivateWorld, agents: list[FakeAgent]) -> None:
    world.socket.parent.mkdir(mode=0o700, exist_ok=True)
    lines = ["set-option -g default-shell /bin/sh", "set-option -g exit-empty off", "set-option -g history-limit 500"]
    for agent in agents:
        last = "exec sh" if agent.kind in ("done", "failed") else f"exec {COMMAND}"
        text = f"printf 'agent %s\\\\n' {agent.name}; {last}"
        lines.append(f'new-session -d -s mngr-{agent.name} -n agent -x 120 -y 40 -c "{agent.work_dir}" "{text}"')
        lines.append(f"set-option -t =mngr-{agent.name}: @mngr_agent_id {agent.id}")
    argv = ("tmux", "-f", "/dev/null", "-S", world.socket, "start-server", ";", "source-file", "-")
    done = run(argv, timeout=300, cwd=world.root, env=world.tools_environ, input="\n".join(lines) + "\n")
    if not done.ok:
        raise ToolFailedError(
            "tmux could not make the sessions", done.stderr_end, argv=done.argv, exit_status=done.exit_status
        )
