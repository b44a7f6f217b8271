"""JSON of `selftest-tui sync`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.schema.check import StaleItem, check_document
from selftest_core.schema.model import Line, Shape, Text
from selftest_core.schema.run_plan import OfferDocument, offer_document
from selftest_core.sync.gaps import near_tests

if TYPE_CHECKING:
    from selftest_core.sync.preparation import PreparedSync


class GapItem(Shape):
    """The work of one agent. `line`, `block`: of the block that no test cites; null for stale citations alone."""

    task: Text = Field(description="The id of the task, which is the `test` of the run's rows.")
    line: int | None
    block: Text | None
    stale: list[StaleItem] = Field(description="Citations that are no block any more, to be mended with it.")
    near: list[Text] = Field(description="Tests of blocks beside it or like it.")


class SyncDocument(Shape):
    """`selftest-tui sync --dry-run --json`. `plan`: the run that would start; null where there is nothing to do."""

    gaps: list[GapItem]
    plan: OfferDocument | None


class SyncLine(Line, SyncDocument):
    """`selftest-tui sync --dry-run --batch`, and `sync --batch` where there is nothing to do. `run` is null."""

    event: Literal["summary"] = "summary"


def sync_document(found: PreparedSync) -> SyncDocument:
    """Convert what was prepared."""
    stale = {(one.test, one.text): one for one in check_document(found.check).stale}
    return SyncDocument(
        gaps=[
            GapItem(
                task=gap.id,
                line=None if gap.block is None else gap.block.line,
                block=None if gap.block is None else gap.block.text,
                stale=[stale[one.citation.test, one.citation.text] for one in gap.stale],
                near=list(near_tests(gap, found.check)),
            )
            for gap in found.gaps
        ],
        plan=None if found.run is None else offer_document(found.run.offer),
    )
