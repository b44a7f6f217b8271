"""Profiles of agent types: the variables and the settings of mngr that agents of one type need.

A profile lists the variables that the type's program reads (login, address, opt-outs): those that are set are passed
on, by name, and the plan lists them. It lists the settings of mngr's plugin that keep an unattended agent from waiting
for people, with their meaning. A type without a profile gets the variables that the user names.

Values are read for one purpose only: to see whether a base URL sends the conversation to another service.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from selftest_core.config import Config

_LARGEST = 1024 * 1024
"""Bytes of a settings file of another program that are read."""

_AWS = (
    "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
    "ANTHROPIC_BEDROCK_BASE_URL", "CLAUDE_CODE_SKIP_BEDROCK_AUTH", "ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION",
)  # fmt: skip
_GOOGLE = (
    "ANTHROPIC_VERTEX_PROJECT_ID", "ANTHROPIC_VERTEX_BASE_URL", "CLOUD_ML_REGION", "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLAUDE_CODE_SKIP_VERTEX_AUTH",
)  # fmt: skip
_FOUNDRY = (
    "ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_FOUNDRY_BASE_URL",
    "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Profile:
    """One agent type.

    `service`: the service of its model, unless one of `addresses` (variables) has another address. `variables`: passed
    on where they are set. `clouds`: by a variable that selects a cloud, its name and the variables that are passed on
    with it. `fixed`: variables that every agent gets, with their values. `unattended`: settings, of ours and of mngr's
    plugin, with their meaning.
    """

    service: str
    addresses: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    clouds: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    unattended: Mapping[str, str] = field(default_factory=dict)


PROFILES: Mapping[str, Profile] = {
    "claude": Profile(
        service="Anthropic",
        addresses=("ANTHROPIC_BASE_URL",),
        variables=(
            "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL",
            "ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL",
            "CLAUDE_CODE_SUBAGENT_MODEL", "CLAUDE_CODE_EFFORT_LEVEL", "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
            "MAX_THINKING_TOKENS", "API_TIMEOUT_MS", "DISABLE_PROMPT_CACHING", "NODE_EXTRA_CA_CERTS",
            "CLAUDE_CODE_CLIENT_CERT", "CLAUDE_CODE_CLIENT_KEY", "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE",
            "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_BUG_COMMAND", "DISABLE_FEEDBACK_COMMAND",
            "DO_NOT_TRACK", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "IS_SANDBOX",
        ),
        clouds={
            "CLAUDE_CODE_USE_BEDROCK": ("Amazon Bedrock", _AWS),
            "CLAUDE_CODE_USE_VERTEX": ("Google Vertex AI", _GOOGLE),
            "CLAUDE_CODE_USE_FOUNDRY": ("Microsoft Foundry", _FOUNDRY),
        },
        # An update in the middle of a run would make its agents differ.
        fixed={"DISABLE_AUTOUPDATER": "1"},
        unattended={
            "auto_allow_permissions": "it asks for no permission: its commands run as you, without confirmation",
            "auto_disable_questions": "it cannot ask you questions",
        },
    ),
    "codex": Profile(
        service="OpenAI",
        addresses=("OPENAI_BASE_URL",),
        variables=(
            "OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION",
            "OPENAI_PROJECT", "DO_NOT_TRACK", "SSL_CERT_FILE",
        ),
        unattended={
            "auto_allow_permissions": "it asks for no permission: its commands run in Codex's own sandbox",
        },
    ),
    "gemini": Profile(service="Google"),
}  # fmt: skip
_NOTHING_KNOWN = Profile(service="")

PLAIN = frozenset({
    "ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL", "CLAUDE_CODE_EFFORT_LEVEL",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "MAX_THINKING_TOKENS", "API_TIMEOUT_MS", "DISABLE_PROMPT_CACHING",
    "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_BUG_COMMAND", "DISABLE_FEEDBACK_COMMAND", "DO_NOT_TRACK",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "IS_SANDBOX", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_SKIP_BEDROCK_AUTH", "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "CLAUDE_CODE_SKIP_FOUNDRY_AUTH", "AWS_REGION", "AWS_DEFAULT_REGION", "ANTHROPIC_SMALL_FAST_MODEL_AWS_REGION",
    "CLOUD_ML_REGION",
})  # fmt: skip
"""Variables whose values are not masked in recordings: switches, models and regions, which screens show anyway."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Variables and settings for the agents of one run, by the profile of their type.

    `env_names`: variables of the user that are set. `fixed`: `NAME=value`. `settings`: `KEY=value` for mngr's `-S`.
    """

    env_names: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


def needs(
    agent_type: str, config: Config, environ: Mapping[str, str], places: Collection[str], *, is_copy: bool
) -> Needs:
    """Collect what agents of this type need. `places`: where they run. `is_copy`: each has a repository of its own."""
    if agent_type == "command":
        return Needs()
    profile = PROFILES.get(agent_type, _NOTHING_KNOWN)
    of_person = config.of_agent(agent_type, "env")
    named = list(of_person) if isinstance(of_person, tuple) else []
    if config.of_agent(agent_type, "usual_env") is not False:
        named += profile.variables
        for switch, (_, names) in profile.clouds.items():
            named += (switch, *names) if environ.get(switch) else ()
    settings = [f"agent_ready_timeout={config.of_agent(agent_type, 'agent_ready_timeout'):g}"]
    prefix = f"agent_types.{agent_type}."
    for name in profile.unattended:
        if config.of_agent(agent_type, name) and (is_copy or set(places) != {LOCAL_PROVIDER}):
            settings.append(f"{prefix}{name}=true")
    if agent_type == "claude" and f"{prefix}auto_allow_permissions=true" in settings:
        settings += _mode_settings(prefix, environ)
    if agent_type == "claude" and set(places) != {LOCAL_PROVIDER}:
        may_leave = config.of_agent(agent_type, "sync_claude_credentials") is True
        settings += _login_settings(prefix, environ, may_leave=may_leave)
    return Needs(
        tuple(name for name in dict.fromkeys(named) if environ.get(name)),
        tuple(f"{name}={value}" for name, value in profile.fixed.items()),
        tuple(settings),
    )


def _mode_settings(prefix: str, environ: Mapping[str, str]) -> list[str]:
    """Set the permissions mode of Claude Code behind another address, where the user has set none.

    Claude Code 2.1 begins in its mode "auto" there, whose check such an address may not answer: then it opens a dialog
    without calling a hook. In the mode "default" mngr's hook allows each request.
    """
    of_person = read_json(Path(environ.get("HOME", "/nonexistent")) / ".claude" / "settings.json")
    permissions = of_person.get("permissions")
    has_mode = isinstance(permissions, dict) and bool(permissions.get("defaultMode"))
    own = of_person.get("env")
    addresses = (environ.get("ANTHROPIC_BASE_URL"), own.get("ANTHROPIC_BASE_URL") if isinstance(own, dict) else None)
    if has_mode or not any(addresses):
        return []
    return [f"{prefix}settings_overrides.permissions.defaultMode=default"]


def _login_settings(prefix: str, environ: Mapping[str, str], *, may_leave: bool) -> list[str]:
    """Settings that keep the login of Claude Code on this machine, or copy it to the agents' machines.

    mngr copies it by default, with ~/.claude.json, which has a key after a login for API billing.
    """
    if may_leave:
        return [f"{prefix}sync_claude_credentials=true"]
    settings = [f"{prefix}sync_claude_credentials=false", f"{prefix}convert_macos_credentials=false"]
    if "primaryApiKey" in read_json(Path(environ.get("HOME", "/nonexistent")) / ".claude.json"):
        settings.append(f"{prefix}sync_claude_json=false")
    return settings


def meanings(agent_type: str, settings: Sequence[str]) -> tuple[str, ...]:
    """Explain the settings of a plan to a user, with a line for each that matters."""
    known = PROFILES.get(agent_type, _NOTHING_KNOWN).unattended
    return tuple(
        f"{meaning} ({name})" for name, meaning in known.items() if f"agent_types.{agent_type}.{name}=true" in settings
    )


def leaves_with(agent_type: str, settings: Sequence[str]) -> tuple[str, ...]:
    """List in words what mngr copies from the user to other machines for agents of this type."""
    if agent_type != "claude":
        return ()
    has_json = "agent_types.claude.sync_claude_json=false" not in settings
    things = ["your settings of Claude Code (~/.claude" + (" and ~/.claude.json)" if has_json else ")")]
    if "agent_types.claude.sync_claude_credentials=true" in settings:
        things.append("your login of Claude Code (sync_claude_credentials)")
    return tuple(things)


def service_of(agent_type: str, env_names: Collection[str], environ: Mapping[str, str]) -> str:
    """Name the model service of agents of this type: a company, or the host of another address and its setting.

    `env_names`: the variables that are passed on; others do not reach the agents.
    """
    profile = PROFILES.get(agent_type, _NOTHING_KNOWN)
    home = Path(environ.get("HOME", "/nonexistent"))
    of_file, where = _settings_of_program(agent_type, home)
    for name in profile.addresses:
        if of_file.get(name):
            return f"{host_of(of_file[name])} ({name} in {where})"
    for switch, (service, _) in profile.clouds.items():
        if of_file.get(switch) or (switch in env_names and environ.get(switch)):
            return service
    for name in profile.addresses:
        if name in env_names and environ.get(name):
            return f"{host_of(environ[name])} ({name})"
    return profile.service or f"the service that {agent_type} talks to"


def host_of(address: str) -> str:
    """Return host and port of a URL, without its parts that may be secret."""
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
        return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "an unreadable address"
    except ValueError:
        return "an unreadable address"


def is_of_this_machine(address: str) -> bool:
    """True for an address of this machine."""
    return host_of(address).partition(":")[0] in ("127.0.0.1", "localhost", "0.0.0.0") or "[::1]" in address


def _settings_of_program(agent_type: str, home: Path) -> tuple[dict[str, str], str]:
    """Read the variables in the program's own settings file, and return the file's name too."""
    if agent_type == "claude":
        found = read_json(home / ".claude" / "settings.json").get("env")
        pairs = found.items() if isinstance(found, dict) else ()
        return {str(name): str(value) for name, value in pairs}, "~/.claude/settings.json"
    if agent_type == "codex":
        return _of_codex(home / ".codex" / "config.toml"), "~/.codex/config.toml"
    return {}, ""


def _of_codex(path: Path) -> dict[str, str]:
    try:
        document = tomllib.loads(_text(path))
        address = document.get("openai_base_url")
        provider = document.get("model_provider")
        if provider and provider != "openai":
            address = document["model_providers"][provider]["base_url"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {"OPENAI_BASE_URL": address} if isinstance(address, str) else {}


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file of another program; empty if that is not possible."""
    try:
        document = json.loads(_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_LARGEST)
