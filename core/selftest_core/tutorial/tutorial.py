"""Parse a tutorial into its preamble, headings, and blocks of commands. Pure.

A piece is a run of consecutive lines that are not empty (a line of blanks is empty). The shebang and pieces at the top
that only set shell options are the preamble, pieces with only comments are headings, and everything else is a block,
which a test must cite. An empty line in a heredoc or string cuts it in two, with a warning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.tutorial.shell_reading import Open, read

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPTIONS = re.compile(r"set\s+[-+]")


@dataclass(frozen=True, slots=True)
class Block:
    """Commands that belong together. `line`: its first line, 1-based. `text`: without a newline at the end."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A piece with only comments, with its `#` signs."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class TutorialWarning:
    """A probable mistake, at a line of the file (1-based)."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Tutorial:
    """All pieces of one file, each kind in the file's order. `preamble` is empty if there is none."""

    preamble: str
    blocks: tuple[Block, ...]
    headings: tuple[Heading, ...]
    warnings: tuple[TutorialWarning, ...] = ()


def parse_blocks(text: str) -> Tutorial:
    """Parse a tutorial's text. A byte order mark and any line ending (LF, CRLF, CR) are accepted."""
    preamble: list[str] = []
    blocks: list[Block] = []
    headings: list[Heading] = []
    warnings: list[TutorialWarning] = []
    cuts = _Cuts()
    for number, (line, lines) in enumerate(_pieces(text)):
        piece = "\n".join(lines)
        is_shebang = number == 0 and lines[0].startswith("#!")
        if is_shebang or (number == len(preamble) and _only_sets_options(lines)):
            preamble.append(piece)
            warnings.extend(_commands_of_the_preamble(line, lines))
        elif all(_is_comment(each) for each in lines):
            headings.append(Heading(line, piece))
        else:
            blocks.append(Block(line, piece))
            warnings.extend(cuts.of(line, lines))
    return Tutorial("\n\n".join(preamble), tuple(blocks), tuple(headings), tuple(warnings))


def _pieces(text: str) -> list[tuple[int, list[str]]]:
    """Split a text into runs of lines that are not empty, with the number of the first line."""
    pieces: list[tuple[int, list[str]]] = []
    is_inside = False
    # Not splitlines(): a form feed or U+2028 does not end a line in a shell.
    whole = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(whole.split("\n"), start=1):
        if not line.strip():
            is_inside = False
            continue
        if not is_inside:
            pieces.append((number, []))
            is_inside = True
        pieces[-1][1].append(line)
    return pieces


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _is_option(line: str) -> bool:
    return _OPTIONS.match(line.lstrip()) is not None


def _only_sets_options(lines: list[str]) -> bool:
    return any(map(_is_option, lines)) and all(_is_comment(line) or _is_option(line) for line in lines)


def _commands_of_the_preamble(first: int, lines: list[str]) -> list[TutorialWarning]:
    """Warn about a command in the preamble: no test would have to cite it."""
    message = "this command stands in the preamble, which no test cites: put an empty line above it"
    commands = [number for number, line in enumerate(lines, first) if not _is_comment(line) and not _is_option(line)]
    return [TutorialWarning(number, message) for number in commands[:1]]


class _Cuts:
    """Reads the pieces in order, and finds strings and heredocs that an empty line cuts.

    A piece after a cut starts inside of a string or heredoc, whose end would look like the start of another. Of the two
    ways to read it, the one that leaves nothing open is right.
    """

    def __init__(self) -> None:
        self._before = Open()

    def of(self, first: int, lines: list[str]) -> Iterator[TutorialWarning]:
        """Yield the warnings of the next piece."""
        afresh = read(lines, first)
        going_on = read(lines, first, self._before) if _is_open(self._before) else afresh
        if not _is_open(self._before):
            self._before = afresh
        elif not _is_open(going_on) or (going_on.heredocs and going_on == self._before):
            self._before = going_on
            return
        elif not _is_open(afresh):
            # Still inside the cut, unless this piece closed it and opened another.
            self._before = going_on if going_on == self._before else Open()
        else:
            self._before = afresh
        for heredoc in afresh.heredocs:
            message = f"the heredoc {heredoc.word} that begins here is cut by an empty line: write it without one"
            yield TutorialWarning(heredoc.line, message)
        if afresh.string is not None and not afresh.heredocs:
            message = f"the string that begins here with {afresh.string.kind} is cut by an empty line"
            yield TutorialWarning(afresh.string.line, f"{message}: write it without one")


def _is_open(state: Open) -> bool:
    return state.string is not None or bool(state.heredocs)
