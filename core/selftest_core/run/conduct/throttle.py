"""The throttle: when the next agent may be launched, by the number that run, the rate, and backoff after failures.

Hosts on Modal take a minute to start and cost this machine little, so many start at once, at most four a second. Where
Modal says that the workspace has no more room, half as many start at once, and one more with each success.

Launches that fail with the same error probably share a cause (a full disk, a quota, an expired token), so each doubles
the interval, and the first success resets it. Rate-limited agents double it too, the more of them there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from selftest_core.modal.account import MODAL
from selftest_core.run.providers import providers_of

if TYPE_CHECKING:
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import Run
    from selftest_core.run.plan.plan import RunPlan

_MODAL_RATE = 4.0
"""Sandboxes a second that are made at most, whatever the rate of the plan."""


@dataclass(slots=True)
class Throttle:
    """Remembers the last launches. Times are `Clock.elapsed` seconds; `rate` is launches a second.

    `most_starting`: launches under way at most, `starting`: as many now. `alike`: launches in a row that failed with
    `signature`. `refused`: launches since the last success that failed for good.
    """

    rate: float
    policy: Policy
    next_at: float = 0.0
    last_at: float = -1e9
    most_starting: int = 0
    starting: int = 0
    alike: int = 0
    signature: str = ""
    refused: int = 0

    @property
    def interval(self) -> float:
        """Seconds between two launches now."""
        backoff = self.policy.launch_pause * 2.0 ** min(self.alike - 2, 16) if self.alike > 1 else 0.0
        return max(1.0 / self.rate, min(backoff, self.policy.longest_launch_interval))

    def slow_reason(self, run: Run) -> str:
        """Say why launching is slower than its rate; empty if it is not."""
        if self.alike > 1:
            return f"launches fail with the same error: {self.signature}"
        return "many agents are rate limited" if self._is_limited(run) else ""

    def _is_limited(self, run: Run) -> bool:
        return run.limited >= self.policy.limited_many and run.limited * 3 >= run.running

    def _limited_interval(self, run: Run) -> float:
        if not self._is_limited(run):
            return 0.0
        backoff = self.policy.launch_pause * 2.0 ** min(run.limited - self.policy.limited_many + 1, 16)
        return min(backoff, self.policy.longest_launch_interval)

    def may_launch(self, run: Run, launching: int, elapsed: float) -> bool:
        """True when another launch may begin now. `launching`: how many are under way."""
        return (
            not run.paused
            and not run.is_halted
            and run.running < run.at_once
            and launching < self._most_at_once(run)
            and elapsed >= max(self.next_at, self.last_at + self._limited_interval(run))
        )

    def _most_at_once(self, run: Run) -> int:
        """Limit parallel launches after refusals to as many as the circuit breaker still allows to fail."""
        most = self.starting
        if not self.refused or run.plan.on_cluster == "go":
            return most
        return max(1, min(most, run.plan.cluster_alike - self.refused))

    def note_launch(self, elapsed: float) -> None:
        """Note that a launch begins."""
        self.next_at, self.last_at = elapsed + self.interval, elapsed

    def note_success(self) -> None:
        """Note that a launch succeeded: the backoff ends."""
        self.starting = min(self.most_starting, self.starting + 1)
        self.alike, self.signature, self.refused = 0, "", 0

    def note_no_room(self) -> None:
        """Note that a provider had no room for another host."""
        self.starting = max(1, self.starting // 2)

    def note_refusal(self) -> None:
        """Note that a launch failed for good."""
        self.refused += 1

    def note_failure(self, signature: str, elapsed: float) -> None:
        """Note that a launch failed; failures with one cause have the same `signature`."""
        self.alike = self.alike + 1 if signature == self.signature else 1
        self.signature = signature
        self.next_at = max(self.next_at, elapsed + self.interval)


def make_throttle(plan: RunPlan, policy: Policy) -> Throttle:
    """Make the throttle of a plan by where its hosts are made."""
    if set(providers_of(plan.provider)) == {MODAL}:
        rate, most = min(plan.launch_rate, _MODAL_RATE), policy.starting_hosts
    else:
        rate, most = plan.launch_rate, policy.creates_at_once
    return Throttle(rate, policy, most_starting=most, starting=most)
