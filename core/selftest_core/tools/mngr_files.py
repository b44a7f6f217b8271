"""mngr's files about the agents of this machine: a reader with a cache. The content is not trusted.

A file is read again when its stamp (inode, size, time) has changed, so that a look at a thousand agents is a few
thousand `stat` calls. Any file may be missing, half-written, huge, a pipe, or another user's: then only that agent is
affected, and the reason is kept. Nothing is written, and links are not followed.
"""

# ruff: noqa: PTH116 -- thousands of stat calls a look: a Path for each would double its cost
from __future__ import annotations

import contextlib
import json
import os
import stat
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_PREFIX = "mngr-"
EXIT_STATUS_FILE = ".selftest/out/exit_status"
"""Below an agent's work dir: written by our wrappers when the wrapped program has ended."""

_DATA_LIMIT = 4 * 1024 * 1024
# A change within the same tick of the clock keeps the stamp: it is not trusted until it is this old.
_SETTLED_NS = 50_000_000
_GRACE = 10.0
"""Seconds in which a folder without data.json is an agent that is being created, and no problem."""
_NO_LABELS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AgentFile:
    """One agent's data.json. `trouble`: why it cannot be read now; the rest is then the last good copy."""

    id: str
    name: str = ""
    type: str = ""
    command: str = ""
    work_dir: str = ""
    branch: str | None = None
    created_at: float | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class AgentFolder:
    """Content of the files of one agent at one moment. Times are seconds since the epoch."""

    data: AgentFile
    is_active: bool
    has_permission_marker: bool
    started_at: float | None


@dataclass(frozen=True, slots=True)
class UnreadableAgent:
    """An agent whose folder exists and whose data.json cannot be read: it is not gone."""

    agent_id: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Folders:
    """One look at all agents' folders. `unreadable`: agents without any good copy so far; `making`: folders without a
    data.json, of agents that are being created."""

    host_id: str
    agents: tuple[AgentFolder, ...]
    unreadable: tuple[UnreadableAgent, ...] = ()
    making: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class _Stamp(NamedTuple):
    inode: int
    size: int
    changed: int
    modified: int


_UNSETTLED = _Stamp(0, 0, 0, 0)


def host_dir_of(environ: Mapping[str, str]) -> Path:
    """Return mngr's folder on this machine: MNGR_HOST_DIR, else ~/.mngr (MNGR_ROOT_NAME renames it)."""
    named = environ.get("MNGR_HOST_DIR")
    if named:
        return _home_expanded(named, environ)
    return Path(environ.get("HOME") or "~").expanduser() / f".{environ.get('MNGR_ROOT_NAME', 'mngr')}"


def prefix_of(environ: Mapping[str, str], host_dir: Path) -> str:
    """Return the prefix of mngr's session names: MNGR_PREFIX, else from the user's settings of mngr, else "mngr-".

    A settings file that cannot be read is ignored: mngr itself reports it, with the line.
    """
    if environ.get("MNGR_PREFIX"):
        return environ["MNGR_PREFIX"]
    import tomllib  # imported here: it is needed once

    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        profile = tomllib.loads((host_dir / "config.toml").read_text("utf-8"))["profile"]
        prefix = tomllib.loads((host_dir / "profiles" / profile / "settings.toml").read_text("utf-8"))["prefix"]
        if isinstance(prefix, str) and prefix:
            return prefix
    root = environ.get("MNGR_ROOT_NAME")
    return f"{root}-" if root else DEFAULT_PREFIX


def parse_data(agent_id: str, text: bytes) -> AgentFile:
    """Parse a data.json. Raises ValueError with the reason if it is not an agent's; wrong fields become empty."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not complete JSON ({error})" if text.strip() else "it is empty") from error
    if not isinstance(document, dict):
        raise ValueError("it is not an object")
    name = document.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError("it has no name")
    labels = document.get("labels")
    return AgentFile(
        id=agent_id,
        name=replace_surrogates(name),
        type=_text(document, "type"),
        command=_text(document, "command"),
        work_dir=_text(document, "work_dir"),
        branch=_text(document, "created_branch_name") or None,
        created_at=instant_of(document.get("create_time")),
        labels=MappingProxyType(
            {replace_surrogates(str(key)): replace_surrogates(str(value)) for key, value in labels.items()}
        )
        if isinstance(labels, dict)
        else _NO_LABELS,
    )


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    return replace_surrogates(value) if isinstance(value, str) else ""


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates: JSON can have them, terminals and files cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def instant_of(value: object) -> float | None:
    """Convert an ISO 8601 time to seconds since the epoch, None if it is none; without a zone it is UTC."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _home_expanded(path: str, environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    return Path(home) / path[2:] if home and path.startswith("~/") else Path(path).expanduser()


class AgentFiles:
    """Reader of the folders of all agents, with a cache by stamp. For one thread."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.host_dir = host_dir_of(environ)
        self._cached: dict[str, tuple[_Stamp, AgentFile]] = {}
        self._folders: dict[str, AgentFolder] = {}
        self._looks = 0
        self._exits: dict[str, tuple[_Stamp, int | None]] = {}
        self._host_id: tuple[_Stamp, str] | None = None

    @property
    def agents_dir(self) -> Path:
        """The folder with one folder for each agent."""
        return self.host_dir / "agents"

    def look(self, now: float, settled: frozenset[str] = frozenset()) -> Folders:
        """Read every agent's folder, in the order of their ids. A missing host folder has no agents.

        For agents in `settled` (those with a session) the start time is read at every fourth look only. Unchanged
        folders are the same objects as before.
        """
        self._looks += 1
        found: list[AgentFolder] = []
        unreadable: list[UnreadableAgent] = []
        making: list[str] = []
        problems: list[str] = []
        try:
            with os.scandir(self.agents_dir) as entries:
                ids = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        except FileNotFoundError:
            ids = []
        except OSError as error:
            ids = []
            problems.append(f"The agents' folder cannot be read: {self.agents_dir}: {error.strerror}")
        for index, agent_id in enumerate(ids):
            seen = self._look_at(agent_id, now, agent_id not in settled or (self._looks + index) % 4 == 0)
            if isinstance(seen, UnreadableAgent):
                unreadable.append(seen)
            elif seen is not None:
                found.append(seen)
            else:
                making.append(agent_id)
        for gone in self._cached.keys() - set(ids):
            del self._cached[gone]
            self._folders.pop(gone, None)
        return Folders(self._read_host_id(), tuple(found), tuple(unreadable), tuple(making), tuple(problems))

    def _look_at(self, agent_id: str, now: float, with_start: bool) -> AgentFolder | UnreadableAgent | None:
        base = f"{self.host_dir}/agents/{agent_id}"
        path = f"{base}/data.json"
        try:
            data = self._data(agent_id, path, now)
        except (FileNotFoundError, NotADirectoryError):
            made = _modified(base)
            if made is None or now - made <= _GRACE:
                return None
            return UnreadableAgent(agent_id, path, "there is no data.json, so mngr does not know it")
        except (OSError, ValueError) as error:
            message = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            before = self._cached.get(agent_id)
            if before is None:
                return UnreadableAgent(agent_id, path, message)
            data = replace(before[1], trouble=f"data.json cannot be read ({message}): its last good copy is shown")
        kept = self._folders.get(agent_id)
        is_active = _exists(f"{base}/active")
        folder = AgentFolder(
            data=data,
            is_active=is_active,
            has_permission_marker=is_active and _exists(f"{base}/permissions_waiting"),
            started_at=_modified(f"{base}/activity/start") if with_start or kept is None else kept.started_at,
        )
        if kept == folder:
            return kept
        self._folders[agent_id] = folder
        return folder

    def _data(self, agent_id: str, path: str, now: float) -> AgentFile:
        before = self._cached.get(agent_id)
        stamp = _stamp(os.stat(path, follow_symlinks=False))
        if before is not None and before[0] == stamp:
            return before[1]
        data = parse_data(agent_id, _read(path, _DATA_LIMIT))
        has_settled = int(now * 1e9) - max(stamp.changed, stamp.modified) > _SETTLED_NS
        self._cached[agent_id] = (stamp if has_settled else _UNSETTLED, data)
        return data

    def exit_status(self, work_dir: str) -> int | None:
        """Read the exit status that a wrapper of ours wrote into this work dir; None without a valid one."""
        path = f"{work_dir}/{EXIT_STATUS_FILE}"
        try:
            stamp = _stamp(os.stat(path, follow_symlinks=False))
            before = self._exits.get(path)
            if before is not None and before[0] == stamp:
                return before[1]
            text = _read(path, 64).strip()
        except OSError:
            self._exits.pop(path, None)
            return None
        except ValueError:
            text = b""
        status = int(text) if text.removeprefix(b"-").isdigit() else None
        status = status if status is not None and -255 <= status <= 255 else None
        if status is not None:
            self._exits[path] = (stamp, status)
        return status

    def _read_host_id(self) -> str:
        path = f"{self.host_dir}/host_id"
        try:
            stamp = _stamp(os.stat(path))
            if self._host_id is None or self._host_id[0] != stamp:
                self._host_id = (stamp, _read(path, 256).decode("utf-8", "replace").strip())
        except (OSError, ValueError):
            return self._host_id[1] if self._host_id else ""
        return self._host_id[1]


def _stamp(status: os.stat_result) -> _Stamp:
    return _Stamp(status.st_ino, status.st_size, status.st_ctime_ns, status.st_mtime_ns)


def _exists(path: str) -> bool:
    try:
        os.stat(path)
    except (OSError, ValueError):
        return False
    return True


def _modified(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime
    except (OSError, ValueError):
        return None


def _read(path: str, limit: int) -> bytes:
    """Read a plain file. Raises OSError, or ValueError if it is no plain file or longer than `limit` bytes."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no plain file")
        if status.st_size > limit:
            raise ValueError(f"it has {status.st_size:,} bytes")
        with open(file, "rb", closefd=False) as stream:
            return stream.read(limit)
    finally:
        os.close(file)
