"""Estimates of a run before it starts: time, money, disk, and the data that leaves this machine.

Each number names its basis: an earlier run, a setting or a first guess. Unknown values are None.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from selftest_core.agent_types.profiles import leaves_with, service_of
from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.run.fold import start_of
from selftest_core.run.providers import places
from selftest_core.run.store import RunFolder, plan_files

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from selftest_core.run.budget.day import DaySpent
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.run.plan.source import Size

FIRST_GUESS = 600.0
"""Seconds of an agent if nothing was measured: the order of magnitude only."""
_MOST_RUNS = 10
"""Earlier runs that are read for an estimate."""
_DAY = 86_400.0
_LEAST_LAUNCHES = 3
"""Launches of a run from which the time between launches is measured."""
MAKING_COMMAND = 1.0
"""Seconds for launching one command agent: mngr takes a lock and a second of CPU for each."""
MAKING_OTHERS = 6.0
"""Seconds for launching one interactive agent and sending its prompt: 5 to 9 were measured with Claude Code."""


@dataclass(frozen=True, slots=True)
class Typical:
    """The usual duration and cost of one agent. `basis`: the source of `seconds`, such as `the median of run …`.

    `usd`, `tokens`: metered by earlier runs. `making`: seconds from one launch to the next, measured in the run
    `making_run`; None if that is unknown.
    """

    seconds: float = FIRST_GUESS
    basis: str = "a first guess; no earlier run to measure"
    usd: float | None = None
    usd_basis: str = ""
    tokens: float | None = None
    making: float | None = None
    making_run: str = ""


@dataclass(frozen=True, slots=True)
class DayEstimate:
    """The budgets of the day: what is used of them, and what the rest pays for.

    `spent`: by all runs of the repository since midnight. `affordable`: number of agents that the rest pays for; None
    if the cost of one is unknown. `runs_a_day`: how often the budgets of a whole day pay for such a run.
    """

    budget_usd: float | None
    budget_tokens: int
    spent: DaySpent
    affordable: int | None
    runs_a_day: float | None

    @property
    def is_used_up(self) -> bool:
        """True if no agent may be launched any more today."""
        is_spent = self.budget_usd is not None and self.spent.usd >= self.budget_usd
        return self.affordable == 0 or is_spent or 0 < self.budget_tokens <= self.spent.tokens


@dataclass(frozen=True, slots=True)
class Leaves:
    """Data that leaves this machine, or goes to a program that may send it on."""

    what: str
    to: str


@dataclass(frozen=True, slots=True)
class Estimates:
    """All estimates. `seconds`: the whole run; `longest`: if every agent runs to its timeout. `usd`: all agents, None
    where the cost of one is unknown; `affordable`: number of agents that the budget pays for, None without a budget.

    `disk`: bytes on this machine, `disk_each` on each remote host, None if the size is unknown. `day`: None where the
    day has no budget.
    """

    tests: int
    seconds: float
    longest: float
    time_basis: str
    usd: float | None
    usd_basis: str
    affordable: int | None
    disk: int | None
    disk_each: int | None
    disk_basis: str
    leaves: tuple[Leaves, ...]
    day: DayEstimate | None = None


def estimate(
    plan: RunPlan,
    size: Size,
    typical: Typical | None = None,
    *,
    tests: int | None = None,
    along: Sequence[str] = (),
    service: str = "",
    spent: DaySpent | None = None,
) -> Estimates:
    """Estimate a run. `size`: of the source at the base; `tests`: number that get an agent, None for all of the plan.

    `along`: local files that the agents' command names (`crew.mngr_commands.files_to_upload`). `service`: the service
    that answers the agents' model requests, empty for the default of their type. `spent`: of the day's budgets.
    """
    one = typical or Typical()
    count = len(plan.tests) if tests is None else tests
    usd, usd_basis, affordable = _money(plan, count, one)
    disk, disk_each, disk_basis = _disk(plan, size, count)
    return Estimates(
        tests=count,
        seconds=_duration(plan, one.seconds, count, _spacing(plan, one)),
        longest=_duration(plan, plan.timeout, count, _spacing(plan, one)),
        time_basis=(
            f"{_counted(count, plan.noun)}, {min(count, start_of(plan))} at once, {span(one.seconds)} each "
            f"({one.basis}); one launched every {span(_spacing(plan, one))}"
            + ("" if one.making is None else f", as in run {one.making_run}")
        ),
        usd=usd,
        usd_basis=usd_basis,
        affordable=affordable,
        disk=disk,
        disk_each=disk_each,
        disk_basis=disk_basis,
        leaves=leaving(plan, along, service),
        day=None if spent is None else _day(plan, count, one, spent),
    )


def span(seconds: float) -> str:
    """Format seconds roughly: `40 s`, `12 min`, `2 h 5 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def dollars(usd: float) -> str:
    """Format dollars, small amounts with two significant digits: `0.0043 USD`, `0.29 USD`, `12.00 USD`."""
    return f"{usd:.2f} USD" if usd >= 0.1 or usd == 0 else f"{usd:.2g} USD"


def leaving(plan: RunPlan, along: Sequence[str] = (), service: str = "") -> tuple[Leaves, ...]:
    """List the data that leaves this machine, with its recipient; `along` and `service` as for `estimate`."""
    elsewhere = [place for place in places(plan.provider) if place != LOCAL_PROVIDER]
    contents = f"the repository at {plan.base[:12]}"
    found: list[Leaves] = []
    if elsewhere:
        where = ", ".join(elsewhere)
        found.append(Leaves(f"{contents}, with its history, and the prompts", f"{where}, where the agents run"))
        if along:
            found.append(Leaves(f"{', '.join(along)}, which the command names", f"{where}, with each prompt"))
        found += [Leaves(thing, where) for thing in leaves_with(plan.agent_type, plan.agent_settings)]
    if plan.agent_command is not None:
        program = plan.agent_command[0]
        found.append(Leaves(f"{contents} and the prompts", f"`{program}`, which may send them on"))
    else:
        model = service or service_of(plan.agent_type, (), {})
        found.append(Leaves(f"what agents read of {contents}, the prompts and the output of commands", model))
    if plan.env_names:
        names = ", ".join(plan.env_names)
        where = f"the agents on {plan.provider.replace(',', ', ')}" if elsewhere else "the agents on this machine"
        found.append(Leaves(f"the values of {names}", where))
    return tuple(found)


def _spacing(plan: RunPlan, one: Typical) -> float:
    """Return the seconds from one launch to the next."""
    usual = MAKING_COMMAND if plan.agent_type == "command" else MAKING_OTHERS
    return max(1.0 / plan.launch_rate, usual if one.making is None else one.making)


def _duration(plan: RunPlan, each: float, count: int, spacing: float) -> float:
    """Return the longer of two bounds: working in rounds, or launching one after another."""
    rounds = math.ceil(count / start_of(plan)) * each
    making = count * spacing
    return max(rounds, making + each) if count else 0.0


def _money(plan: RunPlan, count: int, one: Typical) -> tuple[float | None, str, int | None]:
    each = plan.usd_per_agent if one.usd is None else one.usd
    if each is None:
        return None, "unknown: no earlier run was metered; set usd_per_agent for an estimate", None
    at = f"{_counted(count, 'agent')} at {dollars(each)}"
    basis = f"estimated: {at} (usd_per_agent)" if one.usd is None else f"{at} ({one.usd_basis})"
    if plan.budget_usd is None:
        return count * each, basis, None
    # Rounded as in `spending.affordable`.
    affordable = count if each == 0 else min(count, math.floor((plan.budget_usd + 1e-9) / each))
    if affordable < count:
        basis += f"; launching stops after {affordable}, at the budget of {plan.budget_usd:.2f} USD"
    return affordable * each, basis, affordable


def _day(plan: RunPlan, count: int, one: Typical, spent: DaySpent) -> DayEstimate:
    each_usd = plan.usd_per_agent if one.usd is None else one.usd
    limits: list[tuple[float, float, float | None]] = []
    if plan.budget_day_usd is not None:
        limits.append((plan.budget_day_usd, spent.usd, each_usd))
    if plan.budget_day_tokens:
        limits.append((plan.budget_day_tokens, spent.tokens, one.tokens))
    pays = [math.floor(max(0.0, budget - used + 1e-9) / each) for budget, used, each in limits if each]
    fits = [budget / (count * each) for budget, _, each in limits if each and count]
    return DayEstimate(
        plan.budget_day_usd, plan.budget_day_tokens, spent,
        affordable=min(pays, default=None), runs_a_day=min(fits, default=None),
    )  # fmt: skip


def _disk(plan: RunPlan, size: Size, count: int) -> tuple[int | None, int | None, str]:
    if plan.transfer == "worktree":
        # All work trees share the clone's objects.
        clone = size.checkout + (size.history or 0)
        return (
            clone + count * size.checkout,
            None,
            f"a private clone, and {_counted(count, 'work tree')} of {_counted(size.files, 'file')}",
        )
    if size.history is None:
        return None, None, "unknown: the history takes too long to count"
    copy = size.checkout + size.history
    if plan.provider == LOCAL_PROVIDER:
        basis = f"a private clone and {_counted(count, 'copy')} of {_counted(size.files, 'file')} with their history"
        return copy * (count + 1), None, basis
    return copy, copy, f"a private clone here; each host has {_counted(size.files, 'file')} with their history"


def _counted(count: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def typical(repository: Path, plan: RunPlan) -> Typical | None:
    """Measure the newest earlier runs with agents of this type and place; None if there is none.

    The time is the median of the newest run, the dollars are the average of the newest run that metered any.
    """
    found: Typical | None = None
    for path in plan_files(repository)[:_MOST_RUNS]:
        folder = RunFolder(path.parent)
        with suppress(SelftestError, OSError):
            run = folder.read()
            if run.plan.created_at > plan.created_at + _DAY:
                continue  # a clock that jumped would make it the newest run for years
            is_alike = (run.plan.agent_type, run.plan.agent_command, run.plan.provider, run.plan.role) == (
                plan.agent_type, plan.agent_command, plan.provider, plan.role,
            )  # fmt: skip
            spans = _spans(run)
            if is_alike and spans and found is None:
                basis = f"the median of {len(spans)} agents of run {folder.run}"
                making = _spacing_of(run)
                found = Typical(median(spans), basis, making=making, making_run="" if making is None else folder.run)
            tokens = _tokens(run)
            if is_alike and tokens and found is not None and found.tokens is None:
                found = replace(found, tokens=fmean(tokens))
            usd = _metered(run)
            if is_alike and usd and found is not None:
                basis = f"metered: the average of {len(usd)} agents of run {folder.run}"
                return replace(found, usd=fmean(usd), usd_basis=basis)
    return found


def _is_complete(row: RunRow) -> bool:
    """True if the agent ended its work itself: a crash or a timeout tells nothing about the usual duration."""
    return row.end is not None and row.end.is_reported


def _metered(run: Run) -> list[float]:
    return [
        row.usage.usd
        for row in run.rows.values()
        if _is_complete(row) and row.usage is not None and row.usage.usd is not None
    ]


def _tokens(run: Run) -> list[int]:
    return [row.usage.tokens for row in run.rows.values() if _is_complete(row) and row.usage is not None]


def _spans(run: Run) -> list[float]:
    """List the durations of agents. One that ended before it was launched tells of a clock that jumped."""
    return [
        row.ended_at - row.launched_at
        for row in run.rows.values()
        if _is_complete(row) and row.ended_at is not None and row.launched_at is not None
        if row.ended_at >= row.launched_at
    ]


def _spacing_of(run: Run) -> float | None:
    """Measure the seconds from one launch to the next, while no agent had to wait for the end of another."""
    rows = sorted(
        (row for row in run.rows.values() if row.launched_at is not None and not row.retries),
        key=lambda row: row.launching_at or 0.0,
    )[: run.plan.max_running]
    launched = sorted(row.launched_at for row in rows if row.launched_at is not None)
    return (launched[-1] - launched[0]) / (len(launched) - 1) if len(launched) >= _LEAST_LAUNCHES else None
