"""Runs whose agents are no testers: each agent gets a task, with a brief and small files.

    prepared = await prepare_tasks("drafter", tasks, wanted, config, environ, cwd, say)
    folder = begin(prepared, environ)               # preparation.begin, as for testers

A run is a run: the plan, the journal and the conductor are the same for each role. A role adds how its tasks are made,
its prompt (`prompts/ROLE.j2`), a gate on what comes back (`run.outcome.gate`), and what becomes of the result. That is
done by the rooms above: `draft`, `sync` and `integrate`.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.run.plan.offer import Offer, offered_tests
from selftest_core.run.plan.plan import UnreadablePlanError, check_plan
from selftest_core.run.plan.plan_builder import make_plan, refuse_taken
from selftest_core.run.plan.preflight import ask_mngr
from selftest_core.run.plan.preparation import (
    Prepared,
    check_options,
    estimates_of,
    free_bytes,
    withheld_variables,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.run.outcome.claims import IsolationChooser
    from selftest_core.run.plan.plan import PlannedTest, Role, TaskFile
    from selftest_core.run.plan.preparation import RunOptions

_LONGEST_ID = 200


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one agent. `id`: one line that names it, unique in the run (`task_id` makes it of any text).

    `brief`: Markdown for the prompt. `files`: texts for `.selftest/task/` of its copy, with relative ASCII names.
    `blocks`: blocks of the tutorial, word for word.
    """

    id: str
    brief: str
    files: tuple[TaskFile, ...] = ()
    blocks: tuple[str, ...] = ()


def task_id(text: str) -> str:
    """Make the id of a task of any text: one printable line that is not too long."""
    line = " ".join(text[: 4 * _LONGEST_ID].split())
    line = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)
    return line if len(line) <= _LONGEST_ID else f"{line[: _LONGEST_ID - 1]}…"


async def prepare_tasks(
    role: Role,
    tasks: Sequence[Task],
    wanted: RunOptions,
    config: Config,
    environ: Mapping[str, str],
    cwd: Path,
    say: Callable[[str], None],
    choose_isolation: IsolationChooser | None = None,
) -> Prepared:
    """Prepare a run with one agent for each task. Of `wanted`, the options about tests are not used.

    `choose_isolation`: of the tests that the role's gate runs; without it the plan says that none is run.

    Raises UsageError, ConfigError, RefusedError or ToolError for what cannot work.
    """
    by_id = {task.id: task for task in tasks}
    if len(by_id) < len(tasks) or any(task.id != task_id(task.id) or not task.id for task in tasks):
        raise ValueError("the ids of tasks must be unique, printable lines")
    if not tasks:
        raise UsageError("There is nothing to do for an agent", "No task was found.", "`--dry-run` lists the tasks.")
    checked = await check_options(wanted, config, environ, cwd, say, choose_isolation, role)
    say("asking mngr")
    agents = await ask_mngr(checked.mngr, checked.choices)
    plan = make_plan(
        checked.source, tuple(by_id), {}, checked.choices,
        environ=environ, at=time.time(), random_hex=secrets.token_hex, warnings=checked.notes,
    )  # fmt: skip
    plan = replace(plan, tests=tuple(_with_task(test, by_id[test.node_id]) for test in plan.tests))
    try:
        check_plan(plan)
    except UnreadablePlanError as error:
        raise UsageError("This run cannot be planned", error.detail) from error
    refuse_taken(plan, {agent.name for agent in agents}, {agent.id for agent in agents})

    def made() -> Prepared:
        offer = Offer(
            plan=plan,
            estimates=estimates_of(plan, checked.source, environ, tests=len(plan.tests)),
            tests=offered_tests(plan, {}),
            uncollected=(),
            base_name=wanted.base,
            affected_by="",
            found=len(plan.tests),
            deselected=0,
            free=free_bytes(plan, environ),
            withheld=withheld_variables(plan, environ),
        )
        return Prepared(plan, checked.source, {}, (), offer)

    return await asyncio.to_thread(made)


def _with_task(test: PlannedTest, task: Task) -> PlannedTest:
    return replace(test, blocks=task.blocks, brief=task.brief, files=task.files)
