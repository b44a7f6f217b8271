"""Confirmation for C-q and C-t on the agents' tmux server (the key guard).

mngr binds C-q to destroy and C-t to stop the shown agent, without confirmation, for every client of the server. The
guard wraps mngr's own command into `confirm-before`, and saves the original in an option of the server, so that it can
be restored. mngr binds its keys again whenever it starts an agent, which removes the guard. Other bindings are never
changed.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.errors import ToolFailedError
from selftest_core.frozen import dataclass
from selftest_core.tools.tmux import Tmux, failure, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = ("C-q", "C-t")
_TABLE = "root"
_KEPT = "@selftest_guarded_"
_BINDING = re.compile(r"bind-key\s+(?P<repeat>-r\s+)?-T\s+(?P<table>\S+)\s+(?P<key>\S+)\s+(?P<command>.+)", re.DOTALL)
_ASKS = re.compile(r"confirm(-before)?\s")


class Guard(StrEnum):
    """State of a key."""

    FREE = "free"
    """Not bound, or not to a command of mngr."""
    OPEN = "open"
    """It acts without confirmation."""
    GUARDED = "guarded"
    """It asks for confirmation."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A key of the root table, and its command as tmux prints it."""

    key: str
    command: str

    @property
    def guard(self) -> Guard:
        """The state of this key."""
        if _ASKS.match(self.command):
            return Guard.GUARDED
        return Guard.OPEN if "mngr" in self.command or "/signals" in self.command else Guard.FREE


def parse_bindings(text: str) -> tuple[Binding, ...]:
    """Parse `list-keys -T root`; a command may have several lines. Other lines are skipped."""
    found = []
    for part in re.split(r"^(?=bind-key\s)", text, flags=re.MULTILINE):
        found_binding = _BINDING.match(part.rstrip("\n"))
        if found_binding is not None and found_binding["table"] == _TABLE:
            found.append(Binding(found_binding["key"], found_binding["command"]))
    return tuple(found)


def bindings(socket: str, environ: Mapping[str, str] | None = None) -> tuple[Binding, ...]:
    """Read the bindings of C-q and C-t on a server. Raises ToolError if it does not answer."""
    found = parse_bindings(Tmux(socket, environ).run("list-keys", "-T", _TABLE))
    return tuple(binding for binding in found if binding.key in KEYS)


def is_guarded(socket: str, environ: Mapping[str, str] | None = None) -> bool:
    """True if neither key destroys or stops an agent without confirmation. Raises ToolError."""
    return all(binding.guard is not Guard.OPEN for binding in bindings(socket, environ))


def guard(socket: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Add a confirmation to mngr's keys, and return the changed keys (none if all have one).

    Raises ToolFailedError if tmux refuses: then the keys are unchanged.
    """
    to_change = [binding for binding in bindings(socket, environ) if binding.guard is Guard.OPEN]
    if to_change:
        _source(socket, environ, "".join(guarding(binding) for binding in to_change))
        if not is_guarded(socket, environ):
            raise ToolFailedError(
                "C-q and C-t still act without confirmation", "tmux accepted the new bindings, but shows the old ones.",
                "Take care: mngr's C-q destroys the shown agent.",
            )  # fmt: skip
    return tuple(binding.key for binding in to_change)


def unguard(socket: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Restore mngr's own bindings, and return the changed keys. Raises ToolError."""
    tmux = Tmux(socket, environ)
    changed = []
    for binding in bindings(socket, environ):
        kept = tmux.run("show-options", "-sqv", f"{_KEPT}{binding.key}").rstrip("\n")
        if binding.guard is Guard.GUARDED and kept:
            _source(
                socket, environ, f"bind-key -T {_TABLE} {binding.key} {kept}\nset-option -su {_KEPT}{binding.key}\n"
            )
            changed.append(binding.key)
    return tuple(changed)


def guarding(binding: Binding) -> str:
    """Build the tmux commands that guard one key."""
    destroys = "destroy" in binding.command
    does = "DESTROY the agent of" if destroys else "Stop the agent of"
    prompt = f"{binding.key}: {does} #{{session_name}}{', with its work' if destroys else ''}? (y/n)"
    block = f"{{ {as_block(binding.command)} }}"
    return (
        f"set-option -s {_KEPT}{binding.key} {quote(binding.command)}\n"
        f"bind-key -T {_TABLE} {binding.key} confirm-before -p {quote(prompt)} {block}\n"
    )


def as_block(command: str) -> str:
    """Convert a binding's command for use in braces: commands are separated by `;` there, by `\\;` in a binding."""
    out = []
    quoted = ""
    at = 0
    while at < len(command):
        char = command[at]
        if char == "\\" and quoted != "'":
            pair = command[at : at + 2]
            is_parting = (
                not quoted
                and pair == "\\;"
                and command[at - 1 : at] in (" ", "")
                and command[at + 2 : at + 3] in (" ", "")
            )
            out.append(";" if is_parting else pair)
            at += 2
            continue
        if char in "'\"" and quoted in ("", char):
            quoted = "" if quoted else char
        out.append(char)
        at += 1
    return "".join(out)


def _source(socket: str, environ: Mapping[str, str] | None, commands: str) -> None:
    """Run commands on a server. tmux parses all before it runs any, so a wrong line changes nothing."""
    done = Tmux(socket, environ).ask("source-file", "-", text=commands)
    if not done.ok or done.stderr.strip():
        raise failure(socket, done)
