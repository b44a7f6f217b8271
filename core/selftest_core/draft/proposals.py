"""Proposed blocks: what an agent's tutorial has beneath its heading that the base has not, one decision each. Pure.

The id of a block is made of its heading, its text in the base and its proposed text, so that it outlives a restart,
and a new attempt that proposes the same. An agent may change nothing but the blocks beneath its heading: everything
else is the reason why its whole draft is refused.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from difflib import SequenceMatcher
from enum import StrEnum
from typing import TYPE_CHECKING

from selftest_core.draft.sections import outline, raw_lines
from selftest_core.frozen import dataclass
from selftest_core.tutorial.tutorial import parse_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from selftest_core.draft.sections import Outline, Section
    from selftest_core.tutorial.tutorial import Block

_ALIKE = 0.5
"""Similarity from which a proposed block is an edited one and no new one."""
_LONGEST_COMPARED = 1000
MOST_BLOCKS = 200
"""Blocks of a section that are looked at; more were not written for people."""


class ProposalKind(StrEnum):
    """A block that is new, edited, or removed."""

    NEW = "new"
    EDITED = "edited"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class ProposedBlock:
    """One proposal. `base`: the block's text in the base, empty for a new one; `text`: empty for a removed one.

    `line`: of the block in the base; of a new one, the line after which it stands. `place`: number of the base's
    blocks of the section above it.
    """

    id: str
    heading: str
    kind: ProposalKind
    line: int
    place: int
    base: str
    text: str


def refusal_reason(base: str, drafted: str, heading: str) -> str:
    """The reason why an agent's tutorial cannot be used, empty where it can be. `heading`: the id of its own."""
    before, after = outline(base), outline(drafted)
    at = next((number for number, one in enumerate(before.sections) if one.id == heading), None)
    if at is None:
        return "its heading is not in the base"
    if before.preamble != after.preamble or _texts(before.above) != _texts(after.above):
        return "it changes what stands above the first heading"
    titles = [one.heading.text for one in before.sections]
    if [one.heading.text for one in after.sections] != titles:
        return _changed_headings(titles, [one.heading.text for one in after.sections])
    changed = [
        one.id
        for number, (one, other) in enumerate(zip(before.sections, after.sections, strict=True))
        if number != at and _texts(one.blocks) != _texts(other.blocks)
    ]
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return f"it changes the blocks of another heading: {changed[0]}{more}"
    if _texts(before.sections[at].blocks) == _texts(after.sections[at].blocks):
        return "it changes no block beneath its heading"
    if len(after.sections[at].blocks) > MOST_BLOCKS + len(before.sections[at].blocks):
        return f"it has {len(after.sections[at].blocks):,} blocks beneath its heading"
    return _new_warning(before, after)


def block_reason(text: str) -> str:
    """The reason why a text is not one block of a tutorial, empty where it is."""
    found = parse_blocks(f"# Heading\n\n{text}\n")
    if not text.strip():
        return "it is empty"
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        return "it is not text"
    if len(found.blocks) != 1 or len(found.headings) != 1:
        return "it is not one block: commands and comments without an empty line between them"
    return found.warnings[0].message if found.warnings else ""


def propose(base: str, drafted: str, heading: str) -> tuple[ProposedBlock, ...]:
    """List the proposed blocks of a draft that is not refused, in the order of the tutorial."""
    sections = outline(base).sections
    at_heading = next((number for number, one in enumerate(sections) if one.id == heading), None)
    if at_heading is None:
        return ()
    # The place counts, not the id: of two headings with the same words, the id has the line.
    before, after = sections[at_heading], outline(drafted).sections[at_heading]
    old, new = _texts(before.blocks), _texts(after.blocks)
    found: list[ProposedBlock] = []
    taken: Counter[str] = Counter()

    def add(kind: ProposalKind, place: int, text: str) -> None:
        block = before.blocks[place] if kind is not ProposalKind.NEW else None
        line = block.line if block is not None else _end_line(before, place)
        of_base = "" if block is None else block.text
        digest = hashlib.sha256("\0".join((heading, of_base, text)).encode("utf-8", "surrogatepass")).hexdigest()[:12]
        taken[digest] += 1
        made = digest if taken[digest] == 1 else f"{digest}-{taken[digest]}"
        found.append(ProposedBlock(made, heading, kind, line, place, of_base, text))

    for word, begin, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if word == "equal":
            continue
        pairs = dict(_paired(old[begin:end], new[first:last]))
        at = 0
        for number in range(end - begin):
            partner = pairs.get(number)
            if partner is None:
                add(ProposalKind.REMOVED, begin + number, "")
                continue
            for between in new[first + at : first + partner]:
                add(ProposalKind.NEW, begin + number, between)
            add(ProposalKind.EDITED, begin + number, new[first + partner])
            at = partner + 1
        for rest in new[first + at : last]:
            add(ProposalKind.NEW, end, rest)
    return tuple(found)


def compose(base: str, kept: Iterable[tuple[ProposedBlock, str]]) -> str:
    """Return the tutorial with these blocks, each with its text; every other line stays as it is, byte for byte."""
    lines = raw_lines(base)
    ending = next((line[len(line.rstrip("\r\n")) :] for line in lines if line.endswith(("\r", "\n"))), "\n")
    by_heading: Mapping[str, list[tuple[ProposedBlock, str]]] = defaultdict(list)
    for block, text in kept:
        by_heading[block.heading].append((block, text))
    sections = outline(base).sections
    ends = [one.heading.line - 1 for one in sections[1:]] + [len(lines)]
    made: list[str] = []
    done = 0
    for section, end in zip(sections, ends, strict=True):
        own = by_heading.get(section.id)
        if not own:
            continue
        begin = section.heading.line - 1 + len(section.heading.text.split("\n"))
        made += lines[done:begin]
        made += _with_blocks(lines[begin:end], begin, section, own, ending)
        done = end
    return "".join(_ended([*made, *lines[done:]], ending))


def _with_blocks(
    region: Sequence[str], begin: int, section: Section, own: Sequence[tuple[ProposedBlock, str]], ending: str
) -> list[str]:
    """Return the lines beneath a heading with the kept blocks; each block keeps the gap above it."""
    made: list[str] = []
    at = 0
    for place, block in enumerate((*section.blocks, None)):
        for proposal, text in own:
            if proposal.kind is ProposalKind.NEW and proposal.place == place:
                made += [ending, *_lines(text, ending)]
        if block is None:
            break
        first = block.line - 1 - begin
        last = first + len(block.text.split("\n"))
        decided = next((one for one in own if one[0].kind is not ProposalKind.NEW and one[0].place == place), None)
        if decided is None:
            made += region[at:last]
        elif decided[0].kind is ProposalKind.EDITED:
            made += [*region[at:first], *_lines(decided[1], ending)]
        at = last
    return [*made, *region[at:]]


def _lines(text: str, ending: str) -> list[str]:
    return [f"{line}{ending}" for line in text.split("\n")]


def _ended(lines: Sequence[str], ending: str) -> list[str]:
    """Give each line but the last an ending: the base's last line may have none."""
    return [line if line.endswith(("\r", "\n")) else f"{line}{ending}" for line in lines[:-1]] + list(lines[-1:])


def _texts(blocks: Iterable[Block]) -> list[str]:
    return [block.text for block in blocks]


def _end_line(section: Section, place: int) -> int:
    above = section.blocks[place - 1] if place else section.heading
    return above.line + above.text.count("\n")


def _changed_headings(before: Sequence[str], after: Sequence[str]) -> str:
    def first_line(text: str) -> str:
        return " ".join(text.replace("#", " ").split())[:80]

    gone = [one for one in before if one not in after]
    added = [one for one in after if one not in before]
    if gone and added:
        return f"it changes headings: {first_line(gone[0])}"
    if gone:
        return f"it removes a heading: {first_line(gone[0])}"
    return f"it adds a heading: {first_line(added[0])}" if added else "it moves headings"


def _similarity(text: str, other: str) -> float:
    """Return how alike two texts are, from 0 to 1; 0 where quick upper bounds show that they are not."""
    compared = SequenceMatcher(None, text[:_LONGEST_COMPARED], other[:_LONGEST_COMPARED], autojunk=False)
    if compared.real_quick_ratio() < _ALIKE or compared.quick_ratio() < _ALIKE:
        return 0.0
    return compared.ratio()


def _new_warning(before: Outline, after: Outline) -> str:
    new = Counter(after.warnings) - Counter(before.warnings)
    return next((f"a block is broken: {message}" for message in new), "")


def _paired(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Pair blocks that are alike, in order."""
    pairs: list[tuple[int, int]] = []
    start = 0
    for number, text in enumerate(old):
        best = max(
            ((_similarity(text, other), -place) for place, other in enumerate(new[start:], start)), default=(0, 0)
        )
        if best[0] >= _ALIKE:
            pairs.append((number, -best[1]))
            start = -best[1] + 1
    return pairs
