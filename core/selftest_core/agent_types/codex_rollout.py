"""Condition of local Codex agents, from the rollout (Codex's log of the conversation).

mngr keeps the path of the rollout in the agent's folder (`codex_transcript_path`). A rollout has the begin, end,
failure and interruption of turns; it has no request for approval, which only mngr knows. The content is not trusted:
reads are bounded and follow no link below the agent's folder.
"""

# ruff: noqa: PTH116, PTH120 -- asked at every look: a path for each would double its cost
from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import Any

from selftest_core.agent_types.condition import CODEX, Condition, Kind, one_line
from selftest_core.conversation.appended_lines import open_below
from selftest_core.frozen import dataclass
from selftest_core.tools.mngr_files import instant_of

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
        """Read the condition of the agent of this folder; None if its rollout has none."""
        try:
            relative = _rollout(Path(agent_dir))
            status = os.stat(f"{agent_dir}/{relative}", follow_symlinks=False)
        except (OSError, ValueError):
            self._read.pop(agent_dir, None)
            return None
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        read = self._read.get(agent_dir)
        if read is None or read.stamp != stamp:
            read = self._read[agent_dir] = _Read(stamp, _condition(Path(agent_dir), relative, status.st_size))
        return read.condition

    def folder(self, agent_dir: str) -> str:
        """The folder of the rollout; "" if there is none."""
        try:
            return os.path.dirname(f"{agent_dir}/{_rollout(Path(agent_dir))}")
        except (OSError, ValueError):
            return ""


def last_event(tail: bytes) -> Condition | None:
    """Read the condition from the last lines of a rollout; None if they have none."""
    for line in reversed(tail.split(b"\n")):
        if b'"event_msg"' not in line:
            continue
        try:
            record: Any = json.loads(line)
            payload = record["payload"]
            kind = _KINDS.get(payload["type"])
        except (ValueError, RecursionError, KeyError, TypeError):
            continue  # cut off at its beginning, or not written to its end yet
        if kind is None:
            continue
        at = instant_of(record.get("timestamp"))
        error = payload.get("error")
        if kind is Kind.TURN_ENDED and isinstance(error, dict):
            text = one_line(_error(error.get("message")))
            return Condition(Kind.ERROR, text, at, CODEX, "task_complete with an error")
        return Condition(kind, "", at, CODEX, payload["type"])
    return None


def _error(message: object) -> str:
    """Return the text of an error; it may hold the answer of the service as JSON."""
    words = message if isinstance(message, str) else ""
    with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError):
        words = str(json.loads(words)["error"]["message"])
    return f"API error: {words}" if words else ""


def _rollout(agent_dir: Path) -> str:
    """Return the path of the rollout below the agent's folder. Raises ValueError for one elsewhere."""
    handle = open_below(agent_dir, "codex_transcript_path")
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("no plain file")
        named = os.read(handle, _PATH_LIMIT).decode("utf-8", "replace").strip()
    finally:
        os.close(handle)
    home = os.path.realpath(agent_dir / _HOME)
    for folder in (str(agent_dir / _HOME), home):
        if named.startswith(f"{folder}/sessions/") and ".." not in named:
            return f"{_HOME}/{named[len(folder) + 1 :]}"
    raise ValueError("not in the agent's folder")


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
