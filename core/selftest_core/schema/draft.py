"""JSON of `selftest-tui draft`: the headings, the proposed blocks with their decisions, and the findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.draft.findings import findings_of
from selftest_core.schema.model import Line, Shape, Text

if TYPE_CHECKING:
    from selftest_core.draft.batch import DraftResult


class ProposedBlockItem(Shape):
    """A block that an agent proposes."""

    id: str = Field(description="Stable: made of the heading, the text in the base and the proposed text.")
    kind: Literal["new", "edited", "removed"]
    line: int = Field(description="The line of the block in the base; of a new one, the line after which it stands.")
    base: Text = Field(description="The block in the base, empty for a new one.")
    text: Text = Field(description="The proposed block, empty for a removed one.")
    decision: Literal["keep", "drop", "undecided"]
    edit: Text | None = Field(description="The person's text of the block, null where it is the agent's.")


class DraftedHeadingItem(Shape):
    """A heading of the tutorial and what its agent proposes beneath it."""

    heading: Text
    line: int = Field(description="In the base.")
    agent: Text = Field(description="The planned agent's name.")
    state: Literal["open", "drafted", "nothing", "failed"] = Field(description="open: its agent has not ended.")
    reason: Text = Field(description="Why nothing is proposed.")
    note: Text = Field(description="What happened to the heading since, empty for nothing.")
    blocks: list[ProposedBlockItem]


class FindingItem(Shape):
    """A finding about the program's interface: where an example is bad, or an agent was confused."""

    heading: Text
    block: str | None = Field(description="The id of the block that it is about, null where it is the whole heading.")
    by: Text = Field(description="`person`, or the planned name of the agent.")
    text: Text


class DraftDocument(Shape):
    """A draft: what agents propose, and what was decided about it."""

    base: str
    tutorial: Text
    headings: list[DraftedHeadingItem]
    findings: list[FindingItem]
    open: int = Field(description="Number of undecided blocks.")
    published: Text | None = Field(description="The full ref that was published last, null for none.")
    commit: str | None = Field(description="The commit that was published last.")
    not_published: Text = Field(description="Why nothing was published though it was asked for, empty otherwise.")


class DraftLine(Line, DraftDocument):
    """`draft --batch --run`."""

    event: Literal["summary"] = "summary"


def draft_document(result: DraftResult) -> DraftDocument:
    """Convert a draft and its decisions."""
    draft, decisions = result.draft, result.decisions
    return DraftDocument(
        base=draft.base,
        tutorial=draft.tutorial,
        headings=[
            DraftedHeadingItem(
                heading=one.id, line=one.line, agent=one.agent, state=one.state.value, reason=one.reason, note=one.note,
                blocks=[
                    ProposedBlockItem(
                        id=block.id, kind=block.kind.value, line=block.line, base=block.base, text=block.text,
                        decision=decisions.on(block).value, edit=decisions.edits.get(block.id),
                    )
                    for block in one.blocks
                ],
            )
            for one in draft.headings
        ],
        findings=[
            FindingItem(heading=one.heading, block=one.block, by=one.by, text=one.text)
            for one in findings_of(draft, decisions)
        ],
        open=result.open,
        published=result.last_published[0] if result.last_published else None,
        commit=result.last_published[1] if result.last_published else None,
        not_published=result.not_published,
    )  # fmt: skip
