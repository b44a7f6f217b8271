"""The setup of an agent's copy: a command that makes its environment before the agent starts.

A shared environment may import the tested package from outside the copy, so each copy makes its own. mngr runs the
command on the agent's host while it makes the agent, and prints its output: its duration, and its last lines where it
failed, are parsed from there, also for remote hosts.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from typing import TYPE_CHECKING, Any

from selftest_core.frozen import dataclass
from selftest_core.git.command import Git
from selftest_core.run.crew.crew import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import PurePosixPath

    from selftest_core.run.plan.source import Source
    from selftest_core.tools.process import Completed

AUTO = "auto"
"""The value of the setting that chooses the command automatically."""
UV_SYNC = "uv sync --frozen"
OWN_PYTHON = ".venv/bin/python"
"""The interpreter of a copy's own environment, relative to the copy."""
ENVIRONMENT = ("UV_LINK_MODE=copy", "UV_PROJECT_ENVIRONMENT=.venv", "VIRTUAL_ENV=")
"""Variables of the setup and the agent: they share only uv's cache, and use no environment of the user."""
_PYTEST = re.compile(r"pytest\s*($|[\[=<>!~;@ ])", re.IGNORECASE)
_LOG = ".selftest/setup.log"
_MARK = "selftest-setup:"
_DONE = re.compile(rf"^{_MARK} done (\d+)\s*$", re.MULTILINE)
_FAILED = re.compile(rf"^{_MARK} last lines\s*$(.*?)^{_MARK} failed (\d+) (\d+)\s*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Setup:
    """The setup of copies. `command`: for a shell, empty for none.

    `has_own`: it makes a `.venv` with pytest, as far as the user's own `.venv` or their lock file tells.
    """

    command: str = ""
    has_own: bool = False


def choose_setup(configured: str, source: Source, environ: Mapping[str, str], *, is_local: bool) -> Setup:
    """Choose the setup for the setting `setup_command`. `auto`: `uv sync` for local agents, if uv and uv.lock exist."""
    if configured != AUTO:
        command = configured.strip()
        return Setup(command, has_own=bool(command) and (source.place.top / OWN_PYTHON).exists())
    if not is_local or shutil.which("uv", path=environ.get("PATH", "")) is None:
        return Setup()
    git = Git(source.place.git_dir, environ)
    lock = git.run("cat-file", "blob", f"{source.base}:uv.lock")
    if not lock.ok:
        return Setup()
    manifest = git.run("cat-file", "blob", f"{source.base}:pyproject.toml")
    command = uv_sync(manifest.stdout if manifest.ok else "")
    return Setup(command, has_own=re.search(r'^name = "pytest"$', lock.stdout, re.MULTILINE) is not None)


def uv_sync(manifest: str) -> str:
    """Make the command for uv that installs pytest too. `manifest`: the text of pyproject.toml.

    pytest may be in an extra, or in a group that is none of uv's default ones. A workspace's members have their own.
    """
    try:
        said: dict[str, Any] = tomllib.loads(manifest)
        uv, project = said.get("tool", {}).get("uv", {}), said.get("project", {})
        defaults = uv.get("default-groups", ["dev"])
        groups = [name for name, needs in said.get("dependency-groups", {}).items() if _has_pytest(needs)]
        extras = [name for name, needs in project.get("optional-dependencies", {}).items() if _has_pytest(needs)]
        is_default = _has_pytest((*project.get("dependencies", ()), *uv.get("dev-dependencies", ())))
        is_default = is_default or (bool(groups) and defaults == "all") or any(name in defaults for name in groups)
        members = ["--all-packages"] if "workspace" in uv else []
    except (ValueError, AttributeError, TypeError):  # no manifest that uv would take either
        return UV_SYNC
    flags = [f"--group {shlex.quote(name)}" for name in groups] + [f"--extra {shlex.quote(name)}" for name in extras]
    return " ".join((UV_SYNC, *members, *([] if is_default else flags[:1])))


def _has_pytest(requirements: Iterable[object]) -> bool:
    return any(isinstance(one, str) and _PYTEST.match(one) for one in requirements)


def setup_script(command: str, folder: PurePosixPath) -> str:
    """Make the script that runs the command in the copy at `folder`, and prints its duration or its last lines."""
    return (
        f"cd {shlex.quote(str(folder))} || exit 1; begun=$(date +%s); "
        f"sh -c {shlex.quote(command)} > {_LOG} 2>&1 < /dev/null; status=$?; took=$(($(date +%s) - begun)); "
        f"if test $status = 0; then echo {_MARK} done $took; else echo {_MARK} last lines; "
        f"tail -n 20 {_LOG}; echo; echo {_MARK} failed $status $took; exit $status; fi"
    )


def seconds_of(done: Completed) -> float | None:
    """Parse the duration of the setup from the output of `mngr create`; None if there was no setup."""
    found = _DONE.search(done.stderr) or _DONE.search(done.stdout)
    return float(found[1]) if found is not None else None


def raise_failed_setup(done: Completed) -> None:
    """Raise SetupError with the last lines of the command if `mngr create` failed at the setup."""
    found = _FAILED.search(done.stderr) or _FAILED.search(done.stdout)
    if found is not None:
        raise SetupError(
            f"setup_command failed with exit status {found[2]} after {found[3]} s", found[1].strip(),
            "Fix the setting `setup_command`, or what it needs in the base of the run.",
            argv=done.argv, exit_status=done.exit_status, stderr=done.stderr,
        )  # fmt: skip
