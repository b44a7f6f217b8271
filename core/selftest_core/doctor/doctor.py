"""Checks of this machine: what is missing or misconfigured, and the command that repairs it.

Checks are independent: one that fails never hides the others. Nothing is changed, and no agent is touched; mngr is run
once, for agents of this machine only, and with a folder of its own if it has none, since its first run writes one.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.doctor.agent_programs import TYPES, check_type, plugin_version
from selftest_core.errors import SelftestError, ToolError, ToolMissingError, ToolTimeoutError
from selftest_core.frozen import dataclass
from selftest_core.paths import state_folder
from selftest_core.tools.installing import install_hint, mngr_tool_hint
from selftest_core.tools.loaded.loaded_mngr import why_not
from selftest_core.tools.mngr import UPGRADE_HINT, Mngr, find_mngr, list_arguments, parse_version
from selftest_core.tools.mngr_files import host_dir_of
from selftest_core.tools.process import run_async
from selftest_core.tools.tmux import default_socket, own_server, sockets_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from selftest_core.tools.mngr import MngrProgram

type Status = Literal["ok", "warning", "failed"]

PYTHON_NEEDED = (3, 12)
TMUX_NEEDED = (3, 2)
GIT_NEEDED = (2, 38)
_TIMEOUT = 15.0
_MNGR_TIMEOUT = 30.0
_NUMBER = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*[a-z]?")
_SMALLEST = (80, 24)
_BY_HAND = shlex.join(("mngr", *list_arguments(LOCAL_PROVIDER)))


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one check. `hint`: the command or the action that repairs it, "" if there is nothing to do."""

    name: str
    status: Status
    text: str
    hint: str = ""


async def diagnose(
    environ: Mapping[str, str], cwd: Path, *, mngr_timeout: float = _MNGR_TIMEOUT, timeout: float = _TIMEOUT
) -> tuple[Check, ...]:
    """Run all checks, for a program started in `cwd` with `environ`.

    `mngr_timeout`: seconds for mngr to answer; `timeout`: seconds for each other program.
    """
    import asyncio

    found = await asyncio.gather(
        _single(_python()),
        _mngr(environ, cwd, mngr_timeout),
        _single(_tool("tmux", ("-V",), TMUX_NEEDED, environ, cwd, timeout)),
        _single(_tool("git", ("--version",), GIT_NEEDED, environ, cwd, timeout)),
        _single(_tool("rsync", ("--version",), None, environ, cwd, timeout)),
        _single(_asciinema(environ, cwd, timeout)),
        _single(_bubblewrap(environ, cwd)),
        _single(_uv(environ, cwd, timeout)),
        _tmux_servers(environ, cwd, timeout),
        _single(_host_folder(environ)),
        _modal(environ),
        *(_single(_agent_type(name, environ, cwd, timeout)) for name in TYPES),
        _single(_configuration(environ, cwd)),
        _single(_prices()),
        _single(_state_folder_check(environ)),
        _single(_terminal(environ)),
    )
    return tuple(check for checks in found for check in checks)


async def _single(check: Awaitable[Check]) -> tuple[Check, ...]:
    return (await check,)


async def _python() -> Check:
    text = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < PYTHON_NEEDED:
        return Check("python", "failed", f"{text}; 3.12 or newer is needed", "`uv python install 3.13`")
    return Check("python", "ok", text)


async def _mngr(environ: Mapping[str, str], cwd: Path, timeout: float) -> tuple[Check, ...]:
    try:
        program = find_mngr(environ)
        mngr = Mngr(program, environ, cwd)
        version = await mngr.check()
        number = parse_version(version)
    except ToolError as error:
        return (_of_error("mngr", error),)
    where = "on PATH" if program.source == "PATH" else "beside our own Python; none is on PATH"
    text = f"{version} at {program.path} ({where}); {_calls(program, environ, cwd)}"
    if number[:2] != (0, 3):
        known = Check("mngr", "warning", f"{text}; 0.3 is known to work", UPGRADE_HINT)
    else:
        known = Check("mngr", "ok", text)
    return (known, await _mngr_answer(mngr, timeout))


def _calls(program: MngrProgram, environ: Mapping[str, str], cwd: Path) -> str:
    """Return how the fleet's watch and conductors call mngr."""
    from selftest_core.config import load_config

    with suppress(SelftestError):  # wrong settings are told in a line of their own
        if not load_config(cwd, environ).load_mngr_once:
            return "started for each call, as load_mngr_once = false wants"
    reason = why_not(program, environ)
    return f"started for each call: {reason}" if reason else "loaded once for many calls"


async def _mngr_answer(mngr: Mngr, timeout: float) -> Check:
    """Ask mngr for agents as the fleet does: it fails then with settings, and installations, that `--version` bears."""
    from selftest_core.fleet.sources.mngr_list import list_agents

    folder = host_dir_of(mngr.environ)
    with tempfile.TemporaryDirectory(prefix="selftest-") as none:
        own = {} if folder.is_dir() else {"MNGR_HOST_DIR": none}
        try:
            asked = Mngr(mngr.program, {**mngr.environ, **own}, mngr.cwd)
            listed = await list_agents(asked, LOCAL_PROVIDER, timeout)
        except ToolError as error:
            return replace(_of_error("mngr settings", error), hint=error.hint or _answer_hint(error, mngr, folder))
    if listed.errors:
        told = listed.errors[0]
        hint = told.hint or f"`{_BY_HAND}` shows all of it; mngr's settings are in {folder}."
        return Check("mngr settings", "failed", told.message, hint)
    return Check("mngr settings", "ok", f"mngr answered in {listed.seconds:.1f} s")


def _answer_hint(error: ToolError, mngr: Mngr, folder: Path) -> str:
    if isinstance(error, ToolTimeoutError):
        return f"`{_BY_HAND}` shows where it hangs; mngr's settings are in {folder}."
    if "ToolRequirement" in error.detail:
        plugins = [name for name in TYPES if plugin_version(name, mngr.environ)]
        return f"mngr cannot read the uv-receipt.toml of this tool; give it one of its own: {mngr_tool_hint(*plugins)}."
    return f"Correct what it names; mngr's settings are in {folder}."


async def _tool(
    name: str,
    arguments: tuple[str, ...],
    needed: tuple[int, int] | None,
    environ: Mapping[str, str],
    cwd: Path,
    timeout: float,
) -> Check:
    try:
        done = await run_async((name, *arguments), timeout=timeout, cwd=_folder(cwd), env=environ)
    except ToolError as error:
        return _of_error(name, error)
    first = (done.stdout.strip() or done.stderr.strip() or "no output").splitlines()[0][:100]
    if not done.ok:
        return Check(name, "failed", f"{name} ended with {done.exit_status}: {first}", install_hint(name))
    number = _NUMBER.search(first)
    at = shutil.which(name, path=environ.get("PATH", ""))
    text = f"{number[0]} at {at}" if number is not None else f"{first}, at {at}"
    if needed is None:
        return Check(name, "ok", text)
    wanted = ".".join(map(str, needed))
    if number is None:
        return Check(name, "warning", f"{text}; {wanted} or newer is needed", install_hint(name))
    if (int(number[1]), int(number[2])) < needed:
        return Check(name, "failed", f"{text}; {wanted} or newer is needed", install_hint(name))
    return Check(name, "ok", text)


async def _asciinema(environ: Mapping[str, str], cwd: Path, timeout: float) -> Check:
    if shutil.which("asciinema", path=environ.get("PATH", "")) is None:
        return Check(
            "asciinema", "warning", "not installed: single attaches are not recorded", install_hint("asciinema")
        )
    return await _tool("asciinema", ("--version",), None, environ, cwd, timeout)


async def _bubblewrap(environ: Mapping[str, str], cwd: Path) -> Check:
    """Try the sandbox in which agents' code is verified, as `verify` does."""
    import asyncio

    from selftest_core.verify.sandbox import choose_isolation, isolation_hint

    isolation = await asyncio.to_thread(choose_isolation, "auto", environ)
    wanted = _verify_isolation(environ, cwd)
    if isolation.is_isolated:
        if wanted == "none":
            text = "works, but verify_isolation is none: `verify` runs agents' code with all your rights"
            return Check("bubblewrap", "warning", text, "Remove the setting verify_isolation.")
        return Check("bubblewrap", "ok", "works: `verify` runs agents' code without your home and without the network")
    if wanted == "require":
        text = f"{isolation.reason}: `verify` refuses, as verify_isolation is require"
        return Check("bubblewrap", "failed", text, isolation_hint(environ))
    text = f"{isolation.reason}: `verify` runs agents' code with all your rights"
    return Check("bubblewrap", "warning", text, isolation_hint(environ))


def _verify_isolation(environ: Mapping[str, str], cwd: Path) -> str:
    """Return the setting; the default where the settings cannot be read, which has a check of its own."""
    from selftest_core.config import Config, load_config

    try:
        return load_config(cwd, environ).verify_isolation
    except SelftestError:
        return Config().verify_isolation


async def _uv(environ: Mapping[str, str], cwd: Path, timeout: float) -> Check:
    """Check uv, which makes environments for agents and for `verify` where a project has a uv.lock."""
    from selftest_core.verify.environment import find_uv

    program = find_uv(environ)
    if program is None:
        if not (cwd / "uv.lock").is_file():
            return Check("uv", "ok", "not installed; only projects with a uv.lock need it")
        text = "not installed: agents and `verify` use your own environment, not one that uv.lock describes"
        return Check("uv", "warning", text, install_hint("uv"))
    try:
        done = await run_async((str(program), "--version"), timeout=timeout, cwd=_folder(cwd), env=environ)
    except ToolError as error:
        return _of_error("uv", error)
    number = _NUMBER.search(done.stdout)
    if not done.ok or number is None:
        return Check("uv", "warning", f"{program} does not answer", install_hint("uv"))
    return Check("uv", "ok", f"{number[0]} at {program}")


async def _tmux_servers(environ: Mapping[str, str], cwd: Path, timeout: float) -> tuple[Check, ...]:
    """Check the tmux servers of this user; mngr alone sees the agents of one of them only."""
    default = default_socket(environ)
    live: list[str] = []
    dead: list[str] = []
    for socket in sockets_of(environ):
        if not Path(socket).exists():
            continue
        argv = ("tmux", "-S", socket, "list-sessions", "-F", "#{session_name}")
        try:
            done = await run_async(argv, timeout=timeout, cwd=_folder(cwd), env=environ)
        except ToolMissingError:
            return ()  # reported by the check of tmux itself
        except ToolError as error:
            return (_of_error("tmux servers", error),)
        (live if done.ok else dead).append(socket)
    checks = []
    others = [socket for socket in live if socket != default]
    if others:
        text = f"{len(live)} answer; agents of each are shown, also those of {', '.join(others)}"
    else:
        text = "mngr's own answers" if live else "none is running: mngr starts one with the first agent"
    if dead:
        text += f"; no server behind {', '.join(dead)}"
    checks.append(Check("tmux servers", "ok", text))
    own = own_server(environ)
    if own is not None and str(Path(own[0]).resolve()) != default:
        checks.append(
            Check(
                "TMUX", "warning",
                f"this is inside the tmux server {own[0]}, which is not mngr's: mngr run in this shell shows agents "
                "of the other server as STOPPED, and starts them twice",
                "Run mngr as `env -u TMUX mngr …`; selftest-tui does so.",
            )
        )  # fmt: skip
    return tuple(checks)


async def _host_folder(environ: Mapping[str, str]) -> Check:
    folder = host_dir_of(environ)
    nearest = _nearest(folder)
    if not os.access(nearest, os.W_OK | os.X_OK):
        text = f"{folder} cannot be written: mngr keeps its settings and its agents there, and fails without"
        return Check("agents", "failed", text, "Set HOME or MNGR_HOST_DIR to a folder of your own that can be written.")
    if not folder.exists():
        hint = "`selftest-tui demo` shows some, or `mngr create` makes the first."
        return Check("agents", "ok", f"{folder} is not there yet: no agent was made so far", hint)
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK):
        return Check("agents", "failed", f"{folder} cannot be read", f"`ls -ld {folder}` shows whose it is.")
    agents = folder / "agents"
    try:
        count = sum(1 for entry in agents.iterdir() if entry.is_dir()) if agents.is_dir() else 0
    except OSError as error:
        return Check("agents", "failed", f"{agents} cannot be read: {error}", f"`ls -ld {agents}` shows whose it is.")
    return Check("agents", "ok", f"{count} in {folder}")


async def _agent_type(name: str, environ: Mapping[str, str], cwd: Path, timeout: float) -> Check:
    """Check what agents of this type need. It can only fail for the type in the settings."""
    found = await check_type(name, environ, _folder(cwd), timeout)
    wanted, is_chosen = _agent_of_runs(environ, cwd)
    lacks = "; ".join(what for what, _ in found.missing)
    if not found.missing:
        return Check(name, "ok", found.text)
    hint = " ".join(dict.fromkeys(how for _, how in found.missing))
    if wanted != name and not found.is_installed:
        return Check(name, "ok", "not installed")
    status: Status = "failed" if wanted == name and is_chosen else "warning"
    return Check(name, status, "; ".join(part for part in (lacks, found.text) if part), hint)


def _agent_of_runs(environ: Mapping[str, str], cwd: Path) -> tuple[str, bool]:
    """Return the type of a run's agents, and whether it was set; the default where the settings cannot be read."""
    from selftest_core.config import Config, load_config

    try:
        config = load_config(cwd, environ)
    except SelftestError:
        return Config().agent, False
    return config.agent, "agent" in config.sources


async def _modal(environ: Mapping[str, str]) -> tuple[Check, ...]:
    """Check the account on Modal and its sandboxes; no check without mngr's plugin, which only some runs need."""
    from selftest_core.fleet.watch.fleet_cache import fleet_folder
    from selftest_core.modal.account import account_of, has_plugin
    from selftest_core.modal.hidden import look

    try:
        program = find_mngr(environ)
    except ToolMissingError:
        return ()  # told by the check of mngr
    if not has_plugin(program):
        return ()
    account = account_of(environ)
    if account is None:
        text = "mngr's plugin is installed, but there is no token: runs on Modal cannot start"
        return (Check("modal", "warning", text, "`modal token new`, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET."),)
    try:
        found = await look(program, environ, account, fleet_folder(environ))
    except SelftestError as error:
        return (_of_error("modal", error),)
    except OSError as error:
        return (Check("modal", "warning", f"what was seen there cannot be noted: {error}"),)
    answer = found.answer
    text = f"workspace {answer.workspace}, {len(answer.sandboxes)} live sandboxes, modal {answer.version}"
    if found.hidden:
        text += f"; mngr does not see {len(found.hidden)} of them, which cost money until they end"
        return (Check("modal", "warning", text, "`selftest-tui sweep` ends those that were seen so twice."),)
    return (Check("modal", "ok", text),)


async def _configuration(environ: Mapping[str, str], cwd: Path) -> Check:
    from selftest_core.config import load_config

    try:
        load_config(cwd, environ)
    except SelftestError as error:
        return _of_error("settings", error)
    return Check("settings", "ok", "all known and valid")


async def _prices() -> Check:
    import asyncio

    from selftest_core.usage.prices import price_table_problem

    problem = await asyncio.to_thread(price_table_problem)
    if problem:
        text = f"genai-prices cannot be used, so tokens have no dollars: {problem}"
        return Check("prices", "warning", text, "Install selftest-tui anew, or set `prices`.")
    return Check("prices", "ok", "those of genai-prices as installed, and your own (setting prices)")


async def _state_folder_check(environ: Mapping[str, str]) -> Check:
    folder = state_folder(environ)
    if not os.access(_nearest(folder), os.W_OK | os.X_OK):
        text = f"{folder} cannot be written: agents of hosts that do not answer are not kept for the next start"
        return Check("state folder", "warning", text, "Set XDG_STATE_HOME to a folder of your own.")
    return Check("state folder", "ok", str(folder))


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest existing one above it."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


async def _terminal(environ: Mapping[str, str]) -> Check:
    term = environ.get("TERM", "")
    if not term or term == "dumb":
        hint = "Start it in a terminal; `selftest-tui list --json` needs none."
        return Check("terminal", "warning", f"TERM is {term or 'not set'}: no screen can be drawn here", hint)
    if environ.get("NO_COLOR"):
        colours = "no colours, as NO_COLOR asks"
    elif environ.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        colours = "16 million colours"
    else:
        colours = "256 colours" if "256" in term else "16 colours, perhaps more"
    try:
        size = os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
    except (OSError, ValueError):
        return Check("terminal", "ok", f"{term}, {colours}; this output is no terminal, so its size is not known")
    text = f"{term}, {colours}, {size.columns}x{size.lines}"
    if size.columns < _SMALLEST[0] or size.lines < _SMALLEST[1]:
        return Check("terminal", "warning", f"{text}; at 80x24 and more all is shown", "Make the window larger.")
    return Check("terminal", "ok", text)


def _folder(cwd: Path) -> Path:
    return cwd if cwd.is_dir() else Path("/")


def _of_error(name: str, error: SelftestError) -> Check:
    detail = error.detail.strip().splitlines()
    return Check(name, "failed", ": ".join(part for part in (error.title, *detail[:2]) if part), error.hint)
