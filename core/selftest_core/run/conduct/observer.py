"""Looks at the agents of a run, one look at a time and beside the loop, and knows since when one was not seen.

One that nobody can see is lost after a while: a short one where others were seen meanwhile, since then its host is
dead; a long one where nobody was seen, since then it is the network, and all of them work on behind it. From time to
time it is asked too whom a service turns away.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError
from selftest_core.run.conduct.context import evidence_of, short, words_of
from selftest_core.run.crew.crew import Life, Seen
from selftest_core.run.events import RUNNING, Event, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.run.conduct.context import Context
    from selftest_core.run.conduct.stopper import Stopper
    from selftest_core.run.fold import Member, RunRow

LOOKING, WATCHING = "looking at the agents", "looking at their screens"
_TALKING = (Life.WORKING, Life.TURN_ENDED, Life.ASKS)


class Observer:
    """What was seen last, and when it was asked for."""

    def __init__(self, context: Context, stopper: Stopper) -> None:
        self._context = context
        self._stopper = stopper
        self._seen: Mapping[str, Seen] = {}
        self._asked_at = 0.0
        self._is_looking = False
        self._is_watching = False
        self._anybody_at = -1.0
        self._unseen_since: dict[str, float] = {}
        self._exited: set[str] = set()

    def start(self) -> None:
        """Begin the next look, unless one is being taken."""
        if not self._is_looking:
            self._is_looking = True
            self._context.work.start(self._look(), LOOKING)
        if not self._is_watching:
            self._is_watching = True
            self._context.work.start(self._watch_screens(), WATCHING)

    def seen(self, row: RunRow, member: Member) -> Seen | None:
        """What is known of the test's agent now; None where all that is known is older than its last step."""
        if self._asked_at < self._context.scribe.changed.get(row.name, -1.0):
            return None
        return self._seen.get(member.agent_id)

    def unseen(self, member: Member) -> float:
        """For how many seconds nothing was seen of it."""
        elapsed = self._context.clock.elapsed()
        return elapsed - self._unseen_since.get(member.agent_id, elapsed)

    def lost_after(self, member: Member) -> float:
        """After how many seconds unseen it is to be given up."""
        since = self._unseen_since.get(member.agent_id, self._asked_at)
        return self._context.policy.lost_after if self._anybody_at >= since else self._context.policy.outage_after

    async def _look(self) -> None:
        try:
            await self._look_once()
            # The next look waits as long as the loop does: what is seen now is judged first.
            await self._context.clock.sleep(self._context.policy.poll)
        finally:
            self._is_looking = False

    async def _look_once(self) -> None:
        context = self._context
        asked_at = context.clock.elapsed()
        rows = context.run.rows.values()
        # One that a task owns just now (made, fetched from) is judged by a look that begins after it.
        running = [row for row in rows if row.phase in RUNNING and row.name not in context.work.busy]
        wanted = [row.member for row in running if row.member is not None]
        given_up = [retry.member for row in rows for retry in row.retries]
        seen = await self._ask(wanted, given_up) if wanted else {}
        # Its session may end behind its program: it crashed all the same, nobody stopped it.
        self._exited.update(key for key, found in seen.items() if found.life is Life.EXITED)
        seen = {
            key: replace(found, life=Life.EXITED) if found.life is Life.STOPPED and key in self._exited else found
            for key, found in seen.items()
        }
        self._seen, self._asked_at = seen, asked_at
        for member in wanted:
            found = seen.get(member.agent_id)
            if found is None or found.life is Life.UNSEEN:
                self._unseen_since.setdefault(member.agent_id, asked_at)
            else:
                self._unseen_since.pop(member.agent_id, None)
                self._anybody_at = asked_at
        for member in self._stopper.strays(given_up, seen):
            context.work.start(self._stopper.stop_stray(member), "stopping an agent that was given up")

    async def _ask(self, wanted: Sequence[Member], given_up: Sequence[Member]) -> Mapping[str, Seen]:
        says = "nothing was said of it"
        answer: Mapping[str, Seen] = {}
        try:
            async with asyncio.timeout(self._context.policy.look_deadline):
                answer = dict(await self._context.crew.look((*wanted, *given_up)))
        except (ToolError, TimeoutError) as error:
            says = words_of(error, f"nobody answered within {self._context.policy.look_deadline:g} s")
        except Exception as error:
            says = evidence_of(error)
            self._context.work.report(error, LOOKING)
        unseen = {member.agent_id: Seen(Life.UNSEEN, says=says) for member in wanted}
        return {**unseen, **answer}

    async def _watch_screens(self) -> None:
        try:
            await self._note_limits()
        finally:
            self._is_watching = False

    async def _note_limits(self) -> None:
        """Note which agents a service turns away, and which it takes again."""
        context = self._context
        await context.clock.sleep(context.policy.screen_pause)
        rows = {
            row.member.agent_id: row
            for row in context.run.rows.values()
            if row.phase is Phase.WORKING and row.member is not None and self._talks(row.member)
        }
        members = [row.member for row in rows.values() if row.member is not None]
        limits: Mapping[str, str] = {}
        try:
            if members:
                async with asyncio.timeout(context.policy.screen_deadline):
                    limits = await context.crew.limits(members)
        except (ToolError, TimeoutError):
            pass  # nothing is known of them then; what the looks say of the agents is said there
        for agent_id, reason in limits.items():
            if agent_id not in rows:
                continue
            row = context.run.rows[rows[agent_id].name]
            if row.phase is Phase.WORKING and row.member == rows[agent_id].member and bool(reason) != bool(row.limited):
                context.note_row(Event.LIMITED, row, reason=short(reason))

    def _talks(self, member: Member) -> bool:
        found = self._seen.get(member.agent_id)
        return found is not None and found.life in _TALKING
