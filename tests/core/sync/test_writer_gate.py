"""The gate of writers with the real git and the real pytest: tests are run, and run again without their command."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from core.run.rehearsals import a_plan
from core.verify.desks import PYTEST, SANDBOX
from selftest_core.config import Config
from selftest_core.demo.other_roles import WRITER, WRITTEN, WRITTEN_TESTS
from selftest_core.demo.sample import FILES
from selftest_core.demo.world import PLAIN_PYTEST
from selftest_core.errors import UsageError
from selftest_core.run.outcome.outcome_file import parse_outcome
from selftest_core.sync.gaps import find_gaps, task_of
from selftest_core.sync.preparation import check_base
from selftest_core.sync.snapshot import Paths, paths_within
from selftest_core.sync.writer_gate import WriterGate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.real

PATHS = Paths()
BLOCK = "# Add tea.\n./shop add tea"
HEAD = """\
import shutil
import subprocess

import pytest


def run(line):
    return subprocess.run(line, shell=True, capture_output=True, text=True)
"""
CITING = """

def test_{name}():
    '''
    Tutorial block:
        # Add tea.
        ./shop add tea
    '''
    {body}
"""
ADDS = "assert run('./shop add tea').stdout == 'tea\\n'"
REFUSES = "assert run('./shop add air').returncode == 2"
PROGRAM = "#!/bin/sh\ncase $2 in tea) echo tea;; *) exit 2;; esac\n"
OLD = 'def test_shop():\n    """\n    Tutorial block:\n        shop --version\n    """\n    assert True\n'


RUFF = """\
import subprocess
import sys
from pathlib import Path


def ruff(option):
    return subprocess.run([Path(sys.executable).with_name("ruff"), option], capture_output=True)


def test_version():
    '''Tutorial block:
    ruff --version
    '''
    assert ruff("--version").stdout.startswith(b"ruff ")


def test_nothing():
    '''Tutorial block:
    ruff --version
    '''
    assert ruff("--nothing").returncode == 2
"""
OUTCOME = parse_outcome(b'{"errored": false}')


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.make(tmp_path / "shop")
    (made.folder / "shop").touch(0o755)
    tutorial = f"#!/bin/sh\nset -eu\n\n{BLOCK}\n\nshop --version 2\n"
    made.commit("Start", {"tutorial.sh": tutorial, "shop": PROGRAM, "tests/test_old.py": OLD})
    return made


def refused(repository: Repository, number: int, verify: str = SANDBOX.kind, **tests: str) -> str:
    """Let the gate judge these test files, made for one of the gaps; nothing is left over."""
    folder = repository.folder
    environ = {
        **os.environ, "XDG_CACHE_HOME": str(folder.parent / "cache"), "HOME": str(folder.parent), PLAIN_PYTEST: "1"
    }  # fmt: skip
    base = repository.git("rev-parse", "main")
    check = check_base(folder, base, PATHS, environ)
    gap = find_gaps(check, PATHS)[number]
    task = task_of(gap, check, PATHS)
    plan = a_plan(1, repository=str(folder), base=base, verify_on_arrival=verify, role="writer")
    planned = replace(plan.tests[0], node_id=task.id, blocks=task.blocks, brief=task.brief, files=task.files)
    repository.git("checkout", "-q", "-b", "ada", "main")
    tip = repository.commit("[CREATE_TEST] Test tea", {f"tests/{name}.py": text for name, text in tests.items()})
    repository.git("checkout", "-q", "main")

    async def judge() -> str:
        gate = WriterGate(plan, Config(pytest_command=PYTEST, env=(PLAIN_PYTEST,), verify_jobs=1), environ)
        try:
            return await gate.judge(planned, folder, OUTCOME, tip)
        finally:
            await gate.close()

    said = asyncio.run(judge())
    assert not list((folder.parent / "cache").rglob("*-arrival"))
    assert repository.git("status", "--porcelain", "--", ".", ":!.selftest") == ""
    return said


def tea(**bodies: str) -> str:
    return HEAD + "".join(CITING.format(name=name, body=body) for name, body in bodies.items())


def test_tests_that_need_their_command_pass(repository: Repository) -> None:
    assert refused(repository, 0, test_tea=tea(adds=ADDS, refuses=REFUSES)) == ""


def test_what_passes_without_its_command_is_refused(repository: Repository) -> None:
    said = refused(
        repository,
        0,
        test_tea=tea(
            adds=ADDS,
            refuses=REFUSES,
            ends="assert run('./shop add tea').returncode == 0",
            calls_nothing="assert shutil.which('sh')",
            any_output="assert run('./shop add tea').stdout in ('tea\\n', '') and run('./shop').returncode in (1, 2)",
        ),
    )
    assert said.splitlines() == [
        "tests/test_tea.py::test_ends passes without the command: it does nothing",
        "tests/test_tea.py::test_calls_nothing passes without the command: it does nothing",
        "tests/test_tea.py::test_calls_nothing passes without the command: it does nothing and fails",
        "tests/test_tea.py::test_any_output passes without the command: it does nothing and fails",
    ]


def test_what_does_not_pass_is_refused_with_its_last_lines(repository: Repository) -> None:
    wrong = {"adds": ADDS.replace("tea\\n", "pot"), "refuses": "import of_nobody\n    assert run('x').returncode == 1"}
    said = refused(repository, 0, test_tea=tea(**wrong))
    assert "test_adds does not pass when we run it: it failed in 3 of 3 runs" in said
    assert "No module named 'of_nobody'" in said


def test_a_test_that_skips_itself_is_refused(repository: Repository) -> None:
    said = refused(repository, 0, test_tea=tea(adds=f"{ADDS}\n    pytest.skip('later')", refuses=REFUSES))
    assert said.splitlines()[0] == "tests/test_tea.py::test_adds is skipped or expected to fail: the test is skipped"


def test_the_demos_writer_passes_the_gate(tmp_path: Path) -> None:
    shop = Repository.make(tmp_path / "shop")
    (shop.folder / "acme").touch(0o755)
    shop.commit("The demo's shop", FILES)
    check = check_base(shop.folder, shop.git("rev-parse", "main"), PATHS, os.environ)
    assert [gap.id for gap in find_gaps(check, PATHS)] == [WRITER.test]
    assert refused(shop, 0, **{PurePosixPath(WRITTEN_TESTS).stem: WRITTEN}) == ""


def test_paths_are_those_of_the_repository() -> None:
    assert paths_within("./tutorial.sh", "tests/e2e/") == Paths("tutorial.sh", "tests/e2e")
    for outside in ("/etc/passwd", "../other", "tests/../.."):
        with pytest.raises(UsageError, match="is not a path within the repository"):
            paths_within("tutorial.sh", outside)


def test_the_tests_of_a_whole_repository(repository: Repository) -> None:
    check = check_base(repository.folder, "main", paths_within("tutorial.sh", "."), os.environ)
    assert [citation.test for citation in check.citations] == ["tests/test_old.py::test_shop"]


def test_a_large_file_is_refused_and_not_read(repository: Repository) -> None:
    large = tea(adds=ADDS, refuses=REFUSES) + "# more\n" * 700_000
    assert refused(repository, 0, test_tea=large) == "tests/test_tea.py is larger than 4 MiB"


@pytest.mark.skipif(not SANDBOX.is_isolated, reason="without a sandbox nothing can be mounted over a program")
def test_a_program_in_the_folder_of_the_environment_is_replaced_too(repository: Repository) -> None:
    repository.commit(
        "Another tutorial",
        {"tutorial.sh": "#!/bin/sh\n\nruff --version\n", "tests/test_old.py": "def test_shop(): ...\n"},
    )
    assert refused(repository, 0, test_ruff=RUFF) == ""


def test_without_runs_only_the_files_are_judged(repository: Repository) -> None:
    weak = tea(adds="assert True", refuses="assert run('./shop').returncode == 2")
    assert refused(repository, 0, verify="", test_tea=weak) == ""


def test_a_mended_test_is_refused_only_for_what_it_lost(repository: Repository) -> None:
    # It passed without its command before, which is not this agent's work. The program of the new one is on PATH alone.
    mended = OLD.replace("shop --version", "shop --version 2")
    absent = mended.replace("assert True", "import shutil\n    assert shutil.which('shop') is None")
    absent = absent.replace("test_shop", "test_unhappy_without_shop")
    assert refused(repository, 1, test_old=f"{mended}\n\n{absent}") == ""
