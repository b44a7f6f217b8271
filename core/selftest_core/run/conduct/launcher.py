"""The launcher: makes agents within the limits of the plan, and never one twice.

The line `launching`, with the agent's id, is on the disk before mngr is asked. A launch that a kill or a deadline cut
off is looked up under that id before the agent is made again.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError, ToolFailedError, describe_error, describe_unexpected
from selftest_core.fleet.clusters import signature
from selftest_core.frozen import dataclass
from selftest_core.run.answer.answer import answer_line
from selftest_core.run.clock import moment
from selftest_core.run.conduct.context import shorten
from selftest_core.run.conduct.throttle import make_throttle
from selftest_core.run.conduct.unexpected import is_fatal
from selftest_core.run.crew.crew import PRESENT, Delivery, Life, Seen, SetupError
from selftest_core.run.events import Event, Phase
from selftest_core.run.fetch.fetching import refuse_own_disk
from selftest_core.run.outcome.ends import End
from selftest_core.run.pace.adapting import Adapter, Signs
from selftest_core.run.plan.prompt import PROMPT_LINE
from selftest_core.run.spending import Affordable, affordable, used_up_reason

if TYPE_CHECKING:
    from typing import Any

    from selftest_core.run.conduct.context import Context
    from selftest_core.run.conduct.finisher import Finisher
    from selftest_core.run.fold import Member, RunRow

_MOST_CREATES = 3
_USAGE_STATUS = 2
"""mngr's exit status for wrong arguments: it made nothing, and would refuse them again."""
NO_ROOM = re.compile(r"ModalProxyRateLimitError|ResourceExhausted")
"""mngr's words where Modal refuses another sandbox: its own limit of requests, or that of the workspace."""
_MOST_WAITS = 10
"""Waits for room while other agents are only starting, which may find no room either."""
_CREATING, _PROMPTING, _CONTINUING = "creating its agent", "sending its prompt", "starting its agent again"


@dataclass(frozen=True, slots=True)
class _LaunchFailure:
    """The failure of a launch. `is_final`: a retry would fail in the same way. `stage`: the step that failed."""

    text: str
    is_final: bool = False
    stage: str = "launch"
    is_timeout: bool = False


class Launcher:
    """Launches waiting tests. Counts the calls of create for each agent."""

    def __init__(self, context: Context, finisher: Finisher) -> None:
        self._context = context
        self._finisher = finisher
        self._throttle = make_throttle(context.plan, context.policy)
        self._creating = asyncio.Semaphore(self._throttle.most_starting)
        self._adapter: Adapter | None = None
        self._creates: dict[str, int] = {}  # by agent id
        self._failures: dict[str, _LaunchFailure] = {}  # by agent id: how its last create failed

    def launch(self) -> None:
        """Begin the launches that may begin now."""
        context = self._context
        elapsed = context.clock.elapsed()
        self._adapt(elapsed)
        slow_reason = self._throttle.slow_reason(context.run)
        if slow_reason != context.run.slowed:
            context.note(Event.SLOWED, reason=slow_reason)
        rows = context.run.rows.values()
        waiting = [row for row in rows if row.phase is Phase.WAITING and row.name not in context.tasks.busy]
        for row in waiting:
            if not context.may_retry(row):
                is_request = row.name in context.asked_to_stop
                self._end_without_agent(row, "it was stopped on request" if is_request else "the run was stopped")
        if context.run.is_halted:
            return
        for row in waiting:
            if row.name in context.asked_to_stop:
                continue
            launching = sum(row.phase is Phase.LAUNCHING for row in context.run.rows.values())
            if not self._throttle.may_launch(context.run, launching, elapsed):
                return
            if context.is_paused(row):
                continue
            match affordable(context.run, context.policy, context.live_usage, context.others_today):
                case Affordable.WAIT:
                    return
                case Affordable.NO:
                    reason = used_up_reason(context.run, context.policy, context.live_usage, context.others_today)
                    context.note(Event.PAUSED, reason=reason, by="budget", signature="")
                    return
                case Affordable.YES:
                    pass
            self._throttle.note_launch(elapsed)
            self._begin(row)

    def _adapt(self, elapsed: float) -> None:
        """Change the number of agents at a time where the plan lets it adapt and agents wait."""
        context, run = self._context, self._context.run
        if not run.plan.adapt or run.paused or run.is_halted:
            return
        if not any(row.phase is Phase.WAITING for row in run.rows.values()):
            return
        if self._adapter is None:
            self._adapter = Adapter(run.at_once, run.plan.max_running, elapsed)
        load = 0.0 if context.load is None else context.load()
        reason = self._adapter.decide(Signs(run.running, run.limited, load), elapsed)
        if reason:
            context.note(Event.ADAPTED, limit=self._adapter.limit, reason=reason)

    def _begin(self, row: RunRow) -> None:
        context = self._context
        try:
            member = row.next_member()
            row = context.note_row(Event.LAUNCHING, row, 1, agent_id=member.agent_id, name=member.name, **self._now())
            if member.is_continued:
                context.tasks.start(self._continue(row, member), _CONTINUING, row.name)
            else:
                context.tasks.start(self._create(row, member), _CREATING, row.name)
        except Exception as error:
            if is_fatal(error):
                raise
            context.tasks.report(error, _CREATING, row.name)

    def give_up(self, row: RunRow, text: str) -> None:
        """End a test whose agent cannot be made, and stop the agent if it is there."""
        if row.phase is Phase.WAITING or row.member is None:
            self._finisher.end(row, End.LAUNCH, "launch", text)
        else:
            self._context.tasks.start(self._stop_and_end(row, row.member, text), "stopping it", row.name)

    def check_launch(self, row: RunRow, member: Member, seen: Seen, lost_after: float, unseen: float) -> None:
        """Continue a launch that an earlier conductor began, or whose success is not known."""
        if member.is_continued:
            self._check_continuing(row, member, seen, is_lost=unseen >= lost_after)
        elif seen.life is Life.UNSEEN:
            if unseen >= lost_after:
                failure = self._failures.get(member.agent_id)
                self._fail(row, failure or _LaunchFailure(seen.detail or "it was not seen after its launch"))
        elif seen.life not in (Life.ABSENT, Life.LOST):
            self._adopt(row, member, seen)
        elif member.agent_id in self._failures:
            self._fail(row, self._failures[member.agent_id])
        elif self._creates.get(member.agent_id, 0) >= _MOST_CREATES:
            self._fail(row, _LaunchFailure("it was created, but is not there"))
        elif not self._context.may_retry(row):
            self._end_without_agent(row, "it was stopped before its agent was created")
        else:
            self._context.tasks.start(self._create(row, member), _CREATING, row.name)

    def _check_continuing(self, row: RunRow, member: Member, seen: Seen, *, is_lost: bool) -> None:
        """Continue to start an agent again that is to get an answer. Its old session is no sign that it was started."""
        if seen.life in (Life.ABSENT, Life.LOST) or (seen.life is Life.UNSEEN and is_lost):
            self._give_to_another(row, seen.detail or "it is not there any more")
        elif seen.life is Life.UNSEEN:
            pass
        elif row.prompts:
            self._context.tasks.start(self._check_prompt(row, member, seen), _PROMPTING, row.name)
        else:
            self._context.tasks.start(self._continue(row, member), _CONTINUING, row.name)

    async def _continue(self, row: RunRow, member: Member) -> None:
        """Start an agent again and send it the answer; where that fails another agent gets it."""
        context = self._context
        try:
            async with self._creating, asyncio.timeout(context.policy.create_deadline):
                seen = await context.crew.restart(member)
        except Exception as error:
            refuse_own_disk(error, context.folder.path)
            self._give_to_another(row, self._launch_failure(error).text)
        else:
            await self._note_made_and_prompt(row, member, seen, "")

    def _give_to_another(self, row: RunRow, reason: str) -> None:
        """Let a new agent take the place of one that cannot go on; it starts from that one's commits."""
        if self._context.may_retry(row):
            self._context.note_row(Event.RETRYING, row, reason="gone", text=shorten(reason))
        else:
            self._end_without_agent(row, "it was stopped before its agent got the answer")

    async def _create(self, row: RunRow, member: Member) -> None:
        """Make the agent. After a failure look whether it is there: mngr may have been almost done."""
        context = self._context
        complaint = ""
        self._creates[member.agent_id] = self._creates.get(member.agent_id, 0) + 1
        try:
            async with self._creating, asyncio.timeout(context.policy.create_deadline):
                seen = await context.crew.create(member)
        except Exception as error:
            refuse_own_disk(error, context.folder.path)
            failure = self._failures[member.agent_id] = self._launch_failure(error)
            if isinstance(error, SetupError):  # the agent that mngr made has no session and no program
                self._fail(row, failure)
                return
            # mngr reads all arguments before it does anything.
            seen = Seen(Life.ABSENT) if failure.is_final else await self._context.look_at(member)
            if seen.life in (Life.ABSENT, Life.LOST):
                self._fail(row, failure)
                return
            if seen.life is Life.UNSEEN:
                return  # `check_launch` decides by later observations
            complaint = failure.text
        if context.plan.agent_type == "command":
            self._note_launched(row, seen, adopted=False)
        else:
            await self._note_made_and_prompt(row, member, seen, complaint)

    def _adopt(self, row: RunRow, member: Member, seen: Seen) -> None:
        """Continue with an agent that an earlier conductor made, or that came late."""
        if self._context.plan.agent_type == "command":
            self._note_launched(row, seen, adopted=True)
        elif row.prompts:
            self._context.tasks.start(self._check_prompt(row, member, seen), _PROMPTING, row.name)
        else:
            failure = self._failures.get(member.agent_id)
            complaint = failure.text if failure is not None else ""
            self._context.tasks.start(self._note_made_and_prompt(row, member, seen, complaint), _PROMPTING, row.name)

    async def _note_made_and_prompt(self, row: RunRow, member: Member, seen: Seen, complaint: str) -> None:
        row = self._context.note_row(
            Event.MADE, row, host_id=seen.host_id, provider=seen.provider, says=shorten(complaint)
        )
        await self._prompt(row, _placed(member, seen), seen)

    async def _prompt(self, row: RunRow, member: Member, seen: Seen) -> None:
        """Send the prompt and check that it arrived; stop an agent that cannot receive it."""
        context, policy, error_text = self._context, self._context.policy, ""
        is_sure = False
        for left in reversed(range(policy.prompt_tries)):
            row = context.note_row(Event.PROMPTING, row, says=shorten(error_text))
            try:
                async with asyncio.timeout(policy.prompt_deadline):
                    await context.crew.send(member, _first_line(member))
            except Exception as error:
                is_sure = isinstance(error, ToolFailedError)
                is_known = isinstance(error, ToolError | TimeoutError)
                too_late = f"no confirmation after {policy.prompt_deadline:g} s"
                error_text = describe_error(error, too_late) if is_known else describe_unexpected(error)
            else:
                self._note_launched(row, seen, adopted=False)
                return
            delivery = await self._context.check_delivery(member, _first_line(member))
            if delivery is Delivery.YES:
                self._note_launched(row, seen, adopted=False)
                return
            if not is_sure or not context.may_retry(row):
                break
            if left:
                await context.clock.sleep(policy.prompt_pause)
        if is_sure:
            await self._fail_unprompted(row, member, error_text)
        else:
            await self._check_prompt(row, member, seen, error_text)

    async def _check_prompt(self, row: RunRow, member: Member, seen: Seen, error_text: str = "") -> None:
        """Decide about an agent whose prompt may or may not have arrived.

        Where the prompt is not in its transcript the agent is made anew: a part of it may stand in the input line.
        """
        error_text = error_text or "the conductor ended while its prompt was being sent"
        member = _placed(member, seen)
        match await self._context.check_delivery(member, _first_line(member)):
            case Delivery.YES:
                self._note_launched(row, seen, adopted=True)
            case Delivery.NO:
                await self._fail_unprompted(row, member, error_text)
            case Delivery.UNKNOWN:
                self._note_launched(row, seen, adopted=True, unsure=error_text)
            case Delivery.PENDING:
                self._context.pause(row, self._context.policy.prompt_pause)

    async def _fail_unprompted(self, row: RunRow, member: Member, error_text: str) -> None:
        stop_failure = await self._stop(member)
        parts = (stop_failure, f"it did not get its prompt: {error_text}")
        self._fail(row, _LaunchFailure("\n".join(part for part in parts if part)))

    async def _stop_and_end(self, row: RunRow, member: Member, text: str) -> None:
        seen = await self._context.look_at(member)
        stop_failure = await self._stop(_placed(member, seen)) if seen.life in PRESENT else ""
        self._finisher.end(row, End.LAUNCH, "launch", f"{text}\n{stop_failure}".rstrip())

    async def _stop(self, member: Member) -> str:
        """Stop an agent that cannot be used; return why that failed."""
        failure = await self._context.stop(member)
        return f"its agent could not be stopped: {failure}" if failure else ""

    def _note_launched(self, row: RunRow, seen: Seen, *, adopted: bool, unsure: str = "") -> None:
        self._throttle.note_success()
        if self._adapter is not None:
            self._adapter.note_launch(is_ok=True)
        setup: dict[str, Any] = {} if seen.setup is None else {"setup": seen.setup}
        self._context.note_row(
            Event.LAUNCHED, row, host_id=seen.host_id, provider=seen.provider, adopted=adopted, unsure=shorten(unsure),
            **setup, **self._now(),
        )  # fmt: skip

    def _launch_failure(self, error: Exception) -> _LaunchFailure:
        is_known = isinstance(error, ToolError | TimeoutError | OSError | ValueError)  # ValueError: a test's id
        text = describe_error(error, f"it was not created within {self._context.policy.create_deadline:g} s")
        is_final = isinstance(error, ToolError) and error.tool_exit_status == _USAGE_STATUS
        if isinstance(error, SetupError):
            return _LaunchFailure(text, is_final=True, stage="setup")
        is_timeout = isinstance(error, TimeoutError)
        return _LaunchFailure(text if is_known else describe_unexpected(error), is_final, is_timeout=is_timeout)

    def _fail(self, row: RunRow, failure: _LaunchFailure) -> None:
        """Retry the launch later, or end the test."""
        context, text = self._context, failure.text
        if failure.is_final:
            self._throttle.note_refusal()
            self._finisher.end(row, End.LAUNCH, failure.stage, text)
            return
        self._throttle.note_failure(signature(text), context.clock.elapsed())
        if self._adapter is not None:
            self._adapter.note_launch(is_ok=False, is_timeout=failure.is_timeout)
        if NO_ROOM.search(text):
            self._throttle.note_no_room()
            if context.may_retry(row) and self._will_have_room(row):
                pause = context.plan.retry_pause * 2.0 ** min(row.retried("no room"), 16)
                context.pause(row, min(pause, context.plan.longest_retry_pause))
                context.note_row(Event.RETRYING, row, reason="no room", text=shorten(text))
                return
        tries = row.retried("launch")
        if tries < context.plan.launch_retries and context.may_retry(row):
            context.pause(row, min(context.plan.retry_pause * 2.0 ** min(tries, 16), context.plan.longest_retry_pause))
            context.note_row(Event.RETRYING, row, reason="launch", text=shorten(text))
        else:
            self._finisher.end(row, End.LAUNCH, "launch", text)

    def _will_have_room(self, row: RunRow) -> bool:
        """Return whether room comes with the end of another agent. A workspace that others have filled is a failure."""
        others = {one.phase for one in self._context.run.rows.values() if one.name != row.name}
        is_starting = Phase.LAUNCHING in others and row.retried("no room") < _MOST_WAITS
        return is_starting or Phase.WORKING in others or Phase.PULLING in others

    def _end_without_agent(self, row: RunRow, text: str) -> None:
        """End a test that has no agent and gets none."""
        end = End.STOPPED if row.retries else End.NOT_STARTED
        self._context.note_row(Event.ENDED, row, end=end, stage="launch", text=text, signature="")

    def _now(self) -> dict[str, Any]:
        now = moment(self._context.clock)
        return {"elapsed": now.elapsed, "boot": now.boot}


def _first_line(member: Member) -> str:
    """Return the message with which an attempt begins."""
    return answer_line(member.attempt) if member.is_continued else PROMPT_LINE


def _placed(member: Member, seen: Seen) -> Member:
    return replace(member, host_id=seen.host_id or member.host_id, provider=seen.provider or member.provider)
