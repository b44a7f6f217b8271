"""The pytest of a project: each place where people keep an environment, and their order."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selftest_core.collect.project_python import OWN, find_program, find_pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

POETRY = '[tool.poetry]\nname = "My Shop"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


def environment(prefix: Path, *, has_pytest: bool = True) -> Path:
    """The parts of an environment that are looked at. Returns its Python."""
    packages = prefix / "lib" / "python3.12" / "site-packages"
    (packages / "pytest" if has_pytest else packages).mkdir(parents=True)
    return program(prefix / "bin" / "python")


def program(path: Path, text: str = "exit 1") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def environ_of(tmp_path: Path, **more: str) -> Mapping[str, str]:
    return {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin"), **more}


def found(project: Path, **more: str) -> tuple[str, str]:
    one = find_pytest(project, environ_of(project.parent, **more))
    return one.command[0], one.origin


@pytest.mark.parametrize("name", [".venv", "venv", "env", ".pixi/envs/default"])
def test_an_environment_in_the_project(project: Path, name: str) -> None:
    python = environment(project / name)
    assert found(project) == (str(python), name)


def test_an_environment_that_the_project_links_to_or_names(project: Path, tmp_path: Path) -> None:
    environment(tmp_path / "environments" / "shop")
    (project / ".venv").symlink_to(tmp_path / "environments" / "shop")
    assert found(project) == (str(project / ".venv/bin/python"), ".venv")
    (project / ".venv").unlink()
    (project / ".venv").write_text("../environments/shop\n")
    assert Path(found(project)[0]).resolve() == tmp_path / "environments/shop/bin/python"


def test_an_active_environment(project: Path, tmp_path: Path) -> None:
    python = str(environment(tmp_path / "active"))
    assert found(project, VIRTUAL_ENV=str(tmp_path / "active"))[0] == python
    assert found(project, CONDA_PREFIX=str(tmp_path / "active"), CONDA_DEFAULT_ENV="shop")[0] == python
    # The base of conda is active in each shell of many people: it says nothing of this project.
    assert found(project, CONDA_PREFIX=str(tmp_path / "active"), CONDA_DEFAULT_ENV="base")[1] == OWN
    own = str(environment(project / ".venv"))
    assert found(project, VIRTUAL_ENV=str(tmp_path / "active"))[0] == own


@pytest.mark.parametrize(
    ("tool", "files", "asked"),
    [
        ("poetry", {"pyproject.toml": POETRY}, "env info --path"),
        ("poetry", {"poetry.lock": ""}, "env info --path"),
        ("pipenv", {"Pipfile": ""}, "--venv"),
        ("hatch", {"pyproject.toml": "[tool.hatch.envs.default]\n"}, "env find default"),
        ("hatch", {"hatch.toml": ""}, "env find hatch-test"),
    ],
)
def test_the_environment_that_a_tool_names(project: Path, tool: str, files: dict[str, str], asked: str) -> None:
    """The tools are stand-ins, which answer the one question as the real ones do: with a path on a line."""
    python = environment(project.parent / "kept" / "shop")
    for name, text in files.items():
        (project / name).write_text(text)
    program(project.parent / "bin" / tool, f'test "$*" = "{asked}" || exit 1; echo {project.parent}/kept/shop')
    assert found(project) == (str(python), tool)
    for name in files:
        (project / name).unlink()
    assert found(project)[1] == OWN


def test_a_tool_that_is_not_on_path_has_rules_for_names(project: Path, tmp_path: Path) -> None:
    """The names are those that poetry 2.1 and pipenv 2025 gave for folders of these names."""
    from selftest_core.collect import project_python

    (project / "pyproject.toml").write_text(POETRY)
    hashed = project_python._hash(os.path.realpath(project), 32)[:8]
    python = environment(tmp_path / f".cache/pypoetry/virtualenvs/my_shop-{hashed}-py3.12")
    assert found(project) == (str(python), "poetry")
    (project / "pyproject.toml").unlink()
    (project / "Pipfile").touch()
    hashed = project_python._hash(str(project / "Pipfile"), 6)
    python = environment(tmp_path / f".local/share/virtualenvs/shop-{hashed}")
    assert found(project) == (str(python), "pipenv")


def test_environments_of_pdm_and_conda(project: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "miniconda3/envs/shop")
    (project / "environment.yml").write_text("name: shop\ndependencies: [pytest]\n")
    assert found(project) == (str(python), "conda")
    elsewhere = environment(tmp_path / "data" / "shop")
    (tmp_path / ".conda").mkdir()
    (tmp_path / ".conda" / "environments.txt").write_text(f"{tmp_path / 'data' / 'shop'}\n")
    assert found(project) == (str(elsewhere), "conda")
    python = environment(tmp_path / "pdms" / "shop")
    (project / ".pdm-python").write_text(str(python))
    assert found(project) == (str(python), "pdm")


def test_the_one_environment_of_a_package_below(project: Path) -> None:
    python = environment(project / "packages" / "cart" / ".venv")
    (project / "packages" / "cart" / "pyproject.toml").touch()
    assert found(project) == (str(python), "packages/cart/.venv")
    environment(project / "packages" / "tax" / ".venv")
    (project / "packages" / "tax" / "pyproject.toml").touch()
    one = find_pytest(project, environ_of(project.parent))
    assert one.command[0] == sys.executable
    assert "packages/cart/.venv, packages/tax/.venv" in one.warning


def test_pytest_on_path_and_a_version_of_pyenv(project: Path, tmp_path: Path) -> None:
    (project / ".python-version").write_text("3.12\n")
    python = environment(tmp_path / ".pyenv/versions/3.12.4")
    assert found(project) == (str(python), "pyenv")
    pytest_there = program(tmp_path / "bin" / "pytest")
    assert found(project) == (str(pytest_there), "PATH")


def test_a_shim_is_seen_through(project: Path, tmp_path: Path) -> None:
    real = program(tmp_path / ".pyenv/versions/3.12.4/bin/uv")
    shim = program(tmp_path / ".pyenv/shims/uv", "exec pyenv exec uv")
    environ = environ_of(tmp_path, PATH=f"{shim.parent}:{tmp_path / 'bin'}:{os.defpath}")
    assert find_program("uv", project, environ) == shim
    program(tmp_path / "bin" / "pyenv", f'test "$*" = "which uv" && echo {real}')
    assert find_program("uv", project, environ) == real


def test_an_environment_without_pytest_gives_way_but_to_our_own(project: Path, tmp_path: Path) -> None:
    bare = environment(project / ".venv", has_pytest=False)
    assert found(project) == (str(bare), ".venv")
    python = environment(project / "venv")
    assert found(project) == (str(python), "venv")


def test_our_own_python_is_never_taken_in_silence(project: Path) -> None:
    one = find_pytest(project, environ_of(project.parent))
    assert (one.command[0], one.origin) == (sys.executable, OWN)
    assert "no environment of the project was found" in one.warning
    assert "verify_command" in one.warning
    environment(project / ".venv")
    assert not find_pytest(project, environ_of(project.parent)).warning
