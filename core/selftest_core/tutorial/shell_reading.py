"""A small shell lexer that finds strings and heredocs that are still open at the end of some lines.

It knows quotes, backslashes, comments, `$(…)` in double quotes, arithmetic (where `<<` shifts) and heredocs, but no
words, commands or `case`. It is used for warnings only, and runs nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEREDOC = re.compile(r"<<(?P<tabs>-?)[ \t]*(?P<quote>['\"]?)\\?(?P<word>[A-Za-z_][\w-]*)(?P=quote)")
_IN_COMMANDS = re.compile(r"['\"#\\<()]")
_IN_STRINGS = {"'": re.compile("'"), "$'": re.compile(r"['\\]"), '"': re.compile(r'["\\$]')}
_BEFORE_A_COMMENT = " \t;&|()`"
_QUOTES = ("'", "$'", '"')


@dataclass(frozen=True, slots=True)
class Heredoc:
    """A heredoc that starts at `line` and ends with the line `word`, after tabs if `with_tabs`."""

    word: str
    with_tabs: bool
    line: int

    def ends_with(self, line: str) -> bool:
        """Return whether this line ends the heredoc."""
        return (line.lstrip("\t") if self.with_tabs else line) == self.word


@dataclass(frozen=True, slots=True)
class Quote:
    """An open quote, or a parenthesis inside one, and its line. `kind`: `'`, `$'`, `"`, `(` or `((`."""

    kind: str
    line: int


@dataclass(frozen=True, slots=True)
class Open:
    """Everything that is open at the end of lines, the outermost first."""

    quotes: tuple[Quote, ...] = ()
    heredocs: tuple[Heredoc, ...] = ()

    @property
    def string(self) -> Quote | None:
        """The outermost string, None if none is open."""
        return next((quote for quote in self.quotes if quote.kind in _QUOTES), None)


_NOTHING = Open()


def read(lines: Sequence[str], first: int, inside: Open = _NOTHING) -> Open:
    """Read lines, the first with the number `first`, starting inside of `inside`."""
    quotes = list(inside.quotes)
    heredocs = list(inside.heredocs)
    for number, line in enumerate(lines, start=first):
        is_inside_string = any(quote.kind in _QUOTES for quote in quotes[-1:])
        if heredocs and not is_inside_string:
            if heredocs[0].ends_with(line):
                heredocs.pop(0)
        else:
            heredocs += _read_line(line, number, quotes)
    return Open(tuple(quotes), tuple(heredocs))


def _read_line(line: str, number: int, quotes: list[Quote]) -> list[Heredoc]:
    """Read one line of commands: opens and closes `quotes`, and returns the heredocs that begin here."""
    heredocs: list[Heredoc] = []
    place = 0
    while True:
        inside = quotes[-1].kind if quotes else ""
        # Search for the next special character: a tutorial may have ten thousand lines.
        found = _IN_STRINGS.get(inside, _IN_COMMANDS).search(line, place)
        if found is None:
            return heredocs
        place = found.start()
        if inside in _QUOTES:
            place += _in_string(line, place, number, quotes)
            continue
        character = line[place]
        if character == "#" and inside != "((" and (place == 0 or line[place - 1] in _BEFORE_A_COMMENT):
            return heredocs
        if line.startswith("<<<", place):
            place += 3
            continue
        if inside != "((" and (match := _HEREDOC.match(line, place)):
            heredocs.append(Heredoc(match["word"], bool(match["tabs"]), number))
            place = match.end()
            continue
        if character in "'\"":
            is_ansi = character == "'" and place > 0 and line[place - 1] == "$"
            quotes.append(Quote("$'" if is_ansi else character, number))
        elif line.startswith("((", place):
            quotes += [Quote("((", number), Quote("((", number)]
            place += 1
        elif character == "(":
            quotes.append(Quote(inside or "(", number))
        elif character == ")" and inside:
            quotes.pop()
        place += 2 if character == "\\" else 1


def _in_string(line: str, place: int, number: int, quotes: list[Quote]) -> int:
    """Read on inside of a string; return the number of characters read."""
    kind = quotes[-1].kind
    character = line[place]
    if character == "\\" and kind != "'":
        return 2
    if character == kind[-1]:
        quotes.pop()
    elif kind == '"' and line.startswith("$((", place):
        quotes += [Quote("((", number), Quote("((", number)]
        return 3
    elif kind == '"' and line.startswith("$(", place):
        quotes.append(Quote("(", number))
        return 2
    return 1
