"""A fake mngr for a thousand agents: the real answers, read from the same files and the same tmux server.

    python -P tests/simulated/mngr.py list --format json [--provider local]

No machine makes a thousand real agents for a measurement (one second each). Supported are the commands that this
project calls: `--version`, `list`, `message`, `stop`, `start`, `destroy -f`. It reads MNGR_HOST_DIR as
`simulated.fleet` writes it and uses the tmux server that TMUX and TMUX_TMPDIR name. A contract test compares it with
the real mngr: keys, types, refusals. FAKE_MNGR_SECONDS is the duration of `list`.
Where the host folder has a file FLAPPING with a number of agents, there is a provider `boxes` with as many, which
flaps: of four lists that ask it two have its agents, one has the error of a host that is down, and one has nothing.
It refuses a host folder without the marker of a simulated fleet, so it never touches a person's agents.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

VERSION = "0.3.0"
MARKER = "fake-mngr"
FLAPPING = "flapping"
BOXES = "boxes"
_BOXES_HOST = "host-b0e50000000000000000000000000000"
_TURNS = ("agents", "down", "agents", "nothing")
_SHELLS = frozenset({"bash", "sh", "zsh", "fish", "dash", "ksh", "tcsh", "csh"})

_DOWN = {
    "exception_type": "HostConnectionError",
    "message": "Could not connect to host box1",
    "is_provider_inaccessible": False,
    "help_text": None,
    "traceback_text": None,
    "provider_name": BOXES,
    "short_reason": None,
    "short_remediation": None,
}


class RefusalError(Exception):
    """An error with mngr's text for stderr, and its exit status."""

    def __init__(self, says: str, exit_status: int) -> None:
        super().__init__(says)
        self.exit_status = exit_status


class FakeMngr:
    """One call of the program: the host folder, and the words after the command."""

    def __init__(self, host_dir: Path) -> None:
        if not (host_dir / MARKER).exists():
            raise RefusalError(f"Error: {host_dir} is not a fake fleet: this is not mngr", 1)
        self.host_dir = host_dir
        self.host_id = (host_dir / "host_id").read_text(encoding="utf-8").strip()

    def listing(self, words: Sequence[str]) -> dict[str, Any]:
        """`list`: every agent with its state, oldest first."""
        time.sleep(float(os.environ.get("FAKE_MNGR_SECONDS") or 0))
        provider = _option(words, "--provider")
        sessions = _sessions()
        now = time.time()
        agents: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        if provider in (None, "local"):
            agents += [self._listed(data, sessions, now) for data in self._agents()]
        if provider in (None, BOXES):
            turn = self._turn_of_boxes()
            if turn == "down":
                errors.append(_DOWN)
            # An unfiltered answer without them would mean that they were destroyed.
            elif turn == "agents" or (turn == "nothing" and provider is None):
                agents += self._boxes(now)
        return {"agents": sorted(agents, key=lambda agent: str(agent["create_time"])), "errors": errors}

    def _turn_of_boxes(self) -> str:
        """Return what the provider answers this time, and count the call; empty where there is none."""
        counted = self.host_dir / FLAPPING
        if not counted.exists():
            return ""
        size, asked = counted.read_text(encoding="utf-8").split()
        draft = counted.with_suffix(".draft")
        draft.write_text(f"{size} {int(asked) + 1}", encoding="utf-8")
        draft.replace(counted)
        return _TURNS[int(asked) % len(_TURNS)]

    def _boxes(self, now: float) -> list[dict[str, Any]]:
        """The agents of the flapping provider, which wait all the time."""
        size = int((self.host_dir / FLAPPING).read_text(encoding="utf-8").split()[0])
        host = {**self._host(), "id": _BOXES_HOST, "name": "box1", "provider_name": BOXES}
        created = "2026-11-20T00:00:00+00:00"
        found = []
        for number in range(size):
            data = {
                "id": f"agent-b0{number:030x}", "name": f"st-7f-boxes-{number}", "type": "command",
                "command": "sleep 100000", "work_dir": f"/boxes/{number}", "created_branch_name": None,
                "create_time": created, "start_on_boot": False, "labels": {"project": "acme-shop"},
            }  # fmt: skip
            sessions = {f"mngr-{data['name']}": ("sleep", 4000 + number, False)}
            found.append({**self._listed(data, sessions, now), "host": host})
        return found

    def message(self, words: Sequence[str]) -> dict[str, Any]:
        """`message`: types the text, from `-m` or stdin, into each agent that runs."""
        text = _option(words, "-m") or sys.stdin.read()
        sent, failed = [], []
        sessions = _sessions()
        for data in self._named(words, is_strict=False):
            state = _state(data, sessions, self._folder(data))[0]
            if state in ("STOPPED", "DONE"):
                failed.append({"agent": data["name"], "error": f"Agent is not running (state: {state})"})
                continue
            target = f"=mngr-{data['name']}:agent"
            _tmux("send-keys", "-t", target, "-l", "--", text)
            _tmux("send-keys", "-t", target, "Enter")
            sent.append(data["name"])
        return {
            "successful_agents": sent,
            "failed_agents": failed,
            "blocked_agents": [],
            "total_sent": len(sent),
            "total_failed": len(failed),
            "total_blocked": 0,
        }

    def stop(self, words: Sequence[str]) -> dict[str, Any]:
        """`stop`: ends the sessions."""
        named = self._named(words, is_strict=True)
        for data in named:
            _tmux("kill-session", "-t", f"=mngr-{data['name']}")
        stopped = [data["name"] for data in named]
        return {
            "stopped_agents": stopped,
            "count": len(stopped),
            "failures": [],
            "failure_count": 0,
            "exit_code": 0,
        }

    def start(self, words: Sequence[str]) -> dict[str, Any]:
        """`start`: makes the session of each agent that has none; with `--restart` anew for the others."""
        named = self._named(words, is_strict=True)
        sessions = _sessions()
        for data in named:
            session = f"mngr-{data['name']}"
            if "--restart" in words and session in sessions:
                _tmux("kill-session", "-t", f"={session}")
                del sessions[session]
            if session not in sessions:
                _tmux("new-session", "-d", "-s", session, "-n", "agent", "-c", data["work_dir"], data["command"])
                _tmux("set-option", "-t", f"={session}:", "@mngr_agent_id", data["id"])
        return {
            "started_agents": [data["name"] for data in named],
            "count": len(named),
            "was_host_started": False,
        }

    def destroy(self, words: Sequence[str]) -> dict[str, Any] | None:
        """`destroy -f`: ends the sessions and forgets the agents. Says nothing where it found none."""
        if "-f" not in words and "--force" not in words:
            raise RefusalError("Aborted!", 1)
        named = self._named(words, is_strict=False)
        for data in named:
            _tmux("kill-session", "-t", f"=mngr-{data['name']}")
            shutil.rmtree(self._folder(data))
        if not named:
            return None
        return {
            "destroyed_agents": [data["name"] for data in named],
            "count": len(named),
            "destroyed_hosts": [],
            "destroyed_host_count": 0,
            "failures": [],
            "failure_count": 0,
            "exit_code": 0,
        }

    def _folder(self, data: dict[str, Any]) -> Path:
        return self.host_dir / "agents" / str(data["id"])

    def _agents(self) -> Iterable[dict[str, Any]]:
        for path in (self.host_dir / "agents").glob("*/data.json"):
            yield json.loads(path.read_bytes())

    def _named(self, words: Sequence[str], *, is_strict: bool) -> list[dict[str, Any]]:
        """The agents that the words name, by name, id or address. One unknown among them, and none is touched."""
        wanted = _names(words)
        known = {key: data for data in self._agents() for key in (data["name"], data["id"])}
        unknown = [name for name in wanted if not self._is_here(name) or name.partition("@")[0] not in known]
        if unknown:
            about = f"local/localhost ({self.host_id}, state=RUNNING): {len(known) // 2} agent(s)"
            sys.stderr.write(f"WARNING: Agent lookup failed for {unknown[0]}; discovery returned: {about}\n")
            if is_strict:
                is_id = unknown[0].startswith("agent-")
                raise RefusalError(
                    f"Error: Agent not found: No agent(s) found matching: {', '.join(unknown)}"
                    "  [Use 'mngr list' to see available agents.]",
                    8 if is_id else 1,
                )
            return []
        return [known[name.partition("@")[0]] for name in wanted]

    def _is_here(self, address: str) -> bool:
        host, _, provider = address.partition("@")[2].partition(".")
        return host in ("", "localhost", self.host_id) and provider in ("", "local")

    def _listed(self, data: dict[str, Any], sessions: dict[str, tuple[str, int, bool]], now: float) -> dict[str, Any]:
        created = datetime.fromisoformat(data["create_time"])
        state, pid = _state(data, sessions, self._folder(data))
        started = created.astimezone(UTC).isoformat().replace("+00:00", "Z")
        return {
            "resource_type": "agent",
            "id": data["id"],
            "name": data["name"],
            "type": data["type"],
            "command": data["command"],
            "work_dir": data["work_dir"],
            "initial_branch": data["created_branch_name"],
            "create_time": started,
            "start_on_boot": data["start_on_boot"],
            "state": state,
            "pid": pid,
            "url": None,
            "start_time": started,
            "runtime_seconds": round(now - created.timestamp(), 6),
            "user_activity_time": None,
            "agent_activity_time": None,
            "idle_seconds": None,
            "idle_mode": "IO",
            "idle_timeout_seconds": 3600,
            "activity_sources": ["USER", "AGENT", "SSH", "CREATE", "START", "BOOT"],
            "labels": data["labels"],
            "host": self._host(),
            "plugin": {},
        }

    def _host(self) -> dict[str, Any]:
        return {
            "id": self.host_id,
            "name": "localhost",
            "provider_name": "local",
            "state": "RUNNING",
            "image": None,
            "tags": {},
            "boot_time": "2026-01-01T00:00:00Z",
            "uptime_seconds": 1.5,
            "resource": {
                "cpu": {"count": 2, "frequency_ghz": 2.5},
                "memory_gb": 8.0,
                "disk_gb": 64.0,
                "gpu": None,
            },
            "ssh": None,
            "snapshots": [],
            "is_locked": False,
            "locked_time": None,
            "plugin": {},
            "ssh_activity_time": None,
            "failure_reason": None,
        }


def _state(data: dict[str, Any], sessions: dict[str, tuple[str, int, bool]], folder: Path) -> tuple[str, int | None]:
    """mngr's rules for an agent whose program is the pane's own process, as those of a fake fleet are."""
    session = sessions.get(f"mngr-{data['name']}")
    if session is None:
        return "STOPPED", None
    shown, pid, is_dead = session
    if is_dead:
        return "DONE", None
    if shown == Path(data["command"].split()[0]).name:
        return ("RUNNING" if (folder / "active").exists() else "WAITING"), pid
    return ("DONE" if shown in _SHELLS else "REPLACED"), None


def _sessions() -> dict[str, tuple[str, int, bool]]:
    """Session → what its agent's pane shows in the foreground, that pane's process, whether it is dead."""
    answer = _tmux(
        "list-panes", "-a", "-F", "#{session_name}\t#{window_name}\t#{pane_current_command}\t#{pane_pid}\t#{pane_dead}"
    )
    found: dict[str, tuple[str, int, bool]] = {}
    for line in answer.splitlines():
        session, window, shown, pid, dead = line.split("\t")
        if window == "agent":
            found.setdefault(session, (shown, int(pid), dead == "1"))
    return found


def _tmux(*words: str) -> str:
    return run(("tmux", *words), timeout=30, cwd=Path("/")).stdout


def _option(words: Sequence[str], name: str) -> str | None:
    for at, word in enumerate(words):
        if word == name and at + 1 < len(words):
            return words[at + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def _names(words: Sequence[str]) -> list[str]:
    """The words that are neither options nor their values."""
    found, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in ("--format", "-m", "--provider", "--on-error"):
            skip = True
        elif not word.startswith("-"):
            found.append(word)
    return found


def main(words: Sequence[str]) -> int:
    """Run a command line; return mngr's exit status."""
    if list(words) == ["--version"]:
        print(f"mngr {VERSION}")
        return 0
    try:
        fake = FakeMngr(Path(os.environ.get("MNGR_HOST_DIR") or "~/.mngr").expanduser())
        acts: dict[str, Callable[[Sequence[str]], dict[str, Any] | None]] = {
            "list": fake.listing,
            "message": fake.message,
            "stop": fake.stop,
            "start": fake.start,
            "destroy": fake.destroy,
        }
        if not words or words[0] not in acts:
            raise RefusalError(f"Error: No such command '{words[0] if words else ''}'.", 2)
        answer = acts[words[0]](words[1:])
    except RefusalError as refusal:
        sys.stderr.write(f"{refusal}\n")
        return refusal.exit_status
    if answer is not None:
        print(json.dumps(answer))
    if answer and (answer.get("failed_agents") or answer.get("errors")):
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
