"""The JSON of runs, as models: each line of `run --batch`, its summary, and the document of `runs --json`.

Scripts rely on these: fields may come, none goes or changes its meaning. Imported by commands that print JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field

from selftest_core.run.conduct.circuit_breaker import run_clusters
from selftest_core.run.events import FAILURES, OPEN_ENDS, RUNNING, End, Phase
from selftest_core.run.fold import end_of
from selftest_core.run.spending import spending
from selftest_core.schema.registry import Instant, Line, Shape, Text, UsageItem, instant, safe_text, usage_item
from selftest_core.schema.review import ReviewDocument  # noqa: TC001 -- pydantic reads it

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from selftest_core.fleet.clusters import Cluster
    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run
    from selftest_core.run.overview import RunGlance
    from selftest_core.run.smoke import Smoke

_EPOCH = "1970-01-01T00:00:00.000Z"


class RunLine(Line):
    """`run --batch`, `resume --batch`: one line of the run's journal. Each event adds fields of its own.

    `launching` (agent_id, name), `made` (host_id, provider, says), `prompting` (says), `launched` (host_id, provider,
    adopted, unsure; empty where it is known that it has its prompt), `pulling`, `missed` (says), `reminding`,
    `reminded`, `noticed` (reason; empty: not any more), `limited` (reason; empty: not any more), `metered` (usage),
    `ended` (end, stage, text, signature, tip, commits), `stopped` (says), `retrying` (reason, text) are about one test;
    `conducting` (pid), `paused` (reason, by, signature), `resumed`, `slowed` (reason; empty: not any more), `called`
    (reason, says), `declined` (wish, says), `error` (step, says), `smoking` (place, type, name), `smoked` (place, ok,
    seconds, says), `halted`, `left` (why) about the whole run.
    """

    model_config = ConfigDict(extra="allow")

    test: Text | None = Field(None, description="The node id, null where the event is about the whole run.")
    agent: Text | None = Field(None, description="The planned agent's name, which stays through all attempts.")
    attempt: int | None = Field(None, description="From 1.")


class FailedCounts(Shape):
    """Failures by kind."""

    launch: int
    crash: int
    timeout: int
    lost: int
    unreadable: int
    red: int


class OutcomeCounts(Shape):
    """How many tests ended in which way. They sum to the number of tests; in a run that was left early, a test in the
    middle of its work counts as stopped."""

    succeeded: int
    unchanged: int
    blocked: int
    stopped: int
    not_started: int
    failed: FailedCounts


class ClusterItem(Shape):
    """Failures and blocks that are alike. Each test that failed or is blocked is in exactly one."""

    signature: Text
    stage: Text
    tests: list[Text]


class RunUsageItem(UsageItem):
    """What a run used. The label is that of its weakest part."""

    by_label: dict[str, float] = Field(description="The dollars, by how sound they are.")


class SmokeItem(Shape):
    """A smoke agent. `outcome` open: it was not over when this was printed."""

    provider: Text
    type: Text
    outcome: Literal["succeeded", "failed", "open"]
    seconds: float | None
    says: Text = Field(description="Why it failed.")
    usage: UsageItem | None = Field(None, description="What it used, null where nothing is metered.")


class RunSummary(Line):
    """The last line of `run --batch`, `resume --batch` and `stop --batch`."""

    event: Literal["summary"] = "summary"
    tests: int
    outcomes: OutcomeCounts
    clusters: list[ClusterItem]
    line: ReviewDocument | None = Field(None, description="The review of what came back, null while there is none.")
    smoke: list[SmokeItem] = Field([], description="The smoke agents, which are not in `tests`.")
    report: Text | None = Field(None, description="The path of the report, null while there is none.")
    left: Text | None = Field(
        None,
        description="Why the conductor left: done, stopped, budget, paused, interrupted, smoke; null: it is there.",
    )
    paused: Text = Field("", description="Why launching rests, empty where it does not.")
    path: Text | None = Field(None, description="The folder of the run.")
    usage: RunUsageItem | None = Field(
        None,
        description="What its agents used in all attempts, smoke agents too; null where nothing is known.",
    )


class OpenCounts(Shape):
    """What is open in a run, by what it takes. They sum to the tests that did not end well."""

    waiting: int = Field(description="Not begun.")
    running: int = Field(description="Agents that work, of a run without a conductor too.")
    needs_you: int = Field(description="Agents that work, and need a person.")
    blocked: int
    failed: int
    stopped: int
    not_started: int


class RunItem(Shape):
    """One run."""

    run: Text
    repository: Text
    created_at: Instant | None
    tests: int
    state: Literal["live", "ended", "resumable", "unreadable"] = Field(
        description="live: a conductor is there. resumable: none is, and it has not ended. unreadable: see `error`."
    )
    open: OpenCounts
    paused: Text = Field(description="Why launching rests, empty where it does not.")
    provider: Text
    agent_type: Text
    path: Text
    error: Text | None = Field(None, description="Why it cannot be read.")
    usage: RunUsageItem | None = Field(None, description="What its agents used, null where nothing is known.")


class RunsDocument(Shape):
    """`selftest-tui runs --json`: this repository's runs, newest first, then those of others."""

    runs: list[RunItem]


class RunsLine(Line, RunsDocument):
    """`selftest-tui runs --batch`."""

    event: Literal["summary"] = "summary"


def run_line(run: Run, entry: Entry) -> dict[str, Any]:
    """A line of the journal as `--batch` prints it; `run` is the run after it."""
    row = run.rows.get(str(entry.fields.get("agent") or entry.fields.get("test")))
    fields = {name: safe_text(value) for name, value in entry.fields.items()}
    test = None if row is None else row.planned.node_id
    line = RunLine.model_validate(
        {**fields, "event": entry.event, "at": instant(entry.at) or _EPOCH, "run": run.plan.run, "test": test}
    )
    return line.model_dump(mode="json")


def run_summary(run: Run, at: float, path: str | None = None, line: ReviewDocument | None = None) -> RunSummary:
    """How a run stands; `at` in seconds since the epoch. `line`: what came back, laid."""
    return RunSummary(
        at=instant(at) or _EPOCH,
        run=run.plan.run,
        tests=len(run.rows),
        outcomes=outcome_counts(run.ends()),
        clusters=cluster_items(run_clusters(run)),
        line=line,
        smoke=[_smoke_item(one) for one in run.smoke],
        report=None,
        left=run.left,
        paused=run.paused,
        path=path,
        usage=run_usage_item(run),
    )


def run_usage_item(run: Run) -> RunUsageItem | None:
    """What a run used until now, as its journal says."""
    spent = spending(run)
    item = usage_item(spent.usage)
    if item is None:
        return None
    return RunUsageItem(**item.model_dump(), by_label={str(label): usd for label, usd in spent.by_label.items()})


def outcome_counts(ends: Mapping[End, int]) -> OutcomeCounts:
    """Counts by end as they are printed."""
    plain = {str(end): ends[end] for end in End if end not in FAILURES}
    return OutcomeCounts.model_validate({**plain, "failed": {str(end): ends[end] for end in FAILURES}})


def cluster_items(clusters: Iterable[Cluster]) -> list[ClusterItem]:
    """Clusters as they are printed."""
    return [ClusterItem(signature=one.signature, stage=one.stage, tests=list(one.tests)) for one in clusters]


def open_counts(run: Run) -> OpenCounts:
    """What is open in a run."""
    rows = tuple(run.rows.values())
    ended = [row.end for row in rows if row.end is not None]
    at_work = [row for row in rows if row.phase in RUNNING]
    return OpenCounts(
        waiting=sum(row.phase is Phase.WAITING for row in rows),
        running=sum(not row.attention for row in at_work),
        needs_you=sum(bool(row.attention) for row in at_work),
        blocked=ended.count(End.BLOCKED),
        failed=sum(end in FAILURES for end in ended),
        stopped=ended.count(End.STOPPED),
        not_started=ended.count(End.NOT_STARTED),
    )


def _smoke_item(smoke: Smoke) -> SmokeItem:
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
    """0 where every test of a run ended well, 1 where work is left for a person."""
    return 1 if any(end_of(row) in OPEN_ENDS for row in run.rows.values()) else 0


def runs_document(glances: Iterable[RunGlance]) -> RunsDocument:
    """The runs as `runs --json` prints them."""
    return RunsDocument(runs=[_item(one) for one in glances])


def _item(glance: RunGlance) -> RunItem:
    run = glance.run
    if run is None:
        nothing = OpenCounts(waiting=0, running=0, needs_you=0, blocked=0, failed=0, stopped=0, not_started=0)
        return RunItem(
            run=glance.folder.run, repository=glance.repository, created_at=None, tests=0, state="unreadable",
            open=nothing, paused="", provider="", agent_type="", path=str(glance.folder.path), error=glance.error,
            usage=None,
        )  # fmt: skip
    return RunItem(
        run=run.plan.run, repository=run.plan.repository, created_at=instant(run.plan.created_at),
        tests=len(run.rows), state=glance.state, open=open_counts(run), paused=run.paused, provider=run.plan.provider,
        agent_type=run.plan.agent_type, path=str(glance.folder.path), error=None, usage=run_usage_item(run),
    )  # fmt: skip
