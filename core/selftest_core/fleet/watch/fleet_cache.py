"""What was last known of the fleet, kept for the next process: rows of a provider that is down outlive a restart.

One file per mngr host folder in the state folder, replaced whole, so that processes beside each other
and a crash leave one or the other, never half. It is a memory and nothing depends on it: a file that is broken, or
not ours, or of another version is as good as none, and is told of, never raised. It holds what agents wrote (labels,
commands), so only its owner may read it. Light on purpose: it is read before the first screen.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core import paths
from selftest_core.agents import Agent, Host, Ssh, State
from selftest_core.fleet.observations import RememberedAgent
from selftest_core.frozen import dataclass
from selftest_core.tools.mngr_files import host_dir_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FORMAT = 1
FILE_NAME = "fleet.json"
MOST_BYTES = 64 * 1024 * 1024
"""A larger file is not read: ours has about a kilobyte per agent."""

_AGENT_FIELDS = tuple(field.name for field in fields(Agent) if field.name not in ("host", "state", "labels", "plugin"))
_HOST_FIELDS = tuple(field.name for field in fields(Host) if field.name != "ssh")
_SSH_FIELDS = tuple(field.name for field in fields(Ssh))
_NUMBERS = frozenset({"created_at", "started_at", "user_activity_at", "agent_activity_at", "idle_seconds", "boot_time"})
_INTEGERS = frozenset({"pid", "port"})
_FLAGS = frozenset({"start_on_boot", "is_locked"})
_NEEDED = frozenset({"id", "name", "type", "state_word", "command", "work_dir", "provider"})


@dataclass(frozen=True, slots=True)
class Memory:
    """What a file held. `says`: why nothing, or not all of it, could be used; "" where all was well."""

    agents: tuple[RememberedAgent, ...] = ()
    says: str = ""


def fleet_folder(environ: Mapping[str, str]) -> Path:
    """Where the fleet of this environment's mngr host folder is remembered. Nothing is made here."""
    host_dir = os.path.realpath(host_dir_of(environ))
    return paths.state_folder(environ) / hashlib.sha256(os.fsencode(host_dir)).hexdigest()[:16]


def load(folder: Path) -> tuple[RememberedAgent, ...]:
    """The agents that are remembered in `folder`; none where nothing usable is there. Never raises."""
    return recall(folder).agents


def recall(folder: Path) -> Memory:
    """What is remembered in `folder`, with a word on what could not be used. Never raises."""
    path = folder / FILE_NAME
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return Memory()
    except OSError as error:
        return Memory(says=f"{path} cannot be read: {error.strerror or error}")
    if len(data) > MOST_BYTES:
        return Memory(says=f"{path} is too large to be ours")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return Memory(says=f"{path} is not whole JSON")
    if not isinstance(document, dict) or not isinstance(document.get("agents"), list):
        return Memory(says=f"{path} is not ours")
    if document.get("format") != FORMAT:
        return Memory(says=f"{path} is of another version of selftest-tui")
    agents = []
    unusable = 0
    for said in document["agents"]:
        try:
            agents.append(_read_agent(said))
        except (KeyError, TypeError, ValueError, AttributeError):
            unusable += 1
    return Memory(tuple(agents), f"{path}: {unusable} agents of it cannot be used" if unusable else "")


def save(folder: Path, agents: Iterable[RememberedAgent]) -> None:
    """Remember these agents and no others. Raises OSError where that cannot be written; the old file then stays."""
    document = {"format": FORMAT, "agents": [_written_agent(remembered) for remembered in agents]}
    # ASCII keeps half surrogates of hostile titles as they are.
    text = json.dumps(document, separators=(",", ":"), default=str)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".{FILE_NAME}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(text)
        draft.replace(folder / FILE_NAME)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def _written_agent(remembered: RememberedAgent) -> dict[str, Any]:
    agent = remembered.agent
    host = {name: getattr(agent.host, name) for name in _HOST_FIELDS}
    ssh = agent.host.ssh
    host["ssh"] = {name: getattr(ssh, name) for name in _SSH_FIELDS} if ssh is not None else None
    said = {name: getattr(agent, name) for name in _AGENT_FIELDS}
    said |= {"state": agent.state.value, "labels": dict(agent.labels), "plugin": dict(agent.plugin), "host": host}
    return {"as_of": remembered.as_of, "agent": said}


def _read_agent(said: Any) -> RememberedAgent:
    as_of = _number(said["as_of"])
    if as_of is None:
        raise ValueError("without a time")
    agent = said["agent"]
    host = agent["host"]
    ssh = host.get("ssh")
    reached = None if ssh is None else Ssh(command=_text(ssh["command"]), **_values(ssh, _SSH_FIELDS[1:]))
    labels = {_text(key): _text(value) for key, value in agent["labels"].items()}
    plugin = agent.get("plugin")
    return RememberedAgent(
        Agent(
            host=Host(ssh=reached, **_values(host, _HOST_FIELDS, always=("id", "name"))),
            state=State(agent["state"]),
            labels=MappingProxyType(labels),
            plugin=MappingProxyType(plugin if isinstance(plugin, dict) else {}),
            **_values(agent, _AGENT_FIELDS),
        ),
        as_of,
    )


def _values(said: Any, names: tuple[str, ...], always: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of these names, each of its own type. Raises for one that is missing or of another type."""
    values: dict[str, Any] = {}
    for name in names:
        value = said[name]
        if name in _NUMBERS:
            values[name] = _number(value)
        elif name in _FLAGS:
            values[name] = bool(value)
        elif name in _INTEGERS:
            values[name] = value if value is None else int(value)
        else:
            values[name] = _text(value) if value is not None or name in _NEEDED or name in always else None
    return values


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("not a number")
    number = float(value)
    return number if math.isfinite(number) else None
