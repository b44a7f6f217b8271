"""The newest answers of `mngr list` for each provider, asked as seldom as their own cost allows.

Each provider is asked on its own, so a provider that is down or slow delays no agent of another: once another has
answered, a slow one is awaited a little only, and its answer serves the next look. An answer that would end a test must
be new; after that an older answer may repeat it, so an agent that is gone for good does not cost a listing in every
look. Nothing here judges an agent. Used in one event loop only.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from selftest_core.agents import LOCAL_PROVIDER, State
from selftest_core.errors import ToolError, describe_unexpected
from selftest_core.run.crew.crew import Life, Seen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from selftest_core.agents import Agent
    from selftest_core.fleet.observations import Listed
    from selftest_core.run.clock import Clock
    from selftest_core.run.fold import Member

type Answer = Listed | str
"""A listing, or the reason why there is none now."""

type ListAgents = Callable[[str, float], Awaitable[Listed]]
"""List the agents of a provider with a timeout in seconds: `fleet.sources.mngr_list.list_agents` of one mngr."""

_TIMEOUT = 80.0
_LEAST_AGE = 2.0
"""Seconds for which an answer is valid at least; otherwise four times its own cost."""
_STRAGGLER = 5.0
"""Seconds to wait for a slow provider after another one has answered."""


class Listings:
    """Asks mngr and caches the last listing of each provider."""

    def __init__(self, list_agents: ListAgents, clock: Clock) -> None:
        self._list_agents = list_agents
        self._clock = clock
        self._newest: dict[str, Listed] = {}
        self._asked_at: dict[str, float] = {}
        self._begun: dict[str, float] = {}
        self._ending: dict[str, State | None] = {}  # by agent id: the state that ends it, or None if it was absent
        self._asking: dict[str, asyncio.Task[Answer]] = {}  # shared by all looks, until one of them has taken it
        self._waiters: dict[asyncio.Task[Answer], int] = {}

    def newest(self, provider: str) -> Listed | None:
        """Return the last complete answer, however old."""
        return self._newest.get(provider)

    def begun(self, provider: str) -> float:
        """Return when the last complete answer was asked for, in elapsed seconds; minus infinity without one."""
        return self._begun.get(provider, -math.inf)

    def doubt(self, agent_id: str) -> None:
        """Require a new answer for the next look at this agent."""
        self._ending.pop(agent_id, None)

    async def of(self, wanted: Mapping[str, Sequence[Member]]) -> dict[str, Answer]:
        """Return an answer for each provider that is new enough for these members."""
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
                self._note_ending(answer, wanted[provider])
        return answers

    async def _wait_for(self, waiting: set[asyncio.Task[Answer]], *, is_hurried: bool) -> None:
        """Wait for these answers, a little only after the first. Cancelling the last look that waits cancels them."""
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
        except Exception as error:  # an odd answer of one provider must not hide agents of another
            return describe_unexpected(error)
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
        if _goes_on(listed, agents, member):
            return True
        return member.agent_id in self._ending and self._ending[member.agent_id] == _state(find(agents, member))

    def _note_ending(self, listed: Listed, members: Sequence[Member]) -> None:
        """Note the members that this new answer may end."""
        agents = by_id(listed)
        for member in members:
            if _goes_on(listed, agents, member):
                self._ending.pop(member.agent_id, None)
            else:
                self._ending[member.agent_id] = _state(find(agents, member))


def by_id(listed: Listed) -> dict[str, list[Agent]]:
    """Group the agents of a listing by id; ids are unique per host only."""
    agents: dict[str, list[Agent]] = {}
    for agent in listed.agents:
        agents.setdefault(agent.id, []).append(agent)
    return agents


def find(agents: Mapping[str, Sequence[Agent]], member: Member) -> Agent | None:
    """Find the member's agent, on its host if that is known."""
    found = agents.get(member.agent_id, ())
    return next((agent for agent in found if member.host_id in ("", agent.host.id)), None)


def _state(agent: Agent | None) -> State | None:
    return None if agent is None else agent.state


def _goes_on(listed: Listed, agents: Mapping[str, Sequence[Agent]], member: Member) -> bool:
    """True if the listing cannot end the member: it runs, or an error may hide it."""
    agent = find(agents, member)
    if agent is None:
        return bool(may_hide(listed, member))
    return agent.state not in (State.DONE, State.STOPPED)


def may_hide(listed: Listed, member: Member) -> str:
    """Return the listing's error that may hide the member, empty for none."""
    for error in listed.errors:
        if error.agent_id in (None, member.agent_id) and (
            error.host_id is None or member.host_id in ("", error.host_id)
        ):
            return error.message
    return ""


def missing_from(listed: Listed, member: Member) -> Seen:
    """Interpret that the listing does not have the member."""
    error = may_hide(listed, member)
    if error:
        return Seen(Life.UNSEEN, detail=error)
    is_far = member.host_id and member.provider != LOCAL_PROVIDER
    if is_far and not any(agent.host.id == member.host_id for agent in listed.agents):
        return Seen(Life.LOST, detail="neither it nor its host is there any more")
    return Seen(Life.ABSENT)
