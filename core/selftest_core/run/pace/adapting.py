"""The number of agents at a time, adapted while a run is conducted: additive increase, multiplicative decrease.

It is halved where launches fail or the machine is loaded. Where agents are rate limited it becomes the number of those
that are not, at least half: so many the provider bears. It grows by one after each quiet span in which it was reached,
and stays within 1 and the maximum of the plan. A decrease stops no agent, so the next one waits until the last one has
taken effect, and for `SETTLE` seconds more: one wave of trouble counts once.

No clock and no IO: the conductor passes what it sees, and writes each change to the journal.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from selftest_core.run.fold import Level

SETTLE = 60.0
"""Seconds from the effect of a decrease to the next one: rate limits are looked for three times meanwhile, and the load
is of one minute."""
QUIET = 30.0
"""Seconds without trouble before an increase: longer than the time between two looks for rate limits."""
LIMITED_SHARE = 0.2
"""Share of the running agents above which rate limits are trouble: one of many may have its own reason."""
HIGH_LOAD = 4.0
"""Load average for each core above which the machine is too busy: each program takes four times as long then."""
_NO_MORE_LOAD = HIGH_LOAD / 2
"""Load for each core above which the number does not grow."""
_LAUNCHES = 10
_FAILED_LAUNCHES = 2
"""So many of the last `_LAUNCHES` launches that failed are trouble; one that timed out is at once."""


@dataclass(frozen=True, slots=True)
class Signs:
    """The state of a run now. `limited`: rate-limited agents. `load`: load average for each core, 0 if unknown."""

    running: int
    limited: int = 0
    load: float = 0.0


class Adapter:
    """Decides the number. Times are `Clock.elapsed` seconds. `limit`: the number now."""

    def __init__(self, limit: int, most: int, elapsed: float) -> None:
        self.limit = max(1, min(limit, most))
        self._most = most
        self._changed_at = elapsed
        self._effective_at = elapsed - SETTLE
        self._trouble_at = elapsed
        self._launches: deque[bool] = deque(maxlen=_LAUNCHES)
        self._has_timed_out = False

    def note_launch(self, *, is_ok: bool, is_timeout: bool = False) -> None:
        """Note the result of a launch. Failures that no smaller number would prevent are not noted."""
        self._launches.append(is_ok)
        self._has_timed_out = self._has_timed_out or is_timeout

    def decide(self, signs: Signs, elapsed: float) -> str:
        """Change `limit` where it should be another one; return the reason, empty for no change."""
        if signs.running > self.limit:
            self._effective_at = elapsed
        trouble = self._trouble(signs)
        if trouble:
            self._trouble_at = elapsed
            # Told of once: where it cannot be answered now, it came with an earlier number, or with a single agent.
            self._launches.clear()
            self._has_timed_out = False
            return trouble if self._cut(signs, elapsed) else ""
        is_reached = signs.running >= self.limit
        is_quiet = elapsed - max(self._trouble_at, self._changed_at) >= QUIET
        if self.limit < self._most and is_reached and is_quiet and signs.load <= _NO_MORE_LOAD:
            self.limit += 1
            self._changed_at = elapsed
            return f"no trouble for {QUIET:g} s"
        return ""

    def _cut(self, signs: Signs, elapsed: float) -> bool:
        if self.limit == 1 or elapsed - self._effective_at < SETTLE:
            return False
        # The trouble came with as many as run, which may be fewer than allowed.
        half = min(self.limit, signs.running) // 2
        unlimited = signs.running - signs.limited if _is_limited(signs) else 0
        self.limit = max(1, half, unlimited)
        self._changed_at = self._effective_at = elapsed
        return True

    def _trouble(self, signs: Signs) -> str:
        if _is_limited(signs):
            return f"{signs.limited} of {signs.running} agents are rate limited"
        if self._has_timed_out:
            return "a launch timed out"
        failed = self._launches.count(False)
        if failed >= _FAILED_LAUNCHES:
            return f"{failed} of the last {len(self._launches)} launches failed"
        return f"the load is {signs.load:.1f} for each core" if signs.load > HIGH_LOAD else ""


def _is_limited(signs: Signs) -> bool:
    return signs.limited > LIMITED_SHARE * signs.running


def sweet_spot(curve: tuple[Level, ...], ended_at: float) -> int | None:
    """Return the number that a run has found: the average from the first decrease on, else the last; None for none.

    `curve`: the levels of a run, the first one from its beginning. `ended_at`: in seconds since the epoch.
    """
    if len(curve) < 2:
        return None
    cut = next((n for n in range(1, len(curve)) if curve[n].limit < curve[n - 1].limit), None)
    if cut is None:
        return curve[-1].limit
    ends = [level.at for level in curve[cut + 1 :]] + [ended_at]
    spans = [max(0.0, end - level.at) for level, end in zip(curve[cut:], ends, strict=True)]  # a clock may jump
    total = sum(spans)
    if not total:
        return curve[-1].limit
    return max(1, int(sum(level.limit * span for level, span in zip(curve[cut:], spans, strict=True)) / total))
