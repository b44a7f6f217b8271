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

from selftest_core.collection import default_pytest_command
from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.tools.git import Git

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from selftest_core.run.source import Source

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
    configured: tuple[str, ...], source: Source, environ: Mapping[str, str], *, is_local: bool
) -> PytestCommands:
    """The commands for `configured` (the setting `pytest_command`, empty for the project's own)."""
    top = source.place.top
    if configured:
        here = configured
        if "/" in here[0] and not here[0].startswith("/") and not _is_in_base(here[0], source, environ):
            here = (str(top / here[0]), *here[1:])
        return PytestCommands(here, here if is_local else configured, _shared_files(here, top) if is_local else ())
    here = default_pytest_command(top, environ)
    if is_local:
        return PytestCommands(here, here, _shared_files(here, top))
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


def _shared_files(command: tuple[str, ...], top: Path) -> tuple[str, ...]:
    """A warning where the interpreter has the person's own checkout installed: agents change copies of it."""
    if not command[0].startswith("/"):
        return ()
    environment = Path(command[0]).parent.parent
    for name in _installed_from(environment):
        if Path(name) == top or top.resolve() in (Path(name), *Path(name).parents):
            return (
                f"{environment} has this checkout installed as editable: tests that import it from there see your "
                "files, not an agent's copy; pytest_command can name another environment",
            )
    return ()


def _installed_from(environment: Path) -> Iterator[str]:
    """The folders that packages of an environment are installed from as editable."""
    for path in sorted(environment.glob("lib/python3*/site-packages/*.dist-info/direct_url.json")):
        try:
            if path.stat().st_size > _LARGEST:
                continue
            said = json.loads(path.read_text(encoding="utf-8"))
            if said["dir_info"]["editable"] is True:
                yield unquote(urlsplit(said["url"]).path)
        except (OSError, ValueError, KeyError, TypeError):
            continue
