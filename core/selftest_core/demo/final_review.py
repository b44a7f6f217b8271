"""The review of a demo that nobody watches: its run is reviewed as a person would do it, and published.

Every fix is kept, a conflict is resolved by taking the newer change, and the rival that is no longer needed is
reverted. Equal changes of three agents are one change. Then the tests that agents reported as passing are run on the
published branch: a change whose test fails is reverted, and the branch is published again. Only the demo's own
repository changes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError, UsageError
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.inputs import Request
from selftest_core.review.conflict_files import choose
from selftest_core.review.publishing import own_ref
from selftest_core.review.session import ReviewSession
from selftest_core.run.store import temporary_prefix
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.run.store import RunFolder
    from selftest_core.schema.review import ReviewDocument

BRANCH = "reviewed"
"""The branch that is published in the demo's repository."""
_DEADLINE = 300.0


def review_demo(folder: RunFolder, environ: Mapping[str, str], say: Callable[[str], None]) -> ReviewDocument | None:
    """Review the run in `folder` to its published branch; None where no agent left a commit."""
    from selftest_core.schema.review import review_document

    try:
        session = ReviewSession.open(Request(run=folder.run), folder.path, environ, lambda text: None)
    except UsageError:
        return None
    with session:
        say(f"{session.state.total} changes to review")
        session.decide([change.oid for change in session.state.reviewed.order], Decision.KEEP)
        for change in session.state.reviewed.order:
            if _status(session, change.oid) is Status.HELD:
                rivals = _rivals(session, change.oid)
                session.resolve(change.oid, choose(session.conflict_files(change.oid), "theirs"))
                session.note(change.oid, "One count decides: the announced one.")
                session.decide(rivals, Decision.REVERT)
                say(f"in conflict, resolved: {change.subject}")
        published = session.publish(BRANCH)
        say(f"published as {BRANCH}")
        tests = _claimed(folder)
        red = _red(folder, list(tests), environ, say)
        wrong = _changes_of(session, {tests[test] for test in red})
        if wrong:
            for oid in wrong:
                session.note(oid, "Its test fails on the published branch.")
            session.decide(wrong, Decision.REVERT)
            say(f"reverted, since the test fails: {', '.join(red)}")
            published = session.publish(BRANCH)
            say(f"published as {BRANCH} again")
            _red(folder, [test for test in tests if test not in red], environ, say)
        return review_document(session.state.reviewed, own_ref(folder.run, "candidate"), published.ref)


def _claimed(folder: RunFolder) -> dict[str, str]:
    """Return the tests that passed according to their agents, with the agents' names."""
    rows = folder.read().rows.values()
    ended_well = [row for row in rows if row.end is not None and not row.end.group.is_open]
    return {row.planned.node_id: row.planned.agent_name for row in ended_well}


def _changes_of(session: ReviewSession, agents: set[str]) -> list[str]:
    """Return the changes that only these agents made."""
    return [change.oid for change in session.state.reviewed.order if set(change.agents) <= agents]


def _red(folder: RunFolder, tests: list[str], environ: Mapping[str, str], say: Callable[[str], None]) -> list[str]:
    """Run these tests on a copy of the published branch, since reports prove nothing; return those that fail."""
    plan = folder.plan()
    with tempfile.TemporaryDirectory(prefix=temporary_prefix(folder.path)) as place:
        argv = ["git", "clone", "-q", "--branch", BRANCH, "--", plan.repository, f"{place}/copy"]
        copied = run(argv, timeout=_DEADLINE, cwd=Path(place), env=environ)
        if not copied.ok:
            raise ToolFailedError("The published branch cannot be cloned", copied.stderr_end)
        argv = [*plan.pytest_command, "-q", "-rA", "-p", "no:cacheprovider", *tests]
        done = run(argv, timeout=_DEADLINE, cwd=Path(place) / "copy", env=environ)
    lines = done.stdout.splitlines()
    red = [test for test in tests if f"PASSED {test}" not in lines]
    say(f"on {BRANCH}, {len(tests) - len(red)} of {len(tests)} tests pass")
    return red


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
