"""Setup of an agent's copy: the command that makes its environment before the agent begins.

An environment that copies share, or one of the person's own, may import the tested package from somewhere else than
the copy, so each copy makes its own. mngr runs the command on the agent's host while it makes the agent, and prints
what it prints: so how long it took, and its last lines where it failed, are read from there, also from far hosts.
"""

from __future__ import annotations

import re
import shlex
import shutil
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.git.command import Git
from selftest_core.run.crew.crew import SetupError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePosixPath

    from selftest_core.run.plan.source import Source
    from selftest_core.tools.process import Completed

AUTO = "auto"
"""The setting that leaves the command to us."""
UV_SYNC = "uv sync --frozen"
OWN_PYTHON = ".venv/bin/python"
"""The interpreter of a copy's own environment, relative to the copy."""
ENVIRONMENT = ("UV_LINK_MODE=copy", "UV_PROJECT_ENVIRONMENT=.venv", "VIRTUAL_ENV=")
"""For the setup and its agent: nothing but uv's cache is shared, and no environment of the person's is active."""
_LOG = ".selftest/setup.log"
_MARK = "selftest-setup:"
_DONE = re.compile(rf"^{_MARK} done (\d+)\s*$", re.MULTILINE)
_FAILED = re.compile(rf"^{_MARK} last lines\s*$(.*?)^{_MARK} failed (\d+) (\d+)\s*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Setup:
    """How copies are set up. `command`: for a shell, empty for none.

    `has_own`: a `.venv` with pytest comes of it, as the person has one, or as their lock says.
    """

    command: str = ""
    has_own: bool = False


def choose_setup(configured: str, source: Source, environ: Mapping[str, str], *, is_local: bool) -> Setup:
    """The setup for the setting `setup_command`. By itself a lock of uv is enough, where uv is and agents are here."""
    if configured != AUTO:
        command = configured.strip()
        return Setup(command, has_own=bool(command) and (source.place.top / OWN_PYTHON).exists())
    if not is_local or shutil.which("uv", path=environ.get("PATH", "")) is None:
        return Setup()
    git = Git(source.place.git_dir, environ)
    lock = git.run("cat-file", "blob", f"{source.base}:uv.lock")
    if not lock.ok:
        return Setup()
    return Setup(UV_SYNC, has_own=re.search(r'^name = "pytest"$', lock.stdout, re.MULTILINE) is not None)


def setup_script(command: str, folder: PurePosixPath) -> str:
    """Runs the command in the copy at `folder`; prints how long it took, or its last lines, and fails as it does."""
    return (
        f"cd {shlex.quote(str(folder))} || exit 1; begun=$(date +%s); "
        f"sh -c {shlex.quote(command)} > {_LOG} 2>&1 < /dev/null; status=$?; took=$(($(date +%s) - begun)); "
        f"if test $status = 0; then echo {_MARK} done $took; else echo {_MARK} last lines; "
        f"tail -n 20 {_LOG}; echo; echo {_MARK} failed $status $took; exit $status; fi"
    )


def seconds_of(done: Completed) -> float | None:
    """The seconds that the setup took, as `mngr create` printed them; None where there was none."""
    found = _DONE.search(done.stderr) or _DONE.search(done.stdout)
    return float(found[1]) if found is not None else None


def raise_failed_setup(done: Completed) -> None:
    """Raise SetupError, with the last lines of the command, where `mngr create` failed at the setup."""
    found = _FAILED.search(done.stderr) or _FAILED.search(done.stdout)
    if found is not None:
        raise SetupError(
            f"setup_command failed with exit status {found[2]} after {found[3]} s", found[1].strip(),
            "Mend the setting `setup_command`, or what it needs, in the base of the run.",
            argv=done.argv, exit_status=done.exit_status, stderr=done.stderr,
        )  # fmt: skip
