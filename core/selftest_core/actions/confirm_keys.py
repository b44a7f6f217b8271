"""C-q and C-t on the agents' tmux server, made to ask first.

mngr binds C-q to destroy and C-t to stop the agent whose session is shown, without a question, for every client of
the server. The guard puts `confirm-before` around mngr's own command, which stays word for word, and keeps the
original in an option of the server, so that it can be put back. mngr binds its keys anew whenever it starts an agent:
then the guard is gone, and is to be asked for again. Bindings that are not mngr's are never touched.
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
    """How a key stands."""

    FREE = "free"
    """Not bound, or not to mngr."""
    OPEN = "open"
    """It acts at once."""
    GUARDED = "guarded"
    """It asks first."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A key of the root table: what it runs, as tmux itself would read it back."""

    key: str
    command: str

    @property
    def guard(self) -> Guard:
        """Whether this key must be guarded."""
        if _ASKS.match(self.command):
            return Guard.GUARDED
        return Guard.OPEN if "mngr" in self.command or "/signals" in self.command else Guard.FREE


def parse_bindings(text: str) -> tuple[Binding, ...]:
    """What `list-keys -T root` printed; a command can go over several lines. Lines that are none are passed over."""
    found = []
    for part in re.split(r"^(?=bind-key\s)", text, flags=re.MULTILINE):
        told = _BINDING.match(part.rstrip("\n"))
        if told is not None and told["table"] == _TABLE:
            found.append(Binding(told["key"], told["command"]))
    return tuple(found)


def bindings(socket: str, environ: Mapping[str, str] | None = None) -> tuple[Binding, ...]:
    """The bindings of C-q and C-t on a server, those that exist. Raises ToolError where it does not answer."""
    told = parse_bindings(Tmux(socket, environ).run("list-keys", "-T", _TABLE))
    return tuple(binding for binding in told if binding.key in KEYS)


def is_guarded(socket: str, environ: Mapping[str, str] | None = None) -> bool:
    """True where neither key destroys or stops an agent without asking. Raises ToolError."""
    return all(binding.guard is not Guard.OPEN for binding in bindings(socket, environ))


def guard(socket: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Make the keys of mngr ask first; returns the keys that were changed (none where all asked already).

    Raises ToolFailedError where tmux does not take it: then the keys are as before.
    """
    to_change = [binding for binding in bindings(socket, environ) if binding.guard is Guard.OPEN]
    if to_change:
        _source(socket, environ, "".join(guarding(binding) for binding in to_change))
        if not is_guarded(socket, environ):
            raise ToolFailedError(
                "C-q and C-t still act at once", "tmux took the new bindings, but shows the old ones.",
                "Press them with care: mngr's C-q destroys the agent that is shown.",
            )  # fmt: skip
    return tuple(binding.key for binding in to_change)


def unguard(socket: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Put mngr's own bindings back; returns the keys that were changed. Raises ToolError."""
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
    """The tmux commands that guard one key."""
    destroys = "destroy" in binding.command
    does = "DESTROY the agent of" if destroys else "Stop the agent of"
    prompt = f"{binding.key}: {does} #{{session_name}}{', with its work' if destroys else ''}? (y/n)"
    block = f"{{ {as_block(binding.command)} }}"
    return (
        f"set-option -s {_KEPT}{binding.key} {quote(binding.command)}\n"
        f"bind-key -T {_TABLE} {binding.key} confirm-before -p {quote(prompt)} {block}\n"
    )


def as_block(command: str) -> str:
    """A binding's command as it is written inside braces: there commands are parted by `;`, in a binding by `\\;`."""
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
    """Give commands to a server. tmux reads all before it runs any, so that a line it cannot read changes nothing."""
    done = Tmux(socket, environ).ask("source-file", "-", text=commands)
    if not done.ok or done.stderr.strip():
        raise failure(socket, done)
