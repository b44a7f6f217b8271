"""Conducts one run: launches, looks, fetches before it stops, and writes every step down before and after.

One loop decides; whatever may take long (make, fetch, remind, stop) runs beside it as a task that owns one test, or
one batch of one host, and ends at a deadline. So one dead host, one hung call or one failing agent is one row. The
loop keeps nothing that the journal does not hold, apart from times: killed at any moment, a new conductor folds the
journal and goes on. A launch that was begun is looked for before it is begun again, under the same id.

    why = await Conductor(plan, journal, crew, folder, bundles).run()      # done, stopped, budget, paused
Only a failing journal ends it early (JournalError): what cannot be written down must not be done.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from selftest_core.clusters import signature
from selftest_core.errors import ToolError
from selftest_core.journal import JournalError
from selftest_core.outcome import verdict
from selftest_core.run.alarm import find_alarm
from selftest_core.run.clock import WallClock
from selftest_core.run.crew import Life, Seen
from selftest_core.run.deciding import Do, Policy, advise, pause_after
from selftest_core.run.events import RUNNING, End, Event, Phase
from selftest_core.run.fetching import Fetched, fetch
from selftest_core.run.launching import LaunchGate, is_affordable
from selftest_core.run.scribe import Scribe
from selftest_core.run.stopping import Stopper
from selftest_core.run.store import WishKind
from selftest_core.run.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from selftest_core.journal import Entry
    from selftest_core.run.bundles import Bundles
    from selftest_core.run.clock import Clock
    from selftest_core.run.crew import Crew
    from selftest_core.run.deciding import Advice
    from selftest_core.run.fold import Member, Run, RunRow
    from selftest_core.run.plan import RunPlan
    from selftest_core.run.scribe import Ledger
    from selftest_core.run.store import RunFolder

REMINDER = (
    "You ended your turn without an outcome. Finish your work, write the outcome file as the prompt describes, and "
    "say in it what blocks you if something does."
)
_UNSEEN = Seen(Life.UNSEEN)
_LONGEST_TEXT = 4000
_MOST_MAKES = 3


class Conductor:
    """The conductor of one run. `journal` must be open: its lock is what keeps a second conductor out."""

    def __init__(
        self,
        plan: RunPlan,
        journal: Ledger,
        crew: Crew,
        folder: RunFolder,
        bundles: Bundles,
        *,
        clock: Clock | None = None,
        policy: Policy | None = None,
        on_change: Callable[[Run, Entry], None] | None = None,
    ) -> None:
        """`on_change` is called in the event loop after each line with the run as it is then."""
        self._plan = plan
        self._crew = crew
        self._folder = folder
        self._bundles = bundles
        self._clock = clock or WallClock()
        self._policy = policy or Policy()
        self._scribe = Scribe(plan, journal, self._clock, on_change)
        self._note = self._scribe.note
        self._note_row = self._scribe.note_row
        self._work = Work()
        self._gate = LaunchGate(plan.launch_rate, self._policy)
        self._stopper = Stopper(crew, self._policy, self._clock)
        self._creating = asyncio.Semaphore(self._policy.creates_at_once)
        self._pulling = asyncio.Semaphore(self._policy.pulls_at_once)
        self._seen: Mapping[str, Seen] = {}
        self._asked_at = 0.0
        self._looking = False
        self._began: dict[str, float] = {}  # when its agent's time began
        self._unseen_since: dict[str, float] = {}
        self._reminded: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        self._vain: dict[str, int] = {}  # fetches that should have been the last and brought nothing
        self._makes: dict[str, int] = {}
        self._asked_to_stop: set[str] = set()

    @property
    def run_now(self) -> Run:
        """The run as the journal has it now."""
        return self._scribe.run

    async def run(self) -> str:
        """Conduct until every test has ended, or the run rests and is left; returns why it was left."""
        self._note(Event.CONDUCTING, pid=os.getpid())
        why = "interrupted"
        try:
            self._take_up()
            why = await self._loop()
            return why
        finally:
            await self._work.cancel()
            with suppress(JournalError):
                if self._work.error is None:
                    self._note(Event.LEFT, why=why)

    def _take_up(self) -> None:
        """What an earlier conductor left half done goes back to where it can be judged anew."""
        now, elapsed = self._clock.now(), self._clock.elapsed()
        for row in self.run_now.rows.values():
            if row.phase is Phase.PULLING:
                self._note_row(Event.MISSED, row, says="the conductor was ended meanwhile")
            if row.launched_at is not None:
                self._began[row.name] = elapsed - max(0.0, now - row.launched_at)
        if self.run_now.paused_by == "budget" and is_affordable(self.run_now, self._policy):
            self._note(Event.RESUMED)

    async def _loop(self) -> str:
        while True:
            if self._work.error is not None:
                raise self._work.error
            self._take_wishes()
            if not self._looking:
                self._looking = True
                self._work.start(self._look())
            for row in tuple(self.run_now.rows.values()):
                if row.name not in self._work.busy:
                    self._consider(row)
            self._launch()
            for batch in self._stopper.batches(self.run_now, self._clock.elapsed()):
                self._work.start(self._stop(batch))
            why = self._why_leave()
            if why:
                return why
            await self._rest()

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

    # -- what is seen

    async def _look(self) -> None:
        asked_at = self._clock.elapsed()
        rows = self.run_now.rows.values()
        # One that a task owns just now (made, fetched from) is judged by a look that begins after it.
        running = [row for row in rows if row.phase in RUNNING and row.name not in self._work.busy]
        wanted = [row.member for row in running if row.member is not None]
        given_up = [retry.member for row in rows for retry in row.retries]
        try:
            async with asyncio.timeout(self._policy.look_deadline):
                seen = await self._crew.look((*wanted, *given_up)) if wanted else {}
        except (ToolError, TimeoutError) as error:
            seen = {member.agent_id: Seen(Life.UNSEEN, says=str(error)) for member in wanted}
        self._seen, self._asked_at = seen, asked_at
        for member in wanted:
            if seen.get(member.agent_id, _UNSEEN).life is Life.UNSEEN:
                self._unseen_since.setdefault(member.agent_id, asked_at)
            else:
                self._unseen_since.pop(member.agent_id, None)
        for member in self._stopper.strays(given_up, seen):
            self._work.start(self._stopper.stop_stray(member))
        # The next look waits as long as the loop does: what is seen now is judged first.
        await self._clock.sleep(self._policy.poll)
        self._looking = False

    def _consider(self, row: RunRow) -> None:
        member, elapsed = row.member, self._clock.elapsed()
        if member is None or row.phase not in (Phase.LAUNCHING, Phase.WORKING):
            return
        # What was asked before the last step is older than the step; so is all before a pause is over.
        if self._asked_at < self._scribe.changed.get(row.name, -1.0) or elapsed < self._not_before.get(row.name, -1.0):
            return
        seen = self._seen.get(member.agent_id)
        if seen is None:
            return
        if row.phase is Phase.LAUNCHING:
            self._find_launched(row, member, seen)
            return
        self._act(row, member, seen, self._advise(row, member, seen))

    def _advise(self, row: RunRow, member: Member, seen: Seen) -> Advice:
        elapsed = self._clock.elapsed()
        return advise(
            row, seen, self._policy,
            worked=elapsed - self._began.setdefault(row.name, elapsed),
            timeout=self._plan.timeout,
            unseen=elapsed - self._unseen_since.get(member.agent_id, elapsed),
            reminded=elapsed - self._reminded.setdefault(row.name, elapsed) if row.is_reminded else 0.0,
            is_asked_to_stop=self.run_now.is_halted or row.name in self._asked_to_stop,
        )  # fmt: skip

    def _act(self, row: RunRow, member: Member, seen: Seen, advice: Advice) -> None:
        match advice.do:
            case Do.PULL:
                self._work.start(self._pull(row, member, seen, advice), row.name)
            case Do.REMIND:
                self._work.start(self._remind(row, member), row.name)
            case Do.NOTICE:
                self._note_row(Event.NOTICED, row, reason=advice.text)
            case Do.GIVE_UP:
                self._give_up(row, advice.end or End.LOST, advice.text)
            case Do.NOTHING:
                pass

    # -- launching

    def _launch(self) -> None:
        elapsed = self._clock.elapsed()
        for row in tuple(self.run_now.rows.values()):
            if row.phase is not Phase.WAITING or row.name in self._work.busy:
                continue
            if self.run_now.is_halted:
                self._note_row(Event.ENDED, row, end=End.NOT_STARTED, stage="launch", text="the run was stopped")
                continue
            making = sum(row.phase is Phase.LAUNCHING for row in self.run_now.rows.values())
            if not self._gate.is_open(self.run_now, making, elapsed):
                return
            if elapsed < self._not_before.get(row.name, -1.0):
                continue
            if not is_affordable(self.run_now, self._policy):
                self._note(Event.PAUSED, reason="the budget is used up", by="budget", signature="")
                return
            self._gate.launched(elapsed)
            member = row.next_member()
            row = self._note_row(Event.LAUNCHING, row, 1, agent_id=member.agent_id, name=member.name)
            self._work.start(self._make(row, member), row.name)

    async def _make(self, row: RunRow, member: Member) -> None:
        """Make the agent; whether it is there after a failure is looked up, since mngr may have been almost done."""
        self._makes[member.agent_id] = self._makes.get(member.agent_id, 0) + 1
        try:
            async with self._creating, asyncio.timeout(self._policy.create_deadline):
                seen = await self._crew.create(member)
        except (ToolError, TimeoutError, OSError) as error:
            text = str(error) or f"it was not made within {self._policy.create_deadline:g} s"
            seen = await self._find(member)
            if seen.life in (Life.ABSENT, Life.LOST):
                self._launch_failed(row, text)
                return
            if seen.life is Life.UNSEEN:
                return  # judged by the looks that follow
        self._launched(row, seen, adopted=False)

    async def _find(self, member: Member) -> Seen:
        try:
            async with asyncio.timeout(self._policy.look_deadline):
                return (await self._crew.look((member,))).get(member.agent_id, _UNSEEN)
        except (ToolError, TimeoutError):
            return _UNSEEN

    def _find_launched(self, row: RunRow, member: Member, seen: Seen) -> None:
        """A launch that was begun by a conductor that is gone, or of which nobody could tell how it went."""
        elapsed = self._clock.elapsed()
        if seen.life is Life.UNSEEN:
            if elapsed - self._unseen_since.get(member.agent_id, elapsed) >= self._policy.lost_after:
                self._launch_failed(row, seen.says or "nothing was seen of it after its launch")
        elif seen.life not in (Life.ABSENT, Life.LOST):
            self._launched(row, seen, adopted=True)
        elif self._makes.get(member.agent_id, 0) >= _MOST_MAKES:
            self._launch_failed(row, "it was made, and was not there")
        else:
            self._work.start(self._make(row, member), row.name)

    def _launched(self, row: RunRow, seen: Seen, *, adopted: bool) -> None:
        self._gate.succeeded()
        self._note_row(Event.LAUNCHED, row, host_id=seen.host_id, provider=seen.provider, adopted=adopted)
        began = row.launching_at if adopted and row.launching_at is not None else self._clock.now()
        self._began[row.name] = self._clock.elapsed() - max(0.0, self._clock.now() - began)

    def _launch_failed(self, row: RunRow, text: str) -> None:
        elapsed = self._clock.elapsed()
        self._gate.failed(signature(text), elapsed)
        tries = row.retried("launch")
        if tries < self._policy.launch_retries and not self.run_now.is_halted:
            self._not_before[row.name] = elapsed + self._policy.launch_pause * 2.0**tries
            self._note_row(Event.RETRYING, row, reason="launch", text=_short(text))
        else:
            self._end(row, End.LAUNCH, "launch", text)

    # -- fetching and ending

    async def _pull(self, row: RunRow, member: Member, seen: Seen, advice: Advice) -> None:
        self._note_row(Event.PULLING, row, stamp=seen.outcome)
        vain = self._vain.get(member.agent_id, 0)
        is_last = advice.end is not None and vain + 1 >= self._policy.last_looks
        async with self._pulling:
            got = await fetch(member, self._crew, self._folder, self._bundles, self._policy, is_last=is_last)
        if got.outcome is not None and not got.reason and not got.failure:
            end = End(verdict(got.outcome, got.taken.commits > 0))
            self._end(row, end, "work", got.outcome.summary, got)
            return
        if advice.end is not None:
            self._vain[member.agent_id] = vain = vain + 1
        if advice.end is None or not (is_last or vain >= self._policy.failed_pulls):
            self._missed(row, got)
        elif got.failure:
            if vain >= self._policy.failed_pulls:
                self._give_up(row, End.LOST, f"what it left could not be fetched: {got.failure}", stage="pull")
            else:
                self._missed(row, got)
        elif got.reason:
            self._end(row, End.UNREADABLE, "pull", got.reason, got)
        else:
            says = "\n".join(part for part in (advice.text, got.screen.strip()[-_LONGEST_TEXT:]) if part)
            self._end(row, advice.end, "work", says, got)

    def _missed(self, row: RunRow, got: Fetched) -> None:
        self._note_row(Event.MISSED, row, says=_short(got.failure or got.reason or "there was no outcome"))
        pause = pause_after(self.run_now.rows[row.name].misses, self._policy)
        self._not_before[row.name] = self._clock.elapsed() + pause

    def _give_up(self, row: RunRow, end: End, text: str, stage: str = "work") -> None:
        if end is End.LOST and row.retried("lost") < self._policy.lost_retries and not self.run_now.is_halted:
            self._not_before[row.name] = self._clock.elapsed() + self._policy.launch_pause
            self._note_row(Event.RETRYING, row, reason="lost", text=_short(text))
        else:
            self._end(row, end, stage, text)

    def _end(self, row: RunRow, end: End, stage: str, text: str, got: Fetched | None = None) -> None:
        tip, commits = (got.taken.tip, got.taken.commits) if got is not None else ("", 0)
        self._note_row(Event.ENDED, row, end=end, stage=stage, text=_short(text), tip=tip, commits=commits)
        alarm = find_alarm(self.run_now, self._policy)
        if alarm is not None:
            self._note(Event.PAUSED, reason=alarm.says, by="cluster", signature=alarm.signature)

    # -- reminding and stopping

    async def _remind(self, row: RunRow, member: Member) -> None:
        self._note_row(Event.REMINDING, row)
        says = ""
        try:
            async with asyncio.timeout(self._policy.remind_deadline):
                await self._crew.remind(member, REMINDER)
        except (ToolError, TimeoutError) as error:
            says = _short(str(error)) or "it did not arrive in time"
        self._reminded[row.name] = self._clock.elapsed()
        self._note_row(Event.REMINDED, row, says=says)

    async def _stop(self, batch: Sequence[RunRow]) -> None:
        for name, says in (await self._stopper.stop(batch)).items():
            self._note_row(Event.STOPPED, self.run_now.rows[name], says=_short(says))

    def _take_wishes(self) -> None:
        for path, wish in self._folder.wishes():
            row = self.run_now.rows.get(wish.test)
            match wish.kind:
                case WishKind.PAUSE if not self.run_now.paused:
                    self._note(Event.PAUSED, reason="as asked", by="person", signature="")
                case WishKind.GO if self.run_now.paused:
                    self._note(Event.RESUMED)
                case WishKind.STOP if not self.run_now.is_halted:
                    self._note(Event.HALTED)
                case WishKind.STOP_ONE if row is not None and row.phase in RUNNING:
                    self._asked_to_stop.add(row.name)
                    continue  # kept until it has stopped: this conductor may end before
                case WishKind.SKIP if row is not None and row.phase is Phase.WAITING:
                    self._note_row(Event.ENDED, row, end=End.NOT_STARTED, stage="launch", text="skipped as asked")
                case WishKind.RETRY if row is not None and row.phase is Phase.ENDED:
                    self._asked_to_stop.discard(row.name)
                    self._note_row(Event.RETRYING, row, reason="asked", text="as asked")
                case _:
                    pass
            with suppress(OSError):
                path.unlink()


def _short(text: str) -> str:
    """Text for the journal: its end says most, and JSON cannot hold halves of characters."""
    return text[-_LONGEST_TEXT:].encode("utf-8", "replace").decode()
