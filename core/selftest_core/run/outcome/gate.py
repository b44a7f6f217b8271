"""The port `Gate`: judges the finished work of an agent that is no tester, before it counts.

The program's entry point passes an implementation for the run's role. A run must not know drafts, written tests or
resolutions: the rooms above do. Testers have no gate: their claims are verified (`claims`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.plan.plan import PlannedTest, RunPlan


class Gate(Protocol):
    """Judges finished attempts of one run, one call for each."""

    async def judge(self, task: PlannedTest, folder: Path, outcome: Outcome, tip: str) -> str:
        """Return "" if the work is fit to be used, else the reason why its row becomes red.

        `folder`: the attempt's results. `tip`: the last commit of its branch, which the user's repository has; empty
        without commits. The answer is journalled once; after a kill in between it is judged again, so it must not
        matter that it was judged before. An error makes the row red too.
        """
        ...

    async def close(self) -> None:
        """End what runs, and remove what lies on the disk."""
        ...


type GateMaker = Callable[[RunPlan, Config, Mapping[str, str]], Gate | None]
"""Makes the gate of a run by its role; None where it has none."""
