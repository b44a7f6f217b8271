"""Calls the person when a run needs one: it paused for a cluster, its budget is used up, or an agent asks.

The bell rings, and the person's own command (`on_pause_command`) runs, once for each occasion and not for each agent:
forty agents that ask one thing are one call. What agents wrote reaches the command in its environment alone, where no
shell reads it. A command that fails or hangs costs the run nothing; how it went is written down.

    SELFTEST_RUN         the run's id                          SELFTEST_REASON     cluster, budget or person
    SELFTEST_REPOSITORY  where it is, also the work dir        SELFTEST_SAYS       why, one line
    SELFTEST_TEST        the test that asks, where one does
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from selftest_core.errors import ToolError
from selftest_core.frozen import dataclass
from selftest_core.run.conduct.context import evidence_of
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
class Call:
    """Why a person is called. `reason`: cluster, budget or person; `test`: whose agent asks, empty where none does."""

    reason: str
    says: str
    test: str = ""


class Caller(Protocol):
    """Reaches the person."""

    async def call(self, call: Call) -> str:
        """Call once; why that did not work, empty where it did."""
        ...


def call_for(before: Run, after: Run, entry: Entry) -> Call | None:
    """The call that a line of the journal is worth, the run being so before and after it."""
    if after.last == before.last:
        return None
    if entry.event == Event.PAUSED and after.paused_by in ("cluster", "budget"):
        return Call(after.paused_by, after.paused)
    if entry.event == Event.NOTICED:
        asked = {row.name for row in before.rows.values() if row.attention}
        row = next((row for row in after.rows.values() if row.attention), None)
        if row is not None and not asked:
            return Call(PERSON, row.attention, row.planned.node_id)
    return None


class PersonCaller:
    """Rings the bell of this process's terminal, and runs the person's command."""

    def __init__(
        self,
        run: str,
        repository: Path,
        command: str,
        environ: Mapping[str, str],
        ring: Callable[[], None] | None = None,
    ) -> None:
        """`command` is a line for `sh`, empty for none. `ring`: instead of the bell of the terminal at stderr."""
        self._run = run
        self._repository = repository
        self._command = command
        self._environ = dict(environ)
        self._ring = ring or ring_bell

    async def call(self, call: Call) -> str:
        """Ring, and wait for the command, half a minute at most."""
        self._ring()
        if not self._command.strip():
            return ""
        values = {
            "SELFTEST_RUN": self._run,
            "SELFTEST_REPOSITORY": str(self._repository),
            "SELFTEST_REASON": call.reason,
            "SELFTEST_SAYS": _one_line(call.says),
            "SELFTEST_TEST": _one_line(call.test),
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
    """Ring the bell of the terminal that stderr is; tmux shows it at the window's name."""
    with suppress(OSError, ValueError):
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write("\a")
            sys.stderr.flush()


class Calls:
    """The calls of one conductor: they run beside its loop, and are waited for when it leaves."""

    def __init__(self, caller: Caller | None, told: Callable[[Call, str], None]) -> None:
        """`told` is called after each call that failed, with why."""
        self._caller = caller
        self._told = told
        self._running: set[asyncio.Task[None]] = set()

    def start(self, call: Call) -> None:
        """Call, now and beside everything else."""
        if self._caller is not None:
            task = asyncio.ensure_future(self._call(self._caller, call))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def finish(self) -> None:
        """Wait until all have been made."""
        if self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    async def cancel(self) -> None:
        """End those that run."""
        for task in tuple(self._running):
            task.cancel()
        await self.finish()

    async def _call(self, caller: Caller, call: Call) -> None:
        try:
            says = await caller.call(call)
        except Exception as error:
            says = evidence_of(error)
        if says:
            self._told(call, says)


def _one_line(text: str) -> str:
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST]).split())
    return line.encode("utf-8", "replace").decode()
