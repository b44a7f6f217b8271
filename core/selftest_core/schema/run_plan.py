"""The JSON of what a run would be, as models: `run --dry-run --json`. Imported by commands that print JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.schema.registry import Line, Shape, Text

if TYPE_CHECKING:
    from selftest_core.run.plan.offer import Offer


class OfferedTestItem(Shape):
    """A test that gets an agent. `reasons`: why it was picked, where --affected-by picks."""

    test: Text
    reasons: list[Text]
    blocks: int = Field(description="How many blocks of the tutorial it cites.")


class UncollectedItem(Shape):
    """A file that cannot be collected: a row of the run without an agent."""

    path: Text
    message: Text


class LeavesItem(Shape):
    """Something that leaves this machine, or reaches a program that could send it on."""

    what: Text
    to: Text


class TimeItem(Shape):
    """Seconds, estimated; `longest` where every agent takes all the time that it may."""

    seconds: float
    longest: float
    basis: Text


class MoneyItem(Shape):
    """USD, estimated: nothing is metered. `affordable`: how many agents the budget pays for, null without one."""

    usd: float | None
    basis: Text
    budget_usd: float | None
    affordable: int | None


class DiskItem(Shape):
    """Bytes, estimated: `here` for all copies on this machine, `each` on every other host; `free` here."""

    here: int | None
    each: int | None
    basis: Text
    free: int | None


class OfferedSmokeItem(Shape):
    """A smoke agent: the run's first step on this provider."""

    provider: Text
    type: Text


class OfferDocument(Shape):
    """`selftest-tui run --dry-run --json`: what would start. Nothing was started or written."""

    repository: Text
    base: str
    tests: list[OfferedTestItem]
    found: int = Field(description="Tests that there are; `tests` were picked of them.")
    deselected: int = Field(description="Tests that the arguments of pytest left out.")
    uncollected: list[UncollectedItem]
    provider: Text
    agent_type: Text
    agent_command: list[Text] | None
    transfer: Literal["mirror", "worktree"]
    pytest_command: list[Text]
    pytest_args: list[Text]
    create_args: list[Text]
    env_names: list[str] = Field(description="Variables that agents get; their values are in no output of ours.")
    agent_env: list[Text] = Field(description="NAME=value: variables that every agent gets.")
    agent_settings: list[Text] = Field(description="KEY=value: settings of mngr for these agents alone.")
    setup_command: Text = Field(description="What runs in each copy before its agent begins; empty for nothing.")
    smoke: list[OfferedSmokeItem] = Field(description="Agents with a tiny prompt that go ahead of all others.")
    withheld: list[Text] = Field(description="Variables of this machine that agents would inherit, and do not get.")
    max_running: int
    launch_rate: float
    timeout: float
    on_cluster: Literal["ask", "pause", "go"]
    time: TimeItem
    money: MoneyItem
    disk: DiskItem
    leaves: list[LeavesItem]
    left_out: list[Text] = Field(description="Paths that are changed or untracked, so not in the base.")
    warnings: list[Text]


class OfferLine(Line, OfferDocument):
    """`selftest-tui run --dry-run --batch`. `run` is null: none was begun."""

    event: Literal["summary"] = "summary"


def offer_document(offer: Offer) -> OfferDocument:
    """The offer as it is printed."""
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
        max_running=plan.max_running,
        launch_rate=plan.launch_rate,
        timeout=plan.timeout,
        on_cluster=plan.on_cluster,
        time=TimeItem(seconds=estimates.seconds, longest=estimates.longest, basis=estimates.time_basis),
        money=MoneyItem(
            usd=estimates.usd, basis=estimates.usd_basis, budget_usd=plan.budget_usd, affordable=estimates.affordable
        ),
        disk=DiskItem(here=estimates.disk, each=estimates.disk_each, basis=estimates.disk_basis, free=offer.free),
        leaves=[LeavesItem(what=one.what, to=one.to) for one in estimates.leaves],
        left_out=list(plan.left_out),
        warnings=list(plan.warnings),
    )
