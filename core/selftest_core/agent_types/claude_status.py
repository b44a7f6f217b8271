"""Claude Code's sessions file, `<CLAUDE_CONFIG_DIR>/sessions/PID.json`: its parser and checks.

Claude Code writes it in place at every change, so a read may find half of it: the last complete copy is used until the
next read. It remains after a kill, so it counts only for a live process with the start time in the file. The content is
not trusted.
"""

# ruff: noqa: PTH112, PTH123 -- asked at every look: a path for each would double its cost
from __future__ import annotations

import json
import math
import os
import re
from typing import Any

from selftest_core.frozen import dataclass

STATUSES = frozenset({"busy", "idle", "waiting"})
_SESSION_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{7,63}")
_LONGEST = 200
SESSION_LIMIT = 64 * 1024
"""Bytes of a sessions file; a longer one is refused."""


@dataclass(frozen=True, slots=True)
class ClaudeSession:
    """One sessions file. `status`: busy, idle, waiting, or "" while it begins. Times: seconds since the epoch.

    `process_start`: the start of the process as in /proc/PID/stat (field 22), "" if that is not in the file.
    """

    pid: int
    session_id: str
    cwd: str
    status: str
    waiting_for: str
    since: float | None
    started_at: float
    process_start: str


def parse_session(text: bytes) -> ClaudeSession:
    """Parse a sessions file. Raises ValueError if it is incomplete, or of another form."""
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(document, dict):
        raise ValueError("not an object")
    pid, session_id = document.get("pid"), document.get("sessionId")
    if not isinstance(pid, int) or isinstance(pid, bool):
        raise ValueError("without a process")
    if not isinstance(session_id, str) or not _SESSION_ID.fullmatch(session_id):
        raise ValueError("without a session")
    status = _text(document, "status")
    return ClaudeSession(
        pid=pid,
        session_id=session_id,
        cwd=_text(document, "cwd"),
        status=status if status in STATUSES else "",
        waiting_for=_text(document, "waitingFor")[:_LONGEST],
        since=_seconds(document.get("statusUpdatedAt")),
        started_at=_seconds(document.get("startedAt")) or -math.inf,
        process_start=_text(document, "procStart"),
    )


def is_of_live_process(session: ClaudeSession, proc: str = "/proc") -> bool:
    """False if another process has that id now. True if that cannot be checked."""
    if not session.process_start:
        return True
    try:
        with open(f"{proc}/{session.pid}/stat", "rb") as file:
            line = file.read(1024)
    except OSError:
        return not os.path.isdir(f"{proc}/self")
    fields = line[line.rfind(b")") + 1 :].split()
    return len(fields) > 19 and fields[19].decode("ascii", "replace") == session.process_start


def transcript_name(session: ClaudeSession) -> tuple[str, str]:
    """Return the folder below `projects`, and the file in it, of the session's conversation."""
    return re.sub(r"[^A-Za-z0-9]", "-", session.cwd), f"{session.session_id}.jsonl"


def _text(document: dict[str, Any], key: str) -> str:
    value = document.get(key)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _seconds(milliseconds: object) -> float | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    try:
        seconds = float(milliseconds) / 1000.0
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) else None
