"""Check of the programs of agent types on this machine: mngr's plugin, the program, its login, its needs.

Nothing is changed, no agent is started, and no value of a login is shown.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.agent_types.login import HOW_TO, login_in_files, login_in_variables
from selftest_core.agent_types.profiles import read_json
from selftest_core.errors import ToolError
from selftest_core.frozen import dataclass
from selftest_core.tools.installing import PLUGINS_WANTED, install_hint, mngr_tool_hint
from selftest_core.tools.mngr import find_mngr, installed_version, interpreter_of
from selftest_core.tools.process import run_async

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPES = ("claude", "codex")
_PLUGINS = {"claude": "imbue_mngr_claude", "codex": "imbue_mngr_codex"}
_NEEDS_JQ = frozenset({"claude"})
"""Types for which mngr writes hooks that call jq."""
_SANDBOX_HINT = (
    "`codex sandbox -- true` repeats it: bubblewrap must be able to make user namespaces, and HOME must not be in the "
    "temporary folder; or turn it off for agents that are contained otherwise: "
    '`create_args = ["-S", "agent_types.codex.config_overrides.sandbox_mode=danger-full-access"]`'
)
_NUMBER = re.compile(r"\d+\.\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Found:
    """Result for one agent type. `text`: what exists, in words. `missing`: what does not, each with its repair."""

    is_installed: bool
    text: str
    missing: tuple[tuple[str, str], ...]


async def check_type(agent_type: str, environ: Mapping[str, str], cwd: Path, timeout: float) -> Found:
    """Check one of `TYPES`; each program gets `timeout` seconds to answer."""
    missing: list[tuple[str, str]] = []
    found: list[str] = []
    program = shutil.which(agent_type, path=environ.get("PATH", ""))
    plugin = plugin_version(agent_type, environ)
    if program is None:
        missing.append((f"{agent_type} is not on PATH", install_hint(agent_type)))
    else:
        version, is_signed_in = await asyncio.gather(
            _answer((agent_type, "--version"), environ, cwd, timeout), _login(agent_type, environ, cwd, timeout)
        )
        number = _NUMBER.search(version)
        found.append(f"{number[0] if number else 'of an unknown version'} at {program}")
        if not number:
            what = f"`{agent_type} --version` printed no version"
            missing.append((what, install_hint(agent_type)))
        if is_signed_in:
            found.append(f"login: {is_signed_in}")
        else:
            missing.append(("no login was found", HOW_TO[agent_type]))
    if plugin:
        found.append(f"mngr's plugin {plugin}")
    else:
        missing.append(("mngr has no plugin for it", _plugin_hint(agent_type, environ)))
    if program is not None and agent_type in _NEEDS_JQ and shutil.which("jq", path=environ.get("PATH", "")) is None:
        missing.append(("jq is not installed; mngr's hooks need it", install_hint("jq")))
    if program is not None and agent_type == "codex":
        problem = await _sandbox_problem(environ, cwd, timeout)
        if problem:
            missing.append((f"the sandbox of its commands does not start: {problem}", _SANDBOX_HINT))
        else:
            found.append("its sandbox starts")
    if program is not None and agent_type == "claude":
        found.append(f"permissions: {_permissions(environ)}")
    return Found(program is not None, "; ".join(found), tuple(missing))


def plugin_version(agent_type: str, environ: Mapping[str, str]) -> str:
    """Return the version of mngr's plugin for the type, "" for none."""
    try:
        return installed_version(find_mngr(environ).path, _PLUGINS[agent_type]) or ""
    except ToolError:
        return ""


def _plugin_hint(agent_type: str, environ: Mapping[str, str]) -> str:
    """Return the command that installs the plugin for the mngr in use, by what installed that."""
    wanted = PLUGINS_WANTED[agent_type]
    # uv installs a tool anew, with what is named alone.
    as_tool = mngr_tool_hint(*(name for name in TYPES if name == agent_type or plugin_version(name, environ)))
    try:
        python = interpreter_of(find_mngr(environ).path)
    except ToolError:
        return as_tool
    prefix = Path(python).parent.parent
    if not python or (prefix / "uv-receipt.toml").is_file():
        return as_tool
    if (prefix / "pipx_metadata.json").is_file():
        return f"`pipx inject {prefix.name} '{wanted}'`"
    return f"`{python} -m pip install '{wanted}'`"


async def _login(agent_type: str, environ: Mapping[str, str], cwd: Path, timeout: float) -> str:
    known = login_in_variables(agent_type, environ) or login_in_files(agent_type, environ)
    if known or agent_type != "codex":
        return known
    # It may be in a keyring. The output shows a part of the key, so only the status is used.
    try:
        done = await run_async(("codex", "login", "status"), timeout=timeout, cwd=cwd, env=environ)
    except ToolError:
        return ""
    return "signed in (`codex login status`)" if done.ok else ""


async def _sandbox_problem(environ: Mapping[str, str], cwd: Path, timeout: float) -> str:
    """Try the sandbox in which Codex runs the commands of its agents; return its error, empty if it starts."""
    try:
        done = await run_async(("codex", "sandbox", "--", "true"), timeout=timeout, cwd=cwd, env=environ)
    except ToolError as error:
        return error.title
    lines = done.stderr.strip().splitlines() or [f"exit status {done.exit_status}"]
    return "" if done.ok else lines[-1][:200]


async def _answer(argv: tuple[str, ...], environ: Mapping[str, str], cwd: Path, timeout: float) -> str:
    try:
        done = await run_async(argv, timeout=timeout, cwd=cwd, env=environ)
    except ToolError:
        return ""
    return done.stdout.strip()[:200] if done.ok else ""


def _permissions(environ: Mapping[str, str]) -> str:
    """Read the permissions mode from the user's settings of Claude Code, which chooses one if none is set."""
    settings = read_json(Path(environ.get("HOME") or "/nonexistent") / ".claude" / "settings.json")
    permissions = settings.get("permissions")
    mode = permissions.get("defaultMode") if isinstance(permissions, dict) else None
    return mode[:40] if isinstance(mode, str) and mode.isalnum() else "mode not set"
