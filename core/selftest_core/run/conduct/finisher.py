"""The finisher: fetches results, ends tests by outcome or by giving up, verifies claims or asks the role's gate, and
pauses for a shared cause.

An end is written once, after its files are in place, with the signature that groups failures by cause.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_core.errors import describe_unexpected
from selftest_core.fleet.clusters import signature, where_failed, without_shell
from selftest_core.run.conduct.circuit_breaker import find_shared_cause
from selftest_core.run.conduct.context import LONGEST_TEXT, shorten
from selftest_core.run.conduct.policy import fetch_backoff
from selftest_core.run.crew.crew import OUTCOME
from selftest_core.run.events import Event, Phase
from selftest_core.run.fetch.fetching import Fetched, fetch
from selftest_core.run.outcome.claims import ClaimResult, ClaimVerdict, claims_green
from selftest_core.run.outcome.ends import CLAIMED_GREEN, End, Group
from selftest_core.run.outcome.outcome import NO_COMMIT, evidence, reported_end
from selftest_core.run.outcome.outcome_file import parse_outcome

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.conduct.context import Context
    from selftest_core.run.conduct.policy import Advice
    from selftest_core.run.crew.crew import Seen
    from selftest_core.run.fold import Member, RunRow
    from selftest_core.run.outcome.claims import ClaimVerifier
    from selftest_core.run.outcome.gate import Gate
    from selftest_core.run.outcome.outcome import Outcome


class Finisher:
    """Fetches and ends. Counts the fetches of each ended agent that brought no usable outcome."""

    def __init__(self, context: Context, claims: ClaimVerifier | None = None, gate: Gate | None = None) -> None:
        self._context = context
        self._claims = claims
        self._gate = gate
        self._verifying: dict[tuple[str, int], asyncio.Task[ClaimVerdict]] = {}  # by test and attempt
        self._fetching = asyncio.Semaphore(context.policy.pulls_at_once)
        self._misses_after_end: dict[tuple[str, int], int] = {}  # by agent id and attempt

    async def fetch(self, row: RunRow, member: Member, seen: Seen, advice: Advice) -> None:
        """Fetch what the agent left; end its test where the outcome is complete or nothing more can come."""
        context, policy = self._context, self._context.policy
        if row.phase is not Phase.PULLING or row.stamp != seen.outcome:
            row = context.note_row(Event.PULLING, row, stamp=seen.outcome)
        key = (member.agent_id, member.attempt)
        misses = self._misses_after_end.get(key, 0)
        is_last = advice.end is not None and misses + 1 >= policy.last_looks
        async with self._fetching:
            fetched = await fetch(member, context.crew, context.folder, context.bundles, policy, is_last=is_last)
        await context.meter_rows((row,))
        if fetched.outcome is not None and not fetched.reason and not fetched.failure:
            self._end_by_outcome(row, fetched.outcome, fetched)
            return
        if advice.end is None:
            self._note_miss(row, fetched)
            return
        self._misses_after_end[key] = misses = misses + 1
        is_exhausted = misses >= policy.failed_pulls
        if fetched.failure and is_exhausted:
            self.give_up(row, End.LOST, f"its results could not be fetched: {fetched.failure}", stage="pull")
        elif fetched.failure or not (is_last or is_exhausted):
            self._note_miss(row, fetched)
        elif fetched.reason:
            self.end(row, End.UNREADABLE, "pull", fetched.reason, fetched)
        elif advice.end is End.LOST:
            self.give_up(row, End.LOST, advice.text)
        else:
            screen = without_shell(fetched.screen)[-LONGEST_TEXT:]
            error = fetched.error.line if fetched.error is not None else ""
            text = "\n".join(part for part in (advice.text, error, screen) if part)
            self.end(row, advice.end, where_failed(screen), text, fetched, evidence=error or screen)

    def give_up(self, row: RunRow, end: End, text: str, stage: str = "work") -> None:
        """End a test whose agent cannot be reached, or retry it with another agent where the policy allows."""
        context = self._context
        if end is End.LOST and row.retried("lost") < context.plan.lost_retries and context.may_retry(row):
            context.pause(row, context.plan.retry_pause)
            row = context.note_usage(row)
            context.note_row(Event.RETRYING, row, reason="lost", text=shorten(text))
        else:
            self.end(row, end, stage, text)

    def end(
        self, row: RunRow, end: End, stage: str, text: str, fetched: Fetched | None = None, *, evidence: str = "",
        is_claim: bool = False,
    ) -> None:  # fmt: skip
        """Write how the test ended; pause the run where many of the last tests share a cause. `is_claim`: verify it."""
        row = self._context.note_usage(row)
        tip, commits = (fetched.taken.tip, fetched.taken.commits) if fetched is not None else ("", 0)
        self._context.note_row(
            Event.ENDED, row, end=end, stage=stage, text=shorten(text), signature=signature(evidence or text),
            tip=tip, commits=commits, **({"verifying": True} if is_claim else {}),
        )  # fmt: skip
        self.pause_on_shared_cause()

    def verify_claims(self) -> None:
        """Verify what has arrived, also before an earlier conductor ended; end that where the run is stopped.

        Testers' claims go to the verifier of claims, the work of other roles to their gate.
        """
        is_possible = self._claims is not None or self._gate is not None
        rows = [row for row in self._context.run.rows.values() if row.is_verifying]
        for row in rows:
            key = (row.name, row.attempt)
            if not is_possible or (self._context.run.is_halted and key not in self._verifying):
                reason = "the run was stopped" if is_possible else "claims are not verified here"
                self._note_verdict(row, ClaimVerdict(ClaimResult.UNKNOWN, reason))
            elif self._context.run.is_halted:
                self._verifying[key].cancel()
            elif key not in self._verifying:
                task = self._verifying[key] = asyncio.ensure_future(self._judge(row))
                self._context.tasks.start(self._verify(row, key, task), "verifying its claim")

    async def _judge(self, row: RunRow) -> ClaimVerdict:
        if self._gate is not None and row.member is not None:
            return await _ask_gate(self._gate, row, self._context.folder.attempt(row.member))
        if self._claims is not None:
            return await self._claims.verify(row.planned.node_id, row.tip or self._context.plan.base)
        return ClaimVerdict(ClaimResult.UNKNOWN, "claims are not verified here")

    async def _verify(self, row: RunRow, key: tuple[str, int], task: asyncio.Task[ClaimVerdict]) -> None:
        try:
            found = await task
        except asyncio.CancelledError:
            if not self._context.run.is_halted:
                task.cancel()
                raise  # the conductor ends: the next one verifies it
            found = ClaimVerdict(ClaimResult.UNKNOWN, "the run was stopped")
        except Exception as error:
            found = ClaimVerdict(ClaimResult.UNKNOWN, describe_unexpected(error))
        finally:
            self._verifying.pop(key, None)
        self._note_verdict(row, found)

    def _note_verdict(self, row: RunRow, found: ClaimVerdict) -> None:
        """Write a verdict, unless the test was tried again meanwhile."""
        now = self._context.run.rows[row.name]
        if now.attempt != row.attempt or not now.is_verifying:
            return
        is_gated = self._context.plan.role != "tester"
        said = found.reason if is_gated else f"{CLAIMED_GREEN}: {found.reason}"
        lines = "\n".join(part for part in (found.output[-LONGEST_TEXT // 2 :], said) if part)
        is_false = found.result is ClaimResult.FAILED
        self._context.note_row(
            Event.VERIFIED, now, result=str(found.result), reason=shorten(found.reason),
            text=shorten(lines) if is_false else "", signature=signature(lines) if is_false else "",
            **({"gate": True} if is_gated else {}),
        )  # fmt: skip
        if is_false:
            self.pause_on_shared_cause()

    def pause_on_shared_cause(self) -> None:
        """Pause the run where many of its last tests failed with the same error."""
        cause = find_shared_cause(self._context.run)
        if cause is not None:
            self._context.note(Event.PAUSED, reason=cause.text, by="cluster", signature=cause.key)

    def _end_by_outcome(self, row: RunRow, outcome: Outcome, fetched: Fetched) -> None:
        has_commits = fetched.taken.commits > 0
        end = reported_end(outcome, has_commits)
        reported = evidence(outcome, end, has_commits=has_commits)
        stage = "work"
        if end is End.BLOCKED:
            stage = "blocked"
        elif end is End.RED and not outcome.errored:
            stage = where_failed(reported)
            stage = "test" if stage == "work" and reported != NO_COMMIT else stage
        is_all = reported == outcome.summary or not reported
        text = reported if is_all else f"{reported}\n\n{outcome.summary}".rstrip()
        is_claim = self._claims is not None and claims_green(outcome, end)
        is_claim |= self._gate is not None and end.group in (Group.SUCCEEDED, Group.UNCHANGED)
        self.end(row, end, stage, text[:LONGEST_TEXT], fetched, evidence=reported, is_claim=is_claim)

    def _note_miss(self, row: RunRow, fetched: Fetched) -> None:
        """Note a fetch without a usable outcome, and pause the test before the next fetch."""
        text = shorten(fetched.failure or fetched.reason or "there was no outcome")
        # A failed fetch is repeated; a fetched but incomplete outcome only once it has changed.
        is_whole = fetched.outcome is not None and not fetched.failure
        row = self._context.note_row(Event.MISSED, row, says=text, whole=is_whole, again=bool(fetched.failure))
        self._context.pause(row, fetch_backoff(row.misses, self._context.policy))


async def _ask_gate(gate: Gate, row: RunRow, folder: Path) -> ClaimVerdict:
    """Ask the gate about an attempt, whose results are in this folder. Work that cannot be judged is refused."""
    try:
        outcome = parse_outcome(await asyncio.to_thread((folder / OUTCOME).read_bytes))
        reason = await gate.judge(row.planned, folder, outcome, row.tip)
    except Exception as error:
        reason = f"it could not be checked: {describe_unexpected(error)}"
    return ClaimVerdict(ClaimResult.FAILED, reason) if reason else ClaimVerdict(ClaimResult.PASSED)
