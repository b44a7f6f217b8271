"""`review --integrate --batch`: agents resolve conflicts, or write one text of many, conducted in this process."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_tui.cli.command import DONE, STOPPED_EARLY, tell

if TYPE_CHECKING:
    from selftest_core.integrate.integration import Conflicts
    from selftest_core.review.changes.inputs import Request
    from selftest_core.review.session import ReviewSession
    from selftest_tui.cli.command import Call


def integrate(call: Call, request: Request) -> tuple[Request, int]:
    """Conduct agents for the conflicts of a review, or with --texts for its rows of texts, and take their answers.

    Returns the request that shows the review then, and the exit status of the run: 0 where there was none to start. The
    review is not locked while the agents work. Raises what opening a review, preparing a run and conducting it raise.
    """
    from selftest_core.integrate.applying import AnswerTaker
    from selftest_core.integrate.integration import (
        find_all_alternatives,
        find_conflicts,
        prepare_integration,
        tasks_of,
    )
    from selftest_core.run.plan.preparation import RunOptions, begin
    from selftest_tui.cli.runs.run import conduct_in_batch

    with _opened(call, request) as session:
        AnswerTaker().take(session)  # of an earlier run, whose answers nobody has taken yet
        request = _named(request, session)
        try:
            conflicts = find_all_alternatives(session) if call.arguments.texts else find_conflicts(session)
        except RefusedError as error:
            tell("\n".join(part for part in (error.title, error.detail) if part))
            return request, DONE
        _tell_conflicts(conflicts)
        prepared = asyncio.run(prepare_integration(conflicts, RunOptions(), call.config, call.environ, tell))
        for warning in prepared.plan.warnings:
            tell(f"! {warning}")
        folder = begin(prepared, call.environ)
        session.begin_integration(folder.run, tasks_of(prepared.plan, conflicts))
    status = conduct_in_batch(folder, call.environ, review=lambda folder, environ: None)
    with _opened(call, request) as session:
        AnswerTaker().take(session)
        _tell_answers(session, folder.run)
    if status == STOPPED_EARLY:
        # Answers are missing: what would be published is not what was asked for.
        request = dataclasses.replace(request, publish=None, pr=False)
    return request, status


def _opened(call: Call, request: Request) -> ReviewSession:
    from selftest_core.review.session import ReviewSession

    return ReviewSession.open(request, call.cwd, call.environ, tell)


def _named(request: Request, session: ReviewSession) -> Request:
    """Return the request for what is decided in this review now: a newer run is another review."""
    request = dataclasses.replace(request, decisions=None)
    if session.kind != "run":
        return request
    return dataclasses.replace(request, targets=(), run=session.state.name)


def _tell_conflicts(conflicts: Conflicts) -> None:
    for task in conflicts.tasks:
        tell(f"an agent for: {task.id}")
    for subject, reason in conflicts.left_out:
        tell(f"no agent for: {subject}: {reason}")


def _tell_answers(session: ReviewSession, run: str) -> None:
    integrations = session.state.integrations
    subjects = {change.oid: change.subject for change in session.state.reviewed.order}
    chosen = {row.chosen for row in session.state.reviewed.row_of.values()}
    proposed = {branch.agent for branch in session.state.branches if branch.alternative_of}
    for oid, found in integrations.by_change.items():
        if found.run == run and found.is_ended and oid in chosen:
            word = "one text is proposed by" if found.agent in proposed else "resolved by"
            said = f"not used: {found.reason}" if found.reason else f"{word} {found.agent}"
            tell(f"{oid[:12]} {subjects.get(oid, '')}: {said}")
