"""Condition of local Claude Code agents, from Claude Code's own files.

Two small files for each agent: its sessions file, and the end of its conversation while the session waits. Both are
read again only after a change. The agent's `env` file names their folder (CLAUDE_CONFIG_DIR). The content is not
trusted: reads are bounded and follow no link below that folder.
"""

# ruff: noqa: PTH116 -- asked at every look: a path for each would double its cost
from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.agent_types.claude_status import (
    SESSION_LIMIT,
    ClaudeSession,
    is_of_live_process,
    parse_session,
    transcript_name,
)
from selftest_core.agent_types.claude_turns import NO_TURN, LastTurn, last_turn
from selftest_core.agent_types.condition import Condition, from_claude
from selftest_core.conversation.appended_lines import open_below
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

_TAILS = (128 * 1024, 4 * 1024 * 1024)
"""Bytes that are read from the end of a conversation: the second where the first has no turn."""
_ENV_LIMIT = 256 * 1024
_RETRYING = re.compile(
    r"^\W*(API error\b.{0,160}?|\w.{0,160}?(?= · retrying in \d+s · attempt \d+/\d+$))\W{1,3}retrying in \S",
    re.IGNORECASE,
)
_ATTEMPT = re.compile(r"\battempt \d+/\d+")
_SCREEN_LINES = 12
_MOST_PROJECTS = 1_000
"""Folders that are searched for a conversation that is not in its own folder."""

type _Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Read:
    """Content of one agent's files, and their stamps when they were read."""

    pid: int
    session_stamp: _Stamp | None = None
    session: ClaudeSession | None = None
    turn_stamp: _Stamp | None = None
    turn: LastTurn = NO_TURN
    progress_at: float | None = None


class ClaudeFiles:
    """Reader of the files of Claude Code agents, with a cache by stamp. For one thread."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._home = Path(environ.get("HOME") or "~").expanduser()
        self._folders: dict[str, tuple[_Stamp | None, Path]] = {}
        self._read: dict[str, _Read] = {}
        self._retries: dict[str, str] = {}

    def condition(self, agent_dir: str, pid: int) -> Condition | None:
        """Read the condition of the agent in this folder, whose Claude Code is the process `pid`."""
        config = self.config_folder(agent_dir)
        before = self._read.get(agent_dir)
        now = _session(config, pid, before if before is not None and before.pid == pid else _Read(pid))
        if now.session is not None and now.session.status:
            now = _with_turn(config, now)
        self._read[agent_dir] = now
        is_compacting = os.path.lexists(f"{agent_dir}/compacting")
        if now.session is None or not now.session.status:
            return None
        if now.session.status != "busy":
            self._retries.pop(agent_dir, None)
        retry = self._retries.get(agent_dir, "")
        return from_claude(now.session, now.turn, is_compacting=is_compacting, retry=retry)

    def config_folder(self, agent_dir: str) -> Path:
        """The agent's CLAUDE_CONFIG_DIR."""
        path = f"{agent_dir}/env"
        stamp = _stamp(path)
        known = self._folders.get(agent_dir)
        if known is None or known[0] != stamp:
            named = _variable(Path(agent_dir), "CLAUDE_CONFIG_DIR")
            isolated = Path(agent_dir) / "plugin" / "claude" / "anthropic"
            folder = Path(named) if named else isolated if isolated.is_dir() else self._home / ".claude"
            known = self._folders[agent_dir] = (stamp, folder)
        return known[1]

    def progress_at(self, agent_dir: str) -> float | None:
        """Time of the last growth of the conversation, seconds since the epoch; None if it is not known."""
        read = self._read.get(agent_dir)
        return read.progress_at if read is not None else None

    def note_screen(self, agent_dir: str, screen: str) -> None:
        """Note from its screen whether it retries a request: no file has that."""
        retry = retrying(screen)
        if retry:
            self._retries[agent_dir] = retry
        else:
            self._retries.pop(agent_dir, None)

    def is_retrying(self, agent_dir: str) -> bool:
        """True if its last screen showed a retry."""
        return agent_dir in self._retries

    def forget(self, agent_dir: str) -> None:
        """Drop the cache for an agent whose program has ended."""
        self._read.pop(agent_dir, None)
        self._retries.pop(agent_dir, None)


def retrying(screen: str) -> str:
    """Return the line at the end of a screen about a retried request, without the seconds; empty for none."""
    lines = [line.strip() for line in screen.splitlines() if line.strip()][-_SCREEN_LINES:]
    for line in reversed(lines):
        found = _RETRYING.match(line)
        if found is not None:
            attempt = _ATTEMPT.search(line)
            return " · ".join((found[1].strip(), *((attempt[0],) if attempt else ())))
    return ""


def _session(config: Path, pid: int, before: _Read) -> _Read:
    name = f"sessions/{pid}.json"
    stamp = _stamp(f"{config}/{name}")
    if stamp is not None and stamp == before.session_stamp:
        return before
    try:
        session = parse_session(_bytes(config, name, SESSION_LIMIT, 0))
    except OSError:
        return _Read(pid)
    except ValueError:
        # It is being written: the next look reads all of it.
        return before
    if session.pid != pid or not is_of_live_process(session):
        return _Read(pid)
    same = before.session is not None and before.session.session_id == session.session_id
    return _Read(
        pid, stamp, session,
        before.turn_stamp if same else None, before.turn if same else NO_TURN, before.progress_at if same else None,
    )  # fmt: skip


def _with_turn(config: Path, read: _Read) -> _Read:
    assert read.session is not None
    folder, name = transcript_name(read.session)
    relative = f"projects/{folder}/{name}"
    stamp = _stamp(f"{config}/{relative}")
    if stamp is None:
        relative = _elsewhere(config, name) if read.session.status != "busy" else ""
        stamp = _stamp(f"{config}/{relative}") if relative else None
    progress_at = stamp[2] / 1e9 if stamp is not None else None
    if stamp is None or stamp == read.turn_stamp or read.session.status == "busy":
        return _Read(read.pid, read.session_stamp, read.session, read.turn_stamp, read.turn, progress_at)
    turn = read.turn
    with contextlib.suppress(OSError, ValueError):
        for limit in _TAILS:
            start = max(0, stamp[1] - limit)
            turn = last_turn(_bytes(config, relative, limit, start), is_whole=start == 0)
            if turn.is_there or start == 0:
                break
    return _Read(read.pid, read.session_stamp, read.session, stamp, turn, progress_at)


def _elsewhere(config: Path, name: str) -> str:
    """Find the conversation with that name in any project folder: long paths have shortened names."""
    with contextlib.suppress(OSError), os.scandir(config / "projects") as entries:
        for entry in islice(entries, _MOST_PROJECTS):
            if entry.is_dir(follow_symlinks=False) and os.path.lexists(f"{entry.path}/{name}"):
                return f"projects/{entry.name}/{name}"
    return ""


def _bytes(folder: Path, relative: str, limit: int, start: int) -> bytes:
    """Read at most `limit` bytes from `start`. Raises OSError, or ValueError if it is no plain file."""
    handle = open_below(folder, relative)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("no plain file")
        return os.pread(handle, limit, start)
    finally:
        os.close(handle)


def _variable(agent_dir: Path, name: str) -> str:
    """Read the value of a variable from the agent's `env` file, "" if there is none."""
    try:
        text = _bytes(agent_dir, "env", _ENV_LIMIT, 0).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
    value = ""
    for line in text.splitlines():
        if line.startswith(f"{name}="):
            try:
                value = " ".join(shlex.split(line.partition("=")[2]))
            except ValueError:
                value = line.partition("=")[2]
    return value


def _stamp(path: str) -> _Stamp | None:
    try:
        status = os.stat(path, follow_symlinks=False)
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
