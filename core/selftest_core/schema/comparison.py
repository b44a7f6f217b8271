"""JSON of `selftest-tui runs --compare A B`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.schema.model import Instant, Line, Shape, Text, UsageItem, instant, usage_item

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.compare.comparison import ComparedTest, Comparison, TestThen
    from selftest_core.run.fold import Run


class ComparedRun(Shape):
    """One of the two runs."""

    run: Text
    created_at: Instant | None
    base: Text
    tests: int


class TestThenItem(Shape):
    """A test in one of the runs."""

    __test__ = False

    outcome: Text = Field(description="As in `runs RUN --json`.")
    result: Literal["green", "flaky", "red", "none"] = Field(
        description="none: its agent could not tell, such as after a crash, a timeout or a block."
    )
    seconds: float | None = Field(description="From the launch of its last agent to its end, null if not measured.")
    usage: UsageItem | None = Field(description="Of all its agents, null if not metered.")
    says: Text = Field(description="Why it is red, flaky or without a result, as its agent or pytest says.")


class ComparedTestItem(Shape):
    """A test in both runs. null: the run does not have it, or it has not ended there."""

    test: Text
    before: TestThenItem | None
    after: TestThenItem | None


class ComparisonDocument(Shape):
    """`selftest-tui runs --compare A B --json`.

    A test is in at most one of `newly_red`, `newly_flaky`, `mended` and `no_result`.
    """

    before: ComparedRun
    after: ComparedRun
    newly_red: list[ComparedTestItem]
    newly_flaky: list[ComparedTestItem]
    mended: list[ComparedTestItem] = Field(description="Green now; red, flaky or blocked before.")
    no_result: list[ComparedTestItem] = Field(description="Tests that had a result before, and have none now.")
    slower: list[ComparedTestItem] = Field(description="At least 1.5 times and 60 seconds longer, both measured.")
    dearer: list[ComparedTestItem] = Field(
        description="At least 1.5 times as much, and 0.05 dollars (without prices: 20,000 tokens) more, both metered."
    )
    new: list[ComparedTestItem] = Field(description="The test function is not in the earlier run's commit.")
    gone: list[ComparedTestItem] = Field(description="The test function is not in the later run's commit any more.")
    only_before: list[ComparedTestItem] = Field(description="Other tests that the later run left out.")
    only_after: list[ComparedTestItem] = Field(description="Other tests that the earlier run left out.")
    same: int = Field(description="Number of tests with the same result in both.")
    pending: int = Field(description="Number of tests that have not ended in the later run.")
    problems: list[Text] = Field(description="What could not be compared, in words.")


class ComparisonLine(Line, ComparisonDocument):
    """`selftest-tui runs --compare A B --batch`. `run`: the later one."""

    event: Literal["summary"] = "summary"


def comparison_document(found: Comparison) -> ComparisonDocument:
    """Convert a comparison."""
    return ComparisonDocument(
        before=_run(found.before), after=_run(found.after), newly_red=_tests(found.newly_red),
        newly_flaky=_tests(found.newly_flaky), mended=_tests(found.mended), no_result=_tests(found.no_result),
        slower=_tests(found.slower), dearer=_tests(found.dearer), new=_tests(found.new), gone=_tests(found.gone),
        only_before=_tests(found.only_before), only_after=_tests(found.only_after), same=found.same,
        pending=found.pending, problems=list(found.problems),
    )  # fmt: skip


def _run(run: Run) -> ComparedRun:
    return ComparedRun(
        run=run.plan.run, created_at=instant(run.plan.created_at), base=run.plan.base, tests=len(run.rows)
    )


def _tests(tests: Iterable[ComparedTest]) -> list[ComparedTestItem]:
    return [ComparedTestItem(test=one.test, before=_then(one.before), after=_then(one.after)) for one in tests]


def _then(one: TestThen | None) -> TestThenItem | None:
    if one is None:
        return None
    return TestThenItem(
        outcome=one.end, result=one.result.value, seconds=one.seconds, usage=usage_item(one.usage), says=one.says
    )
