"""The cost of a run until now, and whether its budget pays for one more agent. Pure.

Each attempt and smoke agent counts with its metered dollars, else with `usd_per_agent`, else with nothing. A running
one is expected to cost the average of those that ended in this run with metered dollars, else `usd_per_agent`.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.run.events import Phase
from selftest_core.usage.tokens import Label, Usage, total_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import Run, RunRow

_NOTHING: Mapping[str, Usage] = MappingProxyType({})
_ROUNDING = 1e-9
_NEVER_LAUNCHED = ("launch", "gone")
"""Reasons of retries for which no agent worked."""


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of a run until now. `usage`: tokens and dollars of all attempts; None if nothing is known.

    `by_label`: dollars by label; labels without any are missing.
    """

    usage: Usage | None
    by_label: Mapping[Label, float]

    @property
    def usd(self) -> float | None:
        """All known dollars."""
        return None if self.usage is None else self.usage.usd


class Affordable(Enum):
    """The answer to whether the budget pays for one more agent. WAIT: not while running agents may need the rest."""

    YES = "yes"
    WAIT = "wait"
    NO = "no"


def spending(run: Run, live: Mapping[str, Usage] = _NOTHING) -> Spending:
    """Add up all attempts. `live`: usage of running agents that is newer than the journal's, by agent id."""
    usages = [usage for usage, _ in _attempts(run, live) if usage is not None]
    by_label: dict[Label, float] = {}
    for usage in usages:
        if usage.usd is not None:
            by_label[usage.label] = round(by_label.get(usage.label, 0.0) + usage.usd, 9)
    return Spending(total_of(usages), by_label)


def used_by(row: RunRow) -> Usage | None:
    """Add up the usage of one test's attempts; None if nothing was metered."""
    return total_of(usage for usage in (*(retry.usage for retry in row.retries), row.usage) if usage is not None)


def usd_each(run: Run) -> float | None:
    """Estimate the dollars of one agent: the metered average of ended ones, else the setting; None if unknown."""
    metered = [
        row.usage.usd
        for row in run.rows.values()
        if row.end is not None and row.usage is not None and row.usage.usd is not None
    ]
    if metered:
        return sum(metered) / len(metered)
    return run.plan.usd_per_agent


def affordable(run: Run, policy: Policy, live: Mapping[str, Usage] = _NOTHING) -> Affordable:
    """Decide whether the budget pays for one more agent, besides those that run or are being launched."""
    budget = run.plan.budget_usd if policy.budget_usd is None else policy.budget_usd
    if budget is None:
        return Affordable.YES
    each = usd_each(run)
    if each is None:
        spent = spending(run, live).usd
        return Affordable.YES if spent is None or spent < budget else Affordable.NO
    spent, expected = 0.0, 0.0
    for usage, is_running in _attempts(run, live):
        usd = 0.0 if usage is None or usage.usd is None else usage.usd
        if is_running and run.plan.agent_command is None and usage is not None and usage.label is Label.ESTIMATED:
            usd = 0.0  # it may be metered later; until then the average is expected
        spent += usd
        if is_running:
            expected += max(0.0, each - usd)
    making = sum(row.phase is Phase.LAUNCHING for row in run.rows.values())
    wanted = spent + (making + 1) * each
    if wanted > budget + _ROUNDING:
        return Affordable.NO
    return Affordable.YES if wanted + expected <= budget + _ROUNDING else Affordable.WAIT


def _attempts(run: Run, live: Mapping[str, Usage]) -> Iterator[tuple[Usage | None, bool]]:
    """Yield the usage of each attempt, estimated if nothing was metered, and whether it runs."""
    plan = run.plan
    estimate = None if plan.usd_per_agent is None else Usage(usd=plan.usd_per_agent, label=Label.ESTIMATED)
    for smoke in run.smoke:
        yield estimate if smoke.usage is None else _priced(smoke.usage, plan.usd_per_agent), smoke.is_ok is None
    for row in run.rows.values():
        for retry in row.retries:
            if retry.usage is not None:
                yield _priced(retry.usage, plan.usd_per_agent), False
            elif retry.reason not in _NEVER_LAUNCHED and not retry.is_continued:
                yield estimate, False
        usage = row.usage
        if row.member is not None and row.end is None:
            usage = live.get(row.member.agent_id, usage)
        if row.launched_at is None and usage is None:
            continue
        is_running = row.end is None and row.phase not in (Phase.LAUNCHING, Phase.WAITING)
        if usage is not None:
            yield _priced(usage, None if is_running else plan.usd_per_agent), is_running
        else:
            yield estimate, is_running


def _priced(usage: Usage, estimate: float | None) -> Usage:
    """Price tokens of a model without a price by the estimate of an agent."""
    if usage.usd is not None or estimate is None:
        return usage
    return Usage(usage.input, usage.cached, usage.cache_write, usage.output, estimate, Label.ESTIMATED, usage.model)
