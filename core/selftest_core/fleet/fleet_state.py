"""What is known of the fleet: the newest word of each source, and the rows that were made of them. Values only.

`selftest_core.fleet.fleet` makes the next one of an observation; `selftest_core.fleet.rows` makes its rows.
"""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.agents import Agent, AgentKey
    from selftest_core.fleet.explain import Changed
    from selftest_core.fleet.merge_state import Circumstances, Told
    from selftest_core.fleet.observations import LocalAgent, Probed, TmuxSession
    from selftest_core.fleet.problems import Failure, LostServer
    from selftest_core.fleet.view import LaneStatus, Row
    from selftest_core.usage.tokens import Usage

_NONE: Mapping[Any, Any] = MappingProxyType({})


class Entry(NamedTuple):
    """A row and the very objects that it was made of: the same again, and the row is the same again."""

    told: Agent | None
    is_remembered: bool
    local: LocalAgent | None
    circumstances: Circumstances
    row: Row


@dataclass(frozen=True, slots=True)
class Fleet:
    """All that is known. `Fleet()` is empty.

    `told`: mngr's newest word per agent. `local`: the probe's, by agent id. `held_since`: local agents whose file
    cannot be read now, and when it last could. `complete`: when each provider was last asked and told of all its
    agents ("all": any unfiltered answer). `silent`: when a provider last told of nobody, which proves nothing,
    since mngr answers so for a provider that it does not know. `failures`: the newest failure per lane.
    `usages`: what agents of this machine used, by agent id.
    """

    told: Mapping[AgentKey, Told] = _NONE
    local: Mapping[str, LocalAgent] = _NONE
    held_since: Mapping[str, float] = _NONE
    probed: Probed | None = None
    complete: Mapping[str, float] = _NONE
    silent: Mapping[str, float] = _NONE
    failures: Mapping[str, Failure] = _NONE
    lanes: Mapping[str, LaneStatus] = _NONE
    lost: tuple[LostServer, ...] = ()
    usages: Mapping[str, Usage] = _NONE
    changes: Mapping[AgentKey, tuple[Changed, ...]] = _NONE
    entries: Mapping[AgentKey, Entry] = field(default=_NONE, repr=False)
    rows: tuple[Row, ...] = ()
    sessions: tuple[TmuxSession, ...] = ()
