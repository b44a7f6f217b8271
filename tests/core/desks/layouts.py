"""Desks as people have them: where the environment lies, how the project is installed in it, and what is active.

Every desk has the same small project and three branches: ada mends what she was started for, bob does too and breaks
another's test, cat says that she did. A test imports a package that only the project's environment has, so that no
other Python can pass it. Where a tool such as poetry is not installed, the folder that it would make is made for it, by
the names that the real one gave; `stand_in` says so.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from core.review.repositories import Repository
from run_scenes import a_plan
from selftest_core.config import load_config
from selftest_core.git.command import Git
from selftest_core.review.apply_decisions import apply_decisions
from selftest_core.review.changes.plan import make_plan, resolve_branches
from selftest_core.review.decisions import Decisions
from selftest_core.review.engine import Engine
from selftest_core.review.evidence import Evidence
from selftest_core.run.plan.plan import plan_json
from selftest_core.tools.process import run
from selftest_core.verify.environment import find_uv
from selftest_core.verify.review_verifier import ReviewVerifier
from selftest_core.verify.verification import Mark

if TYPE_CHECKING:
    from collections.abc import Callable

BORROWED = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
"""Distributions that are copied from our own environment: nothing is fetched."""
FINDER = """\
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_file_location
from pathlib import Path

MAPPING = {mapping!r}


class _EditableFinder:
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        if fullname in MAPPING:
            init = Path(MAPPING[fullname], "__init__.py")
            return spec_from_file_location(fullname, init)
        return None


def install():
    sys.meta_path.append(_EditableFinder)
"""
"""What setuptools 64 and later write for an editable installation, but for namespaces."""
TEST = "import desk_dependency\nfrom shop.{name} import f\n\n\ndef test_{name}():\n    assert f() == 1\n"
NAMES = ("total", "tax", "count", "price")


@dataclass
class Desk:
    """One desk. `folder`: all that it has. `home` may be a link. `expected`: empty, or what its unknowns say.

    `source`: the folder of the project's package, relative to the repository. `more`: files of the base.
    """

    folder: Path
    home: Path = field(init=False)
    top: Path = field(init=False)
    environ: dict[str, str] = field(init=False)
    source: str = "src"
    settings: dict[str, str] = field(default_factory=lambda: {"setup_command": ""})
    more: dict[str, str | bytes | None] = field(default_factory=dict)
    expected: str = ""
    started_with: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.home = self.folder / "home"
        self.home.mkdir(mode=0o700)
        self.top = self.home / "shop"
        self.environ = {
            "HOME": str(self.home), "PATH": f"{self.home}/bin:/usr/local/bin:/usr/bin:/bin", "USER": "ann",
            "XDG_CACHE_HOME": str(self.home / ".cache"), "LANG": "C.UTF-8",
        }  # fmt: skip

    def environment(self, prefix: Path, *sources: Path, mapping: dict[str, Path] | None = None) -> Path:
        """Make an environment with pytest. `sources`: editable by .pth; `mapping`: editable by an import finder."""
        make_environment(prefix)
        packages = next((prefix / "lib").glob("python*/site-packages"))
        (packages / "desk_dependency.py").touch()
        if sources:
            (packages / "__editable__.shop-1.pth").write_text("".join(f"{one}\n" for one in sources))
        if mapping:
            text = FINDER.format(mapping={name: str(path) for name, path in mapping.items()})
            (packages / "__editable___shop_1_finder.py").write_text(text)
            line = "import __editable___shop_1_finder; __editable___shop_1_finder.install()"
            (packages / "__editable__.shop-1.pth").write_text(line)
        return prefix

    def program(self, name: str, text: str) -> Path:
        """Put a script on PATH."""
        path = self.home / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    def sibling(self) -> Path:
        """A library beside the repository, that the project needs. Returns the folder of its package's folder."""
        package = self.home / "libcore" / "src" / "libcore"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("ONE = 1\n")
        self.more["tests/test_price.py"] = TEST.format(name="price") + "\n\nimport libcore\n"
        return package.parent


def make_environment(prefix: Path, python: str = sys.executable) -> None:
    """Make an environment of an interpreter, with a copy of our pytest."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    done = run((python, "-m", "venv", "--without-pip", prefix), timeout=120, cwd=prefix.parent)
    assert done.ok, done.stderr
    packages = next((prefix / "lib").glob("python*/site-packages"))
    for file in _files():
        target = packages / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(str(file.locate()), target)
    script = prefix / "bin" / "pytest"
    script.write_text(f"#!{prefix}/bin/python\nimport sys\nfrom pytest import console_main\nsys.exit(console_main())\n")
    script.chmod(0o755)


def _files() -> list[importlib.metadata.PackagePath]:
    found = [file for name in BORROWED for file in importlib.metadata.files(name) or ()]
    return [file for file in found if ".." not in file.parts and file.suffix != ".pyc"]


def make_wheel(name: str, folder: Path) -> Path:
    """Make the wheel of a distribution that is installed here, from its files."""
    about = importlib.metadata.distribution(name)
    path = folder / f"{name}-{about.version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for file in about.files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                archive.write(str(file.locate()), str(file))
    return path


type Lay = Callable[[Desk], None]
LAYOUTS: dict[str, tuple[Lay, str]] = {}
"""The function that lays a desk, and what stands for what in it, by name."""


def layout(name: str, stand_in: str = "") -> Callable[[Lay], Lay]:
    """Add a layout."""

    def add(lay: Lay) -> Lay:
        LAYOUTS[name] = (lay, stand_in)
        return lay

    return add


@layout(".venv, editable by .pth")
def _(desk: Desk) -> None:
    desk.environment(desk.top / ".venv", desk.top / "src")


@layout(".venv, editable by an import finder", "the finder as setuptools writes it")
def _(desk: Desk) -> None:
    desk.environment(desk.top / ".venv", mapping={"shop": desk.top / "src" / "shop"})


@layout("venv/, not active")
def _(desk: Desk) -> None:
    desk.environment(desk.top / "venv", desk.top / "src")


@layout(".venv is a link")
def _(desk: Desk) -> None:
    desk.environment(desk.home / "environments" / "shop", desk.top / "src")
    desk.top.mkdir()
    (desk.top / ".venv").symlink_to(desk.home / "environments" / "shop")


@layout("flat layout, not installed")
def _(desk: Desk) -> None:
    desk.source = "."
    desk.environment(desk.top / ".venv")


@layout("active, elsewhere in the home")
def _(desk: Desk) -> None:
    desk.environ["VIRTUAL_ENV"] = str(desk.environment(desk.home / "environments" / "any", desk.top / "src"))


@layout("started with one that is not active now")
def _(desk: Desk) -> None:
    python = desk.environment(desk.home / "environments" / "any", desk.top / "src") / "bin" / "python"
    desk.started_with = (str(python), "-m", "pytest")


@layout("none of the project's to be found")
def _(desk: Desk) -> None:
    desk.environment(desk.home / "environments" / "any", desk.top / "src")
    desk.expected = "verify_command"


@layout("named by verify_command")
def _(desk: Desk) -> None:
    python = desk.environment(desk.home / "environments" / "any", desk.top / "src") / "bin" / "python"
    desk.settings["verify_command"] = f"{python} -m pytest"


@layout("poetry in ~/.cache, poetry on PATH", "a script answers `poetry env info --path`")
def _(desk: Desk) -> None:
    prefix = desk.environment(desk.home / ".cache" / "pypoetry" / "virtualenvs" / "it", desk.top / "src")
    desk.more["poetry.lock"] = ""
    desk.program("poetry", f'test "$*" = "env info --path" && echo {prefix}')


@layout("poetry in ~/.cache, without poetry", "the folder is named as poetry 2.5 does")
def _(desk: Desk) -> None:
    desk.more["pyproject.toml"] = '[tool.poetry]\nname = "shop"\nversion = "1"\n'
    name = f"shop-{_hash(str(desk.top), 32)[:8]}-py3.12"
    desk.environment(desk.home / ".cache" / "pypoetry" / "virtualenvs" / name, desk.top / "src")


@layout("pipenv, without pipenv", "the folder is named as pipenv 2026 does")
def _(desk: Desk) -> None:
    desk.more["Pipfile"] = ""
    name = f"shop-{_hash(f'{desk.top}/Pipfile', 6)}"
    desk.environment(desk.home / ".local" / "share" / "virtualenvs" / name, desk.top / "src")


@layout("hatch, without hatch", "the folder is named as hatch 1.18 does")
def _(desk: Desk) -> None:
    desk.more["pyproject.toml"] = '[project]\nname = "shop"\nversion = "1"\n[tool.hatch.envs.default]\n'
    folder = desk.home / ".local" / "share" / "hatch" / "env" / "virtual" / "shop" / _hash(str(desk.top), 32)[:8]
    desk.environment(folder / "shop", desk.top / "src")


@layout("conda by environment.yml, not active", "a venv where conda would have it, in environments.txt")
def _(desk: Desk) -> None:
    desk.more["environment.yml"] = "name: shop-dev\n"
    prefix = desk.environment(desk.home / "miniconda3" / "envs" / "shop-dev", desk.top / "src")
    (desk.home / ".conda").mkdir()
    (desk.home / ".conda" / "environments.txt").write_text(f"{prefix}\n")


@layout("pyenv, pytest by a shim", "a script answers `pyenv which`, a venv is the version")
def _(desk: Desk) -> None:
    root = desk.home / ".pyenv"
    desk.environment(root / "versions" / "3.12.4", desk.top / "src")
    desk.program("pyenv", f'test "$1" = which && echo {root}/versions/3.12.4/bin/$2')
    (root / "shims").mkdir()
    shutil.copyfile(desk.program("shim", 'exec pyenv exec "${0##*/}" "$@"'), root / "shims" / "pytest")
    (root / "shims" / "pytest").chmod(0o755)
    desk.environ["PATH"] = f"{root / 'shims'}:{desk.environ['PATH']}"
    desk.more["conftest.py"] = ""


@layout("pyenv's version, no shims on PATH", "a venv is the version")
def _(desk: Desk) -> None:
    desk.environment(desk.home / ".pyenv" / "versions" / "3.12.4", desk.top / "src")
    desk.more[".python-version"] = "3.12\n"


@layout("an interpreter behind links, as uv has them")
def _(desk: Desk) -> None:
    (desk.home / "pythons" / "cpython-3.12" / "bin").mkdir(parents=True)
    link = desk.home / "pythons" / "cpython-3.12" / "bin" / "python3"
    link.symlink_to(sys.executable)
    python = desk.environment(desk.top / ".venv", desk.top / "src") / "bin" / "python"
    python.unlink()
    python.symlink_to(link)


@layout("a sibling, editable by .pth")
def _(desk: Desk) -> None:
    desk.environment(desk.top / ".venv", desk.top / "src", desk.sibling())


@layout("a sibling, editable by an import finder", "the finder as setuptools writes it")
def _(desk: Desk) -> None:
    mapping = {"shop": desk.top / "src" / "shop", "libcore": desk.sibling() / "libcore"}
    desk.environment(desk.top / ".venv", mapping=mapping)


@layout("the environment of a package below")
def _(desk: Desk) -> None:
    desk.source = "packages/cart/src"
    desk.more["packages/cart/pyproject.toml"] = ""
    desk.environment(desk.top / "packages" / "cart" / ".venv", desk.top / desk.source)


@layout("a workspace, two packages in one .venv")
def _(desk: Desk) -> None:
    desk.source = "packages/cart/src"
    desk.more["packages/base/src/libcore/__init__.py"] = ""
    desk.more["tests/test_price.py"] = TEST.format(name="price") + "\n\nimport libcore\n"
    desk.environment(desk.top / ".venv", desk.top / desk.source, desk.top / "packages/base/src")


@layout("the home is a link")
def _(desk: Desk) -> None:
    desk.home.rename(desk.folder / "data")
    desk.home.symlink_to(desk.folder / "data")
    desk.environment(desk.top / ".venv", desk.top / "src")


@layout("spaces and umlauts")
def _(desk: Desk) -> None:
    desk.top = desk.home / "mein Läden" / "shop"
    desk.environment(desk.top / ".venv", desk.top / "src")


@layout("PYTHONPATH of the settings")
def _(desk: Desk) -> None:
    desk.environment(desk.top / ".venv")
    desk.environ["PYTHONPATH"] = str(desk.top / "src")
    desk.settings["env"] = "PYTHONPATH"


@layout("no sandbox, .venv editable by .pth")
def _(desk: Desk) -> None:
    desk.environment(desk.top / ".venv", desk.top / "src")
    desk.settings["verify_isolation"] = "none"


@layout("no sandbox, .venv editable by an import finder", "the finder as setuptools writes it")
def _(desk: Desk) -> None:
    desk.environment(desk.top / ".venv", mapping={"shop": desk.top / "src" / "shop"})
    desk.settings["verify_isolation"] = "none"


def _with_uv(desk: Desk, more: str = "") -> None:
    """A project of uv whose pytest is in an extra, of wheels that it brings along; uv is found by a shim.

    `more`: a library beside the repository.
    """
    wheels = {name: make_wheel(name, desk.top / "wheels") for name in BORROWED}
    sources = [f'{name} = {{ path = "wheels/{path.name}" }}' for name, path in wheels.items()]
    sources += [f'{more} = {{ path = "../{more}", editable = true }}'] if more else []
    build = '[build-system]\nrequires = ["uv_build>=0.9,<1"]\nbuild-backend = "uv_build"\n'
    only_here = f"[tool.uv]\nenvironments = [\"sys_platform == '{sys.platform}'\"]"
    about = '[project]\nname = "{}"\nversion = "1"\nrequires-python = ">=3.12"\ndependencies = {}\n'
    tested = f"[project.optional-dependencies]\ntest = {json.dumps(BORROWED)}\n"
    manifest = about.format("shop", json.dumps([more] if more else []))
    desk.more["pyproject.toml"] = "\n".join((manifest, tested, build, only_here, "[tool.uv.sources]", *sources, ""))
    desk.more["src/desk_dependency.py"] = ""
    if more:
        (desk.sibling().parent / "pyproject.toml").write_text(about.format(more, []) + build)
    desk.settings["setup_command"] = "auto"
    # Not the first python3 on PATH: uv knows better than that which one the project takes.
    own = desk.home / "bin" / f"python3.{sys.version_info.minor}"
    own.parent.mkdir(exist_ok=True)
    own.symlink_to(getattr(sys, "_base_executable", sys.executable))
    shims = desk.home / ".pyenv" / "shims"
    shims.mkdir(parents=True)
    desk.program("uv", "exec pyenv exec uv").rename(shims / "uv")
    desk.environ["PATH"] = f"{shims}:{desk.environ['PATH']}"


@layout("uv.lock with ../libcore", "uv is found by a shim of pyenv without pyenv")
def _(desk: Desk) -> None:
    _with_uv(desk, "libcore")


@layout("uv.lock, pytest in an extra, uv by a shim", "the shim of pyenv is without pyenv")
def _(desk: Desk) -> None:
    _with_uv(desk)


def _hash(text: str, size: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:size]).decode()


def make_repository(desk: Desk) -> None:
    """Make the repository, with the base and the three branches."""
    held = desk.folder / "held"
    if desk.top.exists():
        desk.top.rename(held)
    repository = Repository.make(desk.top)
    for path in held.iterdir() if held.exists() else ():
        path.rename(desk.top / path.name)
    files: dict[str, str | bytes | None] = {f"{desk.source}/shop/__init__.py": "", ".gitignore": ".venv\nvenv\n"}
    for name in NAMES:
        files[f"{desk.source}/shop/{name}.py"] = f"def f():\n    return {int(name == 'price')}\n"
        files[f"tests/test_{name}.py"] = TEST.format(name=name)
    repository.commit("Base", files | desk.more)
    if desk.settings["setup_command"] == "auto":
        uv = find_uv(os.environ)
        assert uv is not None
        environ = {**desk.environ, "UV_PYTHON": sys.executable}
        done = run((str(uv), "lock", "--offline", "--quiet"), timeout=120, cwd=desk.top, env=environ)
        assert done.ok, done.stderr
        repository.commit("Lock", {})
    fixed, still, broken = (f"def f():\n    return {value}\n" for value in (1, 2, 3))
    branches = {"ada": {"total": fixed}, "bob": {"tax": fixed, "price": broken}, "cat": {"count": still}}
    for branch, changes in branches.items():
        repository.git("switch", "-q", "-c", branch, "main")
        changed: dict[str, str | bytes | None] = {
            f"{desk.source}/shop/{name}.py": text for name, text in changes.items()
        }
        repository.commit(f"[FIX_IMPL] Mend {next(iter(changes))}", changed)
    repository.git("switch", "-q", "main")


EVIDENCE = {
    agent: Evidence(tests=((f"tests/test_{name}.py::test_{name}", True),))
    for agent, name in (("ada", "total"), ("bob", "tax"), ("cat", "count"))
}


@dataclass(frozen=True)
class Judged:
    """A desk that was tried. `verdicts`: of ada, bob, cat, each with its marks; `said`: reasons, warning, name."""

    verdicts: tuple[str, ...]
    said: str


RIGHT = ("passed", "failed culprit", "failed liar")
UNKNOWN = ("unknown", "unknown", "unknown")


def judge(desk: Desk) -> Judged:
    """Verify the three branches on the desk."""
    make_repository(desk)
    top = Path(os.path.realpath(desk.top))
    home = desk.folder / "review"
    home.mkdir()
    if desk.started_with:
        plan = a_plan(1, repository=str(top), started_with=desk.started_with)
        (home / "plan.json").write_text(json.dumps(plan_json(plan)))
    config = load_config(top, desk.environ, desk.settings)
    targets = resolve_branches(Git(top / ".git", desk.environ), "main", tuple(EVIDENCE))
    with (
        Engine.open(desk.folder / "engine.git", top / ".git", desk.environ) as engine,
        ReviewVerifier.open(engine, top, home, config, desk.environ, 1) as verifier,
    ):
        plan_of_review = make_plan(engine.store, targets)
        reviewed = apply_decisions(engine, plan_of_review, Decisions())
        verification = verifier.verify(reviewed, EVIDENCE, targets.branches)
    said = [verifier.environment.name, verifier.environment.warning]
    verdicts = {}
    for change in plan_of_review.changes:
        one = verification.items[change.oid]
        marks = [str(mark) for mark in one.marks if mark in (Mark.LIAR, Mark.CULPRIT)]
        verdicts[change.agents[0]] = " ".join((str(one.verified), *marks))
        said += [
            one.reason,
            *(line for test in one.tests for run in test.runs[:1] for line in (run.reason, run.output[-600:])),
        ]
    return Judged(tuple(verdicts[agent] for agent in EVIDENCE), "\n".join(dict.fromkeys(filter(None, said))))
