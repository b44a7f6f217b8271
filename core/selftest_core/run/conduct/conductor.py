"""The conductor of one run: launches agents, observes them, fetches their results, stops them, and writes the journal.

One loop decides. Whatever may take long (launch, fetch, remind, stop, notify) is a task that owns one test, or one
batch of one host, and has a deadline: a dead host or a hung call affects one row. The journal holds all state except
pauses, so a new conductor continues after a kill at any moment. A launch that was begun is looked up under its id
before it is begun again.

    why = await Conductor(plan, journal, crew, folder, bundles).run()      # done, stopped, budget, paused, smoke

The run ends early only if nothing can be written (JournalError, OwnDiskError). Any other error costs one test, or is
noted and retried (`unexpected`).
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.errors import ToolError, ToolFailedError, describe_error, describe_unexpected
from selftest_core.fleet.sources.reminders import note_reminder
from selftest_core.journal import JournalError
from selftest_core.run.answer.handling import tell
from selftest_core.run.clock import WallClock, seconds_since
from selftest_core.run.conduct.context import METERING, Context, Tasks, shorten
from selftest_core.run.conduct.finisher import Finisher
from selftest_core.run.conduct.launcher import Launcher
from selftest_core.run.conduct.notifier import notification_for
from selftest_core.run.conduct.observer import OBSERVING, Observer
from selftest_core.run.conduct.policy import Action, Policy, advise
from selftest_core.run.conduct.requests import handle_requests
from selftest_core.run.conduct.smoke_agents import SmokeAgents
from selftest_core.run.conduct.stopper import Stopper
from selftest_core.run.conduct.unexpected import UnexpectedErrors
from selftest_core.run.events import RUNNING, Event, Phase
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.prompt import PROMPT_FILE
from selftest_core.run.reporting import STEP as REPORTING
from selftest_core.run.reporting import RunReports
from selftest_core.run.spending import Affordable, affordable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from selftest_core.journal import Entry
    from selftest_core.run.budget.ledger import DayLedger
    from selftest_core.run.clock import Clock
    from selftest_core.run.conduct.context import RunJournal
    from selftest_core.run.conduct.notifier import Notification, Notifier
    from selftest_core.run.conduct.policy import Advice
    from selftest_core.run.crew.crew import Crew, Seen
    from selftest_core.run.fetch.bundles import Bundles
    from selftest_core.run.fold import Member, Run, RunRow
    from selftest_core.run.meter import RunMeter
    from selftest_core.run.outcome.claims import ClaimVerifier
    from selftest_core.run.outcome.gate import Gate
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.run.reporting import Reporter
    from selftest_core.run.store import RunFolder

SMOKE = "smoke"
"""Returned by `Conductor.run` where a smoke agent failed."""
REMINDER = (
    f"You ended your turn without an outcome. Read {PROMPT_FILE} again (its path is in $SELFTEST_PROMPT_FILE), finish "
    "your work, write the outcome file that it describes, and say in it what blocks you if something does."
)
_METER_SECONDS = 5.0
"""Between two readings of the running agents' usage."""
READING_LEDGER = "reading what other runs used today"
_LEDGER_SECONDS = 30.0
"""Between two readings of what other runs used today. Midnight may pass meanwhile, too."""


class Conductor:
    """Conducts one run. `journal` must be open: its lock keeps a second conductor out."""

    def __init__(
        self,
        plan: RunPlan,
        journal: RunJournal,
        crew: Crew,
        folder: RunFolder,
        bundles: Bundles,
        *,
        clock: Clock | None = None,
        policy: Policy | None = None,
        on_change: Callable[[Run, Entry], None] | None = None,
        notifier: Notifier | None = None,
        meter: RunMeter | None = None,
        claims: ClaimVerifier | None = None,
        gate: Gate | None = None,
        reporter: Reporter | None = None,
        ledger: DayLedger | None = None,
        load: Callable[[], float] | None = None,
    ) -> None:
        """`on_change` is called in the event loop after each journal line, with the run after it.

        `notifier`: notifies the user when the run pauses by itself and when an agent needs the user. `meter`: reads the
        agents' usage; without one nothing is metered. `claims`: verifies claims; without one none is. `gate`:
        judges the work of agents that are no testers. `reporter`: writes the report; `write_last_report` closes it.
        `ledger`: of the repository's other runs; without one the budgets of a day do not count.
        `load`: returns the load of this machine for each core; without it the number of agents does not adapt to it.
        """
        self._on_change = on_change
        self._clock = clock or WallClock()
        self._policy = policy or Policy()
        self._context = context = Context(
            plan, journal, crew, folder, bundles, self._clock, self._policy, self._handle_change, meter, ledger, load
        )
        self._tasks = context.tasks
        self._stopper = Stopper(crew, self._policy, self._clock, context.meter_rows)
        self._observer = Observer(context, self._stopper)
        self._finisher = Finisher(context, claims, gate)
        self._launcher = Launcher(context, self._finisher)
        self._smoke_agents = SmokeAgents(context)
        self._errors = UnexpectedErrors(context, self._give_up)
        self._reports = None if reporter is None else RunReports(reporter, self._clock, self._note_report)
        self._notifier = notifier
        self._notifications = Tasks()
        self._reminded_at: dict[str, float] = {}
        self._before = context.run
        self._is_metering = False
        self._metered_at = -_METER_SECONDS
        self._read_ledger_at = -_LEDGER_SECONDS

    @property
    def run_now(self) -> Run:
        """The run after the last journal line."""
        return self._context.run

    async def run(self) -> str:
        """Conduct until every test has ended or the run pauses for good; return why the conductor left."""
        self._context.note(Event.CONDUCTING, pid=os.getpid())
        why = "interrupted"
        try:
            self._resume()
            why = await self._loop() if await self._smoke_agents_pass() else SMOKE
            await self._notifications.finish()
            return why
        except JournalError as error:
            self._tasks.fatal = error
            raise
        finally:
            await self._notifications.cancel()
            await self._tasks.cancel()
            with suppress(JournalError):
                if not isinstance(self._tasks.fatal, JournalError):
                    self._context.note(Event.LEFT, why=why)

    async def _smoke_agents_pass(self) -> bool:
        if self._ask_budgets() is Affordable.NO:
            return True  # the launcher pauses the run
        has_passed = await self._smoke_agents.run()
        self._handle_failures()
        return has_passed or self.run_now.is_halted

    def _resume(self) -> None:
        """Resume a run that paused for a budget which has grown; pause one whose tests share a cause of failure."""
        if self.run_now.paused_by == "budget" and self._ask_budgets() is Affordable.YES:
            self._context.note(Event.RESUMED)
        # The last conductor may have been killed between the last failure and the line that pauses the run.
        self._finisher.pause_on_shared_cause()

    def _ask_budgets(self) -> Affordable:
        context = self._context
        return affordable(context.run, self._policy, others=context.others_today)

    async def _loop(self) -> str:
        while True:
            self._handle_failures()
            self._errors.attempt("handling requests", partial(handle_requests, self._context))
            self._errors.attempt(OBSERVING, self._observer.start)
            for row in tuple(self.run_now.rows.values()):
                if row.name not in self._tasks.busy:
                    self._errors.attempt("deciding the next step", partial(self._consider, row), row.name)
            self._errors.attempt(READING_LEDGER, self._read_ledger)
            self._errors.attempt("launching", self._launcher.launch)
            self._errors.attempt("stopping agents", self._stop_agents)
            self._errors.attempt("verifying claims", self._finisher.verify_claims)
            self._errors.attempt(METERING, self._meter_agents)
            self._errors.attempt(REPORTING, self._write_report)
            why = self._reason_to_leave()
            if why:
                self._handle_failures()
                return why
            await self._sleep()

    def _handle_failures(self) -> None:
        for failure in self._tasks.take_failures():
            self._errors.handle(failure.error, failure.step, failure.test)
        if self._tasks.fatal is not None:
            raise self._tasks.fatal

    def _reason_to_leave(self) -> str:
        run = self.run_now
        if run.is_over:
            return "" if self._stopper.is_busy else "stopped" if run.is_halted else "done"
        if run.running or self._tasks.busy or self._stopper.is_busy or not run.paused:
            return ""
        if any(row.phase is Phase.STOPPING or row.is_verifying for row in run.rows.values()):
            return ""
        if run.paused_by == "budget":
            return "budget"
        return "paused" if self._policy.leave_when_paused else ""

    async def _sleep(self) -> None:
        """Sleep until the next poll, or until a task ends."""
        sleeping = asyncio.ensure_future(self._clock.sleep(self._policy.poll))
        waking = asyncio.ensure_future(self._tasks.wake.wait())
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
        self._tasks.wake.clear()

    def _consider(self, row: RunRow) -> None:
        """Take the next step of a test whose agent was observed."""
        member = row.member
        if member is None or row.phase not in RUNNING or self._context.is_paused(row):
            return
        seen = self._observer.seen(row, member)
        if seen is None:
            return
        unseen, lost_after = self._observer.unseen_seconds(member), self._observer.lost_after(member)
        if row.phase is Phase.LAUNCHING:
            self._launcher.check_launch(row, member, seen, lost_after, unseen)
            return
        if row.telling is not None:
            tell(self._context, row, is_again=True)
            return
        elapsed = self._clock.elapsed()
        advice = advise(
            row, seen, self._policy,
            worked=seconds_since(row.began, self._clock) if row.began is not None else 0.0,
            timeout=self._context.plan.timeout,
            unseen=unseen,
            lost_after=lost_after,
            reminded=elapsed - self._reminded_at.setdefault(row.name, elapsed) if row.is_reminded else 0.0,
            is_asked_to_stop=not self._context.may_retry(row),
            was_restarted=_was_restarted(row, member, self._clock),
        )  # fmt: skip
        self._act(row, member, seen, advice)

    def _act(self, row: RunRow, member: Member, seen: Seen, advice: Advice) -> None:
        match advice.action:
            case Action.FETCH:
                self._tasks.start(self._finisher.fetch(row, member, seen, advice), "fetching its results", row.name)
            case Action.REMIND:
                self._tasks.start(self._remind(row, member), "reminding it", row.name)
            case Action.NOTICE:
                self._context.note_row(Event.NOTICED, row, reason=advice.text, kind=advice.kind or "")
            case Action.GIVE_UP:
                self._finisher.give_up(row, advice.end or End.LOST, advice.text)
            case Action.NOTHING:
                pass

    async def _remind(self, row: RunRow, member: Member) -> None:
        self._context.note_row(Event.REMINDING, row)
        with suppress(OSError):  # a full disk: the fleet shows the ended turn a little later
            note_reminder(self._context.folder.path, member.agent_id)
        failure = ""
        for again in reversed(range(self._policy.remind_tries)):
            try:
                async with asyncio.timeout(self._policy.remind_deadline):
                    await self._context.crew.send(member, REMINDER)
                failure = ""
                break
            except ToolFailedError as error:  # it did not arrive, so sending it again is no second reminder
                failure = shorten(describe_error(error))
                if again:
                    await self._clock.sleep(self._policy.remind_pause)
            except (ToolError, TimeoutError) as error:
                failure = shorten(describe_error(error, "it did not arrive in time"))
                break
            except Exception as error:
                failure = shorten(describe_unexpected(error))
                break
        self._reminded_at[row.name] = self._clock.elapsed()
        self._context.note_row(Event.REMINDED, row, says=failure)

    def _stop_agents(self) -> None:
        for batch in self._stopper.batches(self.run_now, self._clock.elapsed()):
            self._tasks.start(self._stop(batch), "stopping agents")

    def _meter_agents(self) -> None:
        elapsed = self._clock.elapsed()
        if self._context.meter is None or self._is_metering or elapsed < self._metered_at + _METER_SECONDS:
            return
        self._is_metering, self._metered_at = True, elapsed
        rows = [row for row in self.run_now.rows.values() if row.phase in RUNNING]
        self._tasks.start(self._meter(rows), METERING)

    def _read_ledger(self) -> None:
        elapsed = self._clock.elapsed()
        if elapsed >= self._read_ledger_at + _LEDGER_SECONDS:
            self._read_ledger_at = elapsed
            self._context.read_ledger()

    def _write_report(self) -> None:
        run = self.run_now
        if self._reports is not None and self._reports.is_due(run):
            self._tasks.start(self._reports.write(run), REPORTING)

    async def write_last_report(self) -> None:
        """Write the report of the run as the conductor leaves it. The journal must still be open."""
        if self._reports is not None:
            await self._reports.close(self.run_now)

    def _note_report(self, problem: str) -> None:
        self._context.note(Event.ERROR, step=REPORTING, test="", says=shorten(problem))

    async def _meter(self, rows: Sequence[RunRow]) -> None:
        try:
            await self._context.meter_rows(rows)
        finally:
            self._is_metering = False

    async def _stop(self, batch: Sequence[RunRow]) -> None:
        for name, failure in (await self._stopper.stop(batch)).items():
            # The agent's program wrote its final usage when it exited.
            row = self._context.note_usage(self.run_now.rows[name])
            self._context.note_row(Event.STOPPED, row, says=shorten(failure))

    def _handle_change(self, run: Run, entry: Entry) -> None:
        before, self._before = self._before, run
        notification = notification_for(before, run, entry)
        if notification is not None and self._notifier is not None:
            self._notifications.start(self._notify(self._notifier, notification), "notifying a person")
        if self._on_change is not None and self._tasks.fatal is None:
            try:
                self._on_change(run, entry)
            except Exception as error:  # the listener is gone, such as a closed pipe: no test's fault
                self._tasks.fatal = error
                self._tasks.wake.set()

    def _give_up(self, row: RunRow, text: str) -> None:
        """End a test after repeated errors of our own code."""
        match row.phase:
            case Phase.WAITING | Phase.LAUNCHING:
                self._launcher.give_up(row, text)
            case Phase.WORKING:
                self._finisher.end(row, End.LOST, "work", text)
            case Phase.PULLING:
                self._finisher.end(row, End.UNREADABLE, "pull", text)
            case Phase.STOPPING:
                self._context.note_row(Event.STOPPED, row, says=shorten(text))
            case Phase.ENDED:
                pass

    async def _notify(self, notifier: Notifier, notification: Notification) -> None:
        try:
            failure = await notifier.notify(notification)
        except Exception as error:
            failure = describe_unexpected(error)
        if failure:
            self._context.note(Event.CALLED, reason=notification.reason, says=shorten(failure))


def _was_restarted(row: RunRow, member: Member, clock: Clock) -> bool:
    """Return whether this machine was restarted since a local agent was launched, which ended it."""
    launched = "" if row.began is None else row.began.boot
    return member.provider == LOCAL_PROVIDER and bool(launched) and launched != clock.boot()
