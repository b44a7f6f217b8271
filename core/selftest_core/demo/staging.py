"""The demo's files: the sample repository with one commit, and the stage with the stories and their player.

The repository's settings (`selftest-tui.toml`, ignored by its git) select the demo's agents, so every command in the
demo's folder, `selftest-tui run` too, uses them.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.config import FILE_NAME, toml_text
from selftest_core.errors import ToolFailedError, ToolTimeoutError
from selftest_core.git.command import guarded
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.config_values import Value
    from selftest_core.demo.scenarios import Role

PROGRAM = "demo-agent"
"""The program name of the agents: at most 15 characters, since `ps` cuts it and mngr would not find it."""
_HERE = Path(__file__).parent
_SHORTEST, _LONGEST, _STARTS = 90.0, 400.0, 250


def pytest_command() -> tuple[str, ...]:
    """Return the command that runs the sample's tests: our own interpreter, which has pytest."""
    return (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")


def make_repository(repository: Path, files: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Make the sample repository at `repository`, with one commit. Raises ToolFailedError."""
    for name, text in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if text.startswith("#!"):
            path.chmod(0o755)
    for arguments in (
        ("init", "-q", "-b", "main"),
        ("config", "user.name", "demo agent"),
        ("config", "user.email", "demo@example.org"),
        ("add", "."),
        ("commit", "-q", "-m", "Open the shop"),
    ):
        done = run(("git", *arguments), timeout=60, cwd=repository, env=guarded(environ))
        if not done.ok:
            raise ToolFailedError(
                "git could not make the sample repository", done.stderr_end, argv=done.argv,
                exit_status=done.exit_status, stderr=done.stderr,
            )  # fmt: skip


def write_stage(folder: Path, roles: Sequence[Role], *, speed: float, patience: float) -> tuple[str, ...]:
    """Write the stories and the program that plays them into `folder`; return the command of every agent.

    An agent's environment selects its story. `speed` divides every pause; `patience`: seconds that an agent waits for
    a user, 0 for ever.
    """
    shutil.copyfile(_HERE / "actor.py", folder / "actor.py")
    shutil.copyfile(_HERE / "wrapper.sh", folder / PROGRAM)
    (folder / PROGRAM).chmod(0o755)
    stage = {
        "speed": speed,
        "patience": patience,
        "pytest": pytest_command(),
        "stories": {role.test: role.story for role in roles},
    }
    (folder / "stage.json").write_text(json.dumps(stage), encoding="utf-8")
    # -I and -S: an actor needs no installed packages, and starts three times as fast without them.
    return (str(folder / PROGRAM), sys.executable, "-I", "-S", str(folder / "actor.py"), str(folder / "stage.json"))


def write_settings(repository: Path, agent: Mapping[str, Value], timeout: float, agents: int) -> None:
    """Write settings that make the demo's agents those of every run there. `agent`: the settings that select them."""
    settings: dict[str, Value] = {
        **agent,
        "pytest_command": pytest_command(),
        "timeout": timeout,
        "max_running": agents,
        "adapt": False,  # else one agent that hangs, as its story has it, keeps all others waiting on a busy machine
        "launch_rate": 10.0,
        "on_cluster": "go",
    }
    lines = [f"{name} = {toml_text(value)}\n" for name, value in settings.items()]
    (repository / FILE_NAME).write_text("".join(lines), encoding="utf-8")


def short_timeout(environ: Mapping[str, str]) -> float:
    """Return the seconds after which an agent of an unwatched demo counts as hung, by how long pytest takes to start.

    One agent runs it twice, beside the others and mngr, which took up to forty starts on a busy machine; and an idle
    machine may become busy.
    """
    began = time.monotonic()
    try:
        run((*pytest_command(), "--version"), timeout=_LONGEST, cwd=_HERE, env=environ)
    except ToolTimeoutError:
        return _LONGEST
    return min(_LONGEST, max(_SHORTEST, _STARTS * (time.monotonic() - began)))
