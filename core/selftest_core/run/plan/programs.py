"""The programs of a run: pytest for collecting and for the agents, and the command of command agents.

They are looked up once, so that a run does not depend on an agent's PATH: a program of this machine becomes an absolute
path, one of the repository stays relative to it, since each agent has its own copy.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from selftest_core.collect.project_python import find_pytest
from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git
from selftest_core.run.plan.copy_setup import OWN_PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from selftest_core.run.plan.source import Source

ELSEWHERE = ("python", "-m", "pytest")
"""pytest for agents on other machines, if nothing is set."""
_LARGEST = 64 * 1024


@dataclass(frozen=True, slots=True)
class PytestCommands:
    """The commands that collect tests here, and that agents run. `notes`: warnings for the user.

    `is_found`: the command that collects is of the project's own environment.
    """

    collecting: tuple[str, ...]
    agents: tuple[str, ...]
    notes: tuple[str, ...]
    is_found: bool = True


def pytest_commands(
    configured: tuple[str, ...], source: Source, environ: Mapping[str, str], *, is_local: bool, has_own: bool = False
) -> PytestCommands:
    """Choose the commands for `configured` (the setting `pytest_command`, empty for the project's own).

    `has_own`: the setup makes an environment in each copy, in `.venv`.
    """
    top = source.place.top
    if configured:
        here = configured
        if "/" in here[0] and not here[0].startswith("/") and not _is_in_base(here[0], source, environ):
            here = (str(top / here[0]), *here[1:])
        if has_own and here[0] == str(top / OWN_PYTHON):
            return PytestCommands(here, (OWN_PYTHON, *here[1:]), ())
        return PytestCommands(
            here, here if is_local else configured, _shared_files(here, top, environ) if is_local else ()
        )
    found = find_pytest(top, environ)
    here = found.command
    if has_own:
        return PytestCommands(here, (OWN_PYTHON, "-m", "pytest"), (), not found.warning)
    if is_local:
        warnings = (found.warning,) if found.warning else ()
        return PytestCommands(here, here, (*warnings, *_shared_files(here, top, environ)), not found.warning)
    command = shlex.join(ELSEWHERE)
    return PytestCommands(
        here,
        ELSEWHERE,
        (f"agents on other machines run tests with `{command}`: set pytest_command if that is wrong",),
        not found.warning,
    )


def agent_command(
    text: str | None, configured: tuple[str, ...], source: Source, environ: Mapping[str, str], cwd: Path,
    *, is_local: bool,
) -> tuple[str, ...]:  # fmt: skip
    """Parse the command of a command agent: `text`, relative to `cwd`, else the setting, relative to the top.

    Raises UsageError if local agents would need a program that does not exist here.
    """
    words = configured
    if text is not None:
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise UsageError(f"--agent-command cannot be read: {text!r:.80}", str(error)) from error
    if not words or not words[0]:
        raise UsageError("--agent-command names no program", "", "Name a script, such as --agent-command ./agent.sh.")
    first, top = words[0], source.place.top
    if "/" not in first:
        found = shutil.which(first, path=environ.get("PATH", "")) if is_local else first
        if found is None:
            raise UsageError(f"There is no program {first!r} on PATH", "", f"For a file here: ./{first}")
        return (str(Path(found).absolute()) if is_local else found, *words[1:])
    path = Path(os.path.normpath((cwd if text is not None else top) / Path(first).expanduser()))
    if is_local:
        if not path.is_file():
            raise UsageError(f"There is no script {path}", "", "Name an existing one with --agent-command SCRIPT.")
        if not os.access(path, os.X_OK):
            raise UsageError(f"{path} cannot be executed", "", f"`chmod +x {shlex.quote(str(path))}`")
        return (str(path), *words[1:])
    if path.is_relative_to(top):
        inside = path.relative_to(top).as_posix()
        if _is_in_base(inside, source, environ):
            return (f"./{inside}", *words[1:])
        if not first.startswith("/"):
            hint = "Commit it: agents on other machines only have committed files."
            raise UsageError(f"{inside} is not in the base, so agents on other machines do not have it", "", hint)
    return words


def _is_in_base(path: str, source: Source, environ: Mapping[str, str]) -> bool:
    inside = os.path.normpath(path)
    return Git(source.place.git_dir, environ).run("cat-file", "-e", f"{source.base}:{inside}").ok


def _shared_files(command: tuple[str, ...], top: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Warn if tests would import from the user's checkout instead of the agent's copy."""
    found = command[0] if command[0].startswith("/") else shutil.which(command[0], path=environ.get("PATH", ""))
    # `python -m` imports from the current folder first, which is the agent's copy.
    is_copy_first = command[1:2] == ("-m",)
    if found is not None:
        environment = Path(found).parent.parent
        for path in _installed_from(environment):
            if _is_within(path, top) and not (is_copy_first and path.resolve() == top.resolve()):
                return (
                    f"agents would test {path}, not their copy: {environment} has it installed as editable; make an "
                    "environment in each copy (setup_command), or choose another with pytest_command",
                )
    for entry in environ.get("PYTHONPATH", "").split(os.pathsep):
        if entry.startswith("/") and _is_within(Path(entry), top):
            return (f"agents would test {entry}, not their copy: PYTHONPATH names it; start without it",)
    return ()


def _is_within(path: Path, top: Path) -> bool:
    return top.resolve() in (path.resolve(), *path.resolve().parents)


def _installed_from(environment: Path) -> Iterator[Path]:
    """List the source folders of an environment's editable packages."""
    packages = "lib/python3*/site-packages"
    lines = (line for path in sorted(environment.glob(f"{packages}/*.pth")) for line in _lines(path))
    folders = [Path(line) for line in lines if line.startswith("/") and Path(line).is_dir()]
    yield from folders
    for path in sorted(environment.glob(f"{packages}/*.dist-info/direct_url.json")):
        try:
            said = json.loads("\n".join(_lines(path)))
            project = Path(unquote(urlsplit(said["url"]).path))
            is_editable = said["dir_info"]["editable"] is True
        except (ValueError, KeyError, TypeError):
            continue
        if is_editable and not any(_is_within(folder, project) for folder in folders):
            yield project / "src" if (project / "src").is_dir() else project


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > _LARGEST:
            return []
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
