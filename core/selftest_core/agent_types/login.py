"""Logins of agent programs: whether there is one, and where. Messages have no value of a login."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.agent_types.profiles import PROFILES, read_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_KEYS = {
    "claude": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    "codex": ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"),
}
HOW_TO = {
    "claude": "Run `claude` and sign in, or set ANTHROPIC_API_KEY.",
    "codex": "`codex login`, or `codex login --with-api-key`.",
}
"""The way to sign in."""
FAR_LOGIN = {
    "claude": "set ANTHROPIC_API_KEY, or use the setting agents.claude.sync_claude_credentials = true.",
    "codex": "set OPENAI_API_KEY.",
}
"""The way to give agents on other machines a login."""


def login_in_variables(agent_type: str, environ: Mapping[str, str], names: Collection[str] | None = None) -> str:
    """Describe the login in variables; empty for none. `names`: only these variables count."""
    for name in _KEYS.get(agent_type, ()):
        if environ.get(name) and (names is None or name in names):
            return f"{name} is set"
    clouds = PROFILES[agent_type].clouds if agent_type in PROFILES else {}
    for name, (service, _) in clouds.items():
        if environ.get(name) and (names is None or name in names):
            return f"by {service} ({name})"
    return ""


def login_in_files(agent_type: str, environ: Mapping[str, str]) -> str:
    """Describe the login in files of this machine; empty for none. Keychains are not read."""
    home = Path(environ.get("HOME") or "/nonexistent")
    if agent_type == "claude":
        folder = Path(environ["CLAUDE_CONFIG_DIR"]) if environ.get("CLAUDE_CONFIG_DIR") else home / ".claude"
        if (folder / ".credentials.json").is_file():
            return "signed in (.credentials.json)"
        settings = read_json(folder / "settings.json")
        own = settings.get("env")
        if settings.get("apiKeyHelper") or (isinstance(own, dict) and any(own.get(name) for name in _KEYS["claude"])):
            return "in your settings of Claude Code"
        known = read_json(home / ".claude.json")
        if known.get("primaryApiKey"):
            return "signed in with a key (.claude.json)"
        return "signed in (an account in .claude.json)" if known.get("oauthAccount") else ""
    if agent_type == "codex":
        folder = Path(environ["CODEX_HOME"]) if environ.get("CODEX_HOME") else home / ".codex"
        return "signed in (auth.json)" if (folder / "auth.json").is_file() else ""
    return ""
