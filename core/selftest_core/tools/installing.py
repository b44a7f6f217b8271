"""Commands that install the programs that we run, for errors and for the doctor."""

from __future__ import annotations

MNGR_WANTED = "imbue-mngr>=0.3,<0.4"
PLUGINS_WANTED = {"claude": "imbue-mngr-claude>=0.3,<0.4", "codex": "imbue-mngr-codex>=0.2,<0.3"}
"""mngr's plugin for each type of agents."""

# npm's own folder for programs belongs to root on most systems.
_NPM = "`npm install -g --prefix ~/.local {}`, with ~/.local/bin on PATH"
_COMMANDS = {
    "mngr": f"`uv tool install '{MNGR_WANTED}'`, or `pip install '{MNGR_WANTED}'`",
    "uv": "`pip install uv`, or `curl -LsSf https://astral.sh/uv/install.sh | sh`",
    "ssh": "`sudo apt install openssh-client`",
    "claude": _NPM.format("@anthropic-ai/claude-code"),
    "codex": _NPM.format("@openai/codex"),
}
_NEEDED = {"tmux": "3.2", "git": "2.38"}
_PACKAGED = frozenset({"tmux", "git", "rsync", "asciinema", "jq"})


def install_hint(name: str) -> str:
    """Return the command that installs this program."""
    if name not in _COMMANDS and name not in _PACKAGED:
        return f"Install {name}, or put its folder on PATH."
    command = _COMMANDS.get(name, f"`sudo apt install {name}` (Debian, Ubuntu), or `brew install {name}` (macOS)")
    wanted = f" {_NEEDED[name]} or newer" if name in _NEEDED else ""
    return f"Install {name}{wanted}: {command}."


def mngr_tool_hint(*agent_types: str) -> str:
    """Return the command that installs mngr as a tool of its own, with its plugins for these types of agents."""
    plugins = "".join(f" --with '{PLUGINS_WANTED[name]}'" for name in agent_types)
    return f"`uv tool install '{MNGR_WANTED}'{plugins}`"
