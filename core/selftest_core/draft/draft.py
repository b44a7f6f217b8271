"""A draft as its run left it: the headings, what was proposed beneath each, and the findings of the agents.

    draft = read_draft(folder, environ)

It is read from the run's journal, the agents' outcomes and git; nothing is written. What is not offered has a reason.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.draft.drafting import read_tutorial
from selftest_core.draft.gate import judge_draft
from selftest_core.draft.proposals import propose
from selftest_core.draft.sections import outline
from selftest_core.errors import SelftestError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git, find_place
from selftest_core.run.crew.crew import OUTCOME
from selftest_core.run.fold import end_of
from selftest_core.run.outcome.claims import ClaimResult
from selftest_core.run.outcome.ends import Group
from selftest_core.run.outcome.outcome import EscalationKind
from selftest_core.run.outcome.outcome_file import parse_outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.draft.proposals import ProposedBlock
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.store import RunFolder

_LONGEST = 2000


class HeadingState(StrEnum):
    """The state of a heading: its agent has not ended, proposed blocks, proposed nothing, or left nothing usable."""

    OPEN = "open"
    DRAFTED = "drafted"
    NOTHING = "nothing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DraftedHeading:
    """A heading with what its agent proposed. `id`: the heading; `agent`: the planned name; `tip`: its last commit.

    `reason`: why nothing is offered, untrusted. `note`: what happened to the heading since, empty for nothing.
    """

    id: str
    line: int
    agent: str
    tip: str
    state: HeadingState
    reason: str
    note: str
    blocks: tuple[ProposedBlock, ...]


@dataclass(frozen=True, slots=True)
class AgentFinding:
    """A finding of an agent about the interface, untrusted."""

    heading: str
    agent: str
    text: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft. `text`, `mode`: of the tutorial at the base, with surrogates for bytes that are not UTF-8."""

    run: str
    base: str
    tutorial: str
    text: str
    mode: str
    headings: tuple[DraftedHeading, ...]
    findings: tuple[AgentFinding, ...]

    @property
    def blocks(self) -> tuple[ProposedBlock, ...]:
        """All proposed blocks, in the order of the run's headings."""
        return tuple(block for heading in self.headings for block in heading.blocks)


def read_draft(folder: RunFolder, environ: Mapping[str, str]) -> Draft:
    """Read the draft of a run. Raises UsageError for a run of another role, and for a base that is gone."""
    run = folder.read()
    plan = run.plan
    if plan.role != "drafter":
        hint = "`selftest-tui draft` starts a draft; `selftest-tui runs` lists the runs."
        raise UsageError(f"The run {plan.run} is no draft", f"Its agents are {plan.role}s.", hint)
    git = Git(find_place(Path(plan.repository), environ).git_dir, environ)
    text, mode = read_tutorial(git, plan.base, plan.tutorial)
    lines = {one.id: one.heading.line for one in outline(text).sections}
    now = _headings_now(git, run)
    headings: list[DraftedHeading] = []
    findings: list[AgentFinding] = []
    for row in run.rows.values():
        outcome = _outcome(folder, row)
        heading = row.planned.node_id
        state, reason, blocks = _drafted(git, run, row, outcome, text, environ)
        note = "" if now is None or heading in now else f"HEAD has no such heading in {plan.tutorial} any more"
        headings.append(DraftedHeading(heading, lines.get(heading, 0), row.name, row.tip, state, reason, note, blocks))
        findings += [
            AgentFinding(heading, row.name, " ".join((one.title or one.detail).split())[:_LONGEST])
            for one in (() if outcome is None else outcome.escalations)
            if one.kind.strip().upper() == EscalationKind.CONFUSING_INTERFACE
        ]
    return Draft(plan.run, plan.base, plan.tutorial, text, mode, tuple(headings), tuple(findings))


def _drafted(
    git: Git, run: Run, row: RunRow, outcome: Outcome | None, base: str, environ: Mapping[str, str]
) -> tuple[HeadingState, str, tuple[ProposedBlock, ...]]:
    if row.end is None or row.is_verifying:
        return HeadingState.OPEN, row.attention, ()
    if row.end.group is Group.UNCHANGED or (row.end.group is Group.SUCCEEDED and not row.tip):
        summary = "" if outcome is None else " ".join(outcome.summary.split())[:_LONGEST]
        return HeadingState.NOTHING, f"it drafts nothing: {summary}" if summary else "it drafts nothing", ()
    if row.end.group is not Group.SUCCEEDED:
        return HeadingState.FAILED, row.text or end_of(row).label, ()
    if row.gate != ClaimResult.PASSED:  # the run was stopped before its gate answered
        reason = judge_draft(run.plan, row.planned.node_id, row.tip, environ)
        if reason:
            return HeadingState.FAILED, reason, ()
    try:
        drafted = read_tutorial(git, row.tip, run.plan.tutorial)[0]
    except SelftestError as error:
        return HeadingState.FAILED, f"{error.title}: {error.detail}", ()
    return HeadingState.DRAFTED, "", propose(base, drafted, row.planned.node_id)


def _headings_now(git: Git, run: Run) -> frozenset[str] | None:
    """Return the headings of the tutorial at HEAD; None where HEAD is the base or cannot be read."""
    try:
        head = git.resolve("HEAD")
        if head == run.plan.base:
            return None
        text = read_tutorial(git, head, run.plan.tutorial)[0]
    except UsageError:
        return None
    return frozenset(one.id for one in outline(text).sections)


def _outcome(folder: RunFolder, row: RunRow) -> Outcome | None:
    if row.member is None or row.end is None:
        return None
    try:
        return parse_outcome((folder.attempt(row.member) / OUTCOME).read_bytes())
    except (OSError, SelftestError):
        return None
