"""The results of tests and of agents in a run, as the lines of the tutorial show them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.run.events import Phase
from selftest_core.run.outcome.ends import ENDS_BY_GRAVITY, End

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.run.fold import Run, RunRow

_UNTOUCHED = ENDS_BY_GRAVITY.index(End.NOT_STARTED)
GRAVEST_FIRST: tuple[End | Phase, ...] = (
    *ENDS_BY_GRAVITY[:_UNTOUCHED],
    Phase.WORKING, Phase.PULLING, Phase.STOPPING, Phase.LAUNCHING, Phase.WAITING,
    *ENDS_BY_GRAVITY[_UNTOUCHED:],
    Phase.ENDED,
)  # fmt: skip
"""The result of a test with several parameters is the first of these that one of them has."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one task of a run: of a collected test, or of an agent that writes. `how`: its end or phase.

    `says`: its reason, untrusted. `agent`: its planned name; `agent_id`: mngr's id of the agent, and `tip` its last
    commit, empty without one. `run`: the id of its run. `offers`: tests that a writer offers.
    """

    node_id: str
    agent: str
    how: End | Phase
    says: str = ""
    agent_id: str = ""
    tip: str = ""
    run: str = ""
    offers: tuple[str, ...] = ()


def worst(results: Iterable[Result]) -> Result | None:
    """Return the worst of these results."""
    return min(results, key=lambda one: GRAVEST_FIRST.index(one.how), default=None)


def result_of_row(row: RunRow, run: Run | None) -> Result:
    """Return the result of a row of a run."""
    how: End | Phase = row.end if row.end is not None else row.phase
    agent_id = "" if row.member is None else row.member.agent_id
    return Result(
        row.planned.node_id, row.name, how, row.attention or row.text, agent_id, row.tip if row.commits else "",
        "" if run is None else run.plan.run,
    )  # fmt: skip
