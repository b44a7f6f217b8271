"""The condition of local Codex agents, read from the program's own rollout (the log of its conversation).

mngr keeps the rollout's path in the agent's folder (`codex_transcript_path`). A rollout tells when a turn begins, ends,
fails and is interrupted; it does not tell of an approval that is asked for, which only mngr knows. Nothing here is
trusted: reads are bounded and follow no link below the agent's folder.
"""

# ruff: noqa: PTH116, PTH120 -- asked at every look: a path for each would double its cost
from __future__ import annotations

import contextlib
import json
import os
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

from selftest_core.agent_types.condition import Condition, Kind, one_line
from selftest_core.conversation.appended_lines import open_below
from selftest_core.frozen import dataclass

SOURCE = "Codex's rollout"
_TAILS = (64 * 1024, 4 * 1024 * 1024)
_PATH_LIMIT = 4096
_KINDS = {
    "task_started": Kind.WORKING,
    "task_complete": Kind.TURN_ENDED,
    "turn_aborted": Kind.INTERRUPTED,
}
_HOME = "plugin/codex/home"

type _Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class _Read:
    stamp: _Stamp
    condition: Condition | None


class CodexFiles:
    """Reads the rollouts of Codex agents; keeps what it read until a stamp changes. For one thread."""

    def __init__(self) -> None:
        self._read: dict[str, _Read] = {}

    def condition(self, agent_dir: str) -> Condition | None:
        """The first rung of the ladder for the agent of this folder; None where its rollout says nothing."""
        try:
            relative = _rollout(Path(agent_dir))
            told = os.stat(f"{agent_dir}/{relative}", follow_symlinks=False)
        except (OSError, ValueError):
            self._read.pop(agent_dir, None)
            return None
        stamp = (told.st_ino, told.st_size, told.st_mtime_ns)
        read = self._read.get(agent_dir)
        if read is None or read.stamp != stamp:
            read = self._read[agent_dir] = _Read(stamp, _condition(Path(agent_dir), relative, told.st_size))
        return read.condition

    def folder(self, agent_dir: str) -> str:
        """The folder that the rollout is in; "" where there is none."""
        try:
            return os.path.dirname(f"{agent_dir}/{_rollout(Path(agent_dir))}")
        except (OSError, ValueError):
            return ""

    def forget(self, agent_dir: str) -> None:
        """Drop what was read of an agent that is gone."""
        self._read.pop(agent_dir, None)


def last_event(tail: bytes) -> Condition | None:
    """What the last lines of a rollout say of its turn; None where they say nothing."""
    for line in reversed(tail.split(b"\n")):
        if b'"event_msg"' not in line:
            continue
        try:
            said: Any = json.loads(line)
            payload = said["payload"]
            kind = _KINDS.get(payload["type"])
        except (ValueError, RecursionError, KeyError, TypeError):
            continue  # its beginning is cut off, or its end is not written yet
        if kind is None:
            continue
        at = _instant(said.get("timestamp"))
        error = payload.get("error")
        if kind is Kind.TURN_ENDED and isinstance(error, dict):
            text = one_line(_error(error.get("message")))
            return Condition(Kind.ERROR, text, at, SOURCE, "task_complete with an error")
        return Condition(kind, "", at, SOURCE, payload["type"])
    return None


def _error(message: object) -> str:
    """The words of an error; the service's own answer stands in it as JSON."""
    words = message if isinstance(message, str) else ""
    with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):
        words = str(json.loads(words)["error"]["message"])
    return f"API error: {words}" if words else ""


def _rollout(agent_dir: Path) -> str:
    """The path of the rollout below the agent's folder. Raises ValueError where it would be elsewhere."""
    handle = open_below(agent_dir, "codex_transcript_path")
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is no plain file")
        named = os.read(handle, _PATH_LIMIT).decode("utf-8", "replace").strip()
    finally:
        os.close(handle)
    home = os.path.realpath(agent_dir / _HOME)
    for folder in (str(agent_dir / _HOME), home):
        if named.startswith(f"{folder}/sessions/") and ".." not in named:
            return f"{_HOME}/{named[len(folder) + 1 :]}"
    raise ValueError("it is not in the agent's folder")


def _condition(agent_dir: Path, relative: str, size: int) -> Condition | None:
    try:
        handle = open_below(agent_dir, relative)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        for limit in _TAILS:
            start = max(0, size - limit)
            found = last_event(os.pread(handle, limit, start))
            if found is not None or start == 0:
                return found
    except OSError:
        return None
    finally:
        os.close(handle)
    return None


def _instant(value: object) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None
