"""Tests that rest: green and unchanged in their last runs, they get no agent for a while.

The settings `rest_after` and `rest_for` decide. A test rests once its last `rest_after` agents found it green and
changed nothing; after `rest_for` runs it works again, once, and rests again if it is still so. A change of its file, of
a block that it cites, or of a file that affects it ends the rest at once: `run.plan.selection` sees to that. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.run.history.past_runs import PastRun
    from selftest_core.run.plan.plan import RestingTest

MOST_RUNS = 30
"""Earlier runs that are looked at, or as many as a rest takes with the runs before it, if these are more."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The rest of one test, if nothing that affects it changed since the commit `base`.

    `until`: number of runs until it works again, 1 for the next one.
    """

    reason: str
    until: int
    base: str


class EverythingRestsError(UsageError):
    """Every test rests, so there is nothing to run."""

    def __init__(self, resting: Sequence[RestingTest]) -> None:
        soonest = min(one.until for one in resting)
        runs = "1 run" if soonest == 1 else f"{soonest} runs"
        super().__init__(
            f"All {len(resting)} tests rest" if len(resting) > 1 else "The only test rests",
            f"The first one works again in {runs}, or when something that affects it changes.",
            "Run them anyway with --no-rest; the setting rest_after = 0 ends resting.",
        )
        self.resting = tuple(resting)


def rests(past: Sequence[PastRun], after: int, runs: int) -> dict[str, Rest]:
    """Return the tests that may rest, by node id. `past`: newest first; `after`, `runs`: as the settings say.

    None rests where `after` is 0.
    """
    if after < 1:
        return {}
    names = dict.fromkeys(name for run in past if run.worked is not None for name in run.worked)
    found = {name: _rest(name, past, after, runs) for name in names}
    return {name: rest for name, rest in found.items() if rest is not None}


def _rest(name: str, past: Sequence[PastRun], after: int, runs: int) -> Rest | None:
    greens = rested = 0
    for run in past:
        is_green = None if run.worked is None else run.worked.get(name)
        if is_green is None:
            # Rests before the last agent are over.
            rested += greens == 0 and name in run.rested
            continue
        greens += 1
        if not is_green or rested >= runs:
            return None
        if greens == after:
            reason = f"green and unchanged in {'its last run' if after == 1 else f'its last {after} runs'}"
            return Rest(reason, runs - rested, run.base)
    return None
