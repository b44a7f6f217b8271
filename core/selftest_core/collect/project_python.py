"""The pytest of a project: people keep environments in many places, which are looked into in one order.

    1. in the project: `.venv`, `venv`, `env`, `.pixi/envs/default`; `.venv` may be a link, or a file with a path
    2. active: VIRTUAL_ENV, CONDA_PREFIX (but not conda's base)
    3. of its tool, which a file of the project names: poetry, pipenv, hatch, pdm, conda; the tool is asked, and where
       it is not on PATH, its rule for names is followed
    4. in a folder below that has a manifest, where exactly one has an environment
    5. pytest on PATH, else that of pyenv's version which `.python-version` names

The first that has pytest is taken, else the first that is there: pytest is then told to be missing. Where there is
none, it is our own Python, which has nothing of the project: whoever uses it must say so.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.errors import ToolError
from selftest_core.frozen import dataclass
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ASKING = 30.0
_LARGEST = 1024 * 1024
_IN_PROJECT = (".venv", "venv", "env", ".pixi/envs/default")
_MANIFESTS = ("pyproject.toml", "setup.py", "setup.cfg")
_CONDAS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda")
_MANAGERS = ("pyenv", "mise", "asdf")
OWN = "our own Python"


@dataclass(frozen=True, slots=True)
class ProjectPytest:
    """The command of a project's pytest. `origin`: where it was found, such as "poetry".

    `warning`: what a person must know before its results are believed; empty where it is the project's.
    """

    command: tuple[str, ...]
    origin: str
    warning: str = ""


def find_pytest(project: Path, environ: Mapping[str, str]) -> ProjectPytest:
    """Find the pytest of a project. Asks its tools, which may take a second."""
    there: list[tuple[Path, str]] = []
    for prefix, origin in _environments(project, environ):
        if os.access(prefix / "bin" / "python", os.X_OK):
            there.append((prefix, origin))
            if _has_pytest(prefix):
                return _of_environment(prefix, origin)
    if not there or there[0][1] not in _IN_PROJECT:
        program = find_program("pytest", project, environ)
        if program is not None:
            return ProjectPytest((str(program),), "PATH")
        there += [(prefix, "pyenv") for prefix in _pyenv(project, environ) if _has_pytest(prefix)]
    if there:
        return _of_environment(*there[0])
    several = _below(project)
    names = ", ".join(str(one.relative_to(project)) for one in several[:4])
    warning = (
        f"no environment of the project was found, so {OWN} runs its tests, which has none of its packages: activate "
        "the project's environment, or set `verify_command`"
        + (f" to one of these: {names}" if names else ", such as `path/to/python -m pytest`")
    )
    return ProjectPytest((sys.executable, "-m", "pytest"), OWN, warning)


def _of_environment(prefix: Path, origin: str) -> ProjectPytest:
    return ProjectPytest((str(prefix / "bin" / "python"), "-m", "pytest"), origin)


def find_program(name: str, project: Path, environ: Mapping[str, str]) -> Path | None:
    """Return a program on PATH, seen through a shim: a script of pyenv, mise or asdf that looks for the program."""
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    if found is None:
        return None
    folder = Path(found).parent
    root = "pyenv" if str(folder.parent) == environ.get("PYENV_ROOT") else folder.parent.name.removeprefix(".")
    if folder.name == "shims" and root in _MANAGERS:
        answer = _asked((root, "which", name), project, environ)
        if answer and os.access(answer[0], os.X_OK):
            return Path(answer[0])
    return Path(found)


def _environments(project: Path, environ: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield the folders that may be the project's environment, each with its origin."""
    for name in _IN_PROJECT:
        folder = project / name
        if folder.is_file():
            folder = project / _text(folder).strip()
        yield folder, name
    if environ.get("VIRTUAL_ENV"):
        yield Path(environ["VIRTUAL_ENV"]), "the active environment"
    if environ.get("CONDA_PREFIX") and environ.get("CONDA_DEFAULT_ENV") != "base":
        yield Path(environ["CONDA_PREFIX"]), "the active environment of conda"
    manifest = _manifest(project)
    for tool, folders in (("poetry", _poetry), ("pipenv", _pipenv), ("hatch", _hatch)):
        yield from ((folder, tool) for folder in folders(project, manifest, environ))
    if (project / ".pdm-python").is_file():
        yield Path(_text(project / ".pdm-python").strip()).parent.parent, "pdm"
    yield from ((folder, "conda") for folder in _conda(project, environ))
    below = _below(project)
    if len(below) == 1:
        yield below[0], str(below[0].relative_to(project))


def _poetry(project: Path, manifest: Mapping[str, Any], environ: Mapping[str, str]) -> list[Path]:
    if "poetry" not in manifest.get("tool", {}) and not (project / "poetry.lock").is_file():
        return []
    answer = _asked(("poetry", "env", "info", "--path"), project, environ)
    if answer:
        return [Path(answer[-1])]
    about = manifest.get("project", {}).get("name") or manifest.get("tool", {}).get("poetry", {}).get("name", "")
    name = re.sub(r'[ $`!*@"\\\r\n\t]', "_", str(about).lower())[:42]
    key = _hash(os.path.realpath(project), 32)[:8]
    caches = _home(environ) / (".cache" if sys.platform != "darwin" else "Library/Caches") / "pypoetry"
    folder = Path(environ.get("POETRY_CACHE_DIR") or caches) / "virtualenvs"
    return _newest(Path(environ.get("POETRY_VIRTUALENVS_PATH") or folder), f"{name}-{key}-py*")


def _pipenv(project: Path, _manifest: Mapping[str, Any], environ: Mapping[str, str]) -> list[Path]:
    if not (project / "Pipfile").is_file():
        return []
    answer = _asked(("pipenv", "--venv"), project, environ)
    if answer:
        return [Path(answer[-1])]
    name = re.sub(r'[ &$`!*@"()\[\]\\\r\n\t]', "_", project.name)[:42]
    folder = Path(environ.get("WORKON_HOME") or _home(environ) / ".local" / "share" / "virtualenvs")
    return [folder / f"{name}-{_hash(str(project / 'Pipfile'), 6)}"]


def _hatch(project: Path, manifest: Mapping[str, Any], environ: Mapping[str, str]) -> list[Path]:
    if "envs" not in manifest.get("tool", {}).get("hatch", {}) and not (project / "hatch.toml").is_file():
        return []
    asked = (("hatch", "env", "find", name) for name in ("default", "hatch-test"))
    answers = [Path(line) for argv in asked for line in _asked(argv, project, environ)]
    kept = _data(environ) / "hatch" / "env" / "virtual"
    return answers or _newest(kept, f"*/{_hash(os.path.realpath(project), 32)[:8]}/*")


def _conda(project: Path, environ: Mapping[str, str]) -> list[Path]:
    text = _text(project / "environment.yml") or _text(project / "environment.yaml")
    found = re.search(r"""^name:\s*["']?([\w.-]+)""", text, re.MULTILINE)
    if found is None:
        return []
    home = _home(environ)
    known = [Path(line) for line in _text(home / ".conda" / "environments.txt").splitlines()]
    roots = [home / name for name in _CONDAS] + [Path("/opt/conda")]
    roots += [Path(environ["MAMBA_ROOT_PREFIX"])] if environ.get("MAMBA_ROOT_PREFIX") else []
    roots += [Path(environ["CONDA_EXE"]).parent.parent] if environ.get("CONDA_EXE") else []
    return [path for path in known if path.name == found[1]] + [root / "envs" / found[1] for root in roots]


def _pyenv(project: Path, environ: Mapping[str, str]) -> list[Path]:
    folder = Path(environ.get("PYENV_ROOT") or _home(environ) / ".pyenv") / "versions"
    names = [name for name in _text(project / ".python-version").split() if re.fullmatch(r"[\w.-]+", name)]
    return [path for name in names for path in (folder / name, *_newest(folder, f"{name}.*"))]


def _below(project: Path) -> list[Path]:
    """List the environments of packages below the project, such as those of a repository with several."""
    found = [
        path.parent / name
        for depth in ("*", "*/*")
        for manifest in _MANIFESTS
        for path in sorted(project.glob(f"{depth}/{manifest}"))
        for name in _IN_PROJECT[:2]
        if os.access(path.parent / name / "bin" / "python", os.X_OK) and not path.parent.name.startswith(".")
    ]
    return list(dict.fromkeys(found))


def _has_pytest(prefix: Path) -> bool:
    return any(next(prefix.glob(f"lib*/python*/site-packages/{name}"), None) for name in ("pytest", "pytest.py"))


def _asked(argv: tuple[str, ...], project: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the absolute paths, one a line, that a tool answers with; none where it is not there, or knows none."""
    program = shutil.which(argv[0], path=environ.get("PATH", os.defpath))
    if program is None:
        return []
    try:
        done = run((program, *argv[1:]), timeout=_ASKING, cwd=project, env=dict(environ))
    except ToolError:
        return []
    lines = [line.strip() for line in done.stdout.splitlines()]
    return [line for line in lines if line.startswith("/")] if done.ok else []


def _newest(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)


def _hash(text: str, size: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:size]).decode()


def _manifest(project: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(project / "pyproject.toml"))
    except ValueError:
        return {}


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home())


def _data(environ: Mapping[str, str]) -> Path:
    data = _home(environ) / (".local/share" if sys.platform != "darwin" else "Library/Application Support")
    return Path(environ.get("XDG_DATA_HOME") or data)


def _text(path: Path) -> str:
    """Read a small file; empty where it is none, or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size < _LARGEST else ""
    except OSError:
        return ""
