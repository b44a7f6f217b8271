"""A review without a screen: branches and a decisions file in, a candidate and optionally a published branch out.

Without a decisions file, what was decided on the screen counts, as its log has it. With one, the same call gives the
same result anywhere, and a look (without publishing) leaves the candidate where the screen decided otherwise.
"""

from __future__ import annotations

import time
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from selftest_core.errors import ToolFailedError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git
from selftest_core.git.history import read_history
from selftest_core.review.apply_decisions import (  # fmt: skip
    Reviewed,
    apply_decisions,
    build_kept_line,
    publish_disabled_reason,
    publish_review,
)
from selftest_core.review.candidate_branch import Line, Status
from selftest_core.review.changes.inputs import Request, find_inputs, home_of
from selftest_core.review.changes.plan import find_main, make_plan
from selftest_core.review.decisions import notes_of, read_decisions, settle_decisions, without_missing
from selftest_core.review.engine import Engine
from selftest_core.review.evidence import claims_of, provenance_of, read_row_verdicts, read_verified
from selftest_core.review.publishing import keep_candidate, own_ref, read_branches
from selftest_core.review.pull_request import open_for, write_pull_request
from selftest_core.review.repository import find_log, keep_sources, open_log, with_proposed
from selftest_core.review.review_log import Integrations, decisions_of, fold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_core.git.history import HistoryCommit
    from selftest_core.review.changes.inputs import Inputs
    from selftest_core.review.pull_request import VerifiedTests

__all__ = ["BatchResult", "Request", "review"]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result. `published`: the full ref and its line, None where nothing was published.

    `candidate`: the ref of the candidate, None where no ref was written: `refused` says why, or the screen decided
    otherwise.
    `commits`: those of the published branch, read back from the repository. `run`: the run that was reviewed, None for
    other reviews. `pull_request`: the address of the pull request that was opened. `not_published`: the reason why
    nothing was published though it was asked for, else empty. `integrations`: agents that worked on conflicts.
    """

    reviewed: Reviewed
    candidate: str | None
    published: tuple[str, Line] | None
    commits: tuple[HistoryCommit, ...] = ()
    run: str | None = None
    pull_request: str | None = None
    refused: str = ""
    not_published: str = ""
    integrations: Integrations = Integrations()

    @property
    def is_done(self) -> bool:
        """True when no change is open, no branch was left out, and what should be published is."""
        return not self.reviewed.open and not self.reviewed.plan.left_out and not self.not_published


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check. `refusal`: why no ref may be written, empty to go on; `tests`: for the pull request.

    `verdicts`: on the changes of the published tree, by their ids. `reviewed`: the review with what the check leaves
    to a person, None where that is nothing.
    """

    refusal: str = ""
    tests: VerifiedTests | None = None
    verdicts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    reviewed: Reviewed | None = None


class Check(Protocol):
    """A check of a review before any ref is written, such as a verification (`verify.batch`)."""

    def __call__(self, engine: Engine, reviewed: Reviewed, inputs: Inputs, *, is_publishing: bool) -> Checked:
        """Check a review. `is_publishing`: a branch is to be published."""
        ...


def review(
    request: Request,
    cwd: Path,
    environ: Mapping[str, str],
    say: Callable[[str], None] = lambda text: None,
    check: Check = lambda engine, reviewed, inputs, *, is_publishing: Checked(),
    *,
    has_trailers: bool = False,
) -> BatchResult:
    """Apply the decisions, update the candidate, and publish if asked; `say` is called with the names of slow steps.

    `has_trailers`: published commits name their run, agents, tests and verdict.
    Raises UsageError, ToolError, and RefusedError, also where another process has the same review open.
    """
    # An invalid file is reported before any commit is read.
    given = None if request.decisions is None else read_decisions(request.decisions)
    inputs = find_inputs(request, cwd, environ, say)
    if given is None:
        inputs = _as_on_screen(inputs)
    user = Git(inputs.place.git_dir, environ)
    home = home_of(inputs, inputs.name)
    run = None if inputs.folder is None else inputs.folder.run
    if request.publish is not None:
        read_branches(user, inputs.name).check(request.publish)  # a name that git refuses is reported at once
    with open_log(home) as journal, Engine.open(home / "engine.git", inputs.place.git_dir, environ) as engine:
        log = fold(journal.entries)
        decided, onto = decisions_of(log)
        claims = claims_of(inputs.evidence, read_verified(home))
        # With a decisions file the result is the same wherever, so it cannot depend on what happened here.
        arrived, verdicts = (log.new, read_row_verdicts(home)) if given is None else ({}, {})
        inputs = replace(inputs, targets=with_proposed(inputs.targets, log.subject))
        plan = make_plan(engine.store, inputs.targets, claims, inputs.left_out, arrived=arrived, verdicts=verdicts)
        if given is None:
            if onto is not None and request.onto is None:
                plan = replace(plan, base=onto)
            given, missing = without_missing(engine.shapes, plan.ranked, decided)
            given = settle_decisions(engine.shapes, plan, given)
            for oid in missing:
                say(f"decided, but no branch has it any more: {oid}")
        reviewed = apply_decisions(engine, plan, given)
        why_not = "" if request.publish is None else _not_published(engine, reviewed)
        is_publishing = request.publish is not None and not why_not
        checked = check(engine, reviewed, inputs, is_publishing=is_publishing)
        if checked.reviewed is not None:
            reviewed = checked.reviewed
            why_not = why_not or ("" if request.publish is None else _not_published(engine, reviewed))
            is_publishing = request.publish is not None and not why_not
        if checked.refusal:
            return BatchResult(reviewed, None, None, run=run, refused=checked.refusal, integrations=log.integrations)
        if inputs.folder is None:  # the branches of a run have refs already
            keep_sources(user, inputs.name, (branch.tip for branch in inputs.targets.branches))
        candidate: str | None = None
        is_other = request.decisions is not None and request.publish is None and bool(log.acts[: log.done])
        ref = own_ref(plan.name, "candidate")
        if is_other and user.refs(ref).get(ref) not in (None, reviewed.line.tip):
            say("the candidate stays where it is: the screen decided otherwise")
        else:
            candidate = keep_candidate(engine, user, plan.name, reviewed.line)
        published = None
        commits: tuple[HistoryCommit, ...] = ()
        if request.publish is not None and is_publishing:
            kept = build_kept_line(engine, reviewed).tip
            provenance = provenance_of(inputs.name, inputs.evidence, checked.verdicts) if has_trailers else None
            published = publish_review(engine, user, reviewed, request.publish, home, environ, provenance)
            ref, line = published
            journal.append("published", time.time(), ref=ref, tip=line.tip, tree=line.tree, kept=kept)
            try:
                commits = read_history(user.git_dir, line.base, line.tip, environ)
            except ToolFailedError as error:  # it is published all the same
                say(f"{error.title}: {error.detail}")
    address = None
    if request.pr and published is not None:
        address = _open_pull_request(inputs, user, reviewed, published, environ, checked.tests)
    return BatchResult(
        reviewed, candidate, published, commits, run, address, not_published=why_not, integrations=log.integrations
    )


def _as_on_screen(inputs: Inputs) -> Inputs:
    """Return the inputs under the name of the review that was opened on the screen, if there is one."""
    known = find_log(inputs.place.top, inputs.kind, inputs.key) if inputs.folder is None else None
    return inputs if known is None else replace(inputs, targets=replace(inputs.targets, id=known[0]))


def _not_published(engine: Engine, reviewed: Reviewed) -> str:
    """The reason why nothing is published, empty where something is."""
    if reviewed.decisions.on_conflict == "fail" and any(one.status is Status.HELD for one in reviewed.line.items):
        return "a change is in conflict, and on_conflict is fail"
    return publish_disabled_reason(reviewed, build_kept_line(engine, reviewed))


def _open_pull_request(
    inputs: Inputs,
    user: Git,
    reviewed: Reviewed,
    published: tuple[str, Line],
    environ: Mapping[str, str],
    tests: VerifiedTests | None,
) -> str:
    notes = notes_of(reviewed.order, reviewed.decisions)
    ref, line = published
    text = write_pull_request(
        reviewed,
        line,
        notes=notes,
        evidence=inputs.evidence,
        clusters=inputs.clusters,
        verified=tests,
        review=inputs.name,
    )
    return open_for(ref, find_main(user, inputs.base_name, inputs.targets.base), inputs, environ, text)
