"""Find the conversation that a run kept of an agent, also when the agent and its host are gone."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.paths import runs_registry
from selftest_core.run.fetch.conversations import TEXT
from selftest_core.run.store import RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_END = 64 * 1024
"""Bytes of the end of a conversation that are shown."""


def kept_conversation(environ: Mapping[str, str], run: str, agent_id: str) -> str:
    """The end of what the run with this id kept of the agent's conversation; empty where it kept none."""
    folder = _folder_of(environ, run)
    if folder is None:
        return ""
    try:
        rows = folder.read().rows.values()
    except (SelftestError, OSError):
        return ""
    members = [row.member for row in rows] + [retry.member for row in rows for retry in row.retries]
    member = next((one for one in members if one is not None and one.agent_id == agent_id), None)
    return "" if member is None else conversation_end(folder.attempt(member))


def conversation_end(attempt: Path, most: int = LONGEST_END) -> str:
    """The end of the conversation beside what came back of an attempt, from a whole line on; empty without one."""
    try:
        handle = os.open(attempt / TEXT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        told = os.fstat(handle)
        if not stat.S_ISREG(told.st_mode):
            return ""
        begin = max(told.st_size - most, 0)
        data = os.pread(handle, most, begin)
    except OSError:
        return ""
    finally:
        os.close(handle)
    text = data.decode("utf-8", "replace")
    return text.partition("\n")[2] if begin else text


def _folder_of(environ: Mapping[str, str], run: str) -> RunFolder | None:
    if not run or "/" in run:
        return None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        said = json.loads((runs_registry(environ) / f"{run}.json").read_text(encoding="utf-8"))
        return RunFolder(Path(said["path"]))
    return None
