"""The environment that tests are run with: the interpreter, what it may read, and where the tested tree appears.

Isolated, the tree appears at the path of the user's checkout, and their virtual environment is mounted read-only
below it: an editable installation then imports the tested tree, not the user's files. Without isolation the tree
stays in its slot, and a module that comes from the checkout makes a result unknown. Where the project has a set-up,
each slot has an environment of its own instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.collect.collection import default_pytest_command
from selftest_core.errors import ToolFailedError, ToolMissingError
from selftest_core.frozen import dataclass
from selftest_core.paths import cache_folder
from selftest_core.run.plan.copy_setup import AUTO, OWN_PYTHON, UV_SYNC
from selftest_core.tools.process import run
from selftest_core.verify.sandbox import MAX_DISK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.config import Config
    from selftest_core.verify.sandbox import Isolation

_ABOUT = (
    "import sys;sys.path[:]=[one for one in sys.path if one];import json,sysconfig;"
    "print(json.dumps([sys.prefix,sys.base_prefix,getattr(sys,'_base_executable',sys.executable),sys.path,"
    "sys.version,sysconfig.get_platform(),sys.implementation.cache_tag]))"
)
_PASSED_ON = ("LANG", "LC_ALL", "TZ")
_CERTIFICATES = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
)  # fmt: skip
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
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
    used, read-only.
    """

    command: tuple[str, ...]
    digest: str
    readable: tuple[Path, ...]
    checkout: Path
    variables: tuple[tuple[str, str], ...]
    setup: Setup | None = None

    def words_at(self, place: Path) -> tuple[str, ...]:
        """Return the command for a tree that appears at `place`."""
        program, *rest = self.command
        return (str(place / program) if os.sep in program else program, *rest)


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


def find_testing(checkout: Path, config: Config, isolation: Isolation, environ: Mapping[str, str]) -> Testing:
    """Find the way to run the tests of a checkout, as the settings say. Raises ToolMissingError, ToolFailedError."""
    words = config.verify_command or config.pytest_command
    found = find_environment(checkout, words, config.env, isolation, environ, config.setup_command)
    more = tuple(path for name in config.verify_readable if (path := Path(name)).exists())
    readable = tuple(dict.fromkeys((*found.readable, *more, *_optional_programs(environ))))
    # What tests may reach decides their results.
    reach = json.dumps([found.digest, [str(path) for path in more], config.verify_network])
    digest = hashlib.sha256(reach.encode()).hexdigest()[:24]
    environment = replace(found, readable=readable, digest=digest)
    return Testing(environment, isolation, config.verify_timeout, config.verify_network)


def find_uv(environ: Mapping[str, str]) -> Path | None:
    """Return uv: on PATH, else beside our own Python, where the set-up of this program puts it."""
    found = shutil.which("uv", path=environ.get("PATH", ""))
    beside = Path(sys.executable).with_name("uv")
    return Path(found) if found is not None else beside if beside.is_file() else None


def choose_command(configured: str, checkout: Path, environ: Mapping[str, str]) -> str:
    """Return the command for the setting `setup_command`, "" for none. `auto`: uv, where it and uv.lock exist."""
    if configured != AUTO:
        return configured.strip()
    return UV_SYNC if (checkout / "uv.lock").is_file() and find_uv(environ) is not None else ""


def packages_folder(cache: Path, checkout: Path) -> Path:
    """Return the folder for package caches of one project: agents' code writes to it, so it is never the user's."""
    return cache / "verify-packages" / hashlib.sha256(str(checkout).encode()).hexdigest()[:16]


def find_environment(
    checkout: Path,
    command: Sequence[str],
    names: Sequence[str],
    isolation: Isolation,
    environ: Mapping[str, str],
    setup_command: str = "",
) -> Environment:
    """Find what runs the project's tests. `command`: pytest as settings give it, empty for the project's own.

    `names`: variables that tests get. `setup_command`: as the setting. Raises ToolMissingError, ToolFailedError.
    """
    setup = choose_command(setup_command, checkout, environ)
    if setup:
        return _set_up_environment(checkout, command, names, isolation, environ, setup)
    words = tuple(command) or default_pytest_command(checkout, environ)
    program = str(checkout / words[0]) if os.sep in words[0] else shutil.which(words[0], path=environ.get("PATH"))
    if program is None or not os.access(program, os.X_OK):
        raise ToolMissingError(f"{words[0]} is not installed", "It is to run the tests.", _HINT)
    python = _interpreter(Path(program))
    prefix, base_prefix, _, paths, *about = _ask(python or ["python3"], checkout, environ)
    # A shim, such as pyenv's, is a shell script that looks for the program: it may be hidden where the tests run.
    own = Path(prefix) / "bin" / Path(program).name
    words = (str(own) if not python and own.is_file() else program, *words[1:])
    variables = _passed_on(names, environ)
    parts = [words, about, prefix, sorted(variables), isolation.kind, _installed(Path(prefix))]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
    readable = (Path(prefix), Path(base_prefix), *_links_to(Path(words[0])), *_import_folders(paths, checkout))
    return Environment(words, digest, tuple(dict.fromkeys(readable)), checkout, variables)


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
    python = str(own) if own.exists() else shutil.which("python3", path=environ.get("PATH", ""))
    if python is None:
        raise ToolMissingError("python3 is not installed", f"`{setup_command}` is to make an environment of it.", _HINT)
    _, base_prefix, program, _, *about = _ask([python], checkout, environ)
    uv = find_uv(environ)
    programs = () if uv is None else (uv.resolve(),)
    network = tuple((name, environ[name]) for name in _CERTIFICATES if environ.get(name))
    certificates = tuple(path for _, value in network if (path := Path(value)).is_absolute() and path.exists())
    # Agents' code runs in a set-up: a password in the address of a proxy is not for it.
    proxies = (*_PROXIES, *(name.lower() for name in _PROXIES))
    network += tuple((name, environ[name]) for name in proxies if environ.get(name) and "@" not in environ[name])
    setup = Setup(setup_command, packages_folder(cache_folder(environ), checkout), programs, program, network)
    variables = _passed_on(names, environ)
    parts = [words, about, base_prefix, sorted(variables), isolation.kind, setup_command]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
    readable = tuple(dict.fromkeys((Path(base_prefix), *_links_to(Path(program)), *programs, *certificates)))
    return Environment(tuple(words), digest, readable, checkout, variables, setup)


def _links_to(program: Path) -> list[Path]:
    """List the links from an interpreter to the file that is run: each must be there, and may lie anywhere."""
    found: list[Path] = []
    while program.is_symlink() and program not in found:
        found.append(program)
        program = program.parent / program.readlink()
    return [*found, program] if found else []


def _import_folders(paths: Sequence[str], checkout: Path) -> list[Path]:
    """List the folders that an interpreter imports from, such as those of editable installations beside the checkout.

    What lies in the checkout comes from the tested tree.
    """
    folders = [Path(path) for path in paths if os.path.isabs(path)]  # noqa: PTH117 -- "" is the current folder
    return [
        one for one in folders if one.exists() and not one.is_relative_to(checkout) and not checkout.is_relative_to(one)
    ]


def _optional_programs(environ: Mapping[str, str]) -> list[Path]:
    """List the folders below /opt whose programs are on PATH."""
    folders = [Path(one) for one in environ.get("PATH", "").split(os.pathsep) if one.startswith("/opt/")]
    return list(dict.fromkeys(Path(*one.parts[:3]) for one in folders if len(one.parts) > 2 and one.exists()))


def _ask(python: Sequence[str], checkout: Path, environ: Mapping[str, str]) -> list[Any]:
    """Ask an interpreter for its prefix, those of the one that it is made of, its import folders, and its version."""
    done = run([*python, "-c", _ABOUT], timeout=60, cwd=checkout, env=dict(environ))
    try:
        found: list[Any] = json.loads(done.stdout)
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


def _installed(prefix: Path) -> list[str]:
    """List what is installed in an environment, by the names of its distributions, which hold their versions."""
    return sorted(path.name for path in prefix.glob("lib/python*/site-packages/*.dist-info"))
