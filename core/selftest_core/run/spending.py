"""The cost of a run until now, and whether its budgets pay for one more agent. Pure.

Each attempt and smoke agent counts with its metered dollars, else with `usd_per_agent`, else with nothing. A running
one is expected to cost the average of those that ended in this run with metered dollars, else `usd_per_agent`. There
are three budgets: dollars of the run, and dollars and tokens of the day, to which other runs of the repository add.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.run.events import Phase
from selftest_core.usage.tokens import Label, Usage, total_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from selftest_core.run.budget.day import DaySpent
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import Run, RunRow

_NOTHING: Mapping[str, Usage] = MappingProxyType({})
_ROUNDING = 1e-9
_NEVER_LAUNCHED = ("launch", "gone", "no room")
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
    """The answer to whether the budgets pay for one more agent. WAIT: not while running agents may need the rest."""

    YES = "yes"
    WAIT = "wait"
    NO = "no"


def spending(run: Run, live: Mapping[str, Usage] = _NOTHING) -> Spending:
    """Add up all attempts. `live`: usage of running agents that is newer than the journal's, by agent id."""
    usages = [one.usage for one in _attempts(run, live) if one.usage is not None]
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


def tokens_each(run: Run) -> float | None:
    """Return the average tokens of the ended agents of this run; None if none was metered."""
    metered = [row.usage.tokens for row in run.rows.values() if row.end is not None and row.usage is not None]
    return sum(metered) / len(metered) if metered else None


def usages_of(run: Run, is_wanted: Callable[[float | None], bool]) -> list[Usage]:
    """List the usage of the attempts whose launch is wanted, by its time."""
    return [one.usage for one in _attempts(run, _NOTHING) if one.usage is not None and is_wanted(one.launched_at)]


def affordable(
    run: Run, policy: Policy, live: Mapping[str, Usage] = _NOTHING, others: DaySpent | None = None
) -> Affordable:
    """Decide whether the budgets pay for one more agent, besides those that run or are being launched.

    `others`: usage of the repository's other runs on this day, for the budgets of the day; None: not looked at.
    """
    answers = {answer for _, answer in _answers(run, policy, live, others)}
    return next((one for one in (Affordable.NO, Affordable.WAIT) if one in answers), Affordable.YES)


def used_up_reason(
    run: Run, policy: Policy, live: Mapping[str, Usage] = _NOTHING, others: DaySpent | None = None
) -> str:
    """Say which budget does not pay for one more agent; empty if all do. Arguments as for `affordable`."""
    return next((says for says, answer in _answers(run, policy, live, others) if answer is Affordable.NO), "")


def _answers(
    run: Run, policy: Policy, live: Mapping[str, Usage], others: DaySpent | None
) -> Iterator[tuple[str, Affordable]]:
    """Ask each budget; the words say that it is used up."""
    plan, attempts = run.plan, list(_attempts(run, live))
    budget = plan.budget_usd if policy.budget_usd is None else policy.budget_usd
    making = sum(row.phase is Phase.LAUNCHING for row in run.rows.values())
    if budget is not None:
        yield "the budget is used up", _ask(budget, usd_each(run), _dollars(run, attempts), making)
    if others is None:
        return
    attempts = [one for one in attempts if others.day.has(one.launched_at)]
    day_usd = plan.budget_day_usd if policy.budget_day_usd is None else policy.budget_day_usd
    if day_usd is not None:
        says = f"the day's budget of {day_usd:.2f} USD is used up"
        yield says, _ask(day_usd - others.usd, usd_each(run), _dollars(run, attempts), making)
    day_tokens = policy.budget_day_tokens or plan.budget_day_tokens
    if day_tokens:
        used = [(0 if one.usage is None else one.usage.tokens, one.is_running) for one in attempts]
        says = f"the day's budget of {day_tokens:,} tokens is used up"
        yield says, _ask(day_tokens - others.tokens, tokens_each(run), used, making)


def _ask(budget: float, each: float | None, used: Sequence[tuple[float, bool]], making: int) -> Affordable:
    """Ask one budget. `each`: what an agent takes, None if that is unknown. `used`: by each attempt, and if it runs."""
    spent = sum(amount for amount, _ in used)
    if each is None:
        return Affordable.YES if spent < budget else Affordable.NO
    wanted = spent + (making + 1) * each
    expected = sum(max(0.0, each - amount) for amount, is_running in used if is_running)
    if wanted > budget + _ROUNDING:
        return Affordable.NO
    return Affordable.YES if wanted + expected <= budget + _ROUNDING else Affordable.WAIT


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Usage of one attempt, estimated if nothing was metered. `launched_at`: about when its agent was launched."""

    usage: Usage | None
    is_running: bool
    launched_at: float | None


def _dollars(run: Run, attempts: list[_Attempt]) -> list[tuple[float, bool]]:
    """Return the dollars of attempts, and whether they run."""
    found: list[tuple[float, bool]] = []
    for one in attempts:
        usd = 0.0 if one.usage is None or one.usage.usd is None else one.usage.usd
        is_metered_later = one.is_running and run.plan.agent_command is None
        if is_metered_later and one.usage is not None and one.usage.label is Label.ESTIMATED:
            usd = 0.0  # until then the average is expected
        found.append((usd, one.is_running))
    return found


def _attempts(run: Run, live: Mapping[str, Usage]) -> Iterator[_Attempt]:
    """Yield each attempt that had an agent. Those whose launch is not known any more count with the next known one."""
    plan = run.plan
    began = plan.created_at if run.started_at is None else run.started_at
    estimate = None if plan.usd_per_agent is None else Usage(usd=plan.usd_per_agent, label=Label.ESTIMATED)
    for smoke in run.smoke:
        usage = estimate if smoke.usage is None else _priced(smoke.usage, plan.usd_per_agent)
        yield _Attempt(usage, smoke.is_ok is None, began)
    for row in run.rows.values():
        launched_at = next((at for at in (row.launched_at, row.launching_at) if at is not None), began)
        for retry in row.retries:
            if retry.usage is not None:
                yield _Attempt(_priced(retry.usage, plan.usd_per_agent), False, launched_at)
            elif retry.reason not in _NEVER_LAUNCHED and not retry.is_continued:
                yield _Attempt(estimate, False, launched_at)
        usage = row.usage
        if row.member is not None and row.end is None:
            usage = live.get(row.member.agent_id, usage)
        if row.launched_at is None and usage is None:
            continue
        is_running = row.end is None and row.phase not in (Phase.LAUNCHING, Phase.WAITING)
        if usage is not None:
            usage = _priced(usage, None if is_running else plan.usd_per_agent)
        yield _Attempt(usage if usage is not None else estimate, is_running, launched_at)


def _priced(usage: Usage, estimate: float | None) -> Usage:
    """Price tokens of a model without a price by the estimate of an agent."""
    if usage.usd is not None or estimate is None:
        return usage
    return Usage(usage.input, usage.cached, usage.cache_write, usage.output, estimate, Label.ESTIMATED, usage.model)
