"""The draft of a tutorial as the screen shows it: each drafted heading with its agent and its proposed blocks. Pure.

A proposed block is a row with one decision. The rows of a heading stand beneath it, in the order of the tutorial, and
stay there when they are decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.draft.decisions import BlockDecision
from selftest_core.draft.draft_log import decisions_of
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.draft.draft import Draft
    from selftest_core.draft.draft_log import DraftLog
    from selftest_core.draft.proposals import ProposedBlock
    from selftest_tui.tutorial.results import Result


@dataclass(frozen=True, slots=True)
class ProposalView:
    """A proposed block. `text`: the user's if it was edited, else the agent's. `finding`: the user's, "" for none."""

    block: ProposedBlock
    decision: BlockDecision
    text: str
    agent: str
    finding: str = ""

    @property
    def is_open(self) -> bool:
        """True if it is undecided."""
        return self.decision is BlockDecision.UNDECIDED

    @property
    def is_edited(self) -> bool:
        """True if the user wrote another text."""
        return self.text != self.block.text


@dataclass(frozen=True, slots=True)
class HeadingDraft:
    """A drafted heading. `id`: its words at the base; `title`: as the screen shows it, and `line` where it stands now,
    0 where no heading has these words any more. `reason`: why nothing is proposed, and `found`: what its agent found
    confusing, both untrusted. `noted`: the user's finding about the whole heading.
    """

    id: str
    title: str
    line: int
    agent: Result
    reason: str = ""
    proposals: tuple[ProposalView, ...] = ()
    found: tuple[str, ...] = ()
    noted: str = ""

    @property
    def open(self) -> int:
        """Number of undecided blocks."""
        return sum(one.is_open for one in self.proposals)


@dataclass(frozen=True, slots=True)
class DraftView:
    """The newest draft of a repository. `undo_text`, `redo_text`: the acts that would be undone or redone.

    `published`: the branch that it was published as last, "" for none.
    """

    run: str
    headings: tuple[HeadingDraft, ...]
    undo_text: str = ""
    redo_text: str = ""
    published: str = ""

    @property
    def open(self) -> int:
        """Number of undecided blocks."""
        return sum(heading.open for heading in self.headings)

    @property
    def kept(self) -> tuple[ProposalView, ...]:
        """The blocks that are kept."""
        return tuple(
            one for heading in self.headings for one in heading.proposals if one.decision is BlockDecision.KEEP
        )


def join_draft(
    draft: Draft, log: DraftLog, agents: Mapping[str, Result], headings: Mapping[str, tuple[int, str]]
) -> DraftView:
    """Join a draft with the decisions on it.

    `agents`: the agents' results by their planned names; `headings`: line and title of those that stand in the file
    now, by their words.
    """
    decisions = decisions_of(log)
    drafted = []
    for one in draft.headings:
        line, title = headings.get(one.id, (0, one.id))
        proposals = tuple(
            ProposalView(
                block, decisions.on(block), decisions.text_of(block), one.agent, decisions.findings.get(block.id, "")
            )
            for block in one.blocks
        )
        found = tuple(finding.text for finding in draft.findings if finding.agent == one.agent)
        noted = decisions.findings.get(one.id, "")
        reason = one.reason or one.note
        drafted.append(HeadingDraft(one.id, title, line, agents[one.agent], reason, proposals, found, noted))
    branch = log.published[-1][0].removeprefix("refs/heads/") if log.published else ""
    return DraftView(draft.run, tuple(drafted), log.undo_text, log.redo_text, branch)
