"""Fleet cache: the last known agents, saved for the next process, so that rows of a provider that is down are kept.

One file for each mngr host folder in the state folder. It is replaced as a whole, so that parallel processes and a
crash never leave half a file. Nothing depends on it: a file that is broken, foreign or of another version is ignored
and reported. It has text of agents (labels, commands), so only its owner may read it. It is read before the first
screen, so it imports little.
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
"""A larger file is not read: this one has about a kilobyte per agent."""

_AGENT_FIELDS = tuple(field.name for field in fields(Agent) if field.name not in ("host", "state", "labels", "plugin"))
_HOST_FIELDS = tuple(field.name for field in fields(Host) if field.name != "ssh")
_SSH_FIELDS = tuple(field.name for field in fields(Ssh))
_NUMBERS = frozenset({"created_at", "started_at", "user_activity_at", "agent_activity_at", "idle_seconds", "boot_time"})
_INTEGERS = frozenset({"pid", "port"})
_FLAGS = frozenset({"start_on_boot", "is_locked"})
_NEEDED = frozenset({"id", "name", "type", "state_word", "command", "work_dir", "provider"})


@dataclass(frozen=True, slots=True)
class CachedFleet:
    """Content of a cache file. `problem`: why nothing, or not all of it, can be used; "" if all can."""

    agents: tuple[RememberedAgent, ...] = ()
    problem: str = ""


def fleet_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the cache for this environment's mngr host folder. Nothing is made here."""
    host_dir = os.path.realpath(host_dir_of(environ))
    return paths.state_folder(environ) / hashlib.sha256(os.fsencode(host_dir)).hexdigest()[:16]


def load(folder: Path) -> CachedFleet:
    """Read the cache in `folder`, with the reason where something cannot be used. Never raises."""
    path = folder / FILE_NAME
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return CachedFleet()
    except OSError as error:
        return CachedFleet(problem=f"{path} cannot be read: {error.strerror or error}")
    if len(data) > MOST_BYTES:
        return CachedFleet(problem=f"{path} is too large")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return CachedFleet(problem=f"{path} is not complete JSON")
    if not isinstance(document, dict) or not isinstance(document.get("agents"), list):
        return CachedFleet(problem=f"{path} is not a file of selftest-tui")
    if document.get("format") != FORMAT:
        return CachedFleet(problem=f"{path} is of another version of selftest-tui")
    agents = []
    unusable = 0
    for value in document["agents"]:
        try:
            agents.append(_agent_from_json(value))
        except (KeyError, TypeError, ValueError, AttributeError):
            unusable += 1
    return CachedFleet(tuple(agents), f"{path}: {unusable} agents cannot be used" if unusable else "")


def save(folder: Path, agents: Iterable[RememberedAgent]) -> None:
    """Save these agents and no others. Raises OSError, and then keeps the old file."""
    document = {"format": FORMAT, "agents": [_agent_to_json(remembered) for remembered in agents]}
    # ASCII escapes keep lone surrogates of hostile titles.
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


def _agent_to_json(remembered: RememberedAgent) -> dict[str, Any]:
    agent = remembered.agent
    host = {name: getattr(agent.host, name) for name in _HOST_FIELDS}
    ssh = agent.host.ssh
    host["ssh"] = {name: getattr(ssh, name) for name in _SSH_FIELDS} if ssh is not None else None
    values = {name: getattr(agent, name) for name in _AGENT_FIELDS}
    values |= {"state": agent.state.value, "labels": dict(agent.labels), "plugin": dict(agent.plugin), "host": host}
    return {"as_of": remembered.as_of, "agent": values}


def _agent_from_json(document: Any) -> RememberedAgent:
    as_of = _number(document["as_of"])
    if as_of is None:
        raise ValueError("without a time")
    agent = document["agent"]
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


def _values(document: Any, names: tuple[str, ...], always: tuple[str, ...] = ()) -> dict[str, Any]:
    """Read fields, each as its type. Raises for one that is missing or of another type."""
    values: dict[str, Any] = {}
    for name in names:
        value = document[name]
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
