"""The environment that tests are run with: the interpreter, what it may read, and where the tested tree appears.

Isolated, the tree appears at the path of the user's checkout, and their virtual environment is mounted read-only
below it: an editable installation then imports the tested tree, not the user's files. Without isolation the tree
stays in its slot, and a module that comes from the checkout makes a result unknown. Where the project has a set-up,
each slot has an environment of its own instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.collect.project_python import OWN, ProjectPytest, find_program, find_pytest
from selftest_core.errors import ToolFailedError, ToolMissingError
from selftest_core.frozen import dataclass
from selftest_core.paths import cache_folder
from selftest_core.run.plan.copy_setup import AUTO, OWN_PYTHON, uv_sync
from selftest_core.tools.process import run
from selftest_core.verify.inside import interpreter
from selftest_core.verify.sandbox import MAX_DISK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.config import Config
    from selftest_core.verify.sandbox import Isolation

_PASSED_ON = ("LANG", "LC_ALL", "TZ")
_CERTIFICATES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
)  # fmt: skip
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
_BESIDE = re.compile(r'(?:editable|directory) = "(\.\./[^"\n]*)"')
_MOST_FILES = 20_000
"""Files of installed sources whose times are looked at."""
_HINT = "Set `verify_command`, or `pytest_command`, to the interpreter that has the project's tests."


@dataclass(frozen=True, slots=True)
class Setup:
    """The set-up of a project. `command`: for a shell. `packages`: the folder of its own package caches.

    `programs`: files that it needs outside of the tree, such as uv. `python`: the interpreter to make environments of.
    `variables`: how the network is reached.
    """

    command: str
    packages: Path
    programs: tuple[Path, ...]
    python: str
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Environment:
    """The interpreter and variables of tests of one project. `digest` names it in kept results.

    `command`: its first word may be a path relative to the tree. `readable`: folders outside of the tree that the
    interpreter needs. `checkout`: the user's work tree. `setup`: makes an environment in each slot; None: the user's is
    used, read-only. `name`: the interpreter and where it was found, for people; `warning`: what they must know of it.
    `own_folders`: folders of the environment in the checkout, which are not the project's. `sources`: folders of the
    checkout, relative to it, that the interpreter imports from by another way than the checkout's own path.
    """

    command: tuple[str, ...]
    digest: str
    readable: tuple[Path, ...]
    checkout: Path
    variables: tuple[tuple[str, str], ...]
    setup: Setup | None = None
    name: str = ""
    warning: str = ""
    own_folders: tuple[Path, ...] = ()
    sources: tuple[str, ...] = ()

    def words_at(self, place: Path) -> tuple[str, ...]:
        """Return the command for a tree that appears at `place`."""
        program, *rest = self.command
        return (str(place / program) if os.sep in program else program, *rest)

    def first_at(self, place: Path) -> list[str]:
        """List the folders of the tests' PYTHONPATH, for a tree that appears at `place`."""
        paths = [Path(one) for one in dict(self.variables).get("PYTHONPATH", "").split(os.pathsep) if one]
        inside = [one.relative_to(self.checkout) if one.is_relative_to(self.checkout) else one for one in paths]
        return [str(place / one) for one in inside]


@dataclass(frozen=True, slots=True)
class Testing:
    """The way to run the tests of one project. `timeout`: seconds that a process may take without ending a test.

    `disk`: bytes that a process may write below its slot, and the same again to /tmp where it is isolated. `replaced`:
    a folder of programs that tests find instead of those with the same names.
    """

    environment: Environment
    isolation: Isolation
    timeout: float = 600.0
    network: bool = False
    disk: int = MAX_DISK
    replaced: Path | None = None


def find_testing(
    checkout: Path,
    config: Config,
    isolation: Isolation,
    environ: Mapping[str, str],
    started_with: Sequence[str] = (),
) -> Testing:
    """Find the way to run the tests of a checkout, as the settings say. Raises ToolMissingError, ToolFailedError.

    `started_with`: the command that a run's tests were collected with, which goes before others that may be found.
    """
    words = config.verify_command or config.pytest_command
    found = find_environment(checkout, words, config.env, isolation, environ, config.setup_command, started_with)
    more = tuple(path for name in config.verify_readable if (path := Path(name)).exists())
    programs = (*_optional_programs(environ), *_named_programs(words, environ))
    readable = tuple(dict.fromkeys((*found.readable, *more, *programs)))
    # What tests may reach decides their results.
    reach = json.dumps([found.digest, [str(path) for path in more], config.verify_network])
    digest = hashlib.sha256(reach.encode()).hexdigest()[:24]
    environment = replace(found, readable=readable, digest=digest)
    return Testing(environment, isolation, config.verify_timeout, config.verify_network)


def find_uv(environ: Mapping[str, str], checkout: Path = Path("/")) -> Path | None:
    """Return uv: on PATH, else beside our own Python, where the set-up of this program puts it.

    A shim of pyenv is a script: where the tests run, it finds no pyenv.
    """
    found = find_program("uv", checkout, environ)
    if found is not None and found.parent.name != "shims":
        return found
    beside = Path(sys.executable).with_name("uv")
    return beside if beside.is_file() else None


def choose_command(configured: str, checkout: Path, environ: Mapping[str, str]) -> str:
    """Return the command for the setting `setup_command`, "" for none. `auto`: uv, where it and uv.lock exist."""
    if configured != AUTO:
        return configured.strip()
    if not (checkout / "uv.lock").is_file() or find_uv(environ, checkout) is None:
        return ""
    manifest = checkout / "pyproject.toml"
    return uv_sync(manifest.read_text(encoding="utf-8", errors="replace") if manifest.is_file() else "")


def packages_folder(cache: Path, checkout: Path) -> Path:
    """Return the folder for package caches of one project, never the user's: set-ups of bases alone write to it."""
    return cache / "verify-packages" / hashlib.sha256(f"{checkout} of bases".encode()).hexdigest()[:16]


def find_environment(
    checkout: Path,
    command: Sequence[str],
    names: Sequence[str],
    isolation: Isolation,
    environ: Mapping[str, str],
    setup_command: str = "",
    started_with: Sequence[str] = (),
) -> Environment:
    """Find what runs the project's tests. `command`: pytest as settings give it, empty for the project's own.

    `names`: variables that tests get. `setup_command`: as the setting. `started_with`: as for `find_testing`.
    Raises ToolMissingError, ToolFailedError.
    """
    setup = choose_command(setup_command, checkout, environ)
    if setup:
        return _set_up_environment(checkout, command, names, isolation, environ, setup)
    if command:
        chosen = ProjectPytest(tuple(command), "")
    elif started_with and os.access(checkout / started_with[0], os.X_OK):
        chosen = ProjectPytest(tuple(started_with), "with which the run was started")
    else:
        chosen = find_pytest(checkout, environ)
    words = chosen.command
    program = str(checkout / words[0]) if os.sep in words[0] else find_program(words[0], checkout, environ)
    if program is None or not os.access(program, os.X_OK):
        raise ToolMissingError(f"{words[0]} is not installed", "It is to run the tests.", _HINT)
    program = str(program)
    python = _interpreter(Path(program))
    about = _ask(python or ["python3"], checkout, environ)
    prefix, base_prefix = Path(about["prefix"]), Path(about["base_prefix"])
    # A shim, such as pyenv's, is a shell script that looks for the program: it may be hidden where the tests run.
    own = prefix / "bin" / Path(program).name
    words = (str(own) if not python and own.is_file() else program, *words[1:])
    variables = _passed_on(names, environ)
    outside, sources = _import_folders(about, checkout, Path(environ.get("HOME") or Path.home()))
    installed = [_installed(about["paths"]), _state_of(outside, (prefix, base_prefix))]
    parts = [words, about["version"], str(prefix), sorted(variables), isolation.kind, installed, sources]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
    readable = (prefix, base_prefix, *_links_to(Path(words[0])), *outside)
    origin = f", {chosen.origin}" if chosen.origin and chosen.origin != OWN else ""
    return Environment(
        words, digest, tuple(dict.fromkeys(readable)), checkout, variables,
        name=f"{words[0]} (Python {about['version'][0].split()[0]}{origin})", warning=chosen.warning,
        own_folders=tuple(one for one in dict.fromkeys((prefix, prefix.resolve())) if one.is_relative_to(checkout)),
        sources=sources,
    )  # fmt: skip


def _set_up_environment(
    checkout: Path,
    command: Sequence[str],
    names: Sequence[str],
    isolation: Isolation,
    environ: Mapping[str, str],
    setup_command: str,
) -> Environment:
    """The environment that a set-up makes in each slot, of the interpreter that the user's own is made of.

    Kept results need no digest of lock and manifest beside this one: both are part of the tree that they are kept for.
    """
    words = list(command) or [OWN_PYTHON, "-m", "pytest"]
    with contextlib.suppress(ValueError):
        words[0] = f"./{(checkout / words[0]).relative_to(checkout)}" if os.sep in words[0] else words[0]
    own = checkout / OWN_PYTHON
    uv = find_uv(environ, checkout)
    chosen = str(own) if own.exists() else _python_of_uv(uv, checkout, environ)
    python = chosen or shutil.which("python3", path=environ.get("PATH", ""))
    if python is None:
        raise ToolMissingError("python3 is not installed", f"`{setup_command}` is to make an environment of it.", _HINT)
    about = _ask([python], checkout, environ)
    base_prefix, program = about["base_prefix"], about["program"]
    programs = () if uv is None else (uv.resolve(),)
    network = tuple((name, environ[name]) for name in _CERTIFICATES if environ.get(name))
    certificates = tuple(path for _, value in network if (path := Path(value)).is_absolute() and path.exists())
    # Agents' code runs in a set-up: a password in the address of a proxy is not for it.
    proxies = (*_PROXIES, *(name.lower() for name in _PROXIES))
    network += tuple((name, environ[name]) for name in proxies if environ.get(name) and "@" not in environ[name])
    setup = Setup(setup_command, packages_folder(cache_folder(environ), checkout), programs, program, network)
    variables = _passed_on(names, environ)
    # Results of an environment that another branch had made do not count: its name says that this one is not.
    parts = ["of the base or its own", words, about["version"], base_prefix, sorted(variables)]
    parts += [isolation.kind, setup_command]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
    shown = (*_links_to(Path(program)), *programs, *certificates, *_path_dependencies(checkout))
    readable = tuple(dict.fromkeys((Path(base_prefix), *shown)))
    name = f"an environment made by `{setup_command}` (Python {about['version'][0].split()[0]})"
    return Environment(tuple(words), digest, readable, checkout, variables, setup, name)


def _python_of_uv(uv: Path | None, checkout: Path, environ: Mapping[str, str]) -> str:
    """Ask uv for the interpreter that it takes for the project: it may be one of its own. Empty without an answer."""
    if uv is None or not (checkout / "uv.lock").is_file():
        return ""
    argv = (str(uv), "python", "find", "--offline", "--no-python-downloads", "--project", str(checkout))
    done = run(argv, timeout=60, cwd=checkout, env=dict(environ))
    return done.stdout.strip() if done.ok else ""


def _links_to(program: Path) -> list[Path]:
    """List the links from an interpreter to the file that is run: each must be there, and may lie anywhere."""
    found: list[Path] = []
    while program.is_symlink() and program not in found:
        found.append(program)
        program = program.parent / program.readlink()
    return [*found, program] if found else []


def _import_folders(about: Mapping[str, Any], checkout: Path, home: Path) -> tuple[list[Path], tuple[str, ...]]:
    """List the folders that an interpreter imports from outside of the checkout, and the sources that lie in it.

    Outside are those of editable installations beside the checkout, but never what holds the checkout or the home. What
    lies in the checkout comes from the tested tree, where import finders and links lead to it, too.
    """
    real, prefix = checkout.resolve(), Path(about["prefix"]).resolve()
    outside: list[Path] = []
    sources: list[str] = []
    imported = [(Path(path), Path(path)) for path in about["paths"] if os.path.isabs(path)]  # noqa: PTH117
    imported += [(Path(path), Path(path).parent) for path in about["redirected"]]
    for path, folder in imported:
        target = path.resolve()
        if not path.exists() or target.is_relative_to(prefix):
            outside += [path] if path.exists() and not target.is_relative_to(real) else []
        elif target.is_relative_to(real):
            sources.append(str(folder.resolve().relative_to(real)))
        elif not any(one.is_relative_to(target) for one in (real, home.resolve())):
            outside.append(path)
    return list(dict.fromkeys(outside)), tuple(dict.fromkeys(sources))


def _path_dependencies(checkout: Path) -> list[Path]:
    """List the folders beside the checkout that its uv.lock names, as `../lib`."""
    lock = checkout / "uv.lock"
    found = _BESIDE.findall(lock.read_text(encoding="utf-8", errors="replace")) if lock.is_file() else []
    return [path for name in dict.fromkeys(found) if (path := Path(os.path.normpath(checkout / name))).is_dir()]


def _state_of(sources: Sequence[Path], installed: Sequence[Path]) -> str:
    """Name the state of sources that are no part of an environment, such as an editable sibling's."""
    lines: list[str] = []
    for source in sources:
        if any(source.is_relative_to(one) for one in installed):
            continue
        files = [source] if source.is_file() else source.rglob("*.py")
        for path in sorted(itertools.islice(files, _MOST_FILES)):
            with contextlib.suppress(OSError):  # gone meanwhile
                lines.append(f"{path}:{path.stat().st_size}:{path.stat().st_mtime_ns}")
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _optional_programs(environ: Mapping[str, str]) -> list[Path]:
    """List the folders below /opt whose programs are on PATH, and the installation of node, wherever it lies."""
    folders = [Path(one) for one in environ.get("PATH", "").split(os.pathsep) if one.startswith("/opt/")]
    found = [Path(*one.parts[:3]) for one in folders if len(one.parts) > 2 and one.exists()]
    node = shutil.which("node", path=environ.get("PATH", ""))
    for root in () if node is None else (Path(node).parent.parent, Path(node).resolve().parent.parent):
        found += [root] if (root / "lib" / "node_modules").is_dir() and not _is_system(root) else []
    return list(dict.fromkeys(found))


def _named_programs(words: Sequence[str], environ: Mapping[str, str]) -> list[Path]:
    """List the programs that a command of another runner than pytest names, in a line for a shell too."""
    if not any("{junit}" in word for word in words):
        return []
    names = dict.fromkeys(name for word in words for name in re.findall(r"[A-Za-z][\w.+-]*", word))
    paths = [Path(path) for name in names if (path := shutil.which(name, path=environ.get("PATH", ""))) is not None]
    return [one for path in paths if not _is_system(path) for one in (path, *_links_to(path))]


def _is_system(path: Path) -> bool:
    """True for what the sandbox shows anyway."""
    return path.resolve().is_relative_to("/usr") or len(path.parts) < 3


def _ask(python: Sequence[str], checkout: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """Ask an interpreter for its prefix, those of the one that it is made of, its import folders, and its version."""
    script = Path(interpreter.__file__).read_text(encoding="utf-8")
    # Nothing is imported from the checkout: it may have a json.py.
    words = f"import sys; sys.path[:] = [path for path in sys.path if path]; exec({script!r})"
    done = run([*python, "-c", words], timeout=60, cwd=checkout, env=dict(environ))
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        title = f"{python[0]} is no Python that runs"
        raise ToolFailedError(title, done.stderr_end, _HINT, argv=done.argv) from error
    return found


def _passed_on(names: Sequence[str], environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, environ[name]) for name in dict.fromkeys((*_PASSED_ON, *names)) if name in environ)


def _interpreter(program: Path) -> list[str]:
    """Return the Python of a program: itself, or what the first line of a console script names; else nothing."""
    if program.name.startswith(("python", "pypy")):
        return [str(program)]
    with program.open("rb") as file:
        first = file.readline(4096)
    if first.startswith(b"#!") and b"python" in first:
        return shlex.split(first[2:].decode("utf-8", "replace"))
    return []


def _installed(paths: Sequence[str]) -> list[str]:
    """List what is installed where an interpreter imports from, by names of distributions: these hold versions."""
    return sorted({path.name for folder in paths for path in Path(folder).glob("*.dist-info")})
