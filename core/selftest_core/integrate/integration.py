"""An integration: agents for the changes in conflict of an open review.

    found = find_conflicts(session)                                   # in the session's thread
    prepared = await prepare_integration(found, wanted, config, environ, say)
    folder = begin(prepared, environ)                                 # then session.begin_integration(…), then conduct

Changes that are in conflict in the same files are one agent's. The agents start from the candidate branch, so that they
can run the tests of what is there; of the conflict itself they get all contents as files.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_core.frozen import dataclass
from selftest_core.git.patches import shown
from selftest_core.integrate.normalising import GroupTask, find_group, group_brief, group_files
from selftest_core.integrate.task import (
    ConflictTask,
    HeldChange,
    Intent,
    brief,
    intent_of,
    join_sharing,
    task_files,
    unsuited_reason,
)
from selftest_core.review.candidate_branch import Status
from selftest_core.verify.on_arrival import isolation_of_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.review.conflict_files import ConflictFile
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.run.plan.preparation import Prepared, RunOptions


@dataclass(frozen=True, slots=True)
class Conflicts:
    """The work that agents can do in a review. `base`: the commit that they start from. `top`: the user's work tree.

    `left_out`: subjects of changes in conflict that are not for an agent now, each with the reason.
    """

    top: Path
    base: str
    tasks: tuple[ConflictTask | GroupTask, ...]
    left_out: tuple[tuple[str, str], ...]


def find_conflicts(session: ReviewSession, oids: Collection[str] | None = None) -> Conflicts:
    """Read the conflicts of a review: of all its changes, or of these. Writes the candidate's ref.

    Raises RefusedError where there is none for an agent.
    """
    state = session.state
    held: dict[str, HeldChange] = {}
    left_out: list[tuple[str, str]] = []
    changes = {change.oid: change for change in state.reviewed.order}
    for placed in state.reviewed.line.items:
        oid = placed.item.oid
        if placed.status is not Status.HELD or (oids is not None and oid not in oids):
            continue
        change = changes[oid]
        reason, files = _conflict(session, oid)
        if reason:
            left_out.append((shown(change.subject), reason))
        else:
            held[oid] = HeldChange(intent_of(state, change), files)
    tasks = tuple(ConflictTask(state.name, joined, _rivals(state, joined)) for joined in join_sharing(held))
    if not tasks:
        detail = "\n".join(f"{subject}: {reason}" for subject, reason in left_out)
        raise RefusedError("No conflict is for an agent", detail or "No change is in conflict.")
    return Conflicts(session.top, session.store_candidate(), tasks, tuple(left_out))


def find_all_alternatives(session: ReviewSession) -> Conflicts:
    """Read all rows of several texts. Raises RefusedError where there is none for an agent."""
    rows = {row.id: row for row in session.state.reviewed.row_of.values() if row.others}
    tasks: list[GroupTask] = []
    left_out: list[tuple[str, str]] = []
    subjects = {change.oid: shown(change.subject) for change in session.state.reviewed.order}
    tips = {branch.tip for branch in session.state.branches if branch.alternative_of}
    for row in rows.values():
        working = session.state.integrations.working_on(row.chosen)
        if working is not None:
            left_out.append((subjects[row.chosen], f"{working.agent} of run {working.run} works on it"))
        elif not tips.isdisjoint(row.members):
            left_out.append((subjects[row.chosen], "an agent has proposed one text already"))
        else:
            try:
                tasks.append(find_group(session, row.chosen))
            except RefusedError as error:
                left_out.append((subjects[row.chosen], error.detail))
    if not tasks:
        detail = "\n".join(f"{subject}: {reason}" for subject, reason in left_out)
        raise RefusedError("No row is for an agent", detail or "No row has several texts.")
    return Conflicts(session.top, session.base, tuple(tasks), tuple(left_out))


def find_alternatives(session: ReviewSession, oid: str) -> Conflicts:
    """Read the row of a change, for one change instead of its texts. Raises RefusedError where that cannot be asked."""
    return Conflicts(session.top, session.base, (find_group(session, oid),), ())


def _conflict(session: ReviewSession, oid: str) -> tuple[str, tuple[ConflictFile, ...]]:
    """The files of a conflict, or the reason why no agent gets it."""
    working = session.state.integrations.working_on(oid)
    if working is not None:
        return f"{working.agent} of run {working.run} works on it", ()
    try:
        files = session.conflict_files(oid)
    except RefusedError as error:
        return error.detail or error.title, ()
    return unsuited_reason(files), files


def _rivals(state: ReviewState, changes: Sequence[HeldChange]) -> tuple[Intent, ...]:
    """The applied changes before these on the branch that change the files in conflict."""
    paths = {file.path for change in changes for file in change.files}
    mine = {change.intent.oid for change in changes}
    last = max(number for number, one in enumerate(state.reviewed.order) if one.oid in mine)
    statuses = {one.item.oid: one.status for one in state.reviewed.line.items}
    return tuple(
        intent_of(state, one)
        for one in state.reviewed.order[:last]
        if statuses[one.oid] is Status.LAID and any(path.path in paths for path in one.paths)
    )


async def prepare_integration(
    conflicts: Conflicts,
    wanted: RunOptions,
    config: Config,
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> Prepared:
    """Prepare the run. Its plan says how the tests of both sides are isolated, which run here for each answer.

    Raises what `prepare_tasks` does, and RefusedError where the setting requires an isolation that does not work.
    """
    # The screen of a review imports this module, and few reviews start a run.
    from selftest_core.run.plan.plan import TaskFile
    from selftest_core.run.plan.tasks import Task, prepare_tasks, task_id

    isolation = await asyncio.to_thread(isolation_of_claims, config, environ)
    tasks = [
        Task(task_id(one.id), brief_of(one), tuple(TaskFile(name, text) for name, text in files_of(one).items()))
        for one in conflicts.tasks
    ]
    wanted = replace(wanted, base=conflicts.base)
    prepared = await prepare_tasks("integrator", tasks, wanted, config, environ, conflicts.top, say)
    plan = replace(prepared.plan, verify_on_arrival=isolation.kind)
    return replace(prepared, plan=plan, offer=replace(prepared.offer, plan=plan, base_name="the candidate branch"))


def tasks_of(plan: RunPlan, conflicts: Conflicts) -> dict[str, tuple[str, ...]]:
    """The ids of the changes that each agent of a plan resolves, by its name."""
    from selftest_core.run.plan.tasks import task_id  # as above

    by_id = {task_id(one.id): oids_of(one) for one in conflicts.tasks}
    return {test.agent_name: by_id[test.node_id] for test in plan.tests}


def oids_of(task: ConflictTask | GroupTask) -> tuple[str, ...]:
    """The ids of the changes that a task is about."""
    if isinstance(task, GroupTask):
        return tuple(one.oid for one in task.members)
    return tuple(change.intent.oid for change in task.changes)


def brief_of(task: ConflictTask | GroupTask) -> str:
    """The part of the prompt that only this task has, as Markdown."""
    return group_brief(task) if isinstance(task, GroupTask) else brief(task)


def files_of(task: ConflictTask | GroupTask) -> dict[str, str]:
    """The text files for the agent by name."""
    return group_files(task) if isinstance(task, GroupTask) else task_files(task)
