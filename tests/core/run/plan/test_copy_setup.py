"""Each copy gets an environment of its own before its agent begins; how long that took and how it failed is told."""

from __future__ import annotations

import asyncio
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from core.run.rehearsals import a_plan
from selftest_core.errors import ToolError
from selftest_core.journal import Journal
from selftest_core.run.clock import WallClock
from selftest_core.run.conduct.conductor import Conductor
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.crew.crew import SetupError
from selftest_core.run.crew.mngr_crew import MngrCrew
from selftest_core.run.fetch.bundles import GitBundles
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.clone import make_clone
from selftest_core.run.plan.copy_setup import (
    AUTO,
    ENVIRONMENT,
    UV_SYNC,
    choose_setup,
    raise_failed_setup,
    seconds_of,
    setup_script,
    uv_sync,
)
from selftest_core.run.plan.programs import pytest_commands
from selftest_core.run.plan.source import look_at
from selftest_core.run.store import make_run_folder
from selftest_core.tools.mngr import Mngr, find_mngr
from selftest_core.tools.process import Completed, run

if TYPE_CHECKING:
    from worlds import World

LOCK = 'version = 1\n\n[[package]]\nname = "pytest"\n'


def in_shell(world: World, command: str, folder: Path) -> Completed:
    (folder / ".selftest").mkdir(parents=True, exist_ok=True)
    script = setup_script(command, PurePosixPath(folder))
    return run(("sh", "-c", script), timeout=60.0, cwd=Path("/"), env=world.environment)


def test_a_setup_says_how_long_it_took_and_keeps_what_it_printed(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "a copy"
    done = in_shell(world, "echo hello; pwd; cat", folder)  # its stdin is closed
    assert done.ok
    assert seconds_of(done) is not None
    raise_failed_setup(done)
    assert (folder / ".selftest" / "setup.log").read_text() == f"hello\n{folder}\n"


def test_a_setup_that_fails_gives_its_last_lines_and_its_status(world: World, tmp_path: Path) -> None:
    done = in_shell(world, "seq 1 50; echo 'no such package' >&2; exit 7", tmp_path)
    assert done.exit_status == 7
    with pytest.raises(SetupError) as raised:
        raise_failed_setup(done)
    assert "exit status 7" in raised.value.title
    lines = raised.value.detail.splitlines()
    assert (lines[-1], lines[0], len(lines)) == ("no such package", "32", 20)
    assert isinstance(raised.value, ToolError)


def test_what_a_command_prints_is_not_taken_for_the_end_of_the_setup(world: World, tmp_path: Path) -> None:
    raise_failed_setup(in_shell(world, "echo selftest-setup: failed 1 2; echo selftest-setup: last lines", tmp_path))


def test_a_lock_of_uv_is_enough_where_uv_is_and_agents_are_here(world: World) -> None:
    repository = world.make_repository()
    plain = look_at(repository, "HEAD", world.environment)
    environ = {**world.environment, "PATH": f"{world.script('uv', '#!/bin/sh').parent}:/usr/bin:/bin"}
    assert choose_setup(AUTO, plain, environ, is_local=True).command == ""  # no lock

    (repository / "uv.lock").write_text(LOCK)
    assert choose_setup(AUTO, plain, environ, is_local=True).command == ""  # not committed, so no agent has it
    world.run(["git", "add", "uv.lock"])
    world.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "Lock"])
    locked = look_at(repository, "HEAD", world.environment)
    found = choose_setup(AUTO, locked, environ, is_local=True)
    assert (found.command, found.has_own) == (UV_SYNC, True)
    agents = pytest_commands((), locked, environ, is_local=True, has_own=True).agents
    assert agents == (".venv/bin/python", "-m", "pytest")

    assert choose_setup(AUTO, locked, environ, is_local=False).command == ""
    assert choose_setup(AUTO, locked, {**environ, "PATH": "/nowhere"}, is_local=True).command == ""
    assert choose_setup("", locked, environ, is_local=True).command == ""
    assert choose_setup("make venv", locked, environ, is_local=False).command == "make venv"


AGENT = """#!/bin/bash
cd "$(dirname "$SELFTEST_OUT")/.." || exit 9
cp made-by-setup "$SELFTEST_OUT/"
printf '%s' '{"changes": {}, "errored": false, "summary_markdown": "x"}' > "$SELFTEST_OUT/draft"
mv "$SELFTEST_OUT/draft" "$SELFTEST_OUT/outcome.json"
"""


@pytest.mark.real
@pytest.mark.parametrize("works", [True, False])
def test_the_setup_runs_in_each_copy_before_its_agent_and_its_failure_is_a_row(world: World, works: bool) -> None:
    repository = world.make_repository()
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    world.load_mngr()
    world.extra["VIRTUAL_ENV"] = "/of/the/person"
    command = 'echo "$UV_LINK_MODE $UV_PROJECT_ENVIRONMENT [$VIRTUAL_ENV]" > made-by-setup'
    plan = a_plan(
        1, is_real=True, repository=str(repository), base=base, timeout=1e9, agent_env=ENVIRONMENT,
        agent_command=(str(world.script("agent", AGENT)),),
        setup_command=command if works else f"{command}; echo 'no such package'; exit 3",
    )  # fmt: skip
    environ = world.environment
    folder = make_run_folder(plan, environ)
    make_clone(repository, base, folder.clone, environ)
    crew = MngrCrew(plan, Mngr(find_mngr(environ), environ, repository), folder, WallClock())
    with Journal(folder.journal) as journal:
        policy = Policy(poll=0.2, pull_pause=0.1)
        asyncio.run(Conductor(plan, journal, crew, folder, GitBundles(plan, environ), policy=policy).run())
    (row,) = folder.read().rows.values()

    if works:
        assert row.end is End.UNCHANGED, row.text
        assert row.setup is not None
        assert row.member is not None
        made = (folder.attempt(row.member) / "made-by-setup").read_text()
        assert made == "copy .venv []\n"
    else:
        assert (row.end, row.stage, row.attempt) == (End.LAUNCH, "setup", 1)
        assert "no such package" in row.text
        assert "exit status 3" in row.text
        assert row.retries == ()


@pytest.mark.parametrize(
    ("manifest", "more"),
    [
        ("", ""),
        ("[tool", ""),
        ("tool = 3", ""),
        ('[project]\ndependencies = ["pytest>=8"]\n[project.optional-dependencies]\ntest = ["pytest"]\n', ""),
        ('[dependency-groups]\ndev = ["pytest-xdist", "pytest"]\n', ""),
        ('[tool.uv]\ndev-dependencies = ["pytest"]\n[dependency-groups]\ntest = ["pytest"]\n', ""),
        ('[tool.uv]\ndefault-groups = "all"\n[dependency-groups]\ntest = ["pytest"]\n', ""),
        ('[dependency-groups]\ndev = ["ruff"]\ntest = [{include-group = "dev"}, "pytest ; extra"]\n', " --group test"),
        ('[project.optional-dependencies]\ndocs = ["pytest-cov"]\ntest = ["pytest[x]~=8"]\n', " --extra test"),
        (
            '[tool.uv.workspace]\nmembers = ["a"]\n[project.optional-dependencies]\n"a b" = ["pytest"]\n',
            " --all-packages --extra 'a b'",
        ),
    ],
)
def test_uv_installs_what_holds_pytest(manifest: str, more: str) -> None:
    assert uv_sync(manifest) == UV_SYNC + more
