"""The agents of this machine as the fleet shows them, for a run's crew: the same probe, the same ladder, the same fold.

So a run's rows, `on_pause_command`, the fleet and `list` say the same of an agent.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from selftest_core.agent_types.condition import ASKING, ENDED_TURN, Kind, from_mngr
from selftest_core.agents import LOCAL_PROVIDER, State
from selftest_core.fleet import fleet as fold
from selftest_core.fleet.fleet_state import Fleet
from selftest_core.run.crew.crew import Life

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.agent_types.condition import Condition
    from selftest_core.agents import Agent
    from selftest_core.fleet.observations import Listed
    from selftest_core.fleet.sources.probe import Probe
    from selftest_core.fleet.view import Row


class LocalRows:
    """Looks at the agents of this machine. Looks that overlap wait for each other: the probe is for one at a time."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._probe: Probe | None = None
        self._fleet = Fleet()
        self._gate = asyncio.Lock()

    async def look(self, listed: Listed | None) -> Mapping[str, Row]:
        """The rows by agent id, of a look that is made now. `listed`: mngr's newest word on this machine."""
        async with self._gate:
            if self._probe is None:
                from selftest_core.fleet.sources.probe import Probe

                self._probe = Probe(self._environ)
            probed = await asyncio.to_thread(self._probe.look, time.time())
            fleet = self._fleet if listed is None else fold.apply(self._fleet, listed)
            self._fleet = fold.apply(fleet, probed)
            return {
                row.agent.id: row
                for row in self._fleet.rows
                if row.agent.host.provider == LOCAL_PROVIDER and row.key.agent_id in self._fleet.local
            }


def standing_of(agent: Agent, row: Row | None, *, has_begun: bool, takes_turns: bool) -> tuple[State, Condition | None]:
    """The state and the condition that stand: as the fleet has them of a local agent, else by mngr's word.

    That an agent has ended is believed of one that was seen at work (`has_begun`); that it was stopped, of mngr alone.
    """
    if row is not None:
        state = row.agent.state
        is_early = state is State.DONE and not has_begun
        if not is_early and state not in (State.STOPPED, State.UNKNOWN):
            return state, row.condition
    condition = from_mngr(
        agent.state, agent.waiting_reason, has_had_a_turn=True, since=agent.agent_activity_at
    )  # fmt: skip
    if condition is not None and condition.kind in ENDED_TURN and not takes_turns:
        condition = None
    return agent.state, condition


def life_of(agent: Agent, state: State, condition: Condition | None, *, has_settled: bool) -> Life:
    """What the agent does, as far as a run cares. `has_settled`: it has waited for some seconds."""
    match state:
        case State.DONE:
            return Life.EXITED
        case State.STOPPED:
            booted, created = agent.host.boot_time, agent.created_at
            # The machine was started again in between: nobody stopped this agent.
            return Life.LOST if booted is not None and created is not None and booted > created else Life.STOPPED
        case State.UNKNOWN:
            return Life.UNSEEN
        case _ if condition is not None and condition.kind in (*ASKING, Kind.INTERRUPTED):
            return Life.ASKS
        case State.WAITING if condition is not None:
            return Life.TURN_ENDED if has_settled else Life.WORKING
        case _:
            return Life.WORKING
