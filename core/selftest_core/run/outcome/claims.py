"""The port `ClaimVerifier`: verifies an agent's claim when it arrives.

The program's entry point passes an implementation. A run must not know how tests are run again: `selftest_core.verify`
does, which stands above this room.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from selftest_core.frozen import dataclass
from selftest_core.run.outcome.ends import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.config import Config
    from selftest_core.run.outcome.ends import End
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.plan.plan import RunPlan


class ClaimResult(StrEnum):
    """The result of verifying a claim that a test passes. Only `failed` changes how the test ended."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """A verified claim. `reason`: why it did not pass; `output`: the end of pytest's report of the test, untrusted."""

    result: ClaimResult
    reason: str = ""
    output: str = ""


class ClaimVerifier(Protocol):
    """Runs the tests of agents again, each on its agent's own tree, on this machine."""

    async def verify(self, test: str, commit: str) -> ClaimVerdict:
        """Run a test on the tree of a commit. Never raises but when cancelled, which ends the test's processes."""
        ...

    async def close(self) -> None:
        """End what runs, and remove what lies on the disk."""
        ...


@dataclass(frozen=True, slots=True)
class ChosenIsolation:
    """Isolation of tests from the user's files: `kind` as the plan stores it, `reason` where they are not."""

    kind: str
    reason: str = ""


NOT_ISOLATED = "none"

type ClaimVerifierMaker = Callable[[RunPlan, Config, Mapping[str, str]], ClaimVerifier]
type IsolationChooser = Callable[[Config, Mapping[str, str]], ChosenIsolation]
"""Tries how tests can be isolated here. Raises RefusedError if the setting requires what does not work."""


def claims_green(outcome: Outcome, end: End) -> bool:
    """True if an agent says that its test passes, and nothing that it says besides ends the test otherwise."""
    return outcome.tests_passing_after is True and end.group in (Group.SUCCEEDED, Group.UNCHANGED)
