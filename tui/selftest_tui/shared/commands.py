"""Commands of `:` by name: the actions of a screen, and the user's aliases. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.shared.keys import Topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from selftest_tui.shared.keys import Key

WITHOUT_NAME = (Topic.MOVE, Topic.PROMPT)
"""Topics whose actions are not offered by name, in the palette neither, unless the key line has them."""


def named(rows: Iterable[Key]) -> tuple[Key, ...]:
    """The rows that can be run by name, in their order."""
    return tuple(key for key in rows if key.topic not in WITHOUT_NAME or key.line)


def with_aliases[C](commands: Mapping[str, C], aliases: Mapping[str, str]) -> dict[str, C]:
    """Add the aliases of commands that are there; an alias never replaces a command."""
    added = {alias: commands[plain(name)] for alias, name in aliases.items() if plain(name) in commands}
    return {**added, **commands}


def plain(text: str) -> str:
    """The text of a command as its name is written: one blank between words, underscores for hyphens."""
    first, _, rest = " ".join(text.split()).partition(" ")
    return f"{first.replace('-', '_')} {rest}" if rest else first.replace("-", "_")


def beginning_with(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that begin with a text, sorted."""
    return tuple(sorted(name for name in names if name.startswith(plain(text)) or name.startswith(text)))


def command_named(text: str, names: Collection[str]) -> str | None:
    """The name of the command that a text means: exactly, or as the only one that begins with it."""
    for exact in (text.strip(), plain(text)):
        if exact in names:
            return exact
    found = beginning_with(text.strip(), names)
    return found[0] if len(found) == 1 else None


def completed(text: str, names: Iterable[str]) -> str:
    """The text with what all names that begin with it have in common."""
    found = beginning_with(text, names)
    if not found:
        return text
    common = min(found, key=len)
    while not all(name.startswith(common) for name in found):
        common = common[:-1]
    return common


def problem_of_command(text: str, names: Collection[str], aliases: Mapping[str, str]) -> str:
    """Return why a text is no command; empty if it is one, or nothing was typed yet."""
    if not text.strip() or command_named(text, names) is not None:
        return ""
    if text.strip() in aliases:
        return f"{text.strip()} stands for {aliases[text.strip()]}, which is no command of this screen"
    found = beginning_with(text.strip(), names)
    return "  ".join(found[:MOST_SHOWN]) + (" …" if len(found) > MOST_SHOWN else "") if found else "no such command"


MOST_SHOWN = 6
"""Names that are shown while one is typed."""
