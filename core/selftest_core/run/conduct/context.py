"""State and ports that all parts of a conductor share: the journal, the tasks, the crew, pauses of single tests.

Each part (launcher, observer, finisher, stopper, requests) writes journal lines and starts tasks through the context;
`conductor` alone decides the order. State that is here and not in the journal may cost a pause when it is lost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from selftest_core.errors import ToolError, describe_error, describe_unexpected
from selftest_core.frozen import dataclass as frozen_dataclass
from selftest_core.run.crew.crew import Delivery, Life, Seen
from selftest_core.run.events import NEXT, Event
from selftest_core.run.fold import apply, fold
from selftest_core.run.outcome.ends import End
from selftest_core.usage.tokens import as_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from selftest_core.journal import Entry
    from selftest_core.run.budget.day import DaySpent
    from selftest_core.run.budget.ledger import DayLedger
    from selftest_core.run.clock import Clock
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.crew.crew import Crew
    from selftest_core.run.fetch.bundles import Bundles
    from selftest_core.run.fold import Member, Run, RunRow
    from selftest_core.run.meter import RunMeter
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.run.store import RunFolder
    from selftest_core.usage.tokens import Usage

METERING = "metering agents"
PRICING = "pricing tokens"
PRICES_HINT = "install selftest-tui anew, or set `prices`"
_UNSEEN = Seen(Life.UNSEEN)
LONGEST_TEXT = 4000
"""Characters of one text in the journal."""


class RunJournal(Protocol):
    """The part of `journal.Journal` that a conductor uses."""

    @property
    def entries(self) -> Sequence[Entry]:
        """All lines so far."""
        ...

    def append(self, event: str, at: float, **fields: Any) -> Entry:
        """Write one line; it is on the disk on return. Raises JournalError."""
        ...


@frozen_dataclass(frozen=True, slots=True)
class TaskFailure:
    """An error that no part of a conductor handled. `step`: its task; `test`: the planned name, empty for none."""

    error: BaseException
    step: str
    test: str = ""


class Tasks:
    """Tasks that run beside a conductor's loop. `busy`: the tests that a task owns. `fatal`: the error that ends it."""

    def __init__(self) -> None:
        self.busy: set[str] = set()
        self.fatal: BaseException | None = None
        self.wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[TaskFailure] = []

    def start(self, coroutine: Coroutine[Any, Any, None], step: str, owns: str | None = None) -> None:
        """Start a task that owns a test until it ends, and wake the loop then. `step` names it in errors."""

        def finish(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if owns is not None:
                self.busy.discard(owns)
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self.report(error, step, owns or "")
            self.wake.set()

        if owns is not None:
            self.busy.add(owns)
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(finish)

    def report(self, error: BaseException, step: str, test: str = "") -> None:
        """Pass an error to the loop."""
        self._failures.append(TaskFailure(error, step, test))
        self.wake.set()

    def take_failures(self) -> tuple[TaskFailure, ...]:
        """Return the errors since the last call."""
        failures, self._failures = tuple(self._failures), []
        return failures

    async def finish(self) -> None:
        """Wait for the end of all tasks."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cancel(self) -> None:
        """Cancel all tasks and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await self.finish()


@dataclass(slots=True)
class Context:
    """The shared state of one conductor. Used in its event loop only.

    `on_change`: called after each journal line. `asked_to_stop`: tests that a user wants stopped. `changed_at`: when
    a line about a test was last written, in `Clock.elapsed` seconds. `run`: the fold of the journal so far.
    `others_today`: what other runs used on this day, as `ledger` last read it; None where the day has no budget.
    `load`: returns the load average of this machine for each core; None where it is no sign.
    """

    plan: RunPlan
    journal: RunJournal
    crew: Crew
    folder: RunFolder
    bundles: Bundles
    clock: Clock
    policy: Policy
    on_change: Callable[[Run, Entry], None]
    meter: RunMeter | None = None
    ledger: DayLedger | None = None
    load: Callable[[], float] | None = None
    tasks: Tasks = field(default_factory=Tasks)
    asked_to_stop: set[str] = field(default_factory=set)
    changed_at: dict[str, float] = field(default_factory=dict)
    run: Run = field(init=False)
    others_today: DaySpent | None = None
    _has_told_of_prices: bool = False
    _paused_until: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.run = fold(self.plan, self.journal.entries)
        self.read_ledger()

    def note(self, event: Event, **fields: Any) -> None:
        """Write a line about the run. Raises JournalError."""
        entry = self.journal.append(str(event), self.clock.now(), **fields)
        self.run = apply(self.run, entry)
        self.on_change(self.run, entry)

    def note_row(self, event: Event, row: RunRow, ahead: int = 0, **fields: Any) -> RunRow:
        """Write a line about a test and return its new row. `ahead`: added to its attempt. Raises JournalError."""
        plain = {name: str(value) if isinstance(value, End) else value for name, value in fields.items()}
        self.note(event, agent=row.name, attempt=row.attempt + ahead, **plain)
        self.changed_at[row.name] = self.clock.elapsed()
        return self.run.rows[row.name]

    @property
    def live_usage(self) -> Mapping[str, Usage]:
        """The last metered usage by agent id."""
        return {} if self.meter is None else self.meter.latest

    def note_usage(self, row: RunRow) -> RunRow:
        """Write the usage of the test's agent if it is known and new; return the new row."""
        usage = None if row.member is None else self.live_usage.get(row.member.agent_id)
        if usage is None or usage == row.usage or (row.phase, Event.METERED) not in NEXT:
            return row
        return self.note_row(Event.METERED, row, usage=as_fields(usage))

    def read_ledger(self) -> None:
        """Read what other runs used on this day. Few journals change meanwhile, so it is done in the event loop."""
        if self.ledger is not None:
            self.others_today = self.ledger.read(self.clock.now())

    async def meter_rows(self, rows: Iterable[RunRow]) -> None:
        """Read the usage of these tests' agents. An error is reported and fails nothing else."""
        await self._meter([row.member for row in rows if row.member is not None])

    async def usage_of(self, member: Member) -> Usage | None:
        """Read the usage of one agent; None if it is not metered."""
        await self._meter([member])
        return self.live_usage.get(member.agent_id)

    async def _meter(self, members: Sequence[Member]) -> None:
        if self.meter is None:
            return
        try:
            await self.meter.read(members, self.folder)
            self._note_broken_prices()
        except Exception as error:
            self.tasks.report(error, METERING)

    def _note_broken_prices(self) -> None:
        """Write once that agents are metered without dollars, since a budget in dollars would wait for them in vain."""
        problem = "" if self.meter is None else self.meter.problem
        if problem and not self._has_told_of_prices:
            self._has_told_of_prices = True
            says = f"the price table of genai-prices cannot be used, so tokens have no dollars: {problem}"
            self.note(Event.ERROR, step=PRICING, test="", says=shorten(f"{says} ({PRICES_HINT})"))

    async def look_at(self, member: Member) -> Seen:
        """Observe one agent now; UNSEEN if that fails. An unexpected error is reported."""
        try:
            async with asyncio.timeout(self.policy.look_deadline):
                return (await self.crew.look((member,))).get(member.agent_id, _UNSEEN)
        except (ToolError, TimeoutError):
            return _UNSEEN
        except Exception as error:
            self.tasks.report(error, "looking at one agent")
            return _UNSEEN

    async def check_delivery(self, member: Member, text: str) -> Delivery:
        """Check whether a message arrived; UNKNOWN if that fails. An unexpected error is reported."""
        try:
            async with asyncio.timeout(self.policy.look_deadline):
                return await self.crew.check_delivery(member, text)
        except (ToolError, TimeoutError):
            return Delivery.UNKNOWN
        except Exception as error:
            self.tasks.report(error, "checking whether a message arrived")
            return Delivery.UNKNOWN

    async def stop(self, member: Member) -> str:
        """Stop one agent; return why that failed, empty for success."""
        try:
            async with asyncio.timeout(self.policy.stop_deadline):
                return (await self.crew.stop((member,))).get(member.agent_id, "no answer about it")
        except (ToolError, TimeoutError) as error:
            return describe_error(error, f"it did not stop within {self.policy.stop_deadline:g} s")
        except Exception as error:
            return describe_unexpected(error)

    def pause(self, row: RunRow, seconds: float) -> None:
        """Take no step for the test until that many seconds have passed."""
        self._paused_until[row.name] = self.clock.elapsed() + seconds

    def is_paused(self, row: RunRow) -> bool:
        """True while the test is paused."""
        return self.clock.elapsed() < self._paused_until.get(row.name, -1.0)

    def may_retry(self, row: RunRow) -> bool:
        """False if a user wants no further agent for this test."""
        return not self.run.is_halted and row.name not in self.asked_to_stop


def shorten(text: str) -> str:
    """Cut a text for the journal to its end, which says most; replace lone surrogates, which JSON cannot hold."""
    return text[-LONGEST_TEXT:].encode("utf-8", "replace").decode()
