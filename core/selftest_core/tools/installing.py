"""Commands that install the programs that we run, for errors and for the doctor."""

from __future__ import annotations

from pathlib import Path

MNGR_WANTED = "imbue-mngr>=0.3,<0.4"

_COMMANDS = {
    "mngr": f"`uv tool install '{MNGR_WANTED}'`, or `pip install 'selftest-tui[mngr]'`",
    "uv": "`pip install uv`, or `curl -LsSf https://astral.sh/uv/install.sh | sh`",
    "ssh": "`sudo apt install openssh-client`",
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


def extra_hint(extra: str) -> str:
    """Return the command that installs this program with an extra, such as `claude`, which has mngr's plugin."""
    checkout = Path(__file__).resolve().parents[3]
    is_checkout = (checkout / "pyproject.toml").is_file()
    return f"`uv tool install '{checkout if is_checkout else 'selftest-tui'}[mngr,{extra}]'`"
