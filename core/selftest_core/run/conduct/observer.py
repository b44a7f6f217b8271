"""The observer: looks at the agents of a run, one look at a time, and counts how long each was not seen.

An unseen agent is lost after a short time where others were seen meanwhile (its host is dead), and after a long time
if none was (the network is down, and the agents keep working). From time to time the observer also checks which
agents are rate limited.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError, describe_error, describe_unexpected
from selftest_core.run.conduct.context import shorten
from selftest_core.run.crew.crew import Life, Seen
from selftest_core.run.events import RUNNING, Event, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.run.conduct.context import Context
    from selftest_core.run.conduct.stopper import Stopper
    from selftest_core.run.fold import Member, RunRow

OBSERVING, _CHECKING_LIMITS = "observing agents", "checking for rate limits"
_CAN_BE_LIMITED = (Life.WORKING, Life.TURN_ENDED, Life.ASKS)


class Observer:
    """Keeps the last observation of each agent, and when it was asked for."""

    def __init__(self, context: Context, stopper: Stopper) -> None:
        self._context = context
        self._stopper = stopper
        self._seen: Mapping[str, Seen] = {}  # by agent id, of the last look
        self._asked_at = 0.0
        self._is_looking = False
        self._is_checking_limits = False
        self._any_seen_at = -1.0
        self._unseen_since: dict[str, float] = {}
        self._exited: set[tuple[str, int]] = set()  # by agent id and attempt

    def start(self) -> None:
        """Start the next look and the next check of rate limits, unless one is running."""
        if not self._is_looking:
            self._is_looking = True
            self._context.tasks.start(self._look_and_wait(), OBSERVING)
        if not self._is_checking_limits:
            self._is_checking_limits = True
            self._context.tasks.start(self._check_limits(), _CHECKING_LIMITS)

    def seen(self, row: RunRow, member: Member) -> Seen | None:
        """Return the last observation of the test's agent; None if it is older than the test's last journal line."""
        if self._asked_at < self._context.changed_at.get(row.name, -1.0):
            return None
        return self._seen.get(member.agent_id)

    def unseen_seconds(self, member: Member) -> float:
        """Return for how many seconds the agent was not seen."""
        elapsed = self._context.clock.elapsed()
        return elapsed - self._unseen_since.get(member.agent_id, elapsed)

    def lost_after(self, member: Member) -> float:
        """Return after how many unseen seconds the agent counts as lost."""
        since = self._unseen_since.get(member.agent_id, self._asked_at)
        return self._context.policy.lost_after if self._any_seen_at >= since else self._context.policy.outage_after

    async def _look_and_wait(self) -> None:
        try:
            await self._look()
            # Wait as long as the loop does, so that it decides by this look before the next one.
            await self._context.clock.sleep(self._context.policy.poll)
        finally:
            self._is_looking = False

    async def _look(self) -> None:
        context = self._context
        asked_at = context.clock.elapsed()
        rows = context.run.rows.values()
        # A test that a task owns now (launch, fetch) needs a look that begins after the task.
        running = [row for row in rows if row.phase in RUNNING and row.name not in context.tasks.busy]
        wanted = [row.member for row in running if row.member is not None]
        given_up = [retry.member for row in rows for retry in row.retries if not retry.is_continued]
        seen = await self._ask(wanted, given_up) if wanted else {}
        # A session may end after its program did: that is a crash, and nobody stopped the agent.
        attempts = {key: (key, 0) for key in seen} | {one.agent_id: (one.agent_id, one.attempt) for one in wanted}
        self._exited.update(attempts[key] for key, found in seen.items() if found.life is Life.EXITED)
        seen = {
            key: replace(found, life=Life.EXITED)
            if found.life is Life.STOPPED and attempts[key] in self._exited
            else found
            for key, found in seen.items()
        }
        self._seen, self._asked_at = seen, asked_at
        for member in wanted:
            found = seen.get(member.agent_id)
            if found is None or found.life is Life.UNSEEN:
                self._unseen_since.setdefault(member.agent_id, asked_at)
            else:
                self._unseen_since.pop(member.agent_id, None)
                self._any_seen_at = asked_at
        for member in self._stopper.strays(given_up, seen):
            context.tasks.start(self._stopper.stop_stray(member), "stopping an agent that was given up")

    async def _ask(self, wanted: Sequence[Member], given_up: Sequence[Member]) -> Mapping[str, Seen]:
        detail = "no answer about it"
        answer: Mapping[str, Seen] = {}
        try:
            async with asyncio.timeout(self._context.policy.look_deadline):
                answer = dict(await self._context.crew.look((*wanted, *given_up)))
        except (ToolError, TimeoutError) as error:
            detail = describe_error(error, f"no answer within {self._context.policy.look_deadline:g} s")
        except Exception as error:
            detail = describe_unexpected(error)
            self._context.tasks.report(error, OBSERVING)
        unseen = {member.agent_id: Seen(Life.UNSEEN, detail=detail) for member in wanted}
        return {**unseen, **answer}

    async def _check_limits(self) -> None:
        try:
            await self._note_limits()
        finally:
            self._is_checking_limits = False

    async def _note_limits(self) -> None:
        """Note the agents that are rate limited now, and those that no longer are."""
        context = self._context
        await context.clock.sleep(context.policy.screen_pause)
        rows = {
            row.member.agent_id: row
            for row in context.run.rows.values()
            if row.phase is Phase.WORKING and row.member is not None and self._can_be_limited(row.member)
        }
        members = [row.member for row in rows.values() if row.member is not None]
        limits: Mapping[str, str] = {}
        try:
            if members:
                async with asyncio.timeout(context.policy.screen_deadline):
                    limits = await context.crew.limits(members)
        except (ToolError, TimeoutError):
            pass  # nothing is known then; `_ask` reports agents that cannot be reached
        for agent_id, reason in limits.items():
            if agent_id not in rows:
                continue
            row = context.run.rows[rows[agent_id].name]
            if row.phase is Phase.WORKING and row.member == rows[agent_id].member and bool(reason) != bool(row.limited):
                context.note_row(Event.LIMITED, row, reason=shorten(reason))

    def _can_be_limited(self, member: Member) -> bool:
        found = self._seen.get(member.agent_id)
        return found is not None and found.life in _CAN_BE_LIMITED
