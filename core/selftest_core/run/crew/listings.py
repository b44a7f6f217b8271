"""The newest answers of `mngr list`, provider by provider, asked as seldom as their own cost allows.

Each provider is asked apart, so that one that is down or slow hides and delays no agent of another: while others have
answered, a slow one is waited for a little only, and its answer serves the look that it is there for. What would end
a test is never taken from an old answer; once it was told from a new one, an old one may repeat it, so that an agent
that is gone for good does not cost a listing with every look. Nothing here judges an agent.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER, State
from selftest_core.errors import ToolError
from selftest_core.run.conduct.context import evidence_of
from selftest_core.run.crew.crew import Life, Seen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from selftest_core.agents import Agent
    from selftest_core.fleet.observations import Listed
    from selftest_core.run.clock import Clock
    from selftest_core.run.fold import Member

type Answer = Listed | str
"""A listing, or in words why there is none just now."""

type ListAgents = Callable[[str, float], Awaitable[Listed]]
"""Lists the agents of a provider, within so many seconds: `fleet.sources.mngr_list.list_agents` of one mngr."""

_TIMEOUT = 80.0
_LEAST_AGE = 2.0
"""Seconds for which an answer is good at least; four times its own cost otherwise."""
_STRAGGLER = 5.0
"""Seconds for which the slow provider is waited for after another one has answered."""


class Listings:
    """What mngr last said of each provider."""

    def __init__(self, list_agents: ListAgents, clock: Clock) -> None:
        self._list_agents = list_agents
        self._clock = clock
        self._newest: dict[str, Listed] = {}
        self._asked_at: dict[str, float] = {}
        self._begun: dict[str, float] = {}
        self._told: dict[str, State | None] = {}  # by agent id: the state that ends, or None where it was not there
        self._asking: dict[str, asyncio.Task[Answer]] = {}  # shared by all looks, until one of them has taken it
        self._waiters: dict[asyncio.Task[Answer], int] = {}

    def newest(self, provider: str) -> Listed | None:
        """The last whole answer, however old."""
        return self._newest.get(provider)

    def begun(self, provider: str) -> float:
        """When the last whole answer was asked for, as the clock counts; before all time where there is none."""
        return self._begun.get(provider, -math.inf)

    def doubt(self, agent_id: str) -> None:
        """What was told of this agent is not believed yet: the next look at it needs a new answer."""
        self._told.pop(agent_id, None)

    async def of(self, wanted: Mapping[str, Sequence[Member]]) -> dict[str, Answer]:
        """An answer for each provider that is new enough for these of its members."""
        answers: dict[str, Answer] = {}
        asked: dict[str, asyncio.Task[Answer]] = {}
        for provider, members in wanted.items():
            listed = self._good_enough(provider, members)
            if listed is not None:
                answers[provider] = listed
            else:
                asked[provider] = self._asking.get(provider) or asyncio.ensure_future(self._ask(provider))
                self._asking[provider] = asked[provider]
        await self._wait_for(set(asked.values()), is_hurried=bool(answers))
        for provider, task in asked.items():
            if not task.done() or task.cancelled():
                answers[provider] = f"mngr has not answered for {provider} yet"
                continue
            if self._asking.get(provider) is task:
                del self._asking[provider]
            answer = answers[provider] = task.result()
            if not isinstance(answer, str):
                self._tell(answer, wanted[provider])
        return answers

    async def _wait_for(self, waiting: set[asyncio.Task[Answer]], *, is_hurried: bool) -> None:
        """Wait for these answers, for the last of them a little only. The last look that is cancelled ends them."""
        for task in waiting:
            self._waiters[task] = self._waiters.get(task, 0) + 1
        left = waiting
        try:
            if left and not is_hurried:
                _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            if left:
                await asyncio.wait(left, timeout=_STRAGGLER)
        except asyncio.CancelledError:
            for provider, task in tuple(self._asking.items()):
                if task in waiting and self._waiters[task] == 1 and not task.done():
                    task.cancel()
                    del self._asking[provider]
            raise
        finally:
            for task in waiting:
                self._waiters[task] -= 1
                if not self._waiters[task]:
                    del self._waiters[task]

    async def _ask(self, provider: str) -> Answer:
        begun = self._clock.elapsed()
        try:
            listed = await self._list_agents(provider, _TIMEOUT)
        except ToolError as error:
            return str(error)
        except Exception as error:  # one provider's odd answer must hide nobody of another
            return evidence_of(error)
        self._newest[provider] = listed
        self._begun[provider] = begun
        self._asked_at[provider] = self._clock.elapsed()
        return listed

    def _good_enough(self, provider: str, members: Sequence[Member]) -> Listed | None:
        listed = self._newest.get(provider)
        if listed is None or self._clock.elapsed() - self._asked_at[provider] >= max(_LEAST_AGE, 4.0 * listed.seconds):
            return None
        agents = by_id(listed)
        return listed if all(self._may_serve(listed, agents, member) for member in members) else None

    def _may_serve(self, listed: Listed, agents: Mapping[str, Sequence[Agent]], member: Member) -> bool:
        if _stands(listed, agents, member):
            return True
        return member.agent_id in self._told and self._told[member.agent_id] == _state(find(agents, member))

    def _tell(self, listed: Listed, members: Sequence[Member]) -> None:
        """Note what this answer, which was asked for them, says of those that it may end."""
        agents = by_id(listed)
        for member in members:
            if _stands(listed, agents, member):
                self._told.pop(member.agent_id, None)
            else:
                self._told[member.agent_id] = _state(find(agents, member))


def by_id(listed: Listed) -> dict[str, list[Agent]]:
    """The agents of a listing by their ids, which are unique per host only."""
    agents: dict[str, list[Agent]] = {}
    for agent in listed.agents:
        agents.setdefault(agent.id, []).append(agent)
    return agents


def find(agents: Mapping[str, Sequence[Agent]], member: Member) -> Agent | None:
    """The member's agent: on its host where that is known."""
    found = agents.get(member.agent_id, ())
    return next((agent for agent in found if member.host_id in ("", agent.host.id)), None)


def _state(agent: Agent | None) -> State | None:
    return None if agent is None else agent.state


def _stands(listed: Listed, agents: Mapping[str, Sequence[Agent]], member: Member) -> bool:
    """True where nothing that the listing says of the member, or hides, can end it."""
    agent = find(agents, member)
    if agent is None:
        return bool(may_hide(listed, member))
    return agent.state not in (State.DONE, State.STOPPED)


def may_hide(listed: Listed, member: Member) -> str:
    """The error that may be why the member is not in the listing, empty where none can be."""
    for error in listed.errors:
        if error.agent_id in (None, member.agent_id) and (
            error.host_id is None or member.host_id in ("", error.host_id)
        ):
            return error.message
    return ""


def missing_from(listed: Listed, member: Member) -> Seen:
    """What it means that the listing does not have the member."""
    error = may_hide(listed, member)
    if error:
        return Seen(Life.UNSEEN, says=error)
    is_far = member.host_id and member.provider != LOCAL_PROVIDER
    if is_far and not any(agent.host.id == member.host_id for agent in listed.agents):
        return Seen(Life.LOST, says="neither it nor its host is there any more")
    return Seen(Life.ABSENT)
