"""The review of a demo that nobody watches: its run is reviewed as a person would do it, verified, and published.

Every fix is kept. An integrator resolves the conflict, in a run of its own; without its answer the newer change is
taken, and the rival that is no longer needed is reverted. Changes that say the same in other words are one row, of
which one is kept. Then `verify` runs the tests again: a change whose claim does not hold, or that breaks the test of
another, is reverted, until exactly what is published passes. Only the demo's own repository changes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.config import load_config
from selftest_core.demo.world import PLAIN_PYTEST
from selftest_core.errors import UsageError
from selftest_core.integrate.applying import AnswerTaker
from selftest_core.integrate.integration import find_conflicts, prepare_integration, tasks_of
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.inputs import Request
from selftest_core.review.conflict_files import choose
from selftest_core.review.publishing import own_ref
from selftest_core.review.session import ReviewSession
from selftest_core.run.plan.preparation import RunOptions, begin
from selftest_core.verify.review_verifier import ReviewVerifier
from selftest_core.verify.verdicts import Verdict
from selftest_core.verify.verification import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.run.store import RunFolder
    from selftest_core.schema.review import ReviewDocument

BRANCH = "reviewed"
"""The branch that is published in the demo's repository."""


def review_demo(
    folder: RunFolder,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    conduct: Callable[[RunFolder, Mapping[str, str]], object] | None = None,
) -> ReviewDocument | None:
    """Review the run in `folder` to its published branch; None where no agent left a commit.

    `conduct`: conducts a run to its end, that of the integrator; without it none is started.
    """
    from selftest_core.schema.review import review_document

    try:
        session = ReviewSession.open(Request(run=folder.run), folder.path, environ, lambda text: None)
    except UsageError:
        return None
    with session:
        reviewed = session.state.reviewed
        say(f"{len(reviewed.order)} changes to review, in {len(reviewed.chosen)} rows")
        session.decide([change.oid for change in reviewed.chosen], Decision.KEEP)
        if conduct is not None and session.state.held:
            _integrate(session, environ, say, conduct)
        for change in session.state.reviewed.order:
            if _status(session, change.oid) is Status.HELD:
                rivals = _rivals(session, change.oid)
                session.resolve(change.oid, choose(session.conflict_files(change.oid), "theirs"))
                session.note(change.oid, "One count decides: the announced one.")
                session.decide(rivals, Decision.REVERT)
                say(f"in conflict, resolved: {change.subject}")
        verdicts = _verify(session, folder, environ, say)
        config = load_config(Path(folder.plan().repository), environ)
        published = session.publish(BRANCH, has_trailers=config.publish_trailers, verdicts=verdicts)
        say(f"published as {BRANCH}")
        return review_document(
            session.state.reviewed, own_ref(folder.run, "candidate"), published.ref,
            integrations=session.state.integrations,
        )  # fmt: skip


def _integrate(
    session: ReviewSession,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    conduct: Callable[[RunFolder, Mapping[str, str]], object],
) -> None:
    """Let agents resolve the conflicts, and apply their answers."""
    config = load_config(session.top, environ, {"env": PLAIN_PYTEST})
    conflicts = find_conflicts(session)
    prepared = asyncio.run(prepare_integration(conflicts, RunOptions(), config, environ, lambda text: None))
    run = begin(prepared, environ)
    tasks = tasks_of(prepared.plan, conflicts)
    session.begin_integration(run.run, tasks)
    say(f"in conflict, an agent resolves it: {conflicts.tasks[0].id}")
    conduct(run, environ)
    AnswerTaker().take(session)
    for oids in tasks.values():
        found = session.state.integrations.by_change[oids[0]]
        is_resolved = found.is_ended and not found.reason
        said = f"resolved by {found.agent}" if is_resolved else f"not resolved: {found.reason or 'no answer came'}"
        say(f"{said}: {next(one.subject for one in session.state.reviewed.order if one.oid == oids[0])}")


def _verify(
    session: ReviewSession, folder: RunFolder, environ: Mapping[str, str], say: Callable[[str], None]
) -> dict[str, str]:
    """Revert liars and culprits until the tests pass on what is kept; return the verdicts on its changes."""
    top = Path(folder.plan().repository)
    config = load_config(top, environ, {"env": PLAIN_PYTEST})
    with (
        session.open_reader() as engine,
        ReviewVerifier.open(engine, top, folder.path, config, environ) as verifier,
    ):
        while True:
            state = session.state
            found = verifier.verify(state.reviewed, state.evidence, state.branches, is_kept_only=True)
            green = sum(one.after is Verdict.GREEN for one in found.tests)
            say(f"verified: {green} of {len(found.tests)} tests pass on {found.tree[:12]}")
            wrong = [one for one in found.items.values() if {Mark.LIAR, Mark.CULPRIT} & set(one.marks)]
            if not wrong:
                return {oid: str(one.verified) for oid, one in found.items.items()}
            for one in wrong:
                session.note(one.oid, f"Verification: {one.reason}.")
                subject = next(change.subject for change in state.reviewed.order if change.oid == one.oid)
                say(f"reverted, {' and '.join(one.marks)}: {subject}: {one.reason}")
            session.decide([one.oid for one in wrong], Decision.REVERT)


def _rivals(session: ReviewSession, held: str) -> list[str]:
    """Return the applied changes without which the change in conflict could be applied."""
    return [
        change.oid
        for change in session.state.reviewed.order
        if _status(session, change.oid) is Status.LAID
        and any(freed.oid == held for freed in session.consequences([change.oid], Decision.REVERT).lets_in)
    ]


def _status(session: ReviewSession, oid: str) -> Status:
    return next(placed.status for placed in session.state.reviewed.line.items if placed.item.oid == oid)
