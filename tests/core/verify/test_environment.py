"""Environments of tests as people have them: what is found, what is shown, and what names kept results."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from core.verify.desks import PYTEST, SANDBOX, laid
from selftest_core.config import Config
from selftest_core.demo.world import PLAIN_PYTEST
from selftest_core.tools.process import run
from selftest_core.verify.environment import find_testing
from selftest_core.verify.runner import run_tests
from selftest_core.verify.verdicts import Result

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository beside which others may lie."""
    return Repository.make(tmp_path / "repository")


def config(*command: str, readable: tuple[str, ...] = (), network: bool = False) -> Config:
    """Settings that name what runs the tests."""
    # Our own plugin is installed editable, which a second environment that borrows our packages does not follow.
    return Config(
        pytest_command=command or PYTEST, verify_readable=readable, verify_network=network, setup_command="",
        env=(PLAIN_PYTEST,),
    )  # fmt: skip


def test_what_tests_may_reach_names_their_results(repository: Repository, tmp_path: Path) -> None:
    given = [config(), config(readable=(str(tmp_path),)), config(network=True)]
    found = [find_testing(repository.folder, one, SANDBOX, os.environ).environment.digest for one in given]
    assert len(set(found)) == 3
    assert found[0] == find_testing(repository.folder, config(), SANDBOX, os.environ).environment.digest


@pytest.mark.skipif(not SANDBOX.is_isolated, reason=f"no sandbox here: {SANDBOX.reason}")
def test_an_editable_sibling_and_a_linked_interpreter_are_found(repository: Repository, tmp_path: Path) -> None:
    sibling = tmp_path / "libcore" / "src"
    sibling.mkdir(parents=True)
    (sibling / "libcore.py").write_text("NAME = 'sibling'\n")
    (tmp_path / "libcore" / "secret").write_text("planted")
    # An interpreter behind a link in a folder of its own, as uv and pyenv have them.
    (tmp_path / "pythons").mkdir()
    (tmp_path / "pythons" / "python3").symlink_to(sys.executable)
    environment = repository.folder / "env"
    done = run([sys.executable, "-m", "venv", "--without-pip", environment], timeout=120, cwd=tmp_path)
    assert done.ok, done.stderr
    (environment / "bin" / "python").unlink()
    (environment / "bin" / "python").symlink_to(tmp_path / "pythons" / "python3")
    packages = next((environment / "lib").glob("python*/site-packages"))
    (packages / "siblings.pth").write_text(f"{sibling}\n{sysconfig.get_path('purelib')}\n")
    test = f"""
import libcore, os
def test_sibling(): assert libcore.NAME == "sibling"
def test_hidden(): assert not os.path.exists({str(tmp_path / "libcore" / "secret")!r})
"""
    environ = {**os.environ, PLAIN_PYTEST: "1"}
    with laid(tmp_path, repository, {"test_it.py": test}) as slot:
        testing = find_testing(repository.folder, config("env/bin/python", "-m", "pytest"), SANDBOX, environ)
        ran = run_tests(slot, ["test_it.py::test_sibling", "test_it.py::test_hidden"], testing)
    assert [one.result for one in ran.runs.values()] == [Result.PASSED, Result.PASSED], list(ran.runs.values())
