"""The environment that tests are run with: the interpreter, what it may read, and where the tested tree appears.

Isolated, the tree appears at the path of the user's checkout, and their virtual environment is mounted read-only
below it: an editable installation then imports the tested tree, not the user's files. Without isolation the tree
stays in its slot, and a module that comes from the checkout makes a result unknown.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.collect.collection import default_pytest_command
from selftest_core.errors import ToolFailedError, ToolMissingError
from selftest_core.frozen import dataclass
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.verify.sandbox import Isolation

_ABOUT = (
    "import json,sys,sysconfig;"
    "print(json.dumps([sys.prefix,sys.base_prefix,sys.version,sysconfig.get_platform(),sys.implementation.cache_tag]))"
)
_PASSED_ON = ("LANG", "LC_ALL", "TZ")
_HINT = "Set `verify_command`, or `pytest_command`, to the interpreter that has the project's tests."


@dataclass(frozen=True, slots=True)
class Environment:
    """The interpreter and variables of tests of one project. `digest` names it in kept results.

    `readable`: folders outside of the tree that the interpreter needs. `checkout`: the user's work tree.
    """

    command: tuple[str, ...]
    digest: str
    readable: tuple[Path, ...]
    checkout: Path
    variables: tuple[tuple[str, str], ...]


def find_environment(
    checkout: Path, command: Sequence[str], names: Sequence[str], isolation: Isolation, environ: Mapping[str, str]
) -> Environment:
    """Find what runs the project's tests. `command`: pytest as settings give it, empty for the project's own.

    `names`: variables that tests get. Raises ToolMissingError, ToolFailedError.
    """
    words = tuple(command) or default_pytest_command(checkout, environ)
    program = str(checkout / words[0]) if os.sep in words[0] else shutil.which(words[0], path=environ.get("PATH"))
    if program is None or not os.access(program, os.X_OK):
        raise ToolMissingError(f"{words[0]} is not installed", "It is to run the tests.", _HINT)
    words = (program, *words[1:])
    done = run([*_interpreter(Path(program)), "-c", _ABOUT], timeout=60, cwd=checkout, env=dict(environ))
    try:
        prefix, base_prefix, *about = json.loads(done.stdout)
    except ValueError as error:
        raise ToolFailedError(f"{program} is no Python that runs", done.stderr_end, _HINT, argv=done.argv) from error
    variables = tuple((name, environ[name]) for name in dict.fromkeys((*_PASSED_ON, *names)) if name in environ)
    parts = [words, about, prefix, sorted(variables), isolation.kind, _installed(Path(prefix))]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
    return Environment(words, digest, tuple(dict.fromkeys((Path(prefix), Path(base_prefix)))), checkout, variables)


def _interpreter(program: Path) -> list[str]:
    """Return the Python of a program: itself, or what the first line of a console script names."""
    if program.name.startswith(("python", "pypy")):
        return [str(program)]
    with program.open("rb") as file:
        first = file.readline(4096)
    if first.startswith(b"#!") and b"python" in first:
        return shlex.split(first[2:].decode("utf-8", "replace"))
    return ["python3"]


def _installed(prefix: Path) -> list[str]:
    """List what is installed in an environment, by the names of its distributions, which hold their versions."""
    return sorted(path.name for path in prefix.glob("lib/python*/site-packages/*.dist-info"))
