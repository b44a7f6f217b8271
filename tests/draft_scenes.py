"""A drafted run without agents: real commits, outcomes and a real journal, judged by the real gate."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from core.run.rehearsals import a_plan
from selftest_core.draft.drafting import draft_tasks
from selftest_core.draft.gate import judge_draft
from selftest_core.journal import Journal
from selftest_core.run.events import Event
from selftest_core.run.fetch.bundles import agent_ref
from selftest_core.run.plan.names import agent_names
from selftest_core.run.store import RunFolder, make_run_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worlds import World

RUN = "20261121-0931-d7af"
TUTORIAL = """#!/bin/sh
set -e

##########
# Adding
##########

# One thing.
shop add apple 3

shop total

# Taxes

# Refunds

shop refund 1
"""
AT = 1795253460.0


def outcome_of(*findings: str, summary: str = "Drafted.", kinds: tuple[str, ...] = ("FIX_TUTORIAL",)) -> dict[str, Any]:
    """An outcome of a drafter, with findings about the interface."""
    return {
        "errored": False, "tests_passing_before": None, "tests_passing_after": None, "summary_markdown": summary,
        "changes": {kind: {"status": "SUCCEEDED", "summary_markdown": summary} for kind in kinds}, "test_runs": [],
        "escalations": [{"kind": "CONFUSING_INTERFACE", "title": one} for one in findings],
    }  # fmt: skip


def commit_file(world: World, base: str, path: str, text: str, author: str = "drafter") -> str:
    """Commit a file over a base without touching the work tree or the index; return the commit's id."""
    index = {"GIT_INDEX_FILE": str(world.root / f"index-{uuid4().hex}")}
    who = {"NAME": author, "EMAIL": f"{author}@example.org", "DATE": "1795253400 +0000"}
    environment = index | {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}

    def git(*words: str, text: str = "") -> str:
        return world.run(["git", *words], env=environment, text=text).stdout.strip()

    git("read-tree", base)
    blob = git("hash-object", "-w", "--stdin", text=text)
    mode = (git("ls-tree", base, path).split() or ["100644"])[0]
    git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{path}")
    return git("commit-tree", git("write-tree"), "-p", base, "-m", f"[FIX_TUTORIAL] {author}")


def a_drafted_run(
    world: World,
    drafts: Mapping[str, str],
    outcomes: Mapping[str, dict[str, Any]] | None = None,
    *,
    tutorial: str = TUTORIAL,
    run: str = RUN,
    open_headings: tuple[str, ...] = (),
    is_judged: bool = True,
) -> RunFolder:
    """A run of drafters on the world's repository, whose HEAD has this `tutorial.sh`.

    `drafts`: the tutorial's text that the agent of a heading committed; headings without one commit nothing.
    `outcomes`: by heading, else one that fits. `open_headings`: those whose agents still work. `is_judged`: the gate
    answered before the run was stopped.
    """
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    tasks = draft_tasks(tutorial, "tutorial.sh", ())
    names = agent_names(run, [task.id for task in tasks])
    plan = a_plan(
        named=[(task.id, names[task.id]) for task in tasks], run=run, repository=str(world.repository), base=base,
        role="drafter", tutorial="tutorial.sh", created_at=AT,
    )  # fmt: skip
    tests = [
        replace(test, brief=task.brief, files=task.files, blocks=task.blocks)
        for test, task in zip(plan.tests, tasks, strict=True)
    ]
    plan = replace(plan, tests=tuple(tests))
    folder = make_run_folder(plan, world.environment)
    with Journal(folder.journal) as journal:
        journal.append(Event.CONDUCTING, AT, pid=1)
        for test in plan.tests:
            fields: dict[str, Any] = {"agent": test.agent_name, "attempt": 1}
            journal.append(Event.LAUNCHING, AT, **fields, agent_id=test.agent_id, name=test.agent_name)
            journal.append(Event.LAUNCHED, AT + 1, **fields, host_id="host-1", provider="local")
            if test.node_id in open_headings:
                continue
            text = drafts.get(test.node_id)
            tip = "" if text is None else commit_file(world, base, "tutorial.sh", text, test.agent_name)
            if tip:
                world.run(["git", "update-ref", agent_ref(run, test.agent_name), tip])
            said = (outcomes or {}).get(test.node_id)
            if said is None:
                said = outcome_of() if tip else outcome_of(summary="Nothing to add.", kinds=())
            place = folder.path / "agents" / test.agent_name / "attempt-1"
            place.mkdir(parents=True)
            (place / "outcome.json").write_text(json.dumps(said))
            journal.append(Event.PULLING, AT + 2, **fields, stamp="1")
            journal.append(
                Event.ENDED, AT + 3, **fields, end="succeeded" if tip else "unchanged", stage="work", text="", tip=tip,
                commits=int(bool(tip)), verifying=True,
            )  # fmt: skip
            reason = judge_draft(plan, test.node_id, tip, world.environment) if tip else ""
            verdict = ("failed" if reason else "passed") if is_judged else "unknown"
            journal.append(
                Event.VERIFIED, AT + 3, **fields, result=verdict, reason=reason, text=reason,
                signature=reason, gate=True,
            )  # fmt: skip
            journal.append(Event.STOPPED, AT + 4, **fields, says="")
        if not open_headings:
            journal.append(Event.LEFT, AT + 5, why="done")
    return folder
