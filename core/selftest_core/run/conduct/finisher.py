"""How a test ends: by what was fetched, or by being given up; and whether the run should pause over it.

An end is written down once, after its files are in place, with the evidence that tells which failures are alike.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_core.fleet.clusters import signature, where_failed, without_shell
from selftest_core.run.conduct.circuit_breaker import find_alarm
from selftest_core.run.conduct.context import LONGEST_TEXT, short
from selftest_core.run.conduct.policy import pause_after
from selftest_core.run.events import Event, Phase
from selftest_core.run.fetch.fetching import Fetched, fetch
from selftest_core.run.outcome.ends import End
from selftest_core.run.outcome.outcome import evidence, verdict

if TYPE_CHECKING:
    from selftest_core.run.conduct.context import Context
    from selftest_core.run.conduct.policy import Advice
    from selftest_core.run.crew.crew import Seen
    from selftest_core.run.fold import Member, RunRow
    from selftest_core.run.outcome.outcome import Outcome


class Finisher:
    """Fetches and ends; remembers which fetches that should have been the last brought nothing."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pulling = asyncio.Semaphore(context.policy.pulls_at_once)
        self._vain: dict[str, int] = {}

    async def pull(self, row: RunRow, member: Member, seen: Seen, advice: Advice) -> None:
        """Fetch what the agent left, and end its test if that is enough, or if no more can come."""
        context, policy = self._context, self._context.policy
        if row.phase is not Phase.PULLING or row.stamp != seen.outcome:
            row = context.note_row(Event.PULLING, row, stamp=seen.outcome)
        vain = self._vain.get(member.agent_id, 0)
        is_last = advice.end is not None and vain + 1 >= policy.last_looks
        async with self._pulling:
            got = await fetch(member, context.crew, context.folder, context.bundles, policy, is_last=is_last)
        await context.meter_now((row,))
        if got.outcome is not None and not got.reason and not got.failure:
            self._end_by_outcome(row, got.outcome, got)
            return
        if advice.end is not None:
            self._vain[member.agent_id] = vain = vain + 1
        if advice.end is None or not (is_last or vain >= policy.failed_pulls):
            self._missed(row, got)
        elif got.failure:
            if vain >= policy.failed_pulls:
                self.give_up(row, End.LOST, f"what it left could not be fetched: {got.failure}", stage="pull")
            else:
                self._missed(row, got)
        elif got.reason:
            self.end(row, End.UNREADABLE, "pull", got.reason, got)
        else:
            screen = without_shell(got.screen)[-LONGEST_TEXT:]
            error = got.error.says if got.error is not None else ""
            says = "\n".join(part for part in (advice.text, error, screen) if part)
            self.end(row, advice.end, where_failed(screen), says, got, evidence=error or screen)

    def give_up(self, row: RunRow, end: End, text: str, stage: str = "work") -> None:
        """End a test whose agent is out of reach, or try another agent where the policy says so."""
        context = self._context
        if end is End.LOST and row.retried("lost") < context.policy.lost_retries and context.may_retry(row):
            context.pause(row, context.policy.launch_pause)
            row = context.note_usage(row)
            context.note_row(Event.RETRYING, row, reason="lost", text=short(text))
        else:
            self.end(row, end, stage, text)

    def end(
        self, row: RunRow, end: End, stage: str, text: str, got: Fetched | None = None, *, evidence: str = ""
    ) -> None:
        """Write down how it ended, and pause the run where too many of the last ended alike."""
        row = self._context.note_usage(row)
        tip, commits = (got.taken.tip, got.taken.commits) if got is not None else ("", 0)
        self._context.note_row(
            Event.ENDED, row, end=end, stage=stage, text=short(text), signature=signature(evidence or text),
            tip=tip, commits=commits,
        )  # fmt: skip
        self.heed_alarm()

    def heed_alarm(self) -> None:
        """Let the run rest where many of its last tests failed alike."""
        alarm = find_alarm(self._context.run, self._context.policy)
        if alarm is not None:
            self._context.note(Event.PAUSED, reason=alarm.says, by="cluster", signature=alarm.signature)

    def _end_by_outcome(self, row: RunRow, outcome: Outcome, got: Fetched) -> None:
        end = verdict(outcome, got.taken.commits > 0)
        told = evidence(outcome, end)
        match end:
            case End.BLOCKED:
                stage = "blocked"
            case End.RED:
                stage = "work" if outcome.errored else where_failed(told)
                stage = "test" if stage == "work" and not outcome.errored else stage
            case _:
                stage = "work"
        text = told if told == outcome.summary or not told else f"{told}\n\n{outcome.summary}".rstrip()
        self.end(row, end, stage, text[:LONGEST_TEXT], got, evidence=told)

    def _missed(self, row: RunRow, got: Fetched) -> None:
        says = short(got.failure or got.reason or "there was no outcome")
        # What could not be fetched is asked for again; what was fetched and is not whole, when it has changed.
        whole = got.outcome is not None and not got.failure
        row = self._context.note_row(Event.MISSED, row, says=says, whole=whole, again=bool(got.failure))
        self._context.pause(row, pause_after(row.misses, self._context.policy))
