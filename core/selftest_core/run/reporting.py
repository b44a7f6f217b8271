"""The report of a run as it goes on: the port `Reporter`, and `RunReports`, which keeps it cheap.

The program's entry point passes a reporter, since the core must not know pages. A report is written in a thread, at
most every `SECONDS_BETWEEN`, and less often where it is costly: after one that took a second of processor time there is
none for `REST` seconds. It never fails or delays a run: an error is one line in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Protocol

from selftest_core.errors import SelftestError, describe_error, describe_unexpected
from selftest_core.journal import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.run.clock import Clock
    from selftest_core.run.fold import Run
    from selftest_core.run.store import RunFolder

SECONDS_BETWEEN = 10.0
REST = 120.0
"""Seconds without a report for each second of processor time that one took."""
STEP = "writing the report"


class Reporter(Protocol):
    """Writes the report of one run. Blocking, for one thread at a time."""

    def write(self, run: Run) -> None:
        """Write what changed. Raises SelftestError or OSError where it cannot be written."""
        ...

    def close(self) -> None:
        """End what the reporter has open."""
        ...


type ReporterMaker = Callable[[RunFolder, Mapping[str, str]], Reporter]


class RunReports:
    """Writes the reports of a conductor's run. `note` writes an error to the journal. For its event loop."""

    def __init__(self, reporter: Reporter, clock: Clock, note: Callable[[str], None]) -> None:
        self._reporter = reporter
        self._clock = clock
        self._note = note
        self._next = clock.elapsed() + SECONDS_BETWEEN
        self._written: Run | None = None
        self._is_writing = asyncio.Lock()
        self._problem = ""

    def is_due(self, run: Run) -> bool:
        """True if the run changed since its last report, and that one is old enough."""
        return not self._is_writing.locked() and run is not self._written and self._clock.elapsed() >= self._next

    async def write(self, run: Run) -> None:
        """Write the report of this state of the run, after one that is being written. Does not raise."""
        async with self._is_writing:
            self._written = run
            seconds, problem = await asyncio.to_thread(self._try, run)
            self._next = self._clock.elapsed() + max(SECONDS_BETWEEN, seconds * REST)
        if problem and problem != self._problem:
            with contextlib.suppress(JournalError):  # a full disk: the conductor meets it at its next line
                self._note(problem)
        self._problem = problem

    async def close(self, run: Run) -> None:
        """Write the last report, and end the reporter."""
        await self.write(run)
        await asyncio.to_thread(self._reporter.close)

    def _try(self, run: Run) -> tuple[float, str]:
        """Write a report; return its processor time in seconds, and why it failed."""
        begun = time.thread_time()
        problem = ""
        try:
            self._reporter.write(run)
        except SelftestError as error:
            problem = describe_error(error)
        except Exception as error:
            problem = describe_unexpected(error)
        return time.thread_time() - begun, problem
