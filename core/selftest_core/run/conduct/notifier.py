"""Notifications to the user: the run paused for a shared cause or its budget, or an agent needs the user.

A notification rings the terminal's bell and runs the user's command (`on_pause_command`), once for each occasion:
forty agents with the same question are one notification. Text of agents reaches the command in its environment only,
where no shell parses it. A command that fails or hangs does not affect the run; the journal has the failure.

    SELFTEST_RUN         the run's id                       SELFTEST_REASON     cluster, budget or person
    SELFTEST_REPOSITORY  the path, also the work dir        SELFTEST_SAYS       the reason in one line
    SELFTEST_TEST        the test whose agent asks, or empty
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from selftest_core.errors import ToolError
from selftest_core.frozen import dataclass
from selftest_core.run.events import Event
from selftest_core.tools.process import run_async

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run

PERSON = "person"
_LONGEST = 500
_DEADLINE = 30.0


@dataclass(frozen=True, slots=True)
class Notification:
    """One occasion. `reason`: cluster, budget or person. `test`: the node id of the test whose agent asks, or empty."""

    reason: str
    text: str
    test: str = ""


class Notifier(Protocol):
    """Notifies the user."""

    async def notify(self, notification: Notification) -> str:
        """Notify once; return why that failed, empty for success."""
        ...


def notification_for(before: Run, after: Run, entry: Entry) -> Notification | None:
    """Return the notification for a journal line, given the run before and after it; None if it needs none."""
    if after.last == before.last:
        return None
    if entry.event == Event.PAUSED and after.paused_by in ("cluster", "budget"):
        return Notification(after.paused_by, after.paused)
    if entry.event == Event.NOTICED:
        asked = {row.name for row in before.rows.values() if row.attention}
        row = next((row for row in after.rows.values() if row.attention), None)
        if row is not None and not asked:
            return Notification(PERSON, row.attention, row.planned.node_id)
    return None


class CommandNotifier:
    """Rings the bell of this process's terminal and runs the user's command."""

    def __init__(
        self,
        run: str,
        repository: Path,
        command: str,
        environ: Mapping[str, str],
        ring: Callable[[], None] | None = None,
    ) -> None:
        """`command` is a line for `sh`, empty for none. `ring` replaces the bell of the terminal at stderr."""
        self._run = run
        self._repository = repository
        self._command = command
        self._environ = dict(environ)
        self._ring = ring or ring_bell

    async def notify(self, notification: Notification) -> str:
        """Ring, then wait for the command, at most 30 seconds."""
        self._ring()
        if not self._command.strip():
            return ""
        values = {
            "SELFTEST_RUN": self._run,
            "SELFTEST_REPOSITORY": str(self._repository),
            "SELFTEST_REASON": notification.reason,
            "SELFTEST_SAYS": _one_line(notification.text),
            "SELFTEST_TEST": _one_line(notification.test),
        }
        try:
            done = await run_async(
                ("/bin/sh", "-c", self._command),
                timeout=_DEADLINE,
                cwd=self._repository,
                env={**self._environ, **values},
            )
        except ToolError as error:
            return f"on_pause_command: {error.title}"
        return "" if done.ok else f"on_pause_command ended with {done.exit_status}: {done.stderr_end}".rstrip(": ")


def ring_bell() -> None:
    """Ring the bell of the terminal at stderr; tmux shows it at the window's name."""
    with suppress(OSError, ValueError):
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write("\a")
            sys.stderr.flush()


def _one_line(text: str) -> str:
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST]).split())
    return line.encode("utf-8", "replace").decode()
