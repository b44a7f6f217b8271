"""The stopper: stops agents of ended tests in batches, host by host, each with a deadline and few tries.

Each host has few calls at a time, so a dead host delays only its own agents. A test ends even if its agent cannot be
stopped; the journal has the reason. An agent that was given up and appears again (a stray) is stopped too.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError, describe_unexpected
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
    """Counts running calls by host and tries by agent. `after_stop` is called with each batch that was stopped."""

    def __init__(
        self, crew: Crew, policy: Policy, clock: Clock, after_stop: Callable[[Sequence[RunRow]], Awaitable[None]]
    ) -> None:
        self._after_stop = after_stop
        self._crew = crew
        self._policy = policy
        self._clock = clock
        self._calls = Counter[str]()  # by host: calls that run
        self._stopping: set[str] = set()
        self._tries: dict[tuple[str, int], int] = {}  # by agent id and attempt
        self._not_before: dict[str, float] = {}
        self._strays: set[str] = set()

    @property
    def is_busy(self) -> bool:
        """True while a call runs."""
        return self._calls.total() > 0

    def batches(self, run: Run, elapsed: float) -> Iterator[tuple[RunRow, ...]]:
        """Yield the batches to stop now, at most one for each host; the caller passes each to `stop`."""
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
            if self._calls[host] < self._policy.stops_at_once:
                batch = tuple(rows[: self._policy.stop_batch])
                self._calls[host] += 1
                self._stopping.update(row.name for row in batch)
                yield batch

    async def stop(self, batch: Sequence[RunRow]) -> Mapping[str, str]:
        """Stop one batch; return the failure by test name, empty for stopped, without those that are retried."""
        members = [row.member for row in batch if row.member is not None]
        host = members[0].host_id
        try:
            answers = await self._call_stop(members)
            await self._after_stop(batch)
        finally:
            self._calls[host] -= 1
            self._stopping.difference_update(row.name for row in batch)
        settled: dict[str, str] = {}
        for row, member in zip(batch, members, strict=True):
            failure = answers.get(member.agent_id, "no answer about it")
            key = (member.agent_id, member.attempt)
            tries = self._tries[key] = self._tries.get(key, 0) + 1
            # A lost host is asked only once: there is nothing left to stop.
            if failure and tries < (1 if row.end is End.LOST else self._policy.stop_tries):
                self._not_before[row.name] = self._clock.elapsed() + self._policy.launch_pause * tries
            else:
                settled[row.name] = failure
        return settled

    def strays(self, given_up: Iterable[Member], seen: Mapping[str, Seen]) -> Iterator[Member]:
        """Yield given-up agents that are there again, each once; the caller passes each to `stop_stray`."""
        for member in given_up:
            found = seen.get(member.agent_id)
            if found is not None and found.life in PRESENT and member.agent_id not in self._strays:
                self._strays.add(member.agent_id)
                host_id, provider = found.host_id or member.host_id, found.provider or member.provider
                yield replace(member, host_id=host_id, provider=provider)

    async def stop_stray(self, member: Member) -> None:
        """Stop an agent that no test needs. A failure is not retried: `sweep` finds the agent."""
        key = f"stray {member.agent_id}"
        self._calls[key] += 1
        try:
            await self._call_stop([member])
        finally:
            self._calls[key] -= 1

    async def _call_stop(self, members: Sequence[Member]) -> Mapping[str, str]:
        try:
            async with asyncio.timeout(self._policy.stop_deadline):
                return dict(await self._crew.stop(members))
        except TimeoutError:
            failure = f"it did not stop within {self._policy.stop_deadline:g} s"
        except ToolError as error:
            failure = str(error)
        except Exception as error:
            failure = describe_unexpected(error)
        return {member.agent_id: failure for member in members}
