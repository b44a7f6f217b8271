"""A review with a conflict that tests can judge, and runs of integrators about it, as a conductor leaves them."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import run_scenes
from core.review.desks import environ as plain_environ
from core.review.repositories import Repository
from core.verify.desks import SANDBOX
from selftest_core.config import Config
from selftest_core.demo.world import PLAIN_PYTEST
from selftest_core.integrate.integration import Conflicts, brief_of, files_of, find_conflicts, oids_of
from selftest_core.paths import runs_folder
from selftest_core.review.changes.inputs import Request
from selftest_core.review.session import ReviewSession
from selftest_core.run.events import Event
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import PlannedTest, TaskFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from run_scenes import Story
    from selftest_core.review.state import ReviewState

START = "def price(amount):\n    return amount * 2\n"
FEE = "def price(amount, fee=0):\n    return amount * 2 + fee\n"
FLOOR = "def price(amount, floor=0):\n    return max(amount * 2, floor)\n"
BOTH = "def price(amount, fee=0, floor=0):\n    return max(amount * 2 + fee, floor)\n"
TEST_FEE = "from shop.price import price\n\n\ndef test_fee():\n    assert price(2, fee=3) == 7\n"
TEST_FLOOR = "from shop.price import price\n\n\ndef test_floor():\n    assert price(2, floor=9) == 9\n"
REQUEST = Request(("ada", "eve"), base="main")
RESOLVED: dict[str, Any] = {
    "errored": False,
    "tests_passing_after": True,
    "summary_markdown": "Both stay.",
    "changes": {"RESOLVE_CONFLICT": {"status": "SUCCEEDED", "summary_markdown": "Both parameters."}},
}


def make_counter(folder: Path) -> Repository:
    """`main` with a price; ada adds a fee to it and eve a floor, in the same lines, each with a test."""
    repository = Repository.make(folder)
    repository.commit("Start", {"shop/__init__.py": "", "shop/price.py": START, "conftest.py": ""})
    for agent, text, name, test in (("ada", FEE, "fee", TEST_FEE), ("eve", FLOOR, "floor", TEST_FLOOR)):
        repository.git("checkout", "-q", "-b", agent, "main")
        repository.commit(f"[CREATE_TEST] Test the {name}", {f"tests/test_{name}.py": test}, agent)
        repository.commit(f"[FIX_IMPL] Add a {name}\n\nGuests asked for it.", {"shop/price.py": text}, agent)
    repository.git("checkout", "-q", "main")
    return repository


def environ_of(repository: Repository) -> dict[str, str]:
    """The environment of a review whose tests this interpreter runs."""
    home = repository.folder.parent / "home"
    return {**plain_environ(repository), "XDG_CACHE_HOME": str(home / "cache"), PLAIN_PYTEST: "1"}


CONFIG = Config(pytest_command=(sys.executable, "-m", "pytest"), env=(PLAIN_PYTEST,), verify_isolation="auto")


@contextmanager
def opened(repository: Repository, request: Request = REQUEST) -> Iterator[ReviewSession]:
    """The review, opened."""
    with ReviewSession.open(request, repository.folder, environ_of(repository), lambda text: None) as session:
        yield session


@dataclass
class Integrating:
    """A run of integrators for the conflicts of a review; each method writes what a conductor would write."""

    repository: Repository
    conflicts: Conflicts
    story: Story

    @classmethod
    def begin(
        cls,
        session: ReviewSession,
        repository: Repository,
        run: str = run_scenes.RUN,
        conflicts: Conflicts | None = None,
    ) -> Integrating:
        """Plan a run for all conflicts, or for these, and note it in the review."""
        conflicts = conflicts or find_conflicts(session)
        base = run_scenes.a_plan(len(conflicts.tasks)).tests
        tests = tuple(
            PlannedTest(
                task.id, f"st-{run[-4:]}-integrator-{number}", planned.agent_id, (), brief_of(task),
                tuple(TaskFile(name, text) for name, text in files_of(task).items()),
            )
            for number, (task, planned) in enumerate(zip(conflicts.tasks, base, strict=True))
        )  # fmt: skip
        story = run_scenes.story(
            runs_folder(repository.folder), len(tests), run=run, repository=str(repository.folder),
            base=conflicts.base, tests=tests, role="integrator", verify_on_arrival=SANDBOX.kind,
        )  # fmt: skip
        story.write()
        oids = {test.agent_name: list(oids_of(task)) for test, task in zip(tests, conflicts.tasks, strict=True)}
        session.begin_integration(run, oids)
        return cls(repository, conflicts, story)

    @property
    def planned(self) -> PlannedTest:
        """The first task."""
        return self.story.plan.tests[0]

    def answer(self, files: Mapping[str, str | bytes], outcome: Mapping[str, Any] = RESOLVED, number: int = 0) -> Path:
        """Put an answer in place, and return the folder of the attempt."""
        self.story.launch(number, 1.0)
        member = self.story.row(number).member
        assert member is not None
        place = self.story.folder.attempt(member)
        (place / "resolved").mkdir(parents=True)
        (place / "outcome.json").write_text(json.dumps(outcome))
        for name, content in files.items():
            path = place / "resolved" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return place

    def ended(self, reason: str = "", number: int = 0, end: End = End.SUCCEEDED, *, is_checked: bool = True) -> None:
        """End the task as the gate judged it: refused for a reason, or passed; or without a gate."""
        story = self.story
        fields = {"verifying": True} if is_checked and end.group.value in ("succeeded", "unchanged") else {}
        story._of(Event.ENDED, number, 60.0, end=end, stage="", text=reason, tip="", commits=0, signature="", **fields)
        if fields:
            result = "failed" if reason else "passed"
            story._of(Event.VERIFIED, number, 61.0, result=result, reason=reason, text=reason, signature="", gate=True)
        story._of(Event.STOPPED, number, 62.0, says="")
        story.write()


def held(state: ReviewState) -> list[str]:
    """The ids of the changes in conflict."""
    return [one.item.oid for one in state.reviewed.line.items if one.status == "held"]


def text_of(repository: Repository, ref: str, path: str = "shop/price.py") -> str:
    """The text of a file on a branch."""
    return repository.git("show", f"{ref}:{path}") + "\n"
