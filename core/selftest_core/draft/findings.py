"""Findings about the program's interface: of the agents, in their outcomes, and of the person, in the draft's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from selftest_core.draft.decisions import DraftDecisions
    from selftest_core.draft.draft import Draft

PERSON = "person"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `block`: the id of the block that it is about, None for the heading; `by`: PERSON or an agent."""

    heading: str
    block: str | None
    by: str
    text: str


def findings_of(draft: Draft, decisions: DraftDecisions) -> tuple[Finding, ...]:
    """List all findings, the agents' first."""
    heading_of = {block.id: block.heading for block in draft.blocks}
    found = [Finding(one.heading, None, one.agent, one.text) for one in draft.findings]
    for about, text in decisions.findings.items():
        if text:
            block = about if about in heading_of else None
            found.append(Finding(heading_of.get(about, about), block, PERSON, text))
    return tuple(found)
