"""Stops agents whose end is known: beside the loop, host by host, in batches, each with a deadline and few tries.

One host has a few calls at a time, so a dead one holds up nobody but its own. An agent that cannot be stopped ends its
test all the same, with the reason; one that was given up for another and turns up again is stopped too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError
from selftest_core.run.conduct.context import evidence_of
from selftest_core.run.crew.crew import PRESENT
from selftest_core.run.events import Phase
from selftest_core.run.outcome.ends import End

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from selftest_core.run.clock import Clock
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.crew.crew import Crew, Seen
    from selftest_core.run.fold import Member, Run, RunRow


class Stopper:
    """Knows who is being stopped, and how often that was tried. `after`: is called with each batch that was stopped."""

    def __init__(
        self, crew: Crew, policy: Policy, clock: Clock, after: Callable[[Sequence[RunRow]], Awaitable[None]]
    ) -> None:
        self._after = after
        self._crew = crew
        self._policy = policy
        self._clock = clock
        self._hosts = Counter[str]()  # how many calls run, by host
        self._stopping: set[str] = set()
        self._tries: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._strays: set[str] = set()

    @property
    def is_busy(self) -> bool:
        """True while a call runs."""
        return self._hosts.total() > 0

    def batches(self, run: Run, elapsed: float) -> Iterator[tuple[RunRow, ...]]:
        """The batches to stop now, one for each host that may have another call; each must be given to `stop`."""
        hosts: dict[str, list[RunRow]] = {}
        for row in run.rows.values():
            if (
                row.phase is Phase.STOPPING
                and row.member is not None
                and row.name not in self._stopping
                and elapsed >= self._not_before.get(row.name, -1.0)
            ):
                hosts.setdefault(row.member.host_id, []).append(row)
        for host, rows in hosts.items():
            if self._hosts[host] < self._policy.stops_at_once:
                batch = tuple(rows[: self._policy.stop_batch])
                self._hosts[host] += 1
                self._stopping.update(row.name for row in batch)
                yield batch

    async def stop(self, batch: Sequence[RunRow]) -> Mapping[str, str]:
        """Stop one batch; by test name why it could not be stopped (empty: it is); without those to be tried again."""
        members = [row.member for row in batch if row.member is not None]
        host = members[0].host_id
        try:
            answers = await self._ask(members)
            await self._after(batch)
        finally:
            self._hosts[host] -= 1
            self._stopping.difference_update(row.name for row in batch)
        settled: dict[str, str] = {}
        for row, member in zip(batch, members, strict=True):
            says = answers.get(member.agent_id, "nothing was said of it")
            tries = self._tries[member.agent_id] = self._tries.get(member.agent_id, 0) + 1
            # A host that is gone is asked once: there is nothing to save.
            if says and tries < (1 if row.end is End.LOST else self._policy.stop_tries):
                self._not_before[row.name] = self._clock.elapsed() + self._policy.launch_pause * tries
            else:
                settled[row.name] = says
        return settled

    def strays(self, given_up: Iterable[Member], seen: Mapping[str, Seen]) -> Iterator[Member]:
        """Agents that were given up for others and are there again: each once, to be given to `stop_stray`."""
        for member in given_up:
            found = seen.get(member.agent_id)
            if found is not None and found.life in PRESENT and member.agent_id not in self._strays:
                self._strays.add(member.agent_id)
                host_id, provider = found.host_id or member.host_id, found.provider or member.provider
                yield replace(member, host_id=host_id, provider=provider)

    async def stop_stray(self, member: Member) -> None:
        """Stop an agent that no test waits for any more; whether it worked is seen by the next `sweep`."""
        key = f"stray {member.agent_id}"
        self._hosts[key] += 1
        try:
            await self._ask([member])
        finally:
            self._hosts[key] -= 1

    async def _ask(self, members: Sequence[Member]) -> Mapping[str, str]:
        try:
            async with asyncio.timeout(self._policy.stop_deadline):
                return dict(await self._crew.stop(members))
        except TimeoutError:
            says = f"it did not stop within {self._policy.stop_deadline:g} s"
        except ToolError as error:
            says = str(error)
        except Exception as error:
            says = evidence_of(error)
        return {member.agent_id: says for member in members}
