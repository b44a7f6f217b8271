"""Fit an answer to the conflicts as they are now: one resolution for each change of a task, or the reason why not.

A resolution is about contents, so it holds wherever the same three contents meet. An answer is refused where they are
not those that the agent was given: the change was reverted or resolved meanwhile, or the branch before it is another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from selftest_core.errors import RefusedError
from selftest_core.git.patches import shown
from selftest_core.integrate.answer import UnusableAnswerError, answer_name
from selftest_core.integrate.checks import refusal_reason
from selftest_core.review.candidate_branch import Status
from selftest_core.review.conflict_files import answer_with
from selftest_core.review.resolutions import Resolution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.git.merges import Side
    from selftest_core.integrate.answer import IntegratorAnswer
    from selftest_core.integrate.task import StoredTask, TaskChange, TaskFile
    from selftest_core.review.conflict_files import ConflictFile


class Resolvable(Protocol):
    """A review in which changes can be resolved: the open one, or its state as another process reads it."""

    def status_of(self, oid: str) -> Status | None:
        """The status of a change, None where it is not in the review any more."""
        ...

    def conflict_files(self, oid: str) -> tuple[ConflictFile, ...]:
        """The files in which a change is in conflict. Raises RefusedError for conflicts of paths."""
        ...

    def resolve(self, oid: str, resolution: Resolution) -> object:
        """Resolve the conflicts of a change."""
        ...


def resolve_all(review: Resolvable, task: StoredTask, answer: IntegratorAnswer, by: str) -> tuple[str, ...]:
    """Resolve the changes of a task, and return the ids of those that this resolved. `by`: the agent's name.

    Raises UnusableAnswerError with the reason where an answer does not fit; changes before it stay resolved.
    """
    resolved: list[str] = []
    results: dict[str, Side | None] = {}
    for change in task.changes:
        status = review.status_of(change.oid)
        if status is Status.HELD:
            try:
                files = review.conflict_files(change.oid)
            except RefusedError as error:
                raise UnusableAnswerError(error.detail or error.title) from error
            resolution = fit(files, change, answer, by, results)
            review.resolve(change.oid, resolution)
            results |= {one.path: one.result for one in resolution.answers}
            resolved.append(change.oid)
            if review.status_of(change.oid) is Status.HELD:
                raise UnusableAnswerError("it is in conflict with this resolution, too")
    if not resolved:
        raise UnusableAnswerError(_meanwhile(review.status_of(task.changes[0].oid)))
    return tuple(resolved)


def _meanwhile(status: Status | None) -> str:
    match status:
        case None:
            return "the change is not in the review any more"
        case Status.DROPPED:
            return "it was reverted meanwhile, so the answer is not used"
        case _:
            return "it is not in conflict any more, so the answer is not used"


def fit(
    files: Sequence[ConflictFile],
    change: TaskChange,
    answer: IntegratorAnswer,
    by: str,
    results: dict[str, Side | None],
) -> Resolution:
    """Make the resolution of one change. `results`: of the changes before it in the task, by path.

    Raises UnusableAnswerError.
    """
    given = {file.path: file for file in change.files}
    answers = []
    for file in files:
        if not _is_as_given(file, given.get(file.path), results):
            raise UnusableAnswerError(f"{shown(file.path)} is in conflict otherwise now: ask again")
        name = answer_name(change, file.path)
        content = None if name in answer.deleted else answer.texts[name]
        why = refusal_reason(file, content, is_one_side_meant=bool(answer.reason_for_one_side(name)))
        if why:
            raise UnusableAnswerError(why)
        answers.append(answer_with(file, content, by))
    return Resolution(tuple(answers))


def _is_as_given(file: ConflictFile, given: TaskFile | None, results: dict[str, Side | None]) -> bool:
    """True where the contents are those that the agent saw; the branch's may be what it made of the change before."""
    if given is None or (file.conflict.base, file.conflict.theirs) != (given.base, given.theirs):
        return False
    return file.path in results or file.conflict.ours == given.ours
