"""The both-ways check: every block of the tutorial is cited by a test, and every citation is of a block.

A citation matches a block when the block's lines, stripped, occur in their order among the cited lines, stripped.
Blocks drift, so a citation that matches nothing is shown with the block that is nearest to it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.citations import Citation
    from selftest_core.tutorial import Block

_FAR = 0.3
"""Below this likeness two blocks have nothing to do with each other, and naming one would mislead."""


@dataclass(frozen=True, slots=True)
class CitedBlock:
    """A block and the node ids of the tests that cite it, in the order of the files, each once."""

    block: Block
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stale:
    """A citation of something that is no block. `similarity` is 0 to 1, and None together with `nearest`."""

    citation: Citation
    nearest: Block | None
    similarity: float | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the check found. `blocks` in the order of the tutorial, `stale` in the order of the tests."""

    blocks: tuple[CitedBlock, ...]
    stale: tuple[Stale, ...]

    @property
    def uncited(self) -> tuple[Block, ...]:
        """The blocks that no test cites."""
        return tuple(cited.block for cited in self.blocks if not cited.tests)

    @property
    def is_complete(self) -> bool:
        """True when every block is cited and every citation is of a block."""
        return not self.stale and all(cited.tests for cited in self.blocks)


def cover(blocks: Sequence[Block], citations: Sequence[Citation]) -> Coverage:
    """Match citations with blocks."""
    needed = [_lines(block.text) for block in blocks]
    by_first_line: defaultdict[str, list[int]] = defaultdict(list)
    for index, lines in enumerate(needed):
        if lines:
            by_first_line[lines[0]].append(index)
    tests: list[dict[str, None]] = [{} for _ in blocks]
    matched: dict[str, tuple[int, ...]] = {}
    stale: list[Stale] = []
    for citation in citations:
        found = matched.get(citation.text)
        if found is None:
            cited = _lines(citation.text)
            candidates = {index for line in set(cited) for index in by_first_line.get(line, ())}
            found = tuple(sorted(index for index in candidates if _occurs(needed[index], cited)))
            matched[citation.text] = found
        for index in found:
            tests[index][citation.test] = None
        if not found:
            nearest, similarity = _nearest(blocks, citation.text)
            stale.append(Stale(citation, nearest, similarity))
    cited_blocks = tuple(CitedBlock(block, tuple(names)) for block, names in zip(blocks, tests, strict=True))
    return Coverage(cited_blocks, tuple(stale))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _occurs(block: Sequence[str], cited: Sequence[str]) -> bool:
    """True when the lines of the block occur in order, not necessarily next to each other, among the cited."""
    rest = iter(cited)
    return all(line in rest for line in block)


def _nearest(blocks: Sequence[Block], text: str) -> tuple[Block | None, float | None]:
    # Only a stale citation needs the matcher, and there are few: nobody else pays for its import.
    from rapidfuzz import fuzz, process

    normal = "\n".join(_lines(text))
    choices = ["\n".join(_lines(block.text)) for block in blocks]
    best = process.extractOne(normal, choices, scorer=fuzz.ratio)
    if best is None or best[1] < _FAR * 100:
        return None, None
    return blocks[best[2]], round(best[1] / 100, 3)
