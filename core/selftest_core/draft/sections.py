"""Sections of a tutorial: each heading with the blocks beneath it, up to the next heading. Pure.

The id of a heading is its words, without `#` signs. Two headings with the same words get their lines added.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.run.plan.tasks import task_id
from selftest_core.tutorial.tutorial import Block, Heading, parse_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the blocks beneath it. `id`: see above."""

    id: str
    heading: Heading
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Outline:
    """A tutorial as its preamble, the blocks above the first heading, and its sections. `warnings`: the parser's."""

    preamble: str
    above: tuple[Block, ...]
    sections: tuple[Section, ...]
    warnings: tuple[str, ...]

    def find(self, heading: str) -> Section | None:
        """Return the section with this id."""
        return next((one for one in self.sections if one.id == heading), None)


def outline(text: str) -> Outline:
    """Divide a tutorial into sections."""
    tutorial = parse_blocks(text)
    both: list[Heading | Block] = [*tutorial.headings, *tutorial.blocks]
    pieces = sorted(both, key=lambda piece: piece.line)
    above: list[Block] = []
    found: list[tuple[Heading, list[Block]]] = []
    for piece in pieces:
        if isinstance(piece, Heading):
            found.append((piece, []))
        else:
            (found[-1][1] if found else above).append(piece)
    words = [_words(heading) for heading, _ in found]
    count = Counter(words)
    sections = tuple(
        Section(f"{word} (line {heading.line})" if count[word] > 1 else word, heading, tuple(blocks))
        for word, (heading, blocks) in zip(words, found, strict=True)
    )
    return Outline(tutorial.preamble, tuple(above), sections, tuple(one.message for one in tutorial.warnings))


def choose_sections(text: str, wanted: Sequence[str], path: str) -> tuple[Section, ...]:
    """Return the sections whose headings were named, all of them without names. `path`: for messages.

    A heading may be named by a part of its words, in any case, if only one has it. Raises UsageError.
    """
    sections = outline(text).sections
    if not sections:
        hint = "A heading is a comment with an empty line above and below it: write some, commit them, and try again."
        raise UsageError(f"{path} has no heading", "Agents draft the blocks beneath a heading.", hint)
    chosen = {one.id: one for word in wanted for one in (_chosen(sections, word, path),)}
    return tuple(chosen.values()) if wanted else sections


def raw_lines(text: str) -> list[str]:
    """Split a text into lines with their endings, which may be LF, CRLF or CR, as the tutorial's parser counts them."""
    lines = _LINE.findall(text)
    return lines[:-1] if lines and not lines[-1] else lines


def _chosen(sections: Sequence[Section], word: str, path: str) -> Section:
    asked = " ".join(word.strip().strip("#").split()).casefold()
    exact = [one for one in sections if one.id.casefold() == asked]
    near = exact or [one for one in sections if asked and asked in one.id.casefold()]
    if len(near) == 1:
        return near[0]
    if near:
        told = ", ".join(one.id for one in near[:_MOST_NAMED])
        raise UsageError(f"{word!r:.80} is a part of {len(near)} headings of {path}", told, "Name one of them wholly.")
    alike = difflib.get_close_matches(word, [one.id for one in sections], n=1, cutoff=0.5)
    hint = f"Did you mean {alike[0]!r}?" if alike else ""
    told = ", ".join(one.id for one in sections[:_MOST_NAMED])
    more = f", and {len(sections) - _MOST_NAMED} more" if len(sections) > _MOST_NAMED else ""
    raise UsageError(f"{path} has no heading {word!r:.80}", f"Its headings: {told}{more}.", hint)


def _words(heading: Heading) -> str:
    lines = (line.strip().strip("#").strip() for line in heading.text.splitlines())
    return task_id(" ".join(line for line in lines if any(map(str.isalnum, line)))) or f"heading of line {heading.line}"
