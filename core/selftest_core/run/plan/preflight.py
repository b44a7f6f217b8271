"""Checks before a run: its programs, its provider, its agent type and the login of its agents.

mngr is asked by calls that make nothing: `create` at a provider that cannot exist fails after the check of the agent
type, and `gc --dry-run` reports an unknown provider. A listing of the provider proves that it answers, and gives the
names that are taken. Each call takes a second, so they run concurrently.
"""

from __future__ import annotations

import asyncio
import shutil
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from selftest_core.agent_types.login import FAR_LOGIN, HOW_TO, login_in_files, login_in_variables
from selftest_core.agent_types.profiles import PROFILES, is_of_this_machine
from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.errors import ToolFailedError, ToolMissingError, UsageError
from selftest_core.fleet.sources.mngr_list import list_agents
from selftest_core.run.plan.plan_builder import COMMAND
from selftest_core.run.providers import places, providers_of
from selftest_core.tools.installing import install_hint
from selftest_core.tools.mngr import split_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.agents import Agent
    from selftest_core.run.plan.plan_builder import Choices
    from selftest_core.tools.mngr import Mngr

_NOWHERE = "selftest-asks-for-the-type"
"""A provider that cannot exist: no agent is ever made there."""
_TIMEOUT = 90.0
_PROGRAMS = ("claude", "codex", "gemini", "opencode")
"""Agent types whose program has the type's name."""


def refuse_missing_tools(choices: Choices, environ: Mapping[str, str]) -> None:
    """Raise ToolMissingError if a program is missing that such a run needs."""
    is_local = LOCAL_PROVIDER in providers_of(choices.provider)
    for name in ("git", "rsync", *(("tmux",) if is_local else ())):
        if shutil.which(name, path=environ.get("PATH", "")) is None:
            raise ToolMissingError(f"{name} is not installed", "A run needs it.", install_hint(name), argv=(name,))


def warnings_of(choices: Choices, environ: Mapping[str, str]) -> tuple[str, ...]:
    """List warnings about the places, the program and the login of the agents."""
    told: list[str] = []
    providers = providers_of(choices.provider)
    if len(places(choices.provider)) > len(providers):
        told.append("several hosts of one provider: while one of them is down, mngr reaches none of them")
    is_here = shutil.which(choices.agent_type, path=environ.get("PATH", "")) is not None
    if choices.agent_type in _PROGRAMS and LOCAL_PROVIDER in providers and not is_here:
        told.append(f"`{choices.agent_type}` is not on PATH here: its agents may not start")
    told += _login_warnings(choices, environ)
    shell = _shell_of_both(choices, environ)
    if shell:
        told.append(
            f"the agents run `{shell}`, the same program as their login shell: mngr cannot detect their crash, so a "
            f"crashed one runs into its timeout; name an executable script instead of `{shell} SCRIPT`"
        )
    return tuple(told)


def _login_warnings(choices: Choices, environ: Mapping[str, str]) -> list[str]:
    """List what the agents lack to reach their model, as far as this machine tells."""
    agent_type = choices.agent_type
    if agent_type not in HOW_TO:
        return []
    told: list[str] = []
    far = ", ".join(place for place in places(choices.provider) if place != LOCAL_PROVIDER)
    if not login_in_variables(agent_type, environ, choices.env_names):
        is_synced = f"agent_types.{agent_type}.sync_claude_credentials=true" in choices.agent_settings
        if far and not is_synced:
            told.append(f"{far} gets no login of {agent_type}: {FAR_LOGIN[agent_type]}")
        elif not far and not login_in_files(agent_type, environ):
            told.append(f"no login of {agent_type} was found here: {HOW_TO[agent_type]}")
    for name in PROFILES[agent_type].addresses:
        if far and name in choices.env_names and is_of_this_machine(environ.get(name, "")):
            told.append(f"{name} is an address of this machine, which the agents on {far} cannot reach")
    return told


def _shell_of_both(choices: Choices, environ: Mapping[str, str]) -> str:
    """Return the shell that is both the agent's program and its login shell, else "": mngr tells programs by name."""
    if not choices.agent_command:
        return ""
    name = PurePosixPath(choices.agent_command[0]).name
    is_local = LOCAL_PROVIDER in providers_of(choices.provider)
    around = PurePosixPath(environ.get("SHELL") or "/bin/sh").name if is_local else "bash"
    return name if name == around else ""


async def ask_mngr(mngr: Mngr, choices: Choices) -> tuple[Agent, ...]:
    """List the agents of the run's providers, and check that mngr knows provider and agent type.

    Raises UsageError for an unknown provider or agent type, ToolError if mngr is broken, or it or a provider does not
    answer.
    """
    await mngr.check()
    providers = providers_of(choices.provider)
    found = await asyncio.gather(
        *(know_provider(mngr, provider) for provider in providers if provider != LOCAL_PROVIDER),
        _know_type(mngr, choices.agent_type),
        *(_agents(mngr, provider) for provider in providers),
        return_exceptions=True,
    )
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return tuple(agent for one in found if isinstance(one, tuple) for agent in one)


async def know_provider(mngr: Mngr, provider: str) -> None:
    """Raise UsageError, with the known ones, for an unknown provider. A listing of one is empty, and no error."""
    done = await mngr.call(("gc", "--dry-run", "--provider", provider, "--format", "json"), timeout=_TIMEOUT)
    says, hint = split_error(done.stderr)
    if "Unknown provider" in says:
        raise UsageError(
            f"mngr knows no provider {provider!r}", says.partition(".")[2].strip(), hint or "Name another with --on."
        )


async def _know_type(mngr: Mngr, agent_type: str) -> None:
    if agent_type == COMMAND:
        return
    arguments = ("create", f"selftest@.{_NOWHERE}", "--type", agent_type, "--no-connect", "--headless")
    done = await mngr.call((*arguments, "--format", "json"), timeout=_TIMEOUT)
    says, hint = split_error(done.stderr)
    if "Unknown agent type" in says:
        raise UsageError(f"mngr knows no agent type {agent_type!r}", "", hint or "Name another with --agent.")


async def _agents(mngr: Mngr, provider: str) -> tuple[Agent, ...]:
    listed = await list_agents(mngr, provider, _TIMEOUT)
    for error in listed.errors:
        if error.agent_id is None:
            hint = error.hint or "Repair it first: the state of agents there would be unknown."
            raise ToolFailedError(f"The provider {provider} does not answer", error.message, hint)
    return listed.agents
