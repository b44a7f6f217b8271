"""JSON of `selftest-tui runs PATH`: the tests of one run, ours or another program's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.run.conduct.circuit_breaker import run_clusters
from selftest_core.run.crew.crew import OUTCOME
from selftest_core.run.fold import end_of
from selftest_core.run.outcome.ends import End
from selftest_core.run.outcome.outcome_file import UnreadableOutcomeError, parse_outcome
from selftest_core.run.spending import used_by
from selftest_core.schema.model import Line, Shape, Text, UsageItem, usage_item
from selftest_core.schema.run import ClusterItem, OutcomeCounts, cluster_items, outcome_counts

if TYPE_CHECKING:
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.outcome.foreign import ForeignRun
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.store import RunFolder

_WITH_REASON = tuple(end for end in End if end.group.is_open and end is not End.BLOCKED)
"""Ends whose reason is in the journal; that of a blocked test is in its outcome."""


class ChangeItem(Shape):
    """One change. `kind` and `status` as the agent wrote them; they may be unknown words."""

    kind: Text
    status: Text
    summary: Text


class PlaceItem(Shape):
    """A place in the repository, as the agent wrote it: it may not exist."""

    path: Text
    line: int | None


class EscalationItem(Shape):
    """Something that the agent reports to a person."""

    kind: Text
    title: Text
    detail: Text
    locations: list[PlaceItem]


class TestItem(Shape):
    """One test of a run. The contents of its outcome are claimed by the agent, and untrusted."""

    __test__ = False

    test: Text = Field(
        description="The node id; in another program's run the name of the file's folder, where the file has none."
    )
    agent: Text
    outcome: str = Field(
        description="How the test ended: succeeded, blocked, red, …; if it has not, how it would if the run ended now."
    )
    phase: Text | None = Field(description="The test's phase, in a run of ours.")
    errored: bool | None
    tests_passing_before: bool | None
    tests_passing_after: bool | None
    summary: Text
    changes: list[ChangeItem]
    escalations: list[EscalationItem]
    importance: Text | None
    says: Text = Field(description="Why the test failed, or why its outcome cannot be read.")
    path: Text | None = Field(description="The path of the outcome file, null where there is none.")
    usage: UsageItem | None = Field(description="Usage of all attempts, null where nothing is metered.")


class JoinedItem(Shape):
    """The merge report of another program's run."""

    path: Text
    branches: list[Text]
    failed: dict[Text, Text]
    fixes: dict[Text, Text] = Field(description="The commit of each implementation fix, by branch.")


class RunDetailDocument(Shape):
    """`selftest-tui runs PATH --json`. The counts add up to the tests."""

    path: Text
    run: Text | None = Field(description="The run's id, null for another program's run.")
    tests: list[TestItem]
    outcomes: OutcomeCounts
    kinds: dict[Text, int] = Field(description="Number of changes of each kind, unknown kinds included.")
    clusters: list[ClusterItem]
    joined: list[JoinedItem]
    passed_over: int = Field(description="Number of JSON files that are not outcomes.")


class RunDetailLine(Line, RunDetailDocument):
    """`selftest-tui runs PATH --batch`."""

    event: Literal["summary"] = "summary"


def foreign_document(found: ForeignRun) -> RunDetailDocument:
    """Convert another program's run."""
    return RunDetailDocument(
        path=str(found.path),
        run=None,
        tests=[
            test_item(one.test, one.agent, one.end, None, one.outcome, one.error, str(one.path)) for one in found.tests
        ],
        outcomes=outcome_counts(found.ends()),
        kinds=found.kinds(),
        clusters=cluster_items(found.clusters()),
        joined=[
            JoinedItem(path=str(one.path), branches=list(one.branches), failed=dict(one.failed), fixes=dict(one.fixes))
            for one in found.joinings
        ],
        passed_over=found.passed_over,
    )


def own_document(folder: RunFolder, run: Run) -> RunDetailDocument:
    """Convert a run of ours, with the outcomes of its agents."""
    tests = [_own_item(folder, row) for row in run.rows.values()]
    kinds: dict[str, int] = {}
    for test in tests:
        for change in test.changes:
            kinds[change.kind] = kinds.get(change.kind, 0) + 1
    return RunDetailDocument(
        path=str(folder.path), run=run.plan.run, tests=tests, outcomes=outcome_counts(run.ends()), kinds=kinds,
        clusters=cluster_items(run_clusters(run)), joined=[], passed_over=0,
    )  # fmt: skip


def _own_item(folder: RunFolder, row: RunRow) -> TestItem:
    path = None if row.member is None else folder.attempt(row.member) / OUTCOME
    outcome, says = None, row.text if row.end in _WITH_REASON else ""
    try:
        outcome = None if path is None else parse_outcome(path.read_bytes())
    except UnreadableOutcomeError as error:
        says = says or error.detail
    except OSError:
        path = None
    item = test_item(
        row.planned.node_id, row.name, end_of(row), str(row.phase), outcome, says, None if path is None else str(path)
    )
    return item.model_copy(update={"usage": usage_item(used_by(row))})


def test_item(
    test: str, agent: str, end: End, phase: str | None, outcome: Outcome | None, says: str, path: str | None
) -> TestItem:
    """Convert a test and its outcome, which may be missing. `says`: why it failed."""
    return TestItem(
        test=test,
        agent=agent,
        outcome=str(end),
        phase=phase,
        errored=None if outcome is None else outcome.errored,
        tests_passing_before=None if outcome is None else outcome.tests_passing_before,
        tests_passing_after=None if outcome is None else outcome.tests_passing_after,
        summary="" if outcome is None else outcome.summary,
        changes=[]
        if outcome is None
        else [ChangeItem(kind=one.kind, status=one.status, summary=one.summary) for one in outcome.changes],
        escalations=[]
        if outcome is None
        else [
            EscalationItem(
                kind=one.kind,
                title=one.title,
                detail=one.detail,
                locations=[PlaceItem(path=place.path, line=place.line) for place in one.locations],
            )
            for one in outcome.escalations
        ],
        importance=None if outcome is None or outcome.importance is None else outcome.importance.level,
        says=says,
        path=path,
        usage=None,
    )
