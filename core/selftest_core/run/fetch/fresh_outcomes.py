"""Outcomes of local agents that nobody was told of yet, seen without waiting for mngr.

A `mngr list` may take many seconds on a busy machine; an outcome file is there or not. It alone never ends a test: it
is fetched and judged. Between two whole looks each agent is told of once at most, so that one that writes its file
without end hides no other.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.run.crew.crew import OUTCOME, Life, Seen
from selftest_core.run.crew.mngr_commands import OUT, work_dir

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.run.fold import Member


class FreshOutcomes:
    """Remembers which outcomes were told."""

    def __init__(self, host_dir: Path) -> None:
        self._host_dir = host_dir
        self._told: dict[str, str] = {}
        self._early: set[str] = set()  # who was told of since the last whole look

    def look(self, members: Sequence[Member]) -> dict[str, Seen]:
        """An answer for all of them where one has an outcome that was not told yet, else nothing."""
        fresh: dict[str, Seen] = {}
        for member in members:
            is_local = bool(member.host_id) and member.provider == LOCAL_PROVIDER
            if is_local and member.agent_id not in self._early:
                stamp = stamp_of(Path(work_dir(LOCAL_PROVIDER, member, self._host_dir)) / OUT / OUTCOME)
                if stamp and stamp != self._told.get(member.agent_id):
                    fresh[member.agent_id] = Seen(Life.WORKING, stamp, member.host_id, member.provider)
        if not fresh:
            return {}
        self._early |= fresh.keys()
        self._note(fresh)
        waiting = Seen(Life.UNSEEN, says="mngr has not answered yet")
        return {member.agent_id: fresh.get(member.agent_id, waiting) for member in members}

    def tell(self, seen: Mapping[str, Seen]) -> None:
        """Note what a whole look told."""
        self._early.clear()
        self._note(seen)

    def _note(self, seen: Mapping[str, Seen]) -> None:
        self._told.update((agent_id, one.outcome) for agent_id, one in seen.items() if one.outcome)


def stamp_of(path: Path) -> str:
    """Changes whenever the file does; empty where there is no regular file with something in it."""
    try:
        found = path.lstat()
    except OSError:
        return ""
    return f"{found.st_size}-{found.st_mtime_ns}" if stat.S_ISREG(found.st_mode) and found.st_size else ""
