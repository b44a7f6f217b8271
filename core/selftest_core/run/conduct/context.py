"""What the parts of one conductor share: its ports, its pen, and the little that no journal line holds.

Each part does one thing of a run (`making`, `looking`, `ending`, `stopping`, `wishing`) and may only write lines and
start work; `conductor` alone decides the order. What is lost when the conductor is killed must cost a pause at most.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.errors import SelftestError
from selftest_core.run.events import NEXT, Event
from selftest_core.usage.tokens import as_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from selftest_core.run.clock import Clock
    from selftest_core.run.conduct.journal_writer import Scribe
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.conduct.tasks import Work
    from selftest_core.run.crew.crew import Crew
    from selftest_core.run.fetch.bundles import Bundles
    from selftest_core.run.fold import Member, Run, RunRow
    from selftest_core.run.meter import RunMeter
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.run.store import RunFolder
    from selftest_core.usage.tokens import Usage

METERING = "metering agents"
LONGEST_TEXT = 4000
"""Characters of an evidence in the journal."""


@dataclass(slots=True)
class Context:
    """One conductor's time at a run. `asked_to_stop`: tests whose agents a person wants stopped."""

    plan: RunPlan
    crew: Crew
    folder: RunFolder
    bundles: Bundles
    clock: Clock
    policy: Policy
    scribe: Scribe
    work: Work
    meter: RunMeter | None = None
    asked_to_stop: set[str] = field(default_factory=set)
    _not_before: dict[str, float] = field(default_factory=dict)

    @property
    def run(self) -> Run:
        """The run as the journal has it now."""
        return self.scribe.run

    def note(self, event: Event, **fields: Any) -> None:
        """Write a line about the run. Raises JournalError."""
        self.scribe.note(event, **fields)

    def note_row(self, event: Event, row: RunRow, ahead: int = 0, **fields: Any) -> RunRow:
        """Write a line about a test; returns the test as it is then. Raises JournalError."""
        return self.scribe.note_row(event, row, ahead, **fields)

    @property
    def live(self) -> Mapping[str, Usage]:
        """The last figures of what agents used, by agent id."""
        return {} if self.meter is None else self.meter.latest

    def note_usage(self, row: RunRow) -> RunRow:
        """Write down what its agent used, where that is known and new; returns the test as it is then."""
        usage = None if row.member is None else self.live.get(row.member.agent_id)
        if usage is None or usage == row.usage or (row.phase, Event.METERED) not in NEXT:
            return row
        return self.note_row(Event.METERED, row, usage=as_fields(usage))

    async def meter_now(self, rows: Iterable[RunRow]) -> None:
        """Read what the agents of these tests used until now. An error is noted, and fails nothing else."""
        await self._meter([row.member for row in rows if row.member is not None])

    async def usage_of(self, member: Member) -> Usage | None:
        """Read what an agent used until now; None where it is not metered."""
        await self._meter([member])
        return self.live.get(member.agent_id)

    async def _meter(self, members: Sequence[Member]) -> None:
        if self.meter is None:
            return
        try:
            await self.meter.read(members, self.folder)
        except Exception as error:
            self.work.report(error, METERING)

    def pause(self, row: RunRow, seconds: float) -> None:
        """Leave the test alone for so long."""
        self._not_before[row.name] = self.clock.elapsed() + seconds

    def is_paused(self, row: RunRow) -> bool:
        """True while the test is to be left alone."""
        return self.clock.elapsed() < self._not_before.get(row.name, -1.0)

    def may_retry(self, row: RunRow) -> bool:
        """False where a person wants no further agent for this test."""
        return not self.run.is_halted and row.name not in self.asked_to_stop


def short(text: str) -> str:
    """Text for the journal: its end says most, and JSON cannot hold halves of characters."""
    return text[-LONGEST_TEXT:].encode("utf-8", "replace").decode()


def words_of(error: BaseException, otherwise: str = "") -> str:
    """What went wrong, without what to do about it."""
    if isinstance(error, SelftestError):
        return ": ".join(part for part in (error.title, error.detail.strip()[-1500:]) if part)
    return str(error) or otherwise


def evidence_of(error: BaseException) -> str:
    """An unexpected error in one line: the last line of its traceback, and the place in the code that raised it."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    if isinstance(error, SelftestError):
        return f"{words_of(error)}{place}"
    return f"{''.join(traceback.format_exception_only(error)).strip().splitlines()[-1]}{place}"
