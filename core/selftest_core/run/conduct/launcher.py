"""Makes agents: as many, as fast and as dear as the plan allows, and never one twice.

The line that says an agent is being made is on the disk before mngr is asked, with the id that it will have. So one
whose making was cut off, by a kill or a deadline, is looked for under that id before it is made again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError, ToolFailedError
from selftest_core.fleet.clusters import signature
from selftest_core.frozen import dataclass
from selftest_core.run.clock import moment
from selftest_core.run.conduct.context import evidence_of, short, words_of
from selftest_core.run.conduct.throttle import Throttle
from selftest_core.run.conduct.unexpected import is_fatal
from selftest_core.run.crew.crew import PRESENT, Heard, Life, Seen, SetupError
from selftest_core.run.events import Event, Phase
from selftest_core.run.fetch.fetching import refuse_own_disk
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.prompt import PROMPT_LINE
from selftest_core.run.spending import Affordable, affordable

if TYPE_CHECKING:
    from typing import Any

    from selftest_core.run.conduct.context import Context
    from selftest_core.run.conduct.finisher import Finisher
    from selftest_core.run.fold import Member, RunRow

_UNSEEN = Seen(Life.UNSEEN)
_MOST_MAKES = 3
_USAGE = 2
"""mngr's exit status for arguments that it does not take: it made nothing, and would refuse them again."""
MAKING, PROMPTING = "making it", "giving it its prompt"


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why an agent was not made. `is_final`: asking again would bring the same answer. `stage`: where it failed."""

    text: str
    is_final: bool = False
    stage: str = "launch"


class Launcher:
    """Launches the tests that wait; remembers how often each agent was tried to be made."""

    def __init__(self, context: Context, ending: Finisher) -> None:
        self._context = context
        self._ending = ending
        self._gate = Throttle(context.plan.launch_rate, context.policy)
        self._creating = asyncio.Semaphore(context.policy.creates_at_once)
        self._makes: dict[str, int] = {}
        self._refusals: dict[str, _Refusal] = {}  # by agent id: what its last making said

    def launch(self) -> None:
        """Begin the launches that may begin now."""
        context = self._context
        elapsed = context.clock.elapsed()
        slow = self._gate.slowness(context.run)
        if slow != context.run.slowed:
            context.note(Event.SLOWED, reason=slow)
        waiting = [
            row for row in context.run.rows.values() if row.phase is Phase.WAITING and row.name not in context.work.busy
        ]
        for row in waiting:
            if not context.may_retry(row):
                text = "it was stopped as asked" if row.name in context.asked_to_stop else "the run was stopped"
                self._never(row, text)
        if context.run.is_halted:
            return
        for row in waiting:
            if row.name in context.asked_to_stop:
                continue
            making = sum(row.phase is Phase.LAUNCHING for row in context.run.rows.values())
            if not self._gate.is_open(context.run, making, elapsed):
                return
            if context.is_paused(row):
                continue
            match affordable(context.run, context.policy, context.live):
                case Affordable.WAIT:
                    return
                case Affordable.NO:
                    context.note(Event.PAUSED, reason="the budget is used up", by="budget", signature="")
                    return
                case Affordable.YES:
                    pass
            self._gate.launched(elapsed)
            self._begin(row)

    def _begin(self, row: RunRow) -> None:
        context = self._context
        try:
            member = row.next_member()
            row = context.note_row(Event.LAUNCHING, row, 1, agent_id=member.agent_id, name=member.name, **self._now())
            context.work.start(self._make(row, member), MAKING, row.name)
        except Exception as error:
            if is_fatal(error):
                raise
            context.work.report(error, MAKING, row.name)

    def give_up(self, row: RunRow, text: str) -> None:
        """End a test whose agent cannot be made, and stop what may have been made of it."""
        if row.phase is Phase.WAITING or row.member is None:
            self._ending.end(row, End.LAUNCH, "launch", text)
        else:
            self._context.work.start(self._clear_away(row, row.member, text), "stopping it", row.name)

    def find(self, row: RunRow, member: Member, seen: Seen, lost_after: float, unseen: float) -> None:
        """Judge a launch that was begun by a conductor that is gone, or of which nobody could tell how it went."""
        if seen.life is Life.UNSEEN:
            if unseen >= lost_after:
                refusal = self._refusals.get(member.agent_id)
                self._failed(row, refusal or _Refusal(seen.says or "nothing was seen of it after its launch"))
        elif seen.life not in (Life.ABSENT, Life.LOST):
            self._found(row, member, seen)
        elif member.agent_id in self._refusals:
            self._failed(row, self._refusals[member.agent_id])
        elif self._makes.get(member.agent_id, 0) >= _MOST_MAKES:
            self._failed(row, _Refusal("it was made, and was not there"))
        elif not self._context.may_retry(row):
            self._never(row, "it was stopped before its agent was there")
        else:
            self._context.work.start(self._make(row, member), MAKING, row.name)

    async def _make(self, row: RunRow, member: Member) -> None:
        """Make the agent; whether it is there after a failure is looked up, since mngr may have been almost done."""
        context = self._context
        says = ""
        self._makes[member.agent_id] = self._makes.get(member.agent_id, 0) + 1
        try:
            async with self._creating, asyncio.timeout(context.policy.create_deadline):
                seen = await context.crew.create(member)
        except Exception as error:
            refuse_own_disk(error, context.folder.path)
            refusal = self._refusals[member.agent_id] = self._refusal(error)
            if isinstance(error, SetupError):  # what mngr made of it has no session and no program
                self._failed(row, refusal)
                return
            # mngr reads all of its arguments before it does anything.
            seen = Seen(Life.ABSENT) if refusal.is_final else await self._look_for(member)
            if seen.life in (Life.ABSENT, Life.LOST):
                self._failed(row, refusal)
                return
            if seen.life is Life.UNSEEN:
                return  # judged by the looks that follow
            says = refusal.text
        if context.plan.agent_type == "command":
            self._launched(row, seen, adopted=False)
        else:
            await self._begin_with_prompt(row, member, seen, says)

    def _found(self, row: RunRow, member: Member, seen: Seen) -> None:
        """Take up an agent whose launch somebody else began, or that was slow to come."""
        if self._context.plan.agent_type == "command":
            self._launched(row, seen, adopted=True)
        elif row.prompts:
            self._context.work.start(self._judge_prompt(row, member, seen), PROMPTING, row.name)
        else:
            refusal = self._refusals.get(member.agent_id)
            says = refusal.text if refusal is not None else ""
            self._context.work.start(self._begin_with_prompt(row, member, seen, says), PROMPTING, row.name)

    async def _begin_with_prompt(self, row: RunRow, member: Member, seen: Seen, says: str) -> None:
        row = self._context.note_row(Event.MADE, row, host_id=seen.host_id, provider=seen.provider, says=short(says))
        await self._prompt(row, _placed(member, seen), seen)

    async def _prompt(self, row: RunRow, member: Member, seen: Seen) -> None:
        """Send the agent its prompt, and see that it has it; one that cannot get it is stopped."""
        context, policy, says = self._context, self._context.policy, ""
        is_sure = False
        for left in reversed(range(policy.prompt_tries)):
            row = context.note_row(Event.PROMPTING, row, says=short(says))
            try:
                async with asyncio.timeout(policy.prompt_deadline):
                    await context.crew.say(member, PROMPT_LINE)
            except Exception as error:
                is_sure = isinstance(error, ToolFailedError)
                is_known = isinstance(error, ToolError | TimeoutError)
                too_late = f"it had not taken its prompt after {policy.prompt_deadline:g} s"
                says = words_of(error, too_late) if is_known else evidence_of(error)
            else:
                self._launched(row, seen, adopted=False)
                return
            heard = await self._heard(member)
            if heard is Heard.YES:
                self._launched(row, seen, adopted=False)
                return
            if not is_sure or not context.may_retry(row):
                break
            if left:
                await context.clock.sleep(policy.prompt_pause)
        if is_sure:
            await self._fail_unprompted(row, member, says)
        else:
            await self._judge_prompt(row, member, seen, says)

    async def _judge_prompt(self, row: RunRow, member: Member, seen: Seen, says: str = "") -> None:
        """Decide what becomes of an agent to which a prompt was sent, and nobody knows whether it arrived.

        Where it is not in its transcript the agent is made anew: its input line may have it, or a part of it.
        """
        says = says or "the conductor ended while its prompt was being sent"
        member = _placed(member, seen)
        match await self._heard(member):
            case Heard.YES:
                self._launched(row, seen, adopted=True)
            case Heard.NO:
                await self._fail_unprompted(row, member, says)
            case Heard.UNKNOWN:
                self._launched(row, seen, adopted=True, unsure=says)
            case Heard.PENDING:
                self._context.pause(row, self._context.policy.prompt_pause)

    async def _heard(self, member: Member) -> Heard:
        try:
            async with asyncio.timeout(self._context.policy.look_deadline):
                return await self._context.crew.heard(member, PROMPT_LINE)
        except (ToolError, TimeoutError):
            return Heard.UNKNOWN
        except Exception as error:
            self._context.work.report(error, "looking for its prompt in its transcript")
            return Heard.UNKNOWN

    async def _fail_unprompted(self, row: RunRow, member: Member, says: str) -> None:
        stopped = await self._stop(member)
        self._failed(row, _Refusal("\n".join(part for part in (stopped, f"it did not get its prompt: {says}") if part)))

    async def _look_for(self, member: Member) -> Seen:
        try:
            async with asyncio.timeout(self._context.policy.look_deadline):
                return (await self._context.crew.look((member,))).get(member.agent_id, _UNSEEN)
        except (ToolError, TimeoutError):
            return _UNSEEN
        except Exception as error:
            self._context.work.report(error, "looking for a new agent")
            return _UNSEEN

    async def _clear_away(self, row: RunRow, member: Member, text: str) -> None:
        seen = await self._look_for(member)
        says = ""
        if seen.life in PRESENT:
            says = await self._stop(_placed(member, seen))
        self._ending.end(row, End.LAUNCH, "launch", f"{text}\n{says}".rstrip())

    async def _stop(self, member: Member) -> str:
        """Stop an agent that was made and is of no use; returns why it could not be stopped."""
        try:
            async with asyncio.timeout(self._context.policy.stop_deadline):
                says = (await self._context.crew.stop((member,))).get(member.agent_id, "nothing was said of it")
        except (ToolError, TimeoutError) as error:
            says = words_of(error, f"it did not stop within {self._context.policy.stop_deadline:g} s")
        except Exception as error:
            says = evidence_of(error)
        return f"its agent could not be stopped: {says}" if says else ""

    def _launched(self, row: RunRow, seen: Seen, *, adopted: bool, unsure: str = "") -> None:
        self._gate.succeeded()
        setup: dict[str, Any] = {} if seen.setup is None else {"setup": seen.setup}
        self._context.note_row(
            Event.LAUNCHED, row, host_id=seen.host_id, provider=seen.provider, adopted=adopted, unsure=short(unsure),
            **setup, **self._now(),
        )  # fmt: skip

    def _refusal(self, error: Exception) -> _Refusal:
        is_known = isinstance(error, ToolError | TimeoutError | OSError | ValueError)  # a test's id may be no text
        text = words_of(error, f"it was not made within {self._context.policy.create_deadline:g} s")
        is_final = isinstance(error, ToolError) and error.tool_exit_status == _USAGE
        if isinstance(error, SetupError):
            return _Refusal(text, is_final=True, stage="setup")
        return _Refusal(text if is_known else evidence_of(error), is_final)

    def _failed(self, row: RunRow, refusal: _Refusal) -> None:
        context, text = self._context, refusal.text
        if refusal.is_final:
            self._gate.refuse()
            self._ending.end(row, End.LAUNCH, refusal.stage, text)
            return
        self._gate.failed(signature(text), context.clock.elapsed())
        tries = row.retried("launch")
        if tries < context.policy.launch_retries and context.may_retry(row):
            context.pause(row, context.policy.launch_pause * 2.0**tries)
            context.note_row(Event.RETRYING, row, reason="launch", text=short(text))
        else:
            self._ending.end(row, End.LAUNCH, "launch", text)

    def _never(self, row: RunRow, text: str) -> None:
        """End a test that has no agent and gets none."""
        end = End.STOPPED if row.retries else End.NOT_STARTED
        self._context.note_row(Event.ENDED, row, end=end, stage="launch", text=text, signature="")

    def _now(self) -> dict[str, Any]:
        now = moment(self._context.clock)
        return {"elapsed": now.elapsed, "boot": now.boot}


def _placed(member: Member, seen: Seen) -> Member:
    return replace(member, host_id=seen.host_id or member.host_id, provider=seen.provider or member.provider)
