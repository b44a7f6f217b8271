"""Conducts one run: launches, looks, fetches before it stops, and writes every step down before and after.

One loop decides; whatever may take long (make, fetch, remind, stop, call a person) runs beside it as a task that owns
one test, or one batch of one host, and ends at a deadline. So one dead host, one hung call or one failing agent is one
row. The loop keeps nothing that the journal does not hold, apart from pauses: killed at any moment, a new conductor
folds the journal and goes on. A launch that was begun is looked for before it is begun again, under the same id.

    why = await Conductor(plan, journal, crew, folder, bundles).run()      # done, stopped, budget, paused, smoke
Only what keeps it from writing things down ends it early (JournalError, OwnDiskError): what cannot be written down must
not be done. Any other error costs one test, or is noted and tried again (`unexpected`).
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError, ToolFailedError
from selftest_core.fleet.sources.reminders import note_reminder
from selftest_core.journal import JournalError
from selftest_core.run.clock import WallClock, seconds_since
from selftest_core.run.conduct.context import METERING, Context, evidence_of, short, words_of
from selftest_core.run.conduct.finisher import Finisher
from selftest_core.run.conduct.journal_writer import Scribe
from selftest_core.run.conduct.launcher import Launcher
from selftest_core.run.conduct.notifier import Calls, call_for
from selftest_core.run.conduct.observer import LOOKING, Observer
from selftest_core.run.conduct.policy import Do, Policy, advise
from selftest_core.run.conduct.requests import handle_requests
from selftest_core.run.conduct.smoke_agents import SmokeAgents
from selftest_core.run.conduct.stopper import Stopper
from selftest_core.run.conduct.tasks import Work
from selftest_core.run.conduct.unexpected import UnexpectedErrors
from selftest_core.run.events import RUNNING, Event, Phase
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.prompt import PROMPT_FILE
from selftest_core.run.spending import Affordable, affordable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from selftest_core.journal import Entry
    from selftest_core.run.clock import Clock
    from selftest_core.run.conduct.journal_writer import RunJournal
    from selftest_core.run.conduct.notifier import Call, Caller
    from selftest_core.run.conduct.policy import Advice
    from selftest_core.run.crew.crew import Crew, Seen
    from selftest_core.run.fetch.bundles import Bundles
    from selftest_core.run.fold import Member, Run, RunRow
    from selftest_core.run.meter import RunMeter
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.run.store import RunFolder

SMOKE = "smoke"
"""Why a conductor left whose smoke agent failed."""
REMINDER = (
    f"You ended your turn without an outcome. Read {PROMPT_FILE} again (its path is in $SELFTEST_PROMPT_FILE), finish "
    "your work, write the outcome file that it describes, and say in it what blocks you if something does."
)


_METER_SECONDS = 5.0
"""Between two readings of what the running agents used."""


class Conductor:
    """The conductor of one run. `journal` must be open: its lock is what keeps a second conductor out."""

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
        caller: Caller | None = None,
        meter: RunMeter | None = None,
    ) -> None:
        """`on_change` is called in the event loop after each line with the run as it is then.

        `caller` is used when the run pauses by itself, and when an agent needs a person. `meter`: what reads what the
        agents use; without one nothing is metered.
        """
        self._on_change = on_change
        self._clock = clock or WallClock()
        self._policy = policy or Policy()
        self._work = Work()
        self._scribe = Scribe(plan, journal, self._clock, self._changed)
        self._context = Context(plan, crew, folder, bundles, self._clock, self._policy, self._scribe, self._work, meter)
        self._stopper = Stopper(crew, self._policy, self._clock, self._context.meter_now)
        self._lookout = Observer(self._context, self._stopper)
        self._ending = Finisher(self._context)
        self._maker = Launcher(self._context, self._ending)
        self._smoker = SmokeAgents(self._context)
        self._errors = UnexpectedErrors(self._context, self._give_up)
        self._calls = Calls(caller, self._call_failed)
        self._reminded: dict[str, float] = {}
        self._before = self._scribe.run
        self._is_metering = False
        self._metered_at = -_METER_SECONDS

    @property
    def run_now(self) -> Run:
        """The run as the journal has it now."""
        return self._scribe.run

    async def run(self) -> str:
        """Conduct until every test has ended, or the run rests and is left; returns why it was left."""
        self._context.note(Event.CONDUCTING, pid=os.getpid())
        why = "interrupted"
        try:
            self._take_up()
            why = await self._loop() if await self._prove_places() else SMOKE
            await self._calls.finish()
            return why
        except JournalError as error:
            self._work.fatal = error
            raise
        finally:
            await self._calls.cancel()
            await self._work.cancel()
            with suppress(JournalError):
                if not isinstance(self._work.fatal, JournalError):
                    self._context.note(Event.LEFT, why=why)

    async def _prove_places(self) -> bool:
        is_proven = await self._smoker.run()
        self._heed_failures()
        return is_proven or self.run_now.is_halted

    def _take_up(self) -> None:
        """A run that rested for its budget goes on where there is more of it now; one that was to rest rests."""
        is_affordable = affordable(self.run_now, self._policy) is Affordable.YES
        if self.run_now.paused_by == "budget" and is_affordable:
            self._context.note(Event.RESUMED)
        # The conductor before may have been killed between the last failure and the line that says so.
        self._ending.heed_alarm()

    async def _loop(self) -> str:
        while True:
            self._heed_failures()
            self._errors.attempt("taking wishes", partial(handle_requests, self._context))
            self._errors.attempt(LOOKING, self._lookout.start)
            for row in tuple(self.run_now.rows.values()):
                if row.name not in self._work.busy:
                    self._errors.attempt("judging what was seen", partial(self._consider, row), row.name)
            self._errors.attempt("launching", self._maker.launch)
            self._errors.attempt("stopping agents", self._stop_some)
            self._errors.attempt(METERING, self._meter_some)
            why = self._why_leave()
            if why:
                self._heed_failures()
                return why
            await self._rest()

    def _heed_failures(self) -> None:
        for failure in self._work.take_failures():
            self._errors.heed(failure.error, failure.step, failure.test)
        if self._work.fatal is not None:
            raise self._work.fatal

    def _why_leave(self) -> str:
        run = self.run_now
        if run.is_over:
            return "" if self._stopper.is_busy else "stopped" if run.is_halted else "done"
        if run.running or self._work.busy or self._stopper.is_busy or not run.paused:
            return ""
        if any(row.phase is Phase.STOPPING for row in run.rows.values()):
            return ""
        if run.paused_by == "budget":
            return "budget"
        return "paused" if self._policy.leave_when_paused else ""

    async def _rest(self) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(self._policy.poll))
        waking = asyncio.ensure_future(self._work.wake.wait())
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
        self._work.wake.clear()

    def _consider(self, row: RunRow) -> None:
        member = row.member
        if member is None or row.phase not in RUNNING or self._context.is_paused(row):
            return
        seen = self._lookout.seen(row, member)
        if seen is None:
            return
        unseen, lost_after = self._lookout.unseen(member), self._lookout.lost_after(member)
        if row.phase is Phase.LAUNCHING:
            self._maker.find(row, member, seen, lost_after, unseen)
            return
        elapsed = self._clock.elapsed()
        advice = advise(
            row, seen, self._policy,
            worked=seconds_since(row.began, self._clock) if row.began is not None else 0.0,
            timeout=self._context.plan.timeout,
            unseen=unseen,
            lost_after=lost_after,
            reminded=elapsed - self._reminded.setdefault(row.name, elapsed) if row.is_reminded else 0.0,
            is_asked_to_stop=not self._context.may_retry(row),
        )  # fmt: skip
        self._act(row, member, seen, advice)

    def _act(self, row: RunRow, member: Member, seen: Seen, advice: Advice) -> None:
        match advice.do:
            case Do.PULL:
                self._work.start(self._ending.pull(row, member, seen, advice), "fetching what it left", row.name)
            case Do.REMIND:
                self._work.start(self._remind(row, member), "reminding it", row.name)
            case Do.NOTICE:
                self._context.note_row(Event.NOTICED, row, reason=advice.text, kind=advice.kind or "")
            case Do.GIVE_UP:
                self._ending.give_up(row, advice.end or End.LOST, advice.text)
            case Do.NOTHING:
                pass

    async def _remind(self, row: RunRow, member: Member) -> None:
        self._context.note_row(Event.REMINDING, row)
        with suppress(OSError):  # a full disk: the fleet then tells of its ended turn a little later
            note_reminder(self._context.folder.path, member.agent_id)
        says = ""
        for again in reversed(range(self._policy.remind_tries)):
            try:
                async with asyncio.timeout(self._policy.remind_deadline):
                    await self._context.crew.say(member, REMINDER)
                says = ""
                break
            except ToolFailedError as error:  # it did not arrive, so that saying it again is no second reminder
                says = short(words_of(error))
                if again:
                    await self._clock.sleep(self._policy.remind_pause)
            except (ToolError, TimeoutError) as error:
                says = short(words_of(error, "it did not arrive in time"))
                break
            except Exception as error:
                says = short(evidence_of(error))
                break
        self._reminded[row.name] = self._clock.elapsed()
        self._context.note_row(Event.REMINDED, row, says=says)

    def _stop_some(self) -> None:
        for batch in self._stopper.batches(self.run_now, self._clock.elapsed()):
            self._work.start(self._stop(batch), "stopping agents")

    def _meter_some(self) -> None:
        elapsed = self._clock.elapsed()
        if self._context.meter is None or self._is_metering or elapsed < self._metered_at + _METER_SECONDS:
            return
        self._is_metering, self._metered_at = True, elapsed
        rows = [row for row in self.run_now.rows.values() if row.phase in RUNNING]
        self._work.start(self._meter(rows), METERING)

    async def _meter(self, rows: Sequence[RunRow]) -> None:
        try:
            await self._context.meter_now(rows)
        finally:
            self._is_metering = False

    async def _stop(self, batch: Sequence[RunRow]) -> None:
        for name, says in (await self._stopper.stop(batch)).items():
            # Its program has written its own figures when it ended.
            self._context.note_row(Event.STOPPED, self._context.note_usage(self.run_now.rows[name]), says=short(says))

    def _changed(self, run: Run, entry: Entry) -> None:
        before, self._before = self._before, run
        call = call_for(before, run, entry)
        if call is not None:
            self._calls.start(call)
        if self._on_change is not None and self._work.fatal is None:
            try:
                self._on_change(run, entry)
            except Exception as error:  # whoever listens is gone, such as a closed pipe: no test's fault
                self._work.fatal = error
                self._work.wake.set()

    def _give_up(self, row: RunRow, text: str) -> None:
        """End a test over which our own code failed again and again."""
        match row.phase:
            case Phase.WAITING | Phase.LAUNCHING:
                self._maker.give_up(row, text)
            case Phase.WORKING:
                self._ending.end(row, End.LOST, "work", text)
            case Phase.PULLING:
                self._ending.end(row, End.UNREADABLE, "pull", text)
            case Phase.STOPPING:
                self._context.note_row(Event.STOPPED, row, says=short(text))
            case Phase.ENDED:
                pass

    def _call_failed(self, call: Call, says: str) -> None:
        self._context.note(Event.CALLED, reason=call.reason, says=short(says))
