"""The actors, without mngr: what they do to their folder is real, and a person can answer them."""

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
from selftest_core.demo.sample import FILES
from selftest_core.demo.scenarios import CAST, Role, cast
from selftest_core.tutorial import parse_blocks
from worlds import eventually

if TYPE_CHECKING:
    from worlds import World

HERE = Path(demo.__file__).parent


def stage(world: World, role: Role, patience: float) -> tuple[Path, list[str]]:
    """The sample repository laid out for one actor, and the command line that plays it as fast as it goes."""
    shop = world.root / "shop"
    for name, text in FILES.items():
        path = shop / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for words in (
        ["init", "-q", "-b", "main"],
        ["config", "user.name", "demo"],
        ["config", "user.email", "demo@example.org"],
        ["add", "."],
        ["commit", "-q", "-m", "Open the shop"],
    ):
        world.run(["git", *words], cwd=shop)
    (world.root / "state").mkdir()
    story = world.root / "story.json"
    story.write_text(json.dumps(role.story))
    actor = [sys.executable, "-I", "-S", str(HERE / "actor.py"), str(story), "1000", f"{patience:g}"]
    return shop, ["sh", str(HERE / "wrapper.sh"), *actor]


def environment(world: World) -> dict[str, str]:
    return {**world.environment, "MNGR_AGENT_STATE_DIR": str(world.root / "state"), "MNGR_AGENT_NAME": "st-7f-x"}


@pytest.mark.parametrize("role", CAST, ids=lambda role: role.name)
def test_each_of_the_cast_does_what_it_says(world: World, role: Role) -> None:
    shop, argv = stage(world, role, patience=1)

    done = world.run(argv, cwd=shop, env=environment(world), check=False)

    assert done.returncode == role.ends_with, done.stdout + done.stderr
    assert (shop / ".selftest/out/exit_status").read_text() == f"{role.ends_with}\n"
    assert not (world.root / "state/active").exists() or role.ends_with
    subjects = world.run(["git", "log", "--format=%s"], cwd=shop).stdout.splitlines()
    commits = [str(step[1]) for step in role.story if step[0] == "commit"]
    assert subjects == [*commits, "Open the shop"]
    assert world.run(["git", "status", "--porcelain"], cwd=shop).stdout == ""
    if commits:
        before, after = done.stdout.split("Update", 1)
        assert "1 failed" in plain(before)  # the defect was real
        assert re.search(r"\d passed", plain(after))
        assert f"FAILED {role.test}" not in plain(after)


def plain(text: str) -> str:
    """The text without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_an_answer_is_waited_for_and_heard(world: World) -> None:
    role = next(role for role in CAST if any(step[0] == "ask" for step in role.story))
    shop, argv = stage(world, role, patience=0)
    state = world.root / "state"
    with subprocess.Popen(
        argv, cwd=shop, env=environment(world), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as actor:
        assert actor.stdin is not None
        eventually((state / "permissions_waiting").exists, "it asks")
        assert (state / "active").exists()
        actor.stdin.write("2\n")
        actor.stdin.flush()
        said, _ = actor.communicate(timeout=60)

    assert actor.returncode == 0
    assert "Understood: No, only members" in plain(said)
    assert not (state / "permissions_waiting").exists()


def test_what_is_typed_at_an_actor_is_shown_never_obeyed(world: World) -> None:
    role = next(role for role in CAST if any(step[0] == "wait" for step in role.story))
    shop, argv = stage(world, role, patience=1)

    said = world.run(argv, cwd=shop, env=environment(world), text="look \x1b]0;owned\x07 again\nquit\n").stdout

    assert "\x1b]0;owned" not in said
    assert "owned" in said


def test_a_wrapper_started_again_forgets_the_last_end(world: World) -> None:
    shop, _ = stage(world, CAST[0], patience=1)
    wrapper = ["sh", str(HERE / "wrapper.sh")]
    world.run([*wrapper, "sh", "-c", "exit 7"], cwd=shop, check=False)
    assert (shop / ".selftest/out/exit_status").read_text() == "7\n"

    seen = world.run([*wrapper, "sh", "-c", "ls .selftest/out; kill -9 $$"], cwd=shop, check=False)

    assert "exit_status" not in seen.stdout
    assert (shop / ".selftest/out/exit_status").read_text() == "137\n"


def test_names_are_distinct_and_legal_at_any_size() -> None:
    names = [role.name for role in cast(100)]

    assert len(set(names)) == 100
    assert all(len(name) <= 50 and name.replace("-", "").isalnum() and not name.endswith("-") for name in names)
    assert cast(1)[0].ends_with != 0  # something fails in a demo of any size


def test_the_sample_is_a_repository_that_our_own_tools_read() -> None:
    tutorial = parse_blocks(FILES["tutorial.sh"])
    tests = {
        f"{path}::{line.split('(')[0].removeprefix('def ')}"
        for path, text in FILES.items()
        for line in text.splitlines()
        if line.startswith("def test_")
    }

    assert len(tutorial.blocks) == 4
    assert {role.test for role in CAST} <= tests


def test_the_wrapper_is_named_shorter_than_ps_cuts() -> None:
    from selftest_core.demo.world import PROGRAM

    assert len(PROGRAM) <= 15
    assert os.access("/bin/sh", os.X_OK)
    assert shutil.which("git")
