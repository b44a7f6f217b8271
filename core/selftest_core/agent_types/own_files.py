"""Files that the programs of local agents keep: the best source in `selftest_core.agent_types.condition`.

Other types have none, and mngr's answer is used. A subtype of Claude Code (a `parent_type` in mngr's settings) is
recognized by its process, since mngr names only the subtype.
"""

# ruff: noqa: PTH116 -- asked at every look: a path for each would double its cost
from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from selftest_core.agent_types.claude_files import ClaudeFiles
from selftest_core.agent_types.codex_rollout import CodexFiles
from selftest_core.errors import ToolError
from selftest_core.tools.panes import screens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.agent_types.condition import Condition
    from selftest_core.tools.tmux import SessionRef

_QUIET = 1.0
"""Seconds without a new line in its conversation after which the screen of a busy Claude Code is captured."""
_SCREENS_APART = 1.0
_SCREEN_TIMEOUT = 2.0
_WRITTEN = ("stderr.log", "logs/claude_transcript/events.jsonl")
"""Below the agent's folder: stderr of it and its shell, and mngr's copy of its session."""


class OwnFiles:
    """Reader of these files. For one thread; keeps caches between looks."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._claude = ClaudeFiles(environ)
        self._codex = CodexFiles()
        self._screens_at = 0.0

    def condition(self, program: str, agent_dir: str, pid: int | None) -> Condition | None:
        """Read the agent's condition from its file; `pid` is its process, None if that has ended."""
        if program == "codex":
            return self._codex.condition(agent_dir)
        if program != "claude":
            return None
        if pid is None:
            self._claude.forget(agent_dir)
            return None
        return self._claude.condition(agent_dir, pid)

    def watched_folder(self, program: str, agent_dir: str) -> str:
        """The folder with the program's file; "" if there is none to watch."""
        if program == "codex":
            return self._codex.folder(agent_dir)
        return str(self._claude.config_folder(agent_dir) / "sessions") if program == "claude" else ""

    def has_begun(self, program: str, agent_dir: str, started_at: float | None) -> bool:
        """True if the program ran since mngr last started the agent."""
        try:
            began = os.stat(f"{agent_dir}/{program}_process_started", follow_symlinks=False).st_mtime
        except OSError:
            return False
        return started_at is None or began >= started_at

    def acted_at(self, agent_dir: str) -> float | None:
        """Time of the last activity by mngr's hooks, seconds since the epoch."""
        try:
            return os.stat(f"{agent_dir}/activity/agent", follow_symlinks=False).st_mtime
        except OSError:
            return None

    def wrote_at(self, agent_dir: str) -> float | None:
        """Time of the last output of its program or shell, seconds since the epoch: about the time of its end.

        mngr's own marker is no use: it is renewed while `active` exists, after a crash too.
        """
        known = []
        for name in _WRITTEN:
            with contextlib.suppress(OSError):
                known.append(os.stat(f"{agent_dir}/{name}", follow_symlinks=False).st_mtime)
        return max(known, default=None)

    def look_at_screens(self, busy: Mapping[str, SessionRef], now: float) -> bool:
        """Capture the screens of busy Claude Code agents whose conversation does not grow, to detect retries.

        `busy` is by agent folder. One process for all of them, about once a second. Returns True if a condition may
        have changed.
        """
        quiet = {
            folder: ref
            for folder, ref in busy.items()
            if self._claude.is_retrying(folder) or now - (self._claude.progress_at(folder) or 0.0) >= _QUIET
        }
        if not quiet or abs(now - self._screens_at) < _SCREENS_APART:
            return False
        self._screens_at = now
        before = {folder: self._claude.is_retrying(folder) for folder in quiet}
        try:
            texts = screens(tuple(quiet.values()), environ=self._environ, timeout=_SCREEN_TIMEOUT, with_history=False)
        except ToolError:
            return False  # the probe reports the server when it asks for the sessions
        for folder, ref in quiet.items():
            self._claude.note_screen(folder, texts.get(ref, ""))
        return any(before.values()) or any(self._claude.is_retrying(folder) for folder in quiet)
