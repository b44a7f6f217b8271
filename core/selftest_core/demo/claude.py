"""The demo with the real Claude Code: its settings in the private world, and the scripted model that answers it.

It needs no account and no network: the API key is invented, and the base URL is the scripted model's on this machine.
The user's own Claude Code is not touched, since settings are in HOME, which is the private world's.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError, ToolMissingError
from selftest_core.tools.installing import install_hint, mngr_tool_hint
from selftest_core.tools.process import run, spawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.demo.scenarios import Role

AGENTS = 4
"""Number of agents by default: each takes some 200 MB."""
LOG = "model.jsonl"
"""The scripted model's log, in the world's folder."""
_PERSONAL = ("ANTHROPIC_", "CLAUDE")
_SETTINGS = {"permissions": {"defaultMode": "bypassPermissions"}, "skipDangerousModePermissionPrompt": True}
_STATE = {"hasSeenAutoDefaultNudge": True}
_NEEDED = ("claude", "jq")
"""Claude Code, and a program that mngr's hooks use."""
_START_TIMEOUT = 30.0


def check_programs(environ: Mapping[str, str]) -> None:
    """Raise ToolMissingError with the install command where Claude Code or jq is missing."""
    for program in _NEEDED:
        if shutil.which(program, path=environ.get("PATH", os.defpath)) is None:
            raise ToolMissingError(
                f"{program} is not installed", "The demo was asked to run the real Claude Code.",
                install_hint(program), argv=(program,),
            )  # fmt: skip


def check_plugin(mngr: Path, environ: Mapping[str, str], cwd: Path) -> None:
    """Raise ToolMissingError if mngr cannot make agents of the type claude."""
    done = run((mngr, "plugin", "list", "--format", "json"), timeout=60, cwd=cwd, env=environ)
    try:
        plugins = {one["name"] for one in json.loads(done.stdout)["plugins"] if one["enabled"] == "true"}
    except (ValueError, KeyError, TypeError):
        raise ToolFailedError(
            "mngr does not list its plugins", done.stderr_end, argv=done.argv, exit_status=done.exit_status
        ) from None
    if "claude" not in plugins:
        raise ToolMissingError(
            "mngr cannot make agents of the type claude", f"{mngr} has no plugin for it.",
            f"Install it: {mngr_tool_hint('claude')}.", argv=done.argv,
        )  # fmt: skip


def write_home(home: Path) -> None:
    """Write the settings with which Claude Code asks no questions at its start."""
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text(json.dumps(_SETTINGS), encoding="utf-8")
    (home / ".claude.json").write_text(json.dumps(_STATE), encoding="utf-8")


def variables(url: str) -> dict[str, str]:
    """Return the variables with which an agent uses the model at `url` only."""
    sandbox = {"IS_SANDBOX": "1"} if os.geteuid() == 0 else {}
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-scripted",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        **sandbox,
    }


def without_accounts(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that lead Claude Code to the user's account or settings."""
    return {name: value for name, value in environ.items() if not name.startswith(_PERSONAL)}


def start_model(
    root: Path, roles: Sequence[Role], environ: Mapping[str, str], *, speed: float, is_watched: bool, keep: bool
) -> str:
    """Start the scripted model with the stories of `roles`, and return its base URL.

    It ends with the world that `environ` belongs to, and with this process unless `keep`. Raises ToolError.
    """
    stage, url, errors = root / "stories.json", root / "model.url", root / "model.err"
    stories = {role.test: role.story for role in roles}
    stage.write_text(json.dumps({"stories": stories, "speed": speed, "is_watched": is_watched}), encoding="utf-8")
    command = [
        sys.executable, "-m", "selftest_core.demo.scripted_model",
        "--log", root / LOG, "--url", url, "--stage", stage, *(() if keep else ("--with-parent",)),
    ]  # fmt: skip
    model = spawn(command, cwd=root, env=environ, output=errors)
    deadline = time.monotonic() + _START_TIMEOUT
    while not url.exists():
        if model.poll() is not None or time.monotonic() > deadline:
            output = errors.read_text(encoding="utf-8", errors="replace")[-2000:]
            model.end()
            raise ToolFailedError("The scripted model did not start", output, argv=tuple(map(str, command)))
        time.sleep(0.02)  # it writes this file once it listens
    return url.read_text(encoding="utf-8")
