"""Environments of slots: made by the project's set-up, kept for trees alike, and never the user's."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from core.verify.desks import ISOLATIONS, NONE, laid, slot_of
from selftest_core.git.object_store import ObjectStore
from selftest_core.verify.commands.setup import prepare
from selftest_core.verify.environment import Testing as Way
from selftest_core.verify.environment import find_environment, find_uv
from selftest_core.verify.runner import run_tests
from selftest_core.verify.verdicts import Result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selftest_core.verify.sandbox import Isolation
    from selftest_core.verify.slots import Slot

# Not part of `make quick`: each test starts several processes of pytest.
pytestmark = pytest.mark.real

# Stands for an installer: it puts what the lock names where an environment has its packages, and needs no network.
INSTALL = """
set -e
echo built > packages.cache
python3 -m venv --without-pip .venv
site=$(.venv/bin/python -c "import sysconfig; print(sysconfig.get_paths()['purelib'])")
echo "import os, sys; os.environ['PYTEST_DISABLE_PLUGIN_AUTOLOAD'] = '1'; sys.path.append('PACKAGES')" > $site/tests.pth
cp deps.lock $site/dependency.py
echo run >> $XDG_CACHE_HOME/runs
test ! -e fails.txt || { echo cannot resolve; exit 7; }
"""
PACKAGES = Path(pytest.__file__).parents[1]
SCRIPT = INSTALL.replace("PACKAGES", str(PACKAGES))


class Project:
    """A project whose set-up is a script of its own."""

    def __init__(self, folder: Path, isolation: Isolation) -> None:
        self.repository = Repository.make(folder / "project")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.repository.folder / ".venv"], check=True)
        test = "import dependency\n\n\ndef test_version():\n    assert dependency.VERSION == 1\n"
        self.commit({"install.sh": SCRIPT, "test_it.py": test, ".gitignore": "packages.cache\n.venv\n"}, 1)
        environ = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        found = find_environment(self.repository.folder, (), (), isolation, environ, "sh ./install.sh")
        self.environment = replace(found, readable=(*found.readable, PACKAGES))
        self.testing = Way(self.environment, isolation)
        self.isolation = isolation

    def commit(self, files: dict[str, str | bytes | None], version: int) -> str:
        self.repository.commit("Change", {**files, "deps.lock": f"VERSION = {version}\n"})
        return self.repository.git("rev-parse", "HEAD^{tree}")

    @property
    def runs(self) -> int:
        """Count the runs of the set-up."""
        assert self.environment.setup is not None
        return len((self.environment.setup.packages / "runs").read_text().splitlines())

    def result(self, slot: Slot, tree: str) -> tuple[Result, str]:
        slot.lay(tree)
        failure = prepare(slot, self.testing, lambda: False)
        if failure is not None:
            return Result.NOT_RUN, failure.reason + failure.output
        run = run_tests(slot, ["test_it.py::test_version"], self.testing).runs["test_it.py::test_version"]
        return run.result, run.reason + run.output


@pytest.fixture(params=ISOLATIONS, ids=lambda one: one.kind)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    return Project(tmp_path, request.param)


@pytest.fixture
def slot(tmp_path: Path, project: Project) -> Iterator[Slot]:
    git_dir = project.repository.folder / ".git"
    with ObjectStore.open(tmp_path / "engine.git", git_dir, os.environ) as store:
        yield slot_of(tmp_path, store.git)


def test_each_lock_has_its_environment_and_equal_ones_share_it(project: Project, slot: Slot) -> None:
    one = project.commit({}, 1)
    other = project.commit({"readme.txt": "x"}, 1)
    newer = project.commit({}, 2)
    found = [(project.result(slot, tree)[0], project.runs) for tree in (one, other, newer, one)]
    # packages.cache is no environment: what may be built from sources is made for each tree.
    assert found == [(Result.PASSED, 1), (Result.PASSED, 2), (Result.FAILED, 3), (Result.PASSED, 4)]
    assert sorted(slot.made) == [".venv", "packages.cache"]
    simple = project.commit({"install.sh": SCRIPT.replace("echo built > packages.cache\n", "")}, 1)
    again = project.commit({"readme.txt": "y"}, 1)
    found = [(project.result(slot, tree)[0], project.runs) for tree in (simple, again, simple)]
    assert found == [(Result.PASSED, 5), (Result.PASSED, 5), (Result.PASSED, 5)]
    assert slot.made == (".venv",)


def test_a_set_up_that_fails_makes_its_tree_unknown_with_the_output(project: Project, slot: Slot) -> None:
    broken = project.commit({"fails.txt": ""}, 1)
    well = project.commit({"fails.txt": None}, 1)
    result, said = project.result(slot, broken)
    assert result is Result.NOT_RUN
    assert "`sh ./install.sh` ended with status 7" in said
    assert "cannot resolve" in said
    assert project.result(slot, well)[0] is Result.PASSED


def test_tests_cannot_write_to_a_kept_environment(project: Project, slot: Slot) -> None:
    if project.isolation.kind == "none":
        pytest.skip("nothing hinders a test without isolation")
    writes = "import dependency\n\n\ndef test_version():\n    open(dependency.__file__, 'a').write('x')\n"
    result, said = project.result(slot, project.commit({"test_it.py": writes}, 1))
    assert (result, "Read-only file system" in said) == (Result.FAILED, True)


@pytest.mark.skipif(find_uv(os.environ) is None, reason="uv is not installed")
@pytest.mark.parametrize("isolation", ISOLATIONS, ids=lambda one: one.kind)
def test_uv_makes_the_environment_of_a_lock(tmp_path: Path, isolation: Isolation) -> None:
    """A project without dependencies, so that no index is asked; its own package is what the tests are to import."""
    repository = Repository.make(tmp_path / "project")
    files = {
        "pyproject.toml": '[project]\nname = "thing"\nversion = "1"\nrequires-python = ">=3.9"\n',
        "uv.lock": 'version = 1\nrevision = 3\nrequires-python = ">=3.9"\n\n[[package]]\nname = "thing"\n'
        'version = "1"\nsource = { virtual = "." }\n',
        "conftest.py": "", ".gitignore": ".venv\n",
        "test_it.py": "import sys\n\n\ndef test_it():\n    assert sys.prefix.endswith('/.venv'), sys.prefix\n",
    }  # fmt: skip
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with laid(tmp_path, repository, files) as slot:
        found = find_environment(repository.folder, (), (), isolation, environ, "auto")
        assert found.setup is not None
        # Nothing is fetched in tests: pytest comes from the environment of this program.
        path = f"PYTHONPATH={slot.exchange / 'plugins'}:{PACKAGES}"
        words = ("/usr/bin/env", path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1", ".venv/bin/python", "-m", "pytest")
        testing = Way(replace(found, command=words, readable=(*found.readable, PACKAGES)), isolation)
        assert prepare(slot, testing, lambda: False) is None
        ran = run_tests(slot, ["test_it.py::test_it"], testing).runs["test_it.py::test_it"]
    assert (ran.result, slot.made) == (Result.PASSED, (".venv",)), ran


def test_what_the_setting_says_is_done(tmp_path: Path) -> None:
    repository = Repository.make(tmp_path / "project")
    repository.commit("Start", {"uv.lock": "", "a.py": ""})
    environ = dict(os.environ)
    words = (sys.executable, "-m", "pytest")
    never = find_environment(repository.folder, words, (), NONE, environ, "")
    always = find_environment(repository.folder, words, (), NONE, environ, "make environment")
    assert never.setup is None
    assert always.setup is not None
    assert (always.setup.command, always.digest != never.digest) == ("make environment", True)
    auto = find_environment(repository.folder, words, (), NONE, environ, "auto")
    assert (auto.setup is None) is (find_uv(environ) is None)


def test_a_shim_is_replaced_by_the_program_that_it_finds(tmp_path: Path) -> None:
    """As pyenv has them: shell scripts below the home, which the sandbox hides, and which need all of pyenv."""
    shims = tmp_path / "shims"
    shims.mkdir()
    for name in ("pytest", "python3"):
        (shims / name).write_text(f'#!/bin/sh\nexec {Path(sys.executable).with_name(name)} "$@"\n')
        (shims / name).chmod(0o755)
    environ = {**os.environ, "PATH": f"{shims}{os.pathsep}{os.environ['PATH']}"}
    (tmp_path / "project").mkdir()
    for command in ((), ("pytest",), (str(shims / "pytest"),)):
        found = find_environment(tmp_path / "project", command, (), NONE, environ)
        assert found.command[0] == str(Path(sys.prefix) / "bin" / "pytest")
