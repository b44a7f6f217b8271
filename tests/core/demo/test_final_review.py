"""The review of a demo's run: its liar and the change that breaks a test are found, and what is published passes."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

import run_scenes
from core.review.repositories import Repository
from fleet_parts import agent_id
from selftest_core.demo.final_review import BRANCH, review_demo
from selftest_core.demo.scenarios import CAST, Role, files
from selftest_core.demo.staging import make_repository, pytest_command, write_settings
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import PlannedTest

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.run.store import RunFolder
    from worlds import World

# Not part of `make quick`: it starts several processes of pytest.
pytestmark = pytest.mark.real

ROLES = [role for role in CAST if role.kinds and role.ends == "succeeded"]


def play(repository: Repository, role: Role) -> None:
    """Make the commits of a role on a branch with the name of its test."""
    repository.git("checkout", "-q", "-b", name_of(role), "main")
    for step in role.story:
        match step:
            case ["edit", str(path), str(old), str(new)]:
                file = repository.folder / path
                file.write_text(file.read_text().replace(old, new))
            case ["commit", kind, subject, *_]:
                repository.git("commit", "-q", "-a", "-m", f"[{kind}] {subject}")
    repository.git("checkout", "-q", "main")


def name_of(role: Role) -> str:
    return role.test.rpartition("::")[2].replace("_", "-")


def a_run(repository: Repository) -> RunFolder:
    """A run that ended: each role's agent left its branch, and says that its test passes."""
    tests = tuple(PlannedTest(role.test, name_of(role), agent_id(n + 1), ()) for n, role in enumerate(ROLES))
    story = run_scenes.story(
        repository.folder / ".selftest" / "runs", 0, tests=tests, repository=str(repository.folder),
        base=repository.git("rev-parse", "main"),
    )  # fmt: skip
    for number, role in enumerate(ROLES):
        play(repository, role)
        story.launch(number, float(number))
        repository.git("update-ref", f"refs/selftest/{story.plan.run}/agents/{name_of(role)}", name_of(role))
        story.end(number, 100.0, End.SUCCEEDED, "Done", commits=len(role.kinds), outcome=run_scenes.FIXED)
    return story.write()


def test_the_liar_and_the_culprit_are_reverted_and_the_rest_passes_by_hand(world: World, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    make_repository(shop, files(len(CAST)), world.environment)
    write_settings(shop, {"agent": "command", "agent_command": ("true",)}, 60.0, 4)
    repository = Repository(shop)
    said: list[str] = []
    environ = {**world.environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    document = review_demo(a_run(repository), environ, said.append)

    assert document is not None
    other = [item for item in document.items if not item.chosen]
    assert [item.subject for item in other] == ["[FIX_IMPL] Round the tax, do not cut it off"]
    gone = {item.subject: item.decision for item in document.items if item.decision != "keep" and item.chosen}
    lock = {subject for subject in gone if subject.startswith("[FIX_IMPL] Lock ")}
    assert len(lock) == 1
    assert gone.keys() - lock == {"[FIX_IMPL] Let the sum follow the tax", "[FIX_IMPL] Format money shortly"}
    reverted = [re.split(r": (?=\[)", line)[0] for line in said if line.startswith("reverted, ")]
    assert sorted(reverted) == ["reverted, culprit", "reverted, liar"]
    assert (document.published, said[-1]) == (f"refs/heads/{BRANCH}", f"published as {BRANCH}")

    by_hand = tmp_path / "by-hand"
    repository.git("worktree", "add", "-q", str(by_hand), BRANCH)
    # The liar's test, and that of the rival whose change was reverted, are nobody's any more.
    rival = next(iter(lock))
    others = [
        one
        for one in ROLES
        if "receipt" not in one.test
        and not any(rival.endswith(str(step[2])) for step in one.story if step[0] == "commit")
    ]
    assert len(others) == len(ROLES) - 2
    tests = [role.test for role in others]
    done = world.run([*pytest_command(), "-q", *tests], cwd=by_hand, env={**os.environ, **environ}, check=False)
    assert done.returncode == 0, done.stdout
