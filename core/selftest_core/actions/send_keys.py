"""Keys and text of a user, sent to a tmux pane without attaching to it.

Keys are `Keystroke` values, without a terminal library. tmux gets keys by its own names, text literally, and control
characters as hexadecimal, so that no text is taken for a key's name, an option or a command. A pane in copy mode would
discard the keys, so it leaves that mode first, as with mngr.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from itertools import groupby
from typing import TYPE_CHECKING

from selftest_core.errors import ToolError, ToolFailedError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.tools.panes import pane_target
from selftest_core.tools.tmux import Tmux, escaped, failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from selftest_core.tools.tmux import SessionRef

# A client's whole argv must fit into 16 KB; a character has up to four bytes.
_TEXT_PER_COMMAND = 2000
_KEYS_PER_COMMAND = 200
_TIMEOUT = 10.0

_NAMES = {
    "enter": "Enter", "return": "Enter", "tab": "Tab", "escape": "Escape", "backspace": "BSpace", "space": "Space",
    "up": "Up", "down": "Down", "left": "Left", "right": "Right", "home": "Home", "end": "End", "pageup": "PPage",
    "pagedown": "NPage", "insert": "IC", "delete": "DC", **{f"f{number}": f"F{number}" for number in range(1, 13)},
}  # fmt: skip
_PASTE_MARKS = re.compile("\x1b\\[20[01]~")


@dataclass(frozen=True, slots=True)
class Keystroke:
    """One key press: either `text` (usually one character) or `name` (a key without a character).

    Names: enter, tab, escape, backspace, space, up, down, left, right, home, end, pageup, pagedown, insert, delete,
    f1 to f12. Shift is for names only: text has it in the character.
    """

    text: str = ""
    name: str = ""
    ctrl: bool = False
    alt: bool = False
    shift: bool = False


def is_sendable(key: Keystroke) -> bool:
    """True if tmux can type the key."""
    return bool(key.text) or key.name in _NAMES


def send_keys(
    ref: SessionRef, pane_id: str | None, keys: Sequence[Keystroke], environ: Mapping[str, str] | None = None
) -> None:
    """Send keys to a pane (by default the session's current one), in order, usually with one process.

    Raises UsageError for a key that tmux cannot type, ToolFailedError if the pane is gone or dead.
    """
    target = pane_target(ref, pane_id)
    for commands in batches(keys, target):
        _deliver(ref, target, commands, environ)


def paste(ref: SessionRef, pane_id: str | None, text: str, environ: Mapping[str, str] | None = None) -> None:
    """Paste text into a pane as a terminal does: bracketed where the program asked for that.

    The buffer is private and deleted afterwards. Raises ToolFailedError if the pane is gone or dead.
    """
    # Bracket marks in the text would end the paste early, and the rest would be read as keys.
    clean = _PASTE_MARKS.sub("", text)
    if not clean:
        return
    target = pane_target(ref, pane_id)
    tmux = Tmux(ref.socket, environ)
    buffer = f"selftest-{secrets.token_hex(8)}"
    tmux.run("load-buffer", "-b", buffer, "-", timeout=_TIMEOUT, text=clean)
    try:
        _deliver(ref, target, (("paste-buffer", "-d", "-p", "-b", buffer, "-t", target),), environ)
    except ToolError:
        with contextlib.suppress(ToolError):
            tmux.run("delete-buffer", "-b", buffer, timeout=_TIMEOUT)
        raise


def batches(keys: Sequence[Keystroke], target: str) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Build the `send-keys` commands for these keys, with as many in one batch as one client can take."""
    batch: list[tuple[str, ...]] = []
    size = 0
    for option, words in _grouped(keys):
        cost = sum(len(word) for word in words) + 100
        if batch and size + cost > _TEXT_PER_COMMAND:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(("send-keys", "-t", target, *option, "--", *words))
        size += cost
    if batch:
        yield tuple(batch)


def _grouped(keys: Sequence[Keystroke]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Group words with the same option: literal text, hexadecimal codes, or key names."""
    words = [word for key in keys for word in _words(key)]
    for option, run in groupby(words, key=lambda word: word[0]):
        if option == "-l":
            text = "".join(word for _, word in run)
            for begin in range(0, len(text), _TEXT_PER_COMMAND):
                yield ("-l",), (text[begin : begin + _TEXT_PER_COMMAND],)
        else:
            plain = [word for _, word in run]
            for begin in range(0, len(plain), _KEYS_PER_COMMAND):
                yield ((option,) if option else ()), tuple(plain[begin : begin + _KEYS_PER_COMMAND])


def _words(key: Keystroke) -> Iterator[tuple[str, str]]:
    """Convert a key to pairs of an option of send-keys and a word."""
    if not key.text:
        yield "", _named(key)
    elif key.ctrl or (key.alt and key.text.isascii() and key.text.isprintable()):
        yield _with_modifier(key)
    else:
        for char in key.text:
            if key.alt:
                yield "-H", "1b"
            yield ("-H", f"{ord(char):02x}") if char < " " or char == "\x7f" else ("-l", char)


def _named(key: Keystroke) -> str:
    name = _NAMES.get(key.name)
    if name is None:
        raise UsageError(f"The key {key.name or '(none)'} cannot be typed into a pane", "tmux has no name for it.")
    if name == "Tab" and key.shift:
        return f"{'C-' if key.ctrl else ''}{'M-' if key.alt else ''}BTab"
    return f"{'C-' if key.ctrl else ''}{'M-' if key.alt else ''}{'S-' if key.shift else ''}{name}"


def _with_modifier(key: Keystroke) -> tuple[str, str]:
    char = key.text
    if key.ctrl and not key.alt and char in "@[\\]^_? ":
        # These have ASCII codes of their own; tmux has other names for some of them.
        return "-H", "7f" if char == "?" else f"{ord(char) & 0x1F:02x}"
    if len(char) != 1 or not char.isprintable():
        raise UsageError(f"The key {char!r} cannot be typed with ctrl or alt", "It is not one printable character.")
    shown = "Space" if char == " " else char.lower() if key.ctrl and not key.shift else char
    return "", f"{'C-' if key.ctrl else ''}{'M-' if key.alt else ''}{shown}"


def _deliver(
    ref: SessionRef, target: str, commands: Sequence[Sequence[str]], environ: Mapping[str, str] | None
) -> None:
    """Run commands on a pane after it has left any mode, and check that it is not dead."""
    leave = ("if-shell", "-F", "-t", target, "#{pane_in_mode}", f"copy-mode -q -t '{target}'")
    ask = ("display-message", "-p", "-t", target, "#{pane_dead}")
    arguments: list[str] = []
    for command in (leave, *commands, ask):
        if arguments:
            arguments.append(";")
        arguments += [escaped(word) for word in command]
    done = Tmux(ref.socket, environ).ask(*arguments, timeout=_TIMEOUT)
    if not done.ok:
        raise failure(ref.socket, done)
    if done.stdout.strip() == "1":
        raise ToolFailedError("The pane is dead", f"The program in {ref.name} has ended.", argv=done.argv)
