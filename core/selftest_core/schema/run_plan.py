"""JSON of `selftest-tui run --dry-run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from selftest_core.run.fold import start_of
from selftest_core.schema.model import Line, Shape, Text

if TYPE_CHECKING:
    from selftest_core.run.plan.estimates import DayEstimate
    from selftest_core.run.plan.modal_place import ModalPlace
    from selftest_core.run.plan.offer import Offer
    from selftest_core.run.plan.plan import Suite


class OfferedTestItem(Shape):
    """A test that gets an agent. `reasons`: why --affected-by selected it."""

    test: Text
    reasons: list[Text]
    blocks: int = Field(description="Number of tutorial blocks that the test cites.")


class UncollectedItem(Shape):
    """A file of tests that pytest cannot collect: it gets no agent."""

    path: Text
    message: Text


class LeavesItem(Shape):
    """Data that leaves this machine, or goes to a program that may send it on."""

    what: Text
    to: Text


class TimeItem(Shape):
    """Estimated seconds; `longest`: if every agent runs until its timeout."""

    seconds: float
    longest: float
    basis: Text


class DayItem(Shape):
    """The budgets of a day, for all runs of the repository, and what was used of them since midnight."""

    budget_usd: float | None
    budget_tokens: int | None
    spent_usd: float
    spent_tokens: int
    runs: int = Field(description="Number of runs that launched an agent since midnight.")
    affordable: int | None = Field(
        description="Number of agents that the rest pays for, null where the cost of one is unknown."
    )
    runs_a_day: float | None = Field(
        description="How often the budgets of a whole day pay for such a run, null where the cost is unknown."
    )
    used_up: bool = Field(description="No agent may be launched any more today.")
    problems: list[Text] = Field(description="Runs whose usage does not count, and why.")


class MoneyItem(Shape):
    """Estimated USD. `affordable`: number of agents that the budget pays for, null without a budget."""

    usd: float | None
    basis: Text
    budget_usd: float | None
    affordable: int | None
    day: DayItem | None = Field(None, description="The budgets of the day, null without one.")


class RetryItem(Shape):
    """Limits of retries, and of failures with one cause. `pause`, `longest_pause`: seconds before a test's next agent.

    `launches`: new launches after one that failed; `lost`: new agents after one whose host is gone. Launching pauses
    where `alike` of the last `window` ended tests failed with one cause.
    """

    launches: int
    lost: int
    pause: float
    longest_pause: float
    alike: int
    window: int


class DiskItem(Shape):
    """Estimated bytes: `here` for all copies on this machine, `each` on every other host; `free` on this machine."""

    here: int | None
    each: int | None
    basis: Text
    free: int | None


class OfferedSmokeItem(Shape):
    """A smoke agent: it runs before all others on its provider."""

    provider: Text
    type: Text


class ModalItem(Shape):
    """Modal, where agents run there. `live`: sandboxes of mngr's; `free`: of modal_sandboxes, null if that is not set.

    `metered_usd`, `billed_usd`: of the workspace since `since`, before and after credits; null where it is not told.
    """

    workspace: Text
    live: int
    free: int | None
    since: str
    metered_usd: float | None
    billed_usd: float | None
    problem: Text


class RestingItem(Shape):
    """A test that gets no agent in this run, as it rests."""

    test: Text
    reason: Text
    until: int = Field(description="Number of runs until it works again, 1 for the next one.")


class DeletionItem(Shape):
    """A test that is gone, with the commit that removed it; null where that is unknown."""

    test: Text
    commit: str | None
    subject: Text | None
    agent: Text | None = Field(description="The agent that made the commit, by its trailers.")


class SuiteFields(Shape):
    """Tests beside those of the run: `tests` counts none of them."""

    resting: list[RestingItem] = Field([], description="Tests without an agent, as they rest.")
    compared_with: Text | None = Field(
        None, description="The earlier run that `grown` and `deleted` are compared with, null without one."
    )
    grown: list[Text] = Field([], description="Tests that are new since that run.")
    deleted: list[DeletionItem] = Field([], description="Tests that are gone since that run.")


def suite_fields(suite: Suite | None) -> dict[str, Any]:
    """Convert a plan's suite to the fields of `SuiteFields`."""
    if suite is None:
        return {}
    return {
        "resting": [RestingItem(test=one.node_id, reason=one.reason, until=one.until) for one in suite.resting],
        "compared_with": suite.since or None,
        "grown": list(suite.grown),
        "deleted": [
            DeletionItem(
                test=one.node_id, commit=one.commit or None, subject=one.subject or None, agent=one.agent or None
            )
            for one in suite.deleted
        ],
    }


class OfferDocument(SuiteFields):
    """`selftest-tui run --dry-run --json`: the run that would start. Nothing was started or written."""

    repository: Text
    base: str
    tests: list[OfferedTestItem]
    found: int = Field(description="Number of tests that were found; `tests` were selected from them.")
    deselected: int = Field(description="Number of tests that pytest's arguments deselected.")
    uncollected: list[UncollectedItem]
    provider: Text
    agent_type: Text
    agent_command: list[Text] | None
    transfer: Literal["mirror", "worktree"]
    pytest_command: list[Text]
    pytest_args: list[Text]
    create_args: list[Text]
    env_names: list[str] = Field(
        description="Variables that agents get from your environment; their values are never printed."
    )
    agent_env: list[Text] = Field(description="NAME=value: further variables of every agent.")
    agent_settings: list[Text] = Field(description="KEY=value: settings of mngr for these agents only.")
    setup_command: Text = Field(
        description="The command that runs in each copy before its agent starts; empty for none."
    )
    smoke: list[OfferedSmokeItem] = Field(description="Agents with a tiny prompt that run before all others.")
    withheld: list[Text] = Field(description="Variables of this machine that are hidden from agents.")
    verify_on_arrival: Literal["", "bubblewrap", "none"] = Field(
        "",
        description="How tests of claims that are verified here when they arrive are isolated; empty: not verified.",
    )
    role: Literal["tester", "drafter", "writer", "integrator"] = Field(
        "tester", description="The work of the agents; of other roles, `tests` are the ids of their tasks."
    )
    max_running: int
    start_running: int | None = Field(
        None, description="Agents at once at first, where it is less than `max_running`: as earlier runs found."
    )
    adapt: bool = Field(False, description="The number at once adapts, between 1 and `max_running`.")
    launch_rate: float
    timeout: float
    on_cluster: Literal["ask", "pause", "go"]
    retries: RetryItem | None = Field(None, description="Limits of retries and of failures with one cause.")
    time: TimeItem
    money: MoneyItem
    disk: DiskItem
    leaves: list[LeavesItem]
    modal: ModalItem | None = Field(None, description="Null where no agent runs on Modal.")
    left_out: list[Text] = Field(description="Paths that are changed or untracked, and so not in the base.")
    warnings: list[Text]


class OfferLine(Line, OfferDocument):
    """`selftest-tui run --dry-run --batch`. `run` is null: no run was started."""

    event: Literal["summary"] = "summary"


_ISOLATION: dict[str, Literal["bubblewrap", "none"]] = {"bubblewrap": "bubblewrap", "none": "none"}


def _day_item(day: DayEstimate | None) -> DayItem | None:
    if day is None:
        return None
    return DayItem(
        budget_usd=day.budget_usd, budget_tokens=day.budget_tokens or None, spent_usd=day.spent.usd,
        spent_tokens=day.spent.tokens, runs=day.spent.runs, affordable=day.affordable, runs_a_day=day.runs_a_day,
        used_up=day.is_used_up, problems=list(day.spent.problems),
    )  # fmt: skip


def offer_document(offer: Offer) -> OfferDocument:
    """Convert an offer."""
    plan, estimates = offer.plan, offer.estimates
    return OfferDocument(
        repository=plan.repository,
        base=plan.base,
        tests=[OfferedTestItem(test=one.node_id, reasons=list(one.reasons), blocks=one.blocks) for one in offer.tests],
        found=offer.found,
        deselected=offer.deselected,
        uncollected=[UncollectedItem(path=one.path, message=one.message) for one in offer.uncollected],
        provider=plan.provider,
        agent_type=plan.agent_type,
        agent_command=None if plan.agent_command is None else list(plan.agent_command),
        transfer=plan.transfer,
        pytest_command=list(plan.pytest_command),
        pytest_args=list(plan.pytest_args),
        create_args=list(plan.create_args),
        env_names=list(plan.env_names),
        agent_env=list(plan.agent_env),
        agent_settings=list(plan.agent_settings),
        setup_command=plan.setup_command,
        smoke=[OfferedSmokeItem(provider=place, type=plan.agent_type) for place in plan.smoke],
        withheld=list(offer.withheld),
        verify_on_arrival=_ISOLATION.get(plan.verify_on_arrival, ""),
        role=plan.role,
        max_running=plan.max_running,
        start_running=start_of(plan) if start_of(plan) < plan.max_running else None,
        adapt=plan.adapt,
        launch_rate=plan.launch_rate,
        timeout=plan.timeout,
        on_cluster=plan.on_cluster,
        retries=RetryItem(
            launches=plan.launch_retries,
            lost=plan.lost_retries,
            pause=plan.retry_pause,
            longest_pause=plan.longest_retry_pause,
            alike=plan.cluster_alike,
            window=plan.cluster_window,
        ),
        time=TimeItem(seconds=estimates.seconds, longest=estimates.longest, basis=estimates.time_basis),
        money=MoneyItem(
            usd=estimates.usd,
            basis=estimates.usd_basis,
            budget_usd=plan.budget_usd,
            affordable=estimates.affordable,
            day=_day_item(estimates.day),
        ),
        disk=DiskItem(here=estimates.disk, each=estimates.disk_each, basis=estimates.disk_basis, free=offer.free),
        leaves=[LeavesItem(what=one.what, to=one.to) for one in estimates.leaves],
        modal=None if offer.modal is None else _modal_item(offer.modal),
        left_out=list(plan.left_out),
        warnings=list(plan.warnings),
        **suite_fields(plan.suite),
    )


def _modal_item(place: ModalPlace) -> ModalItem:
    return ModalItem(
        workspace=place.workspace,
        live=place.live,
        free=place.free,
        since=place.since,
        metered_usd=None if place.metered is None else float(place.metered),
        billed_usd=None if place.billed is None else float(place.billed),
        problem=place.problem,
    )
