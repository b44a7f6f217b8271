"""A repository whose tutorial was drafted: the demo's shop, and a run whose drafter left its branch."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from core.review.repositories import Repository
from selftest_core.demo.other_roles import DRAFTER, HEADING, UNCITED, WRITER
from selftest_core.demo.scenarios import files
from selftest_core.demo.staging import make_repository
from selftest_core.journal import Journal
from selftest_core.run.events import Event
from selftest_core.run.plan.plan import TaskFile, plan_json
from selftest_core.run.store import RunFolder
from tui.tutorial.tutorials import AT, a_run_folder

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

DRAFT = "20261122-1015-0d0d"
SYNC = "20261122-1130-5e5e"
PAY = "Pay"


def synced_shop(world: World, folder: Path) -> str:
    """Make the shop with a run whose writer left its tests, which passed the checks; return its commit."""
    make_repository(folder, files(1), world.environment)
    repository = Repository(folder)
    git, environ = repository.git, world.environment
    made = a_run_folder(folder, environ, [WRITER.test], SYNC, "writer", {WRITER.test: UNCITED})
    plan = made.plan()
    task = TaskFile("task.json", json.dumps({"tutorial": "tutorial.sh", "tests": "tests"}))
    planned = replace(plan.tests[0], files=(task,))
    (made.path / "plan.json").write_text(
        json.dumps(plan_json(replace(plan, base=git("rev-parse", "main"), tests=(planned,))))
    )
    git("checkout", "-q", "-b", "writer", "main")
    for verb, *arguments in WRITER.story:
        if verb == "create":
            path, text = map(str, arguments)
            (folder / path).write_text(text)
            git("add", path)
            git("commit", "-q", "-m", "[CREATE_TEST] Test a refund in parts")
    tip = git("rev-parse", "HEAD")
    git("update-ref", f"refs/selftest/{SYNC}/agents/{planned.agent_name}", tip)
    git("checkout", "-q", "main")
    about = {"agent": planned.agent_name, "attempt": 1}
    with Journal(made.journal) as journal:
        journal.append(Event.LAUNCHING, AT, **about, agent_id=planned.agent_id, name=planned.agent_name)
        journal.append(Event.LAUNCHED, AT, **about, host_id="h", provider="local", adopted=False)
        journal.append(Event.ENDED, AT, **about, end="succeeded", stage="", text="", tip=tip, commits=1, verifying=True)
        journal.append(Event.VERIFIED, AT, **about, result="passed", reason="", gate=True)
    return tip


class DraftedShop:
    """The shop at `folder`. Its draft has two headings: one is drafted once `end` was called, one goes on."""

    def __init__(self, world: World, folder: Path) -> None:
        make_repository(folder, files(1), world.environment)
        self.repository = Repository(folder)
        self.world = world
        self.folder = folder
        base = self.repository.git("rev-parse", "main")
        made = a_run_folder(folder, world.environment, [HEADING, PAY], DRAFT, "drafter")
        # The run has no base in git yet.
        (made.path / "plan.json").write_text(
            json.dumps(plan_json(replace(made.plan(), base=base, tutorial="tutorial.sh")))
        )
        self.run = RunFolder(made.path)
        self.agents = [test.agent_name for test in made.plan().tests]
        with Journal(self.run.journal) as journal:
            journal.append(Event.CONDUCTING, AT, pid=1)
            for number, test in enumerate(made.plan().tests):
                about = {"agent": test.agent_name, "attempt": 1}
                journal.append(Event.LAUNCHING, AT + number, **about, agent_id=test.agent_id, name=test.agent_name)
                journal.append(Event.LAUNCHED, AT + number, **about, host_id="h", provider="local", adopted=False)

    def end(self, verdict: str = "passed", reason: str = "") -> str:
        """The agent of the heading leaves what its story says; return its commit."""
        git, name = self.repository.git, self.agents[0]
        git("checkout", "-q", "-b", "drafter", "main")
        for verb, *arguments in DRAFTER.story:
            if verb == "edit":
                path, old, new = map(str, arguments)
                file = self.folder / path
                file.write_text(file.read_text().replace(old, new))
                git("commit", "-q", "-a", "-m", "[FIX_TUTORIAL] Fill it in")
        tip = git("rev-parse", "HEAD")
        git("update-ref", f"refs/selftest/{DRAFT}/agents/{name}", tip)
        git("checkout", "-q", "main")
        git("branch", "-q", "-D", "drafter")
        claims = next(step[2] for step in DRAFTER.story if step[0] == "report")
        outcome = {"errored": False, "summary_markdown": "Three blocks.", "changes": {}, "escalations": []}
        attempt = self.run.path / "agents" / name / "attempt-1"
        attempt.mkdir(parents=True)
        (attempt / "outcome.json").write_text(json.dumps({**outcome, **claims}))  # type: ignore[dict-item]
        about = {"agent": name, "attempt": 1}
        with Journal(self.run.journal) as journal:
            journal.append(Event.PULLING, AT + 50, **about, stamp="1")
            journal.append(
                Event.ENDED, AT + 51, **about, end="succeeded", stage="", text="Three blocks.", tip=tip, commits=1,
                verifying=True,
            )  # fmt: skip
            journal.append(Event.VERIFIED, AT + 52, **about, result=verdict, reason=reason, text=reason, gate=True)
            journal.append(Event.STOPPED, AT + 53, **about, says="")
        return tip
