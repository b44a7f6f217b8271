"""Environments of tests as people have them: what is found, what is shown, and what names kept results."""

from __future__ import annotations

import os
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from core.verify.desks import ISOLATIONS, NONE, PYTEST, SANDBOX, laid
from selftest_core.config import Config
from selftest_core.demo.world import PLAIN_PYTEST
from selftest_core.tools.process import run
from selftest_core.verify.environment import find_testing, find_uv
from selftest_core.verify.runner import run_tests
from selftest_core.verify.verdicts import Result

if TYPE_CHECKING:
    from selftest_core.verify.sandbox import Isolation


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
def test_link(): assert os.path.islink({str(tmp_path / "pythons" / "python3")!r})
def test_hidden(): assert not os.path.exists({str(tmp_path / "libcore" / "secret")!r})
"""
    environ = {**os.environ, PLAIN_PYTEST: "1"}
    with laid(tmp_path, repository, {"test_it.py": test}) as slot:
        testing = find_testing(repository.folder, config("env/bin/python", "-m", "pytest"), SANDBOX, environ)
        ran = run_tests(slot, [f"test_it.py::test_{name}" for name in ("sibling", "link", "hidden")], testing)
    assert [one.result for one in ran.runs.values()] == [Result.PASSED] * 3, list(ran.runs.values())


# As setuptools writes it for an editable installation whose sources are in no folder of their own.
FINDER = """
import sys
from importlib.util import spec_from_file_location
from pathlib import Path

MAPPING = {mapping!r}

class _EditableFinder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            return spec_from_file_location(name, Path(MAPPING[name], "__init__.py"))

def install():
    sys.meta_path.append(_EditableFinder)
"""


def make_environment(folder: Path, pth: str = "", mapping: dict[str, str] | None = None) -> Path:
    """An environment that borrows our pytest. `mapping`: what an import finder of it leads to."""
    done = run([sys.executable, "-m", "venv", "--without-pip", folder], timeout=120, cwd=folder.parent)
    assert done.ok, done.stderr
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "__editable___it_finder.py").write_text(FINDER.format(mapping=mapping or {}))
    (packages / "it.pth").write_text("import __editable___it_finder; __editable___it_finder.install()\n")
    (packages / "more.pth").write_text(f"{pth}\n{sysconfig.get_path('purelib')}\n")
    return folder


@pytest.mark.skipif(not SANDBOX.is_isolated, reason=f"no sandbox here: {SANDBOX.reason}")
def test_what_an_import_finder_leads_to_is_shown_and_the_tree_is_tested(repository: Repository, tmp_path: Path) -> None:
    sibling = tmp_path / "libcore"
    (sibling / "libcore").mkdir(parents=True)
    (sibling / "libcore" / "__init__.py").write_text("NAME = 'sibling'\n")
    (sibling / "secret").write_text("planted")
    mapping = {"libcore": str(sibling / "libcore"), "shop": str(repository.folder / "source" / "shop")}
    make_environment(repository.folder / "env", mapping=mapping)
    test = f"""
import libcore, os, shop
def test_both(): assert (libcore.NAME, shop.NAME) == ("sibling", "tree")
def test_hidden(): assert not os.path.exists({str(sibling / "secret")!r})
"""
    files: dict[str, str | bytes | None] = {"test_it.py": test, "source/shop/__init__.py": "NAME = 'tree'\n"}
    environ = {**os.environ, PLAIN_PYTEST: "1"}
    with laid(tmp_path, repository, files) as slot:
        (repository.folder / "source/shop/__init__.py").write_text("NAME = 'checkout'\n")
        testing = find_testing(repository.folder, config("env/bin/python", "-m", "pytest"), SANDBOX, environ)
        ran = run_tests(slot, ["test_it.py::test_both", "test_it.py::test_hidden"], testing)
    assert [one.result for one in ran.runs.values()] == [Result.PASSED, Result.PASSED], list(ran.runs.values())
    (sibling / "libcore" / "__init__.py").write_text("NAME = 'another'\n")
    again = find_testing(repository.folder, config("env/bin/python", "-m", "pytest"), SANDBOX, environ)
    assert again.environment.digest != testing.environment.digest


@pytest.mark.parametrize("way", ["pth", "finder"])
def test_without_a_sandbox_the_tree_is_tested_by_an_environment_in_the_checkout(
    repository: Repository, tmp_path: Path, way: str
) -> None:
    source = repository.folder / "src"
    mapping = {"shop": str(source / "shop")} if way == "finder" else None
    make_environment(repository.folder / ".venv", str(source) if way == "pth" else "", mapping)
    test = """
import os, subprocess, sys, shop
def test_shop(): assert shop.NAME == "tree"
def test_programs():
    assert subprocess.check_output([sys.executable, "-c", "import shop; print(shop.NAME)"]) == b"tree\\n"
"""
    files: dict[str, str | bytes | None] = {"test_it.py": test, "src/shop/__init__.py": "NAME = 'tree'\n"}
    environ = {**os.environ, PLAIN_PYTEST: "1"}
    with laid(tmp_path, repository, files) as slot:
        (source / "shop/__init__.py").write_text("NAME = 'checkout'\n")
        (source / "gone.py").touch()
        testing = find_testing(repository.folder, config(".venv/bin/python", "-m", "pytest"), NONE, environ)
        ran = run_tests(slot, ["test_it.py::test_shop", "test_it.py::test_programs"], testing)
        assert [one.result for one in ran.runs.values()] == [Result.PASSED, Result.PASSED], list(ran.runs.values())
        # What the tree does not have is imported from the checkout still, and then nothing counts.
        if way == "pth":
            (slot.tree_folder / "test_it.py").write_text("import gone\ndef test_shop(): pass\n")
            run_of = run_tests(slot, ["test_it.py::test_shop"], testing).runs["test_it.py::test_shop"]
            assert (run_of.result, "another tree was tested" in run_of.reason) == (Result.NOT_RUN, True), run_of


@pytest.mark.parametrize("isolation", ISOLATIONS, ids=lambda one: one.kind)
def test_pythonpath_of_the_settings_leads_to_the_tree(
    repository: Repository, tmp_path: Path, isolation: Isolation
) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "helping.py").touch()
    path = os.pathsep.join((str(repository.folder / "src"), "lib", str(tmp_path / "plugins")))
    environ = {**os.environ, PLAIN_PYTEST: "1", "PYTHONPATH": path}
    test = "import helping, lib_one, shop\ndef test_it(): assert shop.NAME == 'tree'\n"
    files = {"test_it.py": test, "src/shop.py": "NAME = 'tree'\n", "lib/lib_one.py": "", "src/pytest.py": "1 / 0\n"}
    with laid(tmp_path, repository, files) as slot:
        (repository.folder / "src/shop.py").write_text("NAME = 'checkout'\n")
        given = replace(config(), env=(PLAIN_PYTEST, "PYTHONPATH"))
        testing = find_testing(repository.folder, given, isolation, {**environ, "PYTHONPATH": path})
        ran = run_tests(slot, ["test_it.py::test_it"], testing).runs["test_it.py::test_it"]
    assert ran.result is Result.PASSED, ran


def test_neither_the_home_nor_what_holds_it_is_shown(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "home" / "ann").mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "home")
    homes = (tmp_path / "home" / "ann", tmp_path / "home", tmp_path / "linked", tmp_path / "linked" / "ann")
    environ = {**os.environ, "HOME": str(homes[0]), "PYTHONPATH": os.pathsep.join(map(str, homes))}
    readable = find_testing(repository.folder, config(), SANDBOX, environ).environment.readable
    assert not {one.resolve() for one in homes} & {one.resolve() for one in readable}


def test_the_environment_that_a_run_was_started_with_is_used_while_it_is_there(
    repository: Repository, tmp_path: Path
) -> None:
    started = make_environment(tmp_path / "started") / "bin" / "python"
    make_environment(repository.folder / ".venv")
    automatic = Config(setup_command="")
    words = (str(started), "-m", "pytest")
    found = find_testing(repository.folder, automatic, NONE, os.environ, words).environment
    assert (found.command, str(started) in found.name) == (words, True)
    named = find_testing(repository.folder, config(), NONE, os.environ, words).environment
    assert named.command == PYTEST
    # An environment of its own for each slot is not left for that of the run.
    made = find_testing(
        repository.folder, replace(automatic, setup_command="make"), NONE, os.environ, words
    ).environment
    assert (made.setup is not None, made.command[0]) == (True, "./.venv/bin/python")
    started.unlink()
    found = find_testing(repository.folder, automatic, NONE, os.environ, words).environment
    assert found.command[0] == str(repository.folder / ".venv/bin/python")
    assert (found.name.endswith(", .venv)"), found.warning) == (True, "")


def test_node_and_programs_of_another_runner_are_shown_below_the_home(repository: Repository, tmp_path: Path) -> None:
    node, go = tmp_path / ".nvm" / "versions" / "node" / "v20", tmp_path / "go" / "bin"
    for program in (node / "bin" / "node", go / "go-junit-report", go / "other"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(mode=0o755)
    environ = {**os.environ, "PATH": f"{node / 'bin'}:{go}:{os.environ['PATH']}"}
    words = ("sh", "-c", "go test -v ./... | go-junit-report > {junit}")
    readable = find_testing(repository.folder, config(*words), SANDBOX, environ).environment.readable
    assert (go / "go-junit-report" in readable, go / "other" in readable, go in readable) == (True, False, False)
    assert node not in readable
    (node / "lib" / "node_modules").mkdir(parents=True)
    assert node in find_testing(repository.folder, config(), SANDBOX, environ).environment.readable


def test_a_shim_of_uv_is_not_taken_for_uv(tmp_path: Path) -> None:
    shims = tmp_path / ".pyenv" / "shims"
    shims.mkdir(parents=True)
    (shims / "uv").write_text("#!/bin/sh\nexec pyenv exec uv\n")
    (shims / "uv").chmod(0o755)
    beside = Path(sys.executable).with_name("uv")
    assert find_uv({"PATH": str(shims)}) == (beside if beside.is_file() else None)
