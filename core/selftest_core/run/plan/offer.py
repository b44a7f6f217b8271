"""The preview of a run: its tests, agents, limits, estimates, and the data that leaves this machine.

The start screen, `run --dry-run` and its JSON show this one value. Everything in it was looked up or names its basis;
unknown values are marked as unknown. Pure.

Names of tests, paths and messages are untrusted: who shows them must sanitize them.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING

from selftest_core.agent_types.profiles import meanings
from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.frozen import dataclass
from selftest_core.run.fold import start_of
from selftest_core.run.outcome.claims import NOT_ISOLATED
from selftest_core.run.plan.estimates import dollars, span
from selftest_core.run.plan.modal_place import modal_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.run.plan.estimates import Estimates
    from selftest_core.run.plan.modal_place import ModalPlace
    from selftest_core.run.plan.plan import Deletion, RestingTest, RunPlan, Suite

_MOST_TESTS = 200
"""Tests that are listed one by one, each with its reasons."""
_MOST_FILES = 30
_MOST_PATHS = 10
_MOST_NAMES = 20


@dataclass(frozen=True, slots=True)
class OfferedTest:
    """One test. `reasons`: why it was selected, empty if all tests run. `blocks`: number of blocks that it cites."""

    node_id: str
    reasons: tuple[str, ...]
    blocks: int


@dataclass(frozen=True, slots=True)
class Uncollected:
    """A file of tests that pytest cannot collect, so it gets no agent."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Offer:
    """The preview of a run that is ready to start. Times in seconds, disk in bytes; None is unknown.

    `base_name`: the user's name of the base. `affected_by`: the user's name of that commit, empty if all tests run.
    `found`: number of tests, of which `tests` were selected. `deselected`: number that pytest's arguments deselected.
    `free`: free bytes where the copies will be. `withheld`: variables of the user that are hidden from agents.
    `modal`: None where no agent runs there.
    """

    plan: RunPlan
    estimates: Estimates
    tests: tuple[OfferedTest, ...]
    uncollected: tuple[Uncollected, ...]
    base_name: str
    affected_by: str
    found: int
    deselected: int
    free: int | None
    withheld: tuple[str, ...] = ()
    modal: ModalPlace | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Lines with a title."""

    word: str
    lines: tuple[str, ...]


def offered_tests(plan: RunPlan, picked: Mapping[str, Sequence[str]]) -> tuple[OfferedTest, ...]:
    """Return the tests that get an agent; `picked`: reasons by node id."""
    return tuple(
        OfferedTest(test.node_id, tuple(picked.get(test.node_id, ())), len(test.blocks)) for test in plan.tests
    )


def offer_parts(offer: Offer) -> tuple[Part, ...]:
    """Describe the offer in titled parts."""
    plan, estimates = offer.plan, offer.estimates
    parts = [
        Part("from", (f"{plan.repository} at {_base(offer)}",)),
        *([Part("smoke", tuple(_smoke(plan)))] if plan.smoke else []),
        Part(f"{plan.noun}s", tuple(_tests(offer) if plan.role == "tester" else _tasks(offer))),
        Part("agents", tuple(_agents(plan))),
        *([Part("verify", tuple(_verification(plan)))] if plan.verify_on_arrival else []),
        Part("limits", tuple(_limits(plan))),
        Part("time", (f"about {span(estimates.seconds)}, {span(estimates.longest)} at most", estimates.time_basis)),
        Part("cost", tuple(_money(offer))),
        Part("disk", tuple(_disk(offer))),
        Part("sent out", tuple(f"{one.what} → {one.to}" for one in estimates.leaves)),
        Part("env", tuple(_env(offer))),
    ]
    if plan.suite is not None and plan.suite.resting:
        parts.append(Part("resting", tuple(_resting(plan.suite.resting))))
    if plan.suite is not None and (plan.suite.grown or plan.suite.deleted):
        parts.append(Part("growth", tuple(growth_lines(plan.suite))))
    if offer.modal is not None:
        parts.append(Part("modal", tuple(modal_lines(offer.modal, plan.max_running))))
    if offer.uncollected:
        parts.append(Part("broken", tuple(_uncollected(offer))))
    if plan.left_out:
        parts.append(Part("left out", tuple(_left_out(plan))))
    if plan.warnings:
        parts.append(Part("note", plan.warnings))
    return tuple(parts)


def growth_lines(suite: Suite) -> list[str]:
    """Tell the tests that are new since an earlier run, and those that are gone, each with the commit."""
    lines = [f"{_counted(len(suite.grown), 'test')} new and {len(suite.deleted):,} gone since run {suite.since}"]
    lines += _cut([f"  new: {test}" for test in suite.grown], _MOST_PATHS, " new tests")
    lines += _cut([f"  gone: {_deletion(one)}" for one in suite.deleted], _MOST_PATHS, " that are gone")
    return lines


def _deletion(deleted: Deletion) -> str:
    if not deleted.commit:
        return deleted.node_id
    by = f" by {deleted.agent}" if deleted.agent else ""
    return f"{deleted.node_id}, deleted{by} in {deleted.commit[:12]} ({deleted.subject})"


def _resting(resting: Sequence[RestingTest]) -> list[str]:
    lines = [
        f"{_counted(len(resting), 'test')} {'rests' if len(resting) == 1 else 'rest'} and get no agent (--no-rest)"
    ]
    told = Counter((one.reason, one.until) for one in resting)
    for (reason, until), count in told.items():
        when = "in the next run" if until == 1 else f"in {until} runs"
        lines.append(f"  {count:,} {reason}: {'it works' if count == 1 else 'they work'} again {when}, or when changed")
    return [*lines, *_cut([f"    {one.node_id}" for one in resting], _MOST_FILES, " tests")]


def amount(size: float) -> str:
    """Format bytes in the largest unit that fits: `640 kB`, `1.2 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def _base(offer: Offer) -> str:
    short = offer.plan.base[:12]
    return short if offer.plan.base.startswith(offer.base_name) else f"{short} ({offer.base_name})"


def _tests(offer: Offer) -> list[str]:
    count = len(offer.tests)
    lines = [f"{_counted(count, 'test')}, one agent for each" if count > 1 else "1 test, one agent"]
    if offer.affected_by:
        lines[0] = f"{count} of {_counted(offer.found, 'test')}: affected by changes since {offer.affected_by}"
        for test in offer.tests[:_MOST_TESTS]:
            lines += [f"  {test.node_id}", *(f"    {reason}" for reason in test.reasons)]
        if count > _MOST_TESTS:
            lines.append(f"  and {count - _MOST_TESTS:,} more")
    else:
        files = Counter(test.node_id.partition("::")[0] for test in offer.tests)
        longest = max(len(f"{number}") for number in files.values())
        lines += _cut([f"  {number:>{longest}}  {path}" for path, number in files.items()], _MOST_FILES, " files")
    if offer.deselected:
        lines.append(f"{_counted(offer.deselected, 'test')} deselected by pytest's arguments")
    citing = sum(test.blocks > 0 for test in offer.tests)
    if citing:
        lines.append(f"{_counted(citing, 'prompt')} with the tutorial blocks that the test cites")
    return lines


def _tasks(offer: Offer) -> list[str]:
    count, noun = len(offer.tests), offer.plan.noun
    lines = [f"{_counted(count, noun)}, one agent for each" if count > 1 else f"1 {noun}, one agent"]
    return [*lines, *_cut([f"  {test.node_id}" for test in offer.tests], _MOST_TESTS, "")]


def _smoke(plan: RunPlan) -> list[str]:
    where = ", ".join("this machine" if place == LOCAL_PROVIDER else place for place in plan.smoke)
    return [
        f"{_counted(len(plan.smoke), 'smoke agent')} ({plan.agent_type}) on {where}: a tiny prompt, one file to write",
        "if it fails, nothing else starts there (--no-smoke skips it)",
    ]


def _verification(plan: RunPlan) -> list[str]:
    where = (
        "with all your rights: it can reach your files (setting verify_isolation)"
        if plan.verify_on_arrival == NOT_ISOLATED
        else "in a sandbox: it reaches neither your home, nor your checkout, nor the network"
    )
    what = (
        "an agent's claim that its test passes is verified when it arrives (--no-verify-on-arrival leaves it out)"
        if plan.role == "tester"
        else "an agent's tests are run when they arrive, with the block's programs and without (--no-verify-on-arrival "
        "leaves it out)"
        if plan.role == "writer"
        else "what an agent answers is tested when it arrives, and refused where its tests do not pass"
    )
    return [
        what,
        f"so agents' code runs on this machine, {where}",
    ]


def _agents(plan: RunPlan) -> list[str]:
    where = "on this machine" if plan.provider == LOCAL_PROVIDER else f"on {plan.provider}"
    what = f"`{shlex.join(plan.agent_command)}`" if plan.agent_command is not None else plan.agent_type
    copy = "a copy of the repository" if plan.transfer == "mirror" else "a work tree of one private clone"
    lines = [f"{what} {where}, each in {copy}"]
    if plan.role == "drafter":
        lines.append(
            f"each may change nothing in {plan.tutorial} but the blocks beneath its heading, and no other file"
        )
    else:
        lines.append(f"tests run with `{shlex.join((*plan.pytest_command, *plan.pytest_args))}`")
    if plan.setup_command:
        lines.append(
            f"setup of each copy: `{plan.setup_command}`; copies share only uv's cache (setting setup_command)"
        )
    if plan.create_args:
        lines.append(f"mngr create … {shlex.join(plan.create_args)}")
    lines += meanings(plan.agent_type, plan.agent_settings)
    if plan.prompt_template:
        lines.append("the prompt is your template (setting prompt)")
    return lines


def _limits(plan: RunPlan) -> list[str]:
    many = {
        "ask": "launching is paused and you are asked",
        "pause": "launching is paused",
        "go": "launching continues",
    }[plan.on_cluster]
    start = start_of(plan)
    found = f", {start} at first, as earlier runs found" if start < plan.max_running else ""
    adapts = "the number at once goes down on rate limits, failing launches and load, and up again (setting adapt)"
    return [
        f"{plan.max_running} at once{found}, at most {plan.launch_rate:g} launched per second, "
        f"{span(plan.timeout)} each",
        *([adapts] if plan.adapt else []),
        f"when {plan.cluster_alike} of the last {plan.cluster_window} fail with the same error: {many}",
        *_retries(plan),
    ]


def _retries(plan: RunPlan) -> list[str]:
    """Describe the limits of retries, unless they are the usual ones."""
    usual = {one.name: one.default for one in fields(plan)}
    names = ("launch_retries", "lost_retries", "retry_pause", "longest_retry_pause")
    if all(getattr(plan, name) == usual[name] for name in names):
        return []
    return [
        f"tries of a launch: {plan.launch_retries + 1}, agents of a test whose host goes: {plan.lost_retries + 1}; "
        f"{plan.retry_pause:g} s before the next one, doubled each time, {plan.longest_retry_pause:g} s at most"
    ]


def _money(offer: Offer) -> list[str]:
    estimates, budget = offer.estimates, offer.plan.budget_usd
    if estimates.usd is None:
        return [estimates.usd_basis, *_day(estimates)]
    lines = [f"about {dollars(estimates.usd)}", estimates.usd_basis]
    if budget is not None and estimates.affordable == estimates.tests:
        lines.append(f"within the budget of {budget:.2f} USD")
    return [*lines, *_day(estimates)]


def _day(estimates: Estimates) -> list[str]:
    day = estimates.day
    if day is None:
        return []
    budgets, used = [], []
    if day.budget_usd is not None:
        budgets.append(f"{day.budget_usd:.2f} USD")
        used.append(dollars(day.spent.usd))
    if day.budget_tokens:
        budgets.append(f"{day.budget_tokens:,} tokens")
        used.append(f"{day.spent.tokens:,} tokens")
    runs = _counted(day.spent.runs, "run")
    lines = [f"the day's budget: {' and '.join(budgets)}; used since midnight: {' and '.join(used)} by {runs}"]
    if day.is_used_up:
        lines.append("it is used up: no agent starts before midnight, unless the setting is raised")
    elif day.affordable is None:
        lines.append("how many agents it pays for is unknown: no earlier run was metered")
    elif day.affordable < estimates.tests:
        lines.append(
            f"the rest pays for {day.affordable} of {_counted(estimates.tests, 'agent')}: launching stops then"
        )
    else:
        lines.append(f"the rest pays for {_counted(day.affordable, 'agent')}")
    if day.runs_a_day is not None:
        often = (
            f"{math.floor(day.runs_a_day):,} times"
            if day.runs_a_day >= 3
            else "twice"
            if day.runs_a_day >= 2
            else "once"
        )
        part = f"the budget of {1 / day.runs_a_day:.1f} days" if day.runs_a_day > 0 else "more than any budget of a day"
        lines.append(f"such a run fits into a day {often}" if day.runs_a_day >= 1 else f"such a run takes {part}")
    return [*lines, *day.spent.problems]


def _disk(offer: Offer) -> list[str]:
    estimates = offer.estimates
    if estimates.disk is None:
        return [estimates.disk_basis]
    free = "" if offer.free is None else f"; {amount(offer.free)} are free"
    lines = [f"about {amount(estimates.disk)} here{free}", estimates.disk_basis]
    if estimates.disk_each is not None:
        lines.insert(1, f"about {amount(estimates.disk_each)} on each host")
    return lines


def _env(offer: Offer) -> list[str]:
    plan = offer.plan
    lines = ["agents get none of your variables (--env NAME passes one)"]
    if plan.env_names:
        names = ", ".join(plan.env_names)
        lines = [f"{names}: the values go to each agent and into mngr's files about it, not into files of the run"]
    if plan.agent_env:
        lines.append(f"set for each agent: {', '.join(plan.agent_env)}")
    if offer.withheld:
        shown = ", ".join(offer.withheld[:_MOST_NAMES])
        more = f" and {len(offer.withheld) - _MOST_NAMES} more" if len(offer.withheld) > _MOST_NAMES else ""
        lines.append(f"hidden from agents, since --env does not name them: {shown}{more}")
    return lines


def _uncollected(offer: Offer) -> list[str]:
    lines = [f"{_counted(len(offer.uncollected), 'file')} cannot be collected and get no agent"]
    for one in offer.uncollected[:_MOST_PATHS]:
        lines += [f"  {one.path}", f"    {one.message}"]
    if len(offer.uncollected) > _MOST_PATHS:
        lines.append(f"  and {len(offer.uncollected) - _MOST_PATHS:,} more")
    return lines


def _left_out(plan: RunPlan) -> list[str]:
    count = len(plan.left_out)
    lines = [f"{_counted(count, 'path')} changed or untracked, so not in the base"]
    return [*lines, *_cut([f"  {path}" for path in plan.left_out], _MOST_PATHS, "")]


def _cut(lines: list[str], most: int, what: str) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], f"  and {len(lines) - most:,} more{what}"]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
