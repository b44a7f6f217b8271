"""JSON of `selftest-tui runs --compare A B`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.compare.words import TITLES, sections
from selftest_core.schema.model import Instant, Line, Shape, Text, UsageItem, instant, usage_item

if TYPE_CHECKING:
    from selftest_core.compare.comparison import Comparison, TestThen
    from selftest_core.compare.words import Section
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
    change: Text = Field(description="The difference in words, as `succeeded → failed` or `4 min → 12 min`.")
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
    new: list[ComparedTestItem] = Field(description="Tests that the earlier run did not find.")
    gone: list[ComparedTestItem] = Field(description="Tests that the later run did not find any more.")
    only_before: list[ComparedTestItem] = Field(description="Other tests that the later run left out, or that rest.")
    only_after: list[ComparedTestItem] = Field(description="Other tests that the earlier run left out.")
    same: int = Field(description="Number of tests with the same result in both.")
    pending: int = Field(description="Number of tests that have not ended in the later run.")
    problems: list[Text] = Field(description="What could not be compared, in words.")


class ComparisonLine(Line, ComparisonDocument):
    """`selftest-tui runs --compare A B --batch`. `run`: the later one."""

    event: Literal["summary"] = "summary"


def comparison_document(found: Comparison) -> ComparisonDocument:
    """Convert a comparison."""
    lists: dict[str, list[ComparedTestItem]] = {name: [] for name in TITLES}
    lists |= {one.field: _tests(one) for one in sections(found)}
    return ComparisonDocument.model_validate(
        {
            "before": _run(found.before),
            "after": _run(found.after),
            **lists,
            "same": found.same,
            "pending": found.pending,
            "problems": list(found.problems),
        }
    )


def _run(run: Run) -> ComparedRun:
    return ComparedRun(
        run=run.plan.run, created_at=instant(run.plan.created_at), base=run.plan.base, tests=len(run.rows)
    )


def _tests(section: Section) -> list[ComparedTestItem]:
    return [
        ComparedTestItem(test=one.test, change=words, before=_then(one.before), after=_then(one.after))
        for one, words in zip(section.tests, section.words, strict=True)
    ]


def _then(one: TestThen | None) -> TestThenItem | None:
    if one is None:
        return None
    return TestThenItem(
        outcome=one.end, result=one.result.value, seconds=one.seconds, usage=usage_item(one.usage), says=one.says
    )
