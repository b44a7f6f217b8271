"""The gate of drafts: an agent may change nothing but the blocks beneath its heading, and each must be a block.

`judge_draft` decides about a draft's commit; `DraftGate` is the run's port around it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.draft.drafting import read_tutorial
from selftest_core.draft.proposals import ProposalKind, block_reason, propose, refusal_reason
from selftest_core.errors import ToolMissingError, UsageError
from selftest_core.git.command import Git, find_place
from selftest_core.run.outcome.outcome import ChangeStatus
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.run.outcome.outcome import Outcome
    from selftest_core.run.plan.plan import PlannedTest, RunPlan

_TIMEOUT = 20.0
_MOST_NAMED = 3


class DraftGate:
    """Judges the drafts of one run; implements `run.outcome.gate.Gate`."""

    def __init__(self, plan: RunPlan, environ: Mapping[str, str]) -> None:
        self._plan = plan
        self._environ = dict(environ)

    async def judge(self, task: PlannedTest, folder: Path, outcome: Outcome, tip: str) -> str:
        """Return "" for a draft that can be offered, else the reason why not."""
        if not tip:
            claims = any(change.status.strip().upper() == ChangeStatus.SUCCEEDED for change in outcome.changes)
            return "it says that it changed the tutorial, and its branch has no commit" if claims else ""
        return await asyncio.to_thread(judge_draft, self._plan, task.node_id, tip, self._environ)

    async def close(self) -> None:
        """Nothing runs between two calls."""


def judge_draft(plan: RunPlan, heading: str, tip: str, environ: Mapping[str, str]) -> str:
    """Return "" for a commit whose tutorial can be offered, else the reason why not."""
    git = Git(find_place(Path(plan.repository), environ).git_dir, environ)
    changed = git.ask("diff-tree", "-r", "-z", "--no-renames", "--name-only", plan.base, tip).split("\0")
    others = [path for path in changed if path and path != plan.tutorial]
    if others:
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        return f"it changes other files: {', '.join(others[:_MOST_NAMED])}{more}"
    try:
        drafted, mode = read_tutorial(git, tip, plan.tutorial)
    except UsageError as error:
        return f"its tutorial cannot be read: {error.title}"
    base, mode_of_base = read_tutorial(git, plan.base, plan.tutorial)
    if mode != mode_of_base:
        return f"it changes the mode of {plan.tutorial}"
    reason = refusal_reason(base, drafted, heading)
    if reason:
        return reason
    for block in propose(base, drafted, heading):
        if block.kind is not ProposalKind.REMOVED:
            reason = block_reason(block.text) or syntax_reason(block.text, environ)
            if reason:
                return f"a block is broken: {reason}: {block.text.strip().splitlines()[0][:80]}"
    return ""


def syntax_reason(text: str, environ: Mapping[str, str]) -> str:
    """The reason why bash cannot read a block, empty where it can, or where there is no bash. Executes nothing."""
    try:
        done = run(
            ("bash", "--norc", "--noprofile", "-n"), timeout=_TIMEOUT, cwd=Path("/"), input=f"{text}\n",
            env={"PATH": environ.get("PATH", os.defpath), "LC_ALL": "C"},
        )  # fmt: skip
    except ToolMissingError:
        return ""
    said = done.stderr_end.strip().splitlines()
    if done.ok and not said:
        return ""
    return said[0].removeprefix("bash: ") if said else "bash cannot read it"
