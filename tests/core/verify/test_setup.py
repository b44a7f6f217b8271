"""Environments of slots: made by the project's set-up, kept apart for what branches bring, and never the user's."""

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

    def result(self, slot: Slot, tree: str, base: str = "") -> tuple[Result, str]:
        slot.lay(tree)
        failure = prepare(slot, self.testing, lambda: False, base)
        if failure is not None:
            return Result.NOT_RUN, failure.reason + failure.output
        assert slot.laid == tree
        run = run_tests(slot, ["test_it.py::test_version"], self.testing).runs["test_it.py::test_version"]
        return run.result, run.reason + run.output

    def made(self, slot: Slot, tree: str, base: str = "") -> tuple[Result, str, int]:
        """Run the test; returns its result, the tree that the environment was made from, and when that was."""
        result, said = self.result(slot, tree, base)
        assert result is not Result.NOT_RUN, said
        return result, slot.made_for[1], (slot.environment / ".venv" / "pyvenv.cfg").stat().st_mtime_ns


@pytest.fixture(params=ISOLATIONS, ids=lambda one: one.kind)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    return Project(tmp_path, request.param)


@pytest.fixture
def slot(tmp_path: Path, project: Project) -> Iterator[Slot]:
    git_dir = project.repository.folder / ".git"
    with ObjectStore.open(tmp_path / "engine.git", git_dir, os.environ) as store:
        yield slot_of(tmp_path, store.git)


def test_an_environment_is_of_its_own_tree_or_of_a_base_with_the_same_manifests(project: Project, slot: Slot) -> None:
    simple: dict[str, str | bytes | None] = {"install.sh": SCRIPT.replace("echo built > packages.cache\n", "")}
    base = project.commit(simple, 1)
    branch, other = (project.commit({"readme.txt": text}, 1) for text in "xy")
    newer, same = project.commit({}, 2), project.commit({}, 1)
    assert same == other
    found = [project.made(slot, tree, base) for tree in (branch, base, other)]
    assert {one[:2] for one in found} == {(Result.PASSED, base)}
    assert len({one[2] for one in found}) == 1  # made once
    assert slot.made == (".venv",)
    assert project.made(slot, newer, base)[:2] == (Result.FAILED, newer)
    # Where nobody knows the base, each has its own.
    assert [project.made(slot, tree)[1] for tree in (branch, other)] == [branch, other]
    # A tree that holds itself what would be put there has its own, too.
    git = project.repository.git
    git("update-index", "--add", "--cacheinfo", f"100644,{git('rev-parse', f'{branch}:readme.txt')},.venv/own.txt")
    holds = git("write-tree")
    assert project.made(slot, holds, base)[:2] == (Result.PASSED, holds)


def test_what_may_be_built_from_sources_is_of_its_own_tree(project: Project, slot: Slot) -> None:
    base = project.commit({}, 1)
    branch, other = (project.commit({"readme.txt": text}, 1) for text in "xy")
    found = [project.made(slot, tree, base) for tree in (branch, branch, other)]
    assert [one[:2] for one in found] == [(Result.PASSED, branch), (Result.PASSED, branch), (Result.PASSED, other)]
    assert found[0] == found[1]
    assert sorted(slot.made) == [".venv", "packages.cache"]


FORGED = """
echo "import sys; sys.modules['dependency'] = type(sys)('dependency'); sys.modules['dependency'].VERSION = 1" \
  > $site/forged.pth
echo forged >> $XDG_CACHE_HOME/wheel
"""


def test_nothing_that_a_branch_installs_reaches_another_tree(project: Project, slot: Slot) -> None:
    """The set-up runs a script that is no manifest, as a build backend in the tree is none; it writes everywhere."""
    script = SCRIPT.replace("echo built > packages.cache\n", "")
    script += "\ngrep -s forged $XDG_CACHE_HOME/wheel > $site/forged.txt || true\nexport site; sh ./backend.sh\n"
    base = project.commit({"install.sh": script, "backend.sh": ""}, 2)
    forger = project.commit({"backend.sh": FORGED}, 2)
    honest = project.commit({"backend.sh": "", "readme.txt": "x"}, 2)
    newer = project.commit({"backend.sh": "", "uv.lock": "other"}, 2)
    assert project.result(slot, forger)[0] is Result.PASSED  # so its own set-up does forge its own result
    forged = project.commit({"backend.sh": FORGED, "uv.lock": "another"}, 2)
    for tree in (forger, honest, base, forged, newer, forger):
        # What decides here is the base's environment, or a clean one.
        wanted = Result.PASSED if tree == forged else Result.FAILED
        assert project.result(slot, tree, base)[0] is wanted, tree
        assert bool(list((slot.environment / ".venv").rglob("forged.pth"))) is (tree == forged)
        assert not any(one.stat().st_size for one in (slot.environment / ".venv").rglob("forged.txt"))
    setup = project.environment.setup
    assert setup is not None
    assert (setup.packages / "runs").read_text() == "run\nrun\n"  # the base's alone
    assert not (setup.packages / "wheel").exists()
    assert not slot.packages.exists()


def test_a_set_up_has_what_the_bases_has_fetched(project: Project, slot: Slot) -> None:
    setup = project.environment.setup
    assert setup is not None
    base = project.commit({}, 1)
    project.result(slot, base, base)
    (setup.packages / "fetched").write_text("x")
    (setup.packages / "link").symlink_to(setup.packages / "fetched")
    asks = SCRIPT + "\ncat $XDG_CACHE_HOME/link $XDG_CACHE_HOME/runs > .venv/found\n"
    project.result(slot, project.commit({"install.sh": asks}, 1), base)
    assert (slot.environment / ".venv" / "found").read_text() == "xrun\nrun\n"


def test_a_set_up_that_leaves_much_beside_its_environment_says_so(project: Project, slot: Slot) -> None:
    asks = SCRIPT + "\nmkdir -p many && cd many && seq 1 3000 | xargs touch && cd .. && seq 1 3000 | xargs touch\n"
    result, said = project.result(slot, project.commit({"install.sh": asks}, 1))
    assert (result, "makes more than 200 files and folders among the project's own" in said) == (Result.NOT_RUN, True)


def test_no_link_that_a_set_up_makes_shows_what_it_leads_to(project: Project, slot: Slot, tmp_path: Path) -> None:
    if project.isolation.kind == "none":
        pytest.skip("nothing hides a file without isolation")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("planted")
    asks = f"{SCRIPT}\nln -s {tmp_path}/secret node_modules\n"
    reads = "import os\n\n\ndef test_version():\n    os.readlink('node_modules')\n    open('node_modules/key')\n"
    result, said = project.result(slot, project.commit({"install.sh": asks, "test_it.py": reads}, 1))
    assert (result, "FileNotFoundError" in said, "node_modules/key" in said) == (Result.FAILED, True, True)


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
