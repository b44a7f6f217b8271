"""Apply the answers of integrators to the open review: each becomes a resolution like a person's, or a reason.

An answer is taken once, and only where it passed the gate of its run. What a person decided or resolved meanwhile stays
as it is: the answer is then refused, and its change says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.integrate.answer import UnusableAnswerError, read_answer
from selftest_core.integrate.fitting import resolve_all
from selftest_core.integrate.normalising import StoredGroup, apply_group, read_group, read_group_answer
from selftest_core.integrate.task import TASK_FILE, StoredTask, UnreadableTaskError, read_task
from selftest_core.paths import runs_folder
from selftest_core.review.resolutions import Resolution
from selftest_core.run.crew.crew import OUTCOME
from selftest_core.run.events import Phase
from selftest_core.run.outcome.claims import ClaimResult
from selftest_core.run.outcome.ends import Group
from selftest_core.run.outcome.outcome_file import UnreadableOutcomeError, parse_outcome
from selftest_core.run.store import RunFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.review.candidate_branch import Status
    from selftest_core.review.conflict_files import ConflictFile
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState
    from selftest_core.run.fold import RunRow
    from selftest_core.run.plan.plan import PlannedTest

NO_CONDUCTOR = "no conductor"
"""Progress of an agent whose run nobody conducts: `selftest-tui resume` continues it."""


class AnswerTaker:
    """Takes the answers for one open review. Remembers which runs it has read, so that a look costs a `stat` each.

    `progress`: what the agent of each change does that one works on, by oid, in a word or two.
    """

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._rows: dict[str, tuple[RunRow, ...]] = {}
        self.progress: Mapping[str, str] = {}

    def take(self, session: ReviewSession) -> ReviewState:
        """Take the answers that came since the last look. Blocking; for the thread that has the session."""
        progress: dict[str, str] = {}
        for run in session.state.integrations.runs:
            folder = RunFolder(runs_folder(session.top) / run)
            size = _size(folder)
            if self._sizes.get(run) != size:
                self._rows[run] = _rows(folder)
                for row in self._rows[run]:
                    _take_row(session, folder, row)
                self._sizes[run] = size
            integrations = session.state.integrations
            for row in self._rows[run]:
                for oid in integrations.tasks.get((run, row.name), ()):
                    working = integrations.working_on(oid)
                    if working is not None and (working.run, working.agent) == (run, row.name):
                        progress[oid] = _words(row) if folder.is_conducted() else NO_CONDUCTOR
        self.progress = progress
        return session.state


def _words(row: RunRow) -> str:
    if row.attention:
        return "agent asks"
    if row.is_verifying:
        return "tests run"
    return {Phase.WAITING: "agent waits", Phase.LAUNCHING: "agent starts"}.get(row.phase, "agent works")


def _size(folder: RunFolder) -> int:
    try:
        return folder.journal.stat().st_size
    except OSError:
        return -1


def _rows(folder: RunFolder) -> tuple[RunRow, ...]:
    try:
        return tuple(folder.read().rows.values())
    except (SelftestError, OSError):
        return ()  # it was swept, or is of a later version: what it had answered stays


def _take_row(session: ReviewSession, folder: RunFolder, row: RunRow) -> None:
    integrations = session.state.integrations
    is_known = (folder.run, row.name, row.attempt) in integrations.taken
    if is_known or (folder.run, row.name) not in integrations.tasks or row.end is None or row.is_verifying:
        return
    try:
        _apply(session, folder, row)
        reason = ""
    except (UnusableAnswerError, UnreadableTaskError) as error:
        reason = error.title if not error.detail else f"{error.title}: {error.detail}"
    session.end_integration(folder.run, row.name, row.attempt, reason)


def _apply(session: ReviewSession, folder: RunFolder, row: RunRow) -> None:
    """Resolve the changes of a row's task. Raises UnusableAnswerError."""
    assert row.end is not None
    if row.end.group not in (Group.SUCCEEDED, Group.UNCHANGED):
        text = row.verified_reason if row.stage == "gate" else row.text
        raise UnusableAnswerError(text.strip().split("\n")[0] or f"its agent {row.end.sentence}")
    if row.gate != ClaimResult.PASSED or row.member is None:
        raise UnusableAnswerError("its answer was not checked")
    task = task_of(row.planned)
    place = folder.attempt(row.member)
    try:
        outcome = parse_outcome((place / OUTCOME).read_bytes())
    except (OSError, UnreadableOutcomeError) as error:
        raise UnusableAnswerError("its outcome cannot be read") from error
    if isinstance(task, StoredGroup):
        apply_group(session, task, read_group_answer(place, task, outcome), row.name)
        return
    answer = read_answer(place, task, outcome)
    if not _is_applied(session, task, row.name):
        resolve_all(_OpenReview(session), task, answer, row.name)


def _is_applied(session: ReviewSession, task: StoredTask, agent: str) -> bool:
    """True where a session that was killed before it could note so had applied this answer."""
    resolutions = session.state.decisions.resolutions
    return all(
        change.oid in resolutions and any(answer.agent == agent for answer in resolutions[change.oid].answers)
        for change in task.changes
    )


def task_of(planned: PlannedTest) -> StoredTask | StoredGroup:
    """Read the task of a planned agent. Raises UnreadableTaskError."""
    text = next((file.text for file in planned.files if file.name == TASK_FILE), "")
    try:
        return read_group(text) or read_task(text)
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableTaskError("The task of an integrator cannot be read", str(error)) from error


class _OpenReview:
    """The open review, as `fitting` sees it."""

    def __init__(self, session: ReviewSession) -> None:
        self._session = session

    def status_of(self, oid: str) -> Status | None:
        placed = (one for one in self._session.state.reviewed.line.items if one.item.oid == oid)
        return next((one.status for one in placed), None)

    def conflict_files(self, oid: str) -> tuple[ConflictFile, ...]:
        return self._session.conflict_files(oid)

    def resolve(self, oid: str, resolution: Resolution) -> None:
        """Resolve it; answers of the person for other contents of the same change stay."""
        before = self._session.state.decisions.resolutions.get(oid)
        answered = {answer.meeting for answer in resolution.answers}
        others = [] if before is None else [one for one in before.answers if one.meeting not in answered]
        self._session.resolve(oid, Resolution((*others, *resolution.answers)))
