"""A review without a screen: branches and a decisions file in, a candidate and perhaps a published branch out.

What a person decided on the screen is in a decisions file beside the review's log, and counts here when it is named:
nothing else of the log does, so that the same call gives the same answer anywhere.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.git.command import Git
from selftest_core.review.apply_decisions import Reviewed, apply_decisions, publish_review
from selftest_core.review.candidate_branch import Line, Status
from selftest_core.review.changes.inputs import Request, find_inputs, home_of
from selftest_core.review.changes.plan import find_main, make_plan
from selftest_core.review.decisions import Decisions, read_decisions
from selftest_core.review.engine import Engine
from selftest_core.review.evidence import claims_of
from selftest_core.review.publishing import keep_candidate
from selftest_core.review.pull_request import open_for, write_pull_request
from selftest_core.review.repository import keep_sources, open_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_core.review.changes.inputs import Inputs

__all__ = ["Answer", "Request", "review"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it. `published` is the full ref and its line, where there was something to publish and a name.

    `run`: the run that was reviewed, None where there was none. `pull_request`: the address of the one that was opened.
    """

    reviewed: Reviewed
    candidate: str
    published: tuple[str, Line] | None
    run: str | None = None
    pull_request: str | None = None

    @property
    def is_done(self) -> bool:
        """True when nothing stays open."""
        return not self.reviewed.open and not self.reviewed.plan.left_out


def review(
    request: Request, cwd: Path, environ: Mapping[str, str], say: Callable[[str], None] = lambda text: None
) -> Answer:
    """Lay, keep the candidate, and publish where asked; `say` gets words of what takes long.

    Raises UsageError, ToolError, and RefusedError, also where the same is under review elsewhere.
    """
    # A wrong file is said before the first commit is read.
    decisions = Decisions() if request.decisions is None else read_decisions(request.decisions)
    inputs = find_inputs(request, cwd, environ, say)
    user = Git(inputs.place.git_dir, environ)
    home = home_of(inputs, inputs.name)
    with open_log(home) as journal, Engine.open(home / "engine.git", inputs.place.git_dir, environ) as engine:
        plan = make_plan(engine.store, inputs.targets, claims_of(inputs.evidence), inputs.left_out)
        reviewed = apply_decisions(engine, plan, decisions)
        _keep_sources(user, inputs)
        candidate = keep_candidate(engine, user, plan.name, reviewed.line)
        is_held = any(placed.status is Status.HELD for placed in reviewed.line.items)
        published = None
        if request.publish is not None and not (is_held and decisions.on_conflict == "fail"):
            published = publish_review(engine, user, reviewed, request.publish, home, environ)
            ref, line = published
            journal.append("published", time.time(), ref=ref, tip=line.tip, tree=line.tree)
    address = None
    if request.pr and published is not None:
        address = _open_pull_request(inputs, user, reviewed, published, environ)
    return Answer(reviewed, candidate, published, None if inputs.folder is None else inputs.folder.run, address)


def _open_pull_request(
    inputs: Inputs, user: Git, reviewed: Reviewed, published: tuple[str, Line], environ: Mapping[str, str]
) -> str:
    notes = {
        change.oid: reviewed.decisions.notes[source.oid]
        for change in reviewed.order
        for source in change.sources
        if source.oid in reviewed.decisions.notes
    }
    ref, line = published
    text = write_pull_request(reviewed, line, notes=notes, evidence=inputs.evidence, clusters=inputs.clusters)
    return open_for(ref, find_main(user, inputs.base_name, inputs.targets.base), inputs, environ, text)


def _keep_sources(user: Git, inputs: Inputs) -> None:
    """A run's branches have refs of their own."""
    if inputs.folder is None:
        keep_sources(user, inputs.name, (branch.tip for branch in inputs.targets.branches))
