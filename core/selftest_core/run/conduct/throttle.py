"""When the next agent may be made: by how many run, the rate, the budget, and how the last launches went.

Launches that fail alike share a reason that more launches do not mend (a full disk, a quota, an expired token), so
each one doubles the distance to the next, and the first that succeeds takes it back. Agents that a service turns away
share one too: the more of them there are, the longer the next launch waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import Run


@dataclass(slots=True)
class Throttle:
    """Remembers the last launches; all times are `Clock.elapsed` seconds."""

    rate: float
    policy: Policy
    next_at: float = 0.0
    last_at: float = -1e9
    alike: int = 0
    signature: str = ""
    refused: int = 0
    """Launches refused for good since the last one that succeeded."""

    @property
    def interval(self) -> float:
        """Seconds between two launches now."""
        slow = self.policy.launch_pause * 2.0 ** min(self.alike - 2, 16) if self.alike > 1 else 0.0
        return max(1.0 / self.rate, min(slow, self.policy.longest_launch_interval))

    def slowness(self, run: Run) -> str:
        """Why launching goes slowly now, empty where it does not."""
        if self.alike > 1:
            return f"launches fail alike: {self.signature}"
        return "many agents are turned away by a service that takes no more for now" if self._is_limited(run) else ""

    def _is_limited(self, run: Run) -> bool:
        return run.limited >= self.policy.limited_many and run.limited * 3 >= run.running

    def _limited_interval(self, run: Run) -> float:
        if not self._is_limited(run):
            return 0.0
        slow = self.policy.launch_pause * 2.0 ** min(run.limited - self.policy.limited_many + 1, 16)
        return min(slow, self.policy.longest_launch_interval)

    def is_open(self, run: Run, making: int, elapsed: float) -> bool:
        """True when another agent may be made now. `making`: how many are being made."""
        return (
            not run.paused
            and not run.is_halted
            and run.running < run.plan.max_running
            and making < self._most_at_once(run)
            and elapsed >= max(self.next_at, self.last_at + self._limited_interval(run))
        )

    def _most_at_once(self, run: Run) -> int:
        """How many may be made at once: never more than a pause for failures that are alike still lets through."""
        most = self.policy.creates_at_once
        if not self.refused or run.plan.on_cluster == "go":
            return most
        return max(1, min(most, self.policy.cluster_alike - self.refused))

    def launched(self, elapsed: float) -> None:
        """A launch begins."""
        self.next_at, self.last_at = elapsed + self.interval, elapsed

    def succeeded(self) -> None:
        """A launch succeeded."""
        self.alike, self.signature, self.refused = 0, "", 0

    def refuse(self) -> None:
        """A launch failed in a way that no other try mends."""
        self.refused += 1

    def failed(self, signature: str, elapsed: float) -> None:
        """A launch failed; `signature` is the same for failures that are alike."""
        self.alike = self.alike + 1 if signature == self.signature else 1
        self.signature = signature
        self.next_at = max(self.next_at, elapsed + self.interval)
