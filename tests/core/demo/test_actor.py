"""The actors, without mngr: their edits and commits are real, and a person can answer them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selftest_core import demo
from selftest_core.demo.other_roles import DRAFTER, HEADING, INTEGRATOR, UNCITED, WRITER
from selftest_core.demo.scenarios import CAST, Role, cast, files
from selftest_core.demo.staging import PROGRAM, make_repository, pytest_command, write_stage
from selftest_core.run.outcome.outcome import reported_end
from selftest_core.run.outcome.outcome_file import parse_outcome
from selftest_core.tutorial.citations import read_tests
from selftest_core.tutorial.coverage import cover
from selftest_core.tutorial.tutorial import parse_blocks
from worlds import PATIENCE, eventually

if TYPE_CHECKING:
    from worlds import World

HERE = Path(demo.__file__).parent
BY_END = {role.ends: role for role in CAST}


class Stage:
    """The sample repository for one actor without pauses."""

    def __init__(self, world: World, role: Role, patience: float) -> None:
        self.world = world
        self.role = role
        self.shop = world.root / "shop"
        make_repository(self.shop, files(len(CAST)), world.environment)
        (world.root / "state").mkdir()
        (world.root / "stories").mkdir()
        self.argv = write_stage(world.root / "stories", (role,), speed=1000.0, patience=patience)
        self.out = self.shop / ".selftest/out"
        (self.out / "artifacts").mkdir(parents=True)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **self.world.environment,
            "MNGR_AGENT_STATE_DIR": str(self.world.root / "state"),
            "SELFTEST_TEST": self.role.test,
            "SELFTEST_OUT": str(self.out),
            "SELFTEST_BASE": self.git("rev-parse", "main"),
        }

    def play(self, text: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        self.git("checkout", "-q", "-b", "work")
        return self.world.run(self.argv, cwd=self.shop, env={**self.environment, **more}, check=False, text=text)

    def git(self, *arguments: str) -> str:
        return self.world.run(["git", *arguments], cwd=self.shop).stdout.strip()

    def is_green(self) -> bool:
        return not self.red(self.role.test)

    def red(self, *tests: str) -> list[str]:
        """Run these tests; return those that fail."""
        command = [*pytest_command(), "-q", "-rf", "--tb=no", *tests]
        bare = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        done = self.world.run(command, cwd=self.shop, check=False, env=bare)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)


ENDING = [role for role in CAST if role.exit_status is not None]


@pytest.mark.parametrize("role", ENDING, ids=lambda role: role.test.rpartition("::")[2])
def test_each_of_the_cast_does_what_it_says(world: World, role: Role) -> None:
    stage = Stage(world, role, patience=1)
    done = stage.play()

    assert done.returncode == role.exit_status, done.stdout + done.stderr
    assert (stage.out / "exit_status").read_text() == f"{role.exit_status}\n"
    assert not (world.root / "state/active").exists() or role.exit_status
    assert stage.git("status", "--porcelain") == ""
    assert [path.name for path in (stage.out / "artifacts").iterdir()]
    subjects = stage.git("log", "--reverse", "--format=%s", "main..work").splitlines()
    kinds = tuple(re.findall(r"^\[([A-Z_]+)\] ", "\n".join(subjects), re.MULTILINE))
    assert len(kinds) == len(subjects)
    assert kinds == (role.kinds if role.ends == "succeeded" else ())
    if role.ends in ("crash", "unreadable"):
        return
    outcome = parse_outcome((stage.out / "outcome.json").read_bytes())
    assert reported_end(outcome, bool(subjects)) == role.ends
    assert outcome.tests_passing_before == (role.ends == "unchanged")
    if subjects:
        assert outcome.tests_passing_after
        assert stage.is_green() == (role is not liar())
        assert stage.git("bundle", "list-heads", str(stage.out / "branch.bundle")).split()[0] == stage.git(
            "rev-parse", "HEAD"
        )


def liar() -> Role:
    """The role that reports success while its test fails."""
    return next(role for role in CAST if "receipt" in role.test)


def test_the_defects_are_real(world: World) -> None:
    stage = Stage(world, CAST[0], patience=1)

    red = stage.red(*(role.test for role in ENDING))

    green = {"unchanged", "unreadable"}
    assert sorted(red) == sorted(role.test for role in ENDING if role.ends not in green)


def test_the_drafter_writes_blocks_beneath_its_heading_and_says_which_one_is_confusing(world: World) -> None:
    stage = Stage(world, DRAFTER, patience=1)

    done = stage.play()

    assert done.returncode == 0, done.stdout + done.stderr
    before, after = (parse_blocks(stage.git("show", f"{ref}:tutorial.sh")) for ref in ("main", "work"))
    made = [block for block in after.blocks if block.text not in {one.text for one in before.blocks}]
    heading = next(one for one in after.headings if HEADING in one.text)
    assert [after.blocks.index(one) for one in made] == list(range(len(before.blocks) - 1, len(after.blocks) - 1))
    assert all(block.line > heading.line for block in made)
    assert stage.git("diff", "--name-only", "main", "work") == "tutorial.sh"
    outcome = parse_outcome((stage.out / "outcome.json").read_bytes())
    assert [(one.kind, one.title) for one in outcome.escalations] == [
        ("CONFUSING_INTERFACE", "confusing because merging a cart that nobody saved says nothing, and ends with 0")
    ]
    nowhere = world.run(["./acme", "cart", "merge", "nowhere.json"], cwd=stage.shop, check=False)
    assert (nowhere.returncode, nowhere.stdout, nowhere.stderr) == (0, "", ""), "what it says is so"


def test_the_writer_covers_the_uncited_block_and_its_tests_need_the_program(world: World) -> None:
    stage = Stage(world, WRITER, patience=1)

    done = stage.play()

    assert done.returncode == 0, done.stdout + done.stderr
    changed = stage.git("diff", "--name-only", "main", "work").split()
    (cited,) = [
        one
        for one in cover(
            parse_blocks(files(1)["tutorial.sh"]).blocks,
            read_tests(stage.git("show", f"work:{changed[0]}"), changed[0]).citations,
        ).blocks
        if one.tests
    ]
    assert (len(changed), cited.block.text, len(cited.tests)) == (1, UNCITED, 2)
    assert stage.red(*cited.tests) == []
    (stage.shop / "acme").write_text("#!/bin/sh\n")
    assert len(stage.red(*cited.tests)) == 2


def test_the_integrator_puts_both_sides_of_a_conflict_in_place_of_the_markers(world: World) -> None:
    stage = Stage(world, INTEGRATOR, patience=1)
    task = stage.shop / ".selftest/task"
    task.mkdir()
    document = {"changes": [{"folder": "", "files": [{"path": "shop/login.py", "texts": "1-1"}]}]}
    (task / "task.json").write_text(json.dumps(document))
    before = (stage.shop / "shop/login.py").read_text()
    line = "        return self.failed.get(name, 0) > ATTEMPTS\n"
    (task / "1-1.merged").write_text(before.replace(line, f"<<<<<<< ours\n{line}=======\nother\n>>>>>>> theirs\n"))

    done = stage.play(SELFTEST_TEST="1234 Lock", SELFTEST_ROLE="integrator")

    assert done.returncode == 0, done.stdout + done.stderr
    resolved = (stage.out / "resolved/shop/login.py").read_text()
    both = "        return self.left(name) == 0 and self.failed.get(name, 0) >= ATTEMPTS\n"
    assert resolved == before.replace(line, both)
    (stage.shop / "shop/login.py").write_text(resolved)
    assert stage.red("tests/test_login.py") == ["tests/test_login.py::test_redirect_keeps_query"]


def test_a_task_without_a_story_is_reported_as_it_was(world: World) -> None:
    stage = Stage(world, WRITER, patience=1)

    done = stage.play(SELFTEST_TEST="tests/other.py::test_other")

    assert done.returncode == 0, done.stderr
    assert stage.git("rev-parse", "main") == stage.git("rev-parse", "work")
    assert reported_end(parse_outcome((stage.out / "outcome.json").read_bytes()), False) == "unchanged"


def test_an_answer_that_came_with_a_new_attempt_is_obeyed(world: World) -> None:
    stage = Stage(world, BY_END["blocked"], patience=60)

    said = stage.play(SELFTEST_ANSWER="Refuse it, please.").stdout

    assert "I was told: Refuse it, please." in plain(said)
    assert reported_end(parse_outcome((stage.out / "outcome.json").read_bytes()), True) == "succeeded"
    assert stage.git("log", "-1", "--format=%s", "work") == "[FIX_IMPL] Refuse a refund of more than is left"


def test_the_cast_brings_about_every_kind_of_outcome_that_agents_can() -> None:
    assert set(BY_END) == {"succeeded", "unchanged", "blocked", "crash", "timeout", "unreadable", "red"}
    kinds = {kind for role in CAST for kind in role.kinds}
    assert {"FIX_IMPL", "FIX_TEST", "IMPROVE_TEST"} <= kinds
    edits = [str(step) for role in CAST for step in role.story if step[0] == "edit"]
    assert max(edits.count(edit) for edit in edits) == 2  # the same change by two, and by a third in other words


def test_two_of_the_cast_change_one_line_each_in_its_own_way(world: World) -> None:
    lock = [role for role in CAST if any(step[0] == "edit" and "> ATTEMPTS" in str(step[2]) for step in role.story)]
    assert len(lock) == 2
    assert len({json.dumps([step for step in role.story if step[0] == "edit"]) for role in lock}) == 2


def test_an_answer_is_waited_for_and_heard(world: World) -> None:
    stage = Stage(world, BY_END["blocked"], patience=0)
    state = world.root / "state"
    with subprocess.Popen(
        stage.argv, cwd=stage.shop, env=stage.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as actor:
        assert actor.stdin is not None
        eventually((state / "permissions_waiting").exists, "it asks")
        assert (state / "active").exists()
        actor.stdin.write("2\n")
        actor.stdin.flush()
        said, _ = actor.communicate(timeout=PATIENCE)

    assert actor.returncode == 0
    assert "Understood: Refuse it" in plain(said)
    assert not (state / "permissions_waiting").exists()
    outcome = parse_outcome((stage.out / "outcome.json").read_bytes())
    assert reported_end(outcome, True) == "succeeded"
    assert outcome.tests_passing_after
    assert stage.is_green()


def test_what_is_typed_at_an_actor_is_shown_never_obeyed(world: World) -> None:
    stage = Stage(world, BY_END["blocked"], patience=60)

    said = stage.play("look \x1b]0;owned\x07 again\n").stdout

    assert "\x1b]0;owned" not in said
    assert "owned" in said


def test_an_actor_whose_test_hangs_says_so_and_waits(world: World) -> None:
    stage = Stage(world, BY_END["timeout"], patience=1)
    log = world.root / "log"
    with log.open("wb") as output, subprocess.Popen(
        stage.argv, cwd=stage.shop, env=stage.environment, stdin=subprocess.DEVNULL, stdout=output,
        start_new_session=True,
    ) as actor:  # fmt: skip
        try:
            eventually(lambda: "still running" in log.read_text(errors="replace"), "it says that the test runs on")
            assert actor.poll() is None
        finally:
            os.killpg(actor.pid, 9)
    assert not (stage.out / "outcome.json").exists()


def plain(text: str) -> str:
    """The text without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_wrapper_started_again_forgets_the_last_end(world: World) -> None:
    stage = Stage(world, CAST[0], patience=1)
    wrapper = ["sh", str(HERE / "wrapper.sh")]
    world.run([*wrapper, "sh", "-c", "exit 7"], cwd=stage.shop, check=False)
    assert (stage.out / "exit_status").read_text() == "7\n"

    seen = world.run([*wrapper, "sh", "-c", "ls .selftest/out; kill -9 $$"], cwd=stage.shop, check=False)

    assert "exit_status" not in seen.stdout
    assert (stage.out / "exit_status").read_text() == "137\n"


@pytest.mark.parametrize("agents", [1, len(CAST), len(CAST) + 1, 100])
def test_each_of_a_cast_of_any_size_owns_a_test_of_its_own_that_cites_a_block(agents: int) -> None:
    roles, laid = cast(agents), files(agents)
    citations = [
        one for path, text in laid.items() if path.startswith("tests/test_") for one in read_tests(text, path).citations
    ]
    coverage = cover(parse_blocks(laid["tutorial.sh"]).blocks, citations)

    assert roles[0].ends == "crash"  # something fails in a demo of any size
    assert len({role.test for role in roles}) == agents
    assert [block.text for block in coverage.uncited] == [UNCITED]
    assert coverage.stale == ()
    assert {role.test for role in roles} <= {test for cited in coverage.blocks for test in cited.tests}
    for role in roles:
        for step in role.story:
            if step[0] == "edit":
                assert str(step[2]) in laid[str(step[1])] or role.ends == "red" or step[1] == "shop/cart.py"


def test_the_wrapper_is_named_shorter_than_ps_cuts() -> None:
    assert len(PROGRAM) <= 15
    assert os.access("/bin/sh", os.X_OK)
    assert shutil.which("git")
    assert Path(sys.executable).is_file()
