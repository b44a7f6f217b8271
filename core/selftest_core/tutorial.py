"""A tutorial file cut into its pieces: the preamble, headings, and blocks of commands.

A piece is a run of consecutive lines that are not empty; a line of blanks alone is empty, so that an editor's trailing
spaces join nothing. The piece with the shebang and pieces that only set shell options right at the top are preamble,
pieces of comments alone are headings, and everything else is a block, which a test must cite.

Nothing here reads files, runs a block or knows shell beyond heredocs: a heredoc with an empty line is cut in two
like everything else, and a warning says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPTIONS = re.compile(r"set\s+[-+]")
# A quote, a name, and neither `<<<` nor an arithmetic shift (`1 << 2`, where no name follows).
_HEREDOC = re.compile(r"(?<!<)<<(?P<tabs>-?)\s*(?P<quote>['\"]?)\\?(?P<word>[A-Za-z_][\w-]*)(?P=quote)")


@dataclass(frozen=True, slots=True)
class Block:
    """Commands that belong together. `line`: its first, 1-based. `text`: its lines, with no newline at the end."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A piece of comments alone, with its `#` signs."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class TutorialWarning:
    """Something that is probably not meant, at a line of the file (1-based)."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Tutorial:
    """All pieces of one file, each kind in the file's order. `preamble` is empty where there is none."""

    preamble: str
    blocks: tuple[Block, ...]
    headings: tuple[Heading, ...]
    warnings: tuple[TutorialWarning, ...] = ()

    def heading_of(self, block: Block) -> Heading | None:
        """The nearest heading above a block."""
        above = [heading for heading in self.headings if heading.line < block.line]
        return above[-1] if above else None


def parse_blocks(text: str) -> Tutorial:
    """Cut a tutorial's text. A byte order mark and any line ending (LF, CRLF, CR) are accepted."""
    preamble: list[str] = []
    blocks: list[Block] = []
    headings: list[Heading] = []
    warnings: list[TutorialWarning] = []
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
            warnings.extend(_cut_heredocs(line, lines))
    return Tutorial("\n\n".join(preamble), tuple(blocks), tuple(headings), tuple(warnings))


def _pieces(text: str) -> list[tuple[int, list[str]]]:
    """Each run of lines that are not empty, with the number of its first line."""
    pieces: list[tuple[int, list[str]]] = []
    is_inside = False
    # Not splitlines(): a form feed or U+2028 inside a command does not end a line of a shell.
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
    """The first command under a shebang with no empty line between: it would need no test, which nobody means."""
    message = "this command stands in the preamble, which no test cites: put an empty line above it"
    commands = [number for number, line in enumerate(lines, first) if not _is_comment(line) and not _is_option(line)]
    return [TutorialWarning(number, message) for number in commands[:1]]


def _cut_heredocs(first: int, lines: list[str]) -> list[TutorialWarning]:
    """Heredocs that begin in this piece and do not end in it."""
    found: list[TutorialWarning] = []
    ends: list[tuple[str, bool, int]] = []
    for number, line in enumerate(lines, start=first):
        if ends:
            word, with_tabs, _ = ends[0]
            if (line.lstrip("\t") if with_tabs else line) == word:
                ends.pop(0)
            continue
        if not _is_comment(line):
            ends.extend((match["word"], bool(match["tabs"]), number) for match in _HEREDOC.finditer(line))
    for word, _, number in ends:
        message = f"the heredoc {word} that begins here is cut by an empty line: write it without one"
        found.append(TutorialWarning(number, message))
    return found
