"""JSON of runs: the lines and the summary of `selftest-tui run --batch`, and `selftest-tui runs`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field, create_model

from selftest_core.run.conduct.circuit_breaker import run_clusters
from selftest_core.run.events import RUNNING, Phase
from selftest_core.run.fold import claim_counts, end_of
from selftest_core.run.outcome.ends import End, Group
from selftest_core.run.plan.plan import Suite
from selftest_core.run.spending import spending
from selftest_core.schema.draft import DraftDocument  # noqa: TC001 -- pydantic reads it
from selftest_core.schema.model import EPOCH, Instant, Line, Shape, Text, UsageItem, instant, safe_text, usage_item
from selftest_core.schema.review import ReviewDocument  # noqa: TC001 -- pydantic reads it
from selftest_core.schema.run_plan import SuiteFields, suite_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from selftest_core.fleet.clusters import Cluster
    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run
    from selftest_core.run.overview import RunGlance
    from selftest_core.run.plan.plan import RestingTest
    from selftest_core.run.smoke import Smoke


if TYPE_CHECKING:

    class OutcomeCounts(Shape): ...

    class OpenCounts(Shape): ...

else:
    # Models with a field for each end or group, from the table in `run.outcome.ends`.
    _COUNT = (int, ...)
    FailedCounts = create_model(
        "FailedCounts", __base__=Shape, __doc__="Number of failures of each kind.",
        **{end: _COUNT for end in End if end.is_failure},
    )  # fmt: skip
    OutcomeCounts = create_model(
        "OutcomeCounts", __base__=Shape,
        __doc__="Number of tests by how they ended. They add up to the tests; where the conductor left early, a test "
        "that was still running counts as stopped.",
        **{end: _COUNT for end in End if not end.is_failure}, failed=(FailedCounts, ...),
    )  # fmt: skip
    OpenCounts = create_model(
        "OpenCounts", __base__=Shape,
        __doc__="Number of tests that did not end well, by what they need. They add up to the open tests.",
        waiting=(int, Field(description="Not started yet.")),
        running=(int, Field(description="Agents that work, with or without a conductor.")),
        needs_you=(int, Field(description="Agents that work, and need a person.")),
        **{group: _COUNT for group in Group if group.is_open},
    )  # fmt: skip


class RunLine(Line):
    """`run --batch`, `resume --batch`: one line of the run's journal. Each event has further fields.

    `launching` (agent_id, name), `made` (host_id, provider, says), `prompting` (says), `launched` (host_id, provider,
    adopted, unsure; empty where the prompt certainly arrived), `pulling`, `missed` (says), `reminding`,
    `reminded`, `noticed` (reason; empty: no longer), `limited` (reason; empty: no longer), `metered` (usage),
    `ended` (end, stage, text, signature, tip, commits, verifying), `verified` (result: passed, failed, flaky or
    unknown; reason, text, signature; failed makes the end `red`), `stopped` (says), `retrying` (reason, text),
    `answered` (id, text, asked, continues), `told` (id, says; empty where it arrived) are about one test;
    `conducting` (pid), `paused` (reason, by, signature), `resumed`, `adapted` (limit, reason), `slowed` (reason; empty:
    no longer), `called` (reason, says), `declined` (wish, says; of an answer also text and id), `error` (step, says),
    `smoking` (place, type, name), `smoked` (place, ok, seconds, says), `halted`, `left` (why) about the run.
    """

    model_config = ConfigDict(extra="allow")

    test: Text | None = Field(None, description="The node id, null where the event is about the run.")
    agent: Text | None = Field(None, description="The planned agent's name, the same in all attempts.")
    attempt: int | None = Field(None, description="From 1.")


class ClusterItem(Shape):
    """Failures with one cause. Each test that failed or is blocked is in exactly one."""

    signature: Text
    stage: Text
    tests: list[Text]


class RunUsageItem(UsageItem):
    """Usage of a run. `label`: the least certain of its parts."""

    by_label: dict[str, float] = Field(description="Dollars by label.")


class SmokeItem(Shape):
    """A smoke agent. `outcome` open: it had not ended yet."""

    provider: Text
    type: Text
    outcome: Literal["succeeded", "failed", "open"]
    seconds: float | None
    says: Text = Field(description="Why the agent failed.")
    usage: UsageItem | None = Field(None, description="Usage of the agent, null where nothing is metered.")


class LevelItem(Shape):
    """The number of agents at a time from `at` on. `reason`: why it changed, empty for the first one."""

    at: Instant
    limit: int
    reason: Text


class RunSummary(SuiteFields, Line):
    """The last line of `run --batch`, `resume --batch` and `stop --batch`."""

    event: Literal["summary"] = "summary"
    tests: int
    outcomes: OutcomeCounts
    verified: dict[Literal["passed", "failed", "flaky", "unknown"], int] = Field(
        {}, description="Claims that were verified when they arrived, by verdict; each failed one counts as `red`."
    )
    clusters: list[ClusterItem]
    line: ReviewDocument | None = Field(
        None, description="The review of the agents' changes, null while there is none. "
    )
    role: Literal["tester", "drafter", "writer", "integrator"] = Field(
        "tester", description="The work of the run's agents; headings of a draft count as its `tests`."
    )
    draft: DraftDocument | None = Field(None, description="The draft of a run of drafters, null for other runs.")
    others: list[RunSummary] = Field([], description="Further runs of a demo: of a drafter and of a writer.")
    smoke: list[SmokeItem] = Field([], description="The smoke agents; `tests` does not count them.")
    report: Text | None = Field(None, description="The path of the report, null while there is none.")
    skipped: Text | None = Field(
        None, description="Why a scheduled run was skipped, null for a run: nothing was started, and `tests` is 0."
    )
    left: Text | None = Field(
        None,
        description="Why the conductor ended: done, stopped, budget, paused, interrupted, smoke; null: it is running.",
    )
    paused: Text = Field("", description="Why launching is paused, empty where it is not.")
    at_once: list[LevelItem] = Field(
        [], description="The numbers of agents at a time, in their order; more than one where the run adapted it."
    )
    path: Text | None = Field(None, description="The folder of the run.")
    usage: RunUsageItem | None = Field(
        None,
        description="Usage of all attempts and smoke agents; null where nothing is known.",
    )


class RunItem(Shape):
    """One run."""

    run: Text
    repository: Text
    created_at: Instant | None
    tests: int
    state: Literal["live", "ended", "resumable", "unreadable"] = Field(
        description="live: its conductor is running. resumable: it is not, and the run has not ended. unreadable: "
        "see `error`."
    )
    open: OpenCounts
    paused: Text = Field(description="Why launching is paused, empty where it is not.")
    provider: Text
    agent_type: Text
    path: Text
    error: Text | None = Field(None, description="Why the run cannot be read.")
    usage: RunUsageItem | None = Field(None, description="Usage of the run, null where nothing is known.")
    role: Literal["tester", "drafter", "writer", "integrator"] = Field(
        "tester", description="The work of the run's agents; headings of a draft count as its `tests`."
    )


class RunsDocument(Shape):
    """`selftest-tui runs --json`: this repository's runs, newest first, then those of others."""

    runs: list[RunItem]


class RunsLine(Line, RunsDocument):
    """`selftest-tui runs --batch`."""

    event: Literal["summary"] = "summary"


def run_line(run: Run, entry: Entry) -> dict[str, Any]:
    """Convert a line of the journal; `run`: the run after that line."""
    row = run.rows.get(str(entry.fields.get("agent") or entry.fields.get("test")))
    fields = {name: safe_text(value) for name, value in entry.fields.items()}
    test = None if row is None else row.planned.node_id
    line = RunLine.model_validate(
        {**fields, "event": entry.event, "at": instant(entry.at) or EPOCH, "run": run.plan.run, "test": test}
    )
    return line.model_dump(mode="json")


def run_summary(
    run: Run, at: float, path: str | None = None, line: ReviewDocument | None = None, report: str | None = None
) -> RunSummary:
    """Summarize a run at `at` (seconds since the epoch).

    `line`: the review of the agents' changes; `report`: the path of the report's first page.
    """
    return RunSummary(
        at=instant(at) or EPOCH,
        run=run.plan.run,
        tests=len(run.rows),
        outcomes=outcome_counts(run.ends()),
        verified={result.value: count for result, count in claim_counts(run).items() if count},
        clusters=cluster_items(run_clusters(run)),
        line=line,
        role=run.plan.role,
        draft=None,
        others=[],
        smoke=[smoke_item(one) for one in run.smoke],
        report=report,
        skipped=None,
        left=run.left,
        paused=run.paused,
        at_once=level_items(run),
        path=path,
        usage=run_usage_item(run),
        **suite_fields(run.plan.suite),
    )


def skipped_summary(reason: str, at: float, resting: Iterable[RestingTest] = ()) -> RunSummary:
    """Summarize a scheduled run that was skipped; `resting`: all tests, where that is the reason."""
    nothing = outcome_counts(dict.fromkeys(End, 0))
    return RunSummary(
        at=instant(at) or EPOCH, run=None, tests=0, outcomes=nothing, verified={}, clusters=[], line=None,
        role="tester", draft=None, others=[], smoke=[], report=None, skipped=reason, left=None, paused="", path=None,
        at_once=[], usage=None, **suite_fields(Suite(resting=tuple(resting))),
    )  # fmt: skip


def level_items(run: Run) -> list[LevelItem]:
    """Convert the curve of the number of agents at a time."""
    return [LevelItem(at=instant(one.at) or EPOCH, limit=one.limit, reason=one.reason) for one in run.curve]


def run_usage_item(run: Run) -> RunUsageItem | None:
    """Add up the usage of a run, from its journal."""
    spent = spending(run)
    item = usage_item(spent.usage)
    if item is None:
        return None
    return RunUsageItem(**item.model_dump(), by_label={str(label): usd for label, usd in spent.by_label.items()})


def outcome_counts(ends: Mapping[End, int]) -> OutcomeCounts:
    """Convert counts by end."""
    counts = {str(end): ends[end] for end in End if not end.is_failure}
    return OutcomeCounts.model_validate({**counts, "failed": {str(end): ends[end] for end in End if end.is_failure}})


def cluster_items(clusters: Iterable[Cluster]) -> list[ClusterItem]:
    """Convert clusters."""
    return [ClusterItem(signature=one.signature, stage=one.stage, tests=list(one.tests)) for one in clusters]


def open_counts(run: Run) -> OpenCounts:
    """Count what is open in a run."""
    rows = tuple(run.rows.values())
    at_work = [row for row in rows if row.phase in RUNNING]
    ended = Counter(row.end.group for row in rows if row.end is not None)
    return OpenCounts.model_validate(
        {
            "waiting": sum(row.phase is Phase.WAITING for row in rows),
            "running": sum(not row.attention for row in at_work),
            "needs_you": sum(bool(row.attention) for row in at_work),
            **{group.value: ended[group] for group in Group if group.is_open},
        }
    )


def smoke_item(smoke: Smoke) -> SmokeItem:
    """Convert a smoke agent."""
    outcome: Literal["succeeded", "failed", "open"] = "open"
    if smoke.is_ok is not None:
        outcome = "succeeded" if smoke.is_ok else "failed"
    return SmokeItem(
        provider=smoke.place,
        type=smoke.agent_type,
        outcome=outcome,
        seconds=smoke.seconds,
        says=smoke.says,
        usage=usage_item(smoke.usage),
    )


def exit_status(run: Run) -> int:
    """Return 0 where every test of a run ended well, 1 where work is left for a person."""
    return 1 if any(end_of(row).group.is_open for row in run.rows.values()) else 0


def runs_document(glances: Iterable[RunGlance]) -> RunsDocument:
    """Convert the list of runs."""
    return RunsDocument(runs=[_item(one) for one in glances])


def _item(glance: RunGlance) -> RunItem:
    run = glance.run
    if run is None:
        nothing = OpenCounts.model_validate(dict.fromkeys(OpenCounts.model_fields, 0))
        return RunItem(
            run=glance.folder.run, repository=glance.repository, created_at=None, tests=0, state="unreadable",
            open=nothing, paused="", provider="", agent_type="", path=str(glance.folder.path), error=glance.error,
            usage=None, role="tester",
        )  # fmt: skip
    return RunItem(
        run=run.plan.run, repository=run.plan.repository, created_at=instant(run.plan.created_at),
        tests=len(run.rows), state=glance.state, open=open_counts(run), paused=run.paused, provider=run.plan.provider,
        agent_type=run.plan.agent_type, path=str(glance.folder.path), error=None, usage=run_usage_item(run),
        role=run.plan.role,
    )  # fmt: skip
