"""The programs that a person names for a run: what collects and runs the tests, and what a command agent runs.

A word is looked up here, once, so that a run never depends on where a shell of an agent would look: what is on this
machine becomes an absolute path, what is in the repository stays relative to it, since each agent has its own copy.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from selftest_core.collect.collection import default_pytest_command
from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git
from selftest_core.run.plan.copy_setup import OWN_PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from selftest_core.run.plan.source import Source

ELSEWHERE = ("python", "-m", "pytest")
"""What agents on other machines are told where nothing is set."""
_LARGEST = 64 * 1024


@dataclass(frozen=True, slots=True)
class PytestCommands:
    """How tests are collected here, and how agents run theirs. `notes`: what a person should know of it."""

    collecting: tuple[str, ...]
    agents: tuple[str, ...]
    notes: tuple[str, ...]


def pytest_commands(
    configured: tuple[str, ...], source: Source, environ: Mapping[str, str], *, is_local: bool, has_own: bool = False
) -> PytestCommands:
    """The commands for `configured` (the setting `pytest_command`, empty for the project's own).

    `has_own`: the setup gives each copy an environment of its own, in `.venv`.
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
    here = default_pytest_command(top, environ)
    if has_own:
        return PytestCommands(here, (OWN_PYTHON, "-m", "pytest"), ())
    if is_local:
        return PytestCommands(here, here, _shared_files(here, top, environ))
    command = shlex.join(ELSEWHERE)
    return PytestCommands(
        here,
        ELSEWHERE,
        (f"agents elsewhere are told to run tests by `{command}`: set pytest_command where that is wrong",),
    )


def agent_command(
    text: str | None, configured: tuple[str, ...], source: Source, environ: Mapping[str, str], cwd: Path,
    *, is_local: bool,
) -> tuple[str, ...]:  # fmt: skip
    """What a command agent runs: `text` as a shell reads it, relative to `cwd`, else the setting, relative to the top.

    Raises UsageError where there is no such program here and agents would need it here.
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
            raise UsageError(f"There is no script {path}", "", "Name one that is there with --agent-command SCRIPT.")
        if not os.access(path, os.X_OK):
            raise UsageError(f"{path} cannot be executed", "", f"`chmod +x {shlex.quote(str(path))}`")
        return (str(path), *words[1:])
    if path.is_relative_to(top):
        inside = path.relative_to(top).as_posix()
        if _is_in_base(inside, source, environ):
            return (f"./{inside}", *words[1:])
        if not first.startswith("/"):
            hint = "Commit it: agents elsewhere have what is committed, and nothing else."
            raise UsageError(f"{inside} is not in the base, so agents elsewhere do not have it", "", hint)
    return words


def _is_in_base(path: str, source: Source, environ: Mapping[str, str]) -> bool:
    inside = os.path.normpath(path)
    return Git(source.place.git_dir, environ).run("cat-file", "-e", f"{source.base}:{inside}").ok


def _shared_files(command: tuple[str, ...], top: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """A warning where the tests would import from the person's own checkout: agents change copies of it."""
    found = command[0] if command[0].startswith("/") else shutil.which(command[0], path=environ.get("PATH", ""))
    # `python -m` looks into the folder that it is started in first, and that is the agent's copy.
    is_copy_first = command[1:2] == ("-m",)
    if found is not None:
        environment = Path(found).parent.parent
        for path in _installed_from(environment):
            if _is_within(path, top) and not (is_copy_first and path.resolve() == top.resolve()):
                return (
                    f"agents would test {path}, not their copy: {environment} has it installed as editable; give each "
                    "copy an environment of its own (setup_command), or name another by pytest_command",
                )
    for entry in environ.get("PYTHONPATH", "").split(os.pathsep):
        if entry.startswith("/") and _is_within(Path(entry), top):
            return (f"agents would test {entry}, not their copy: PYTHONPATH names it; start without it",)
    return ()


def _is_within(path: Path, top: Path) -> bool:
    return top.resolve() in (path.resolve(), *path.resolve().parents)


def _installed_from(environment: Path) -> Iterator[Path]:
    """The folders of source code that an environment imports editable packages from."""
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
