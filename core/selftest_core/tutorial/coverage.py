"""Match citations with blocks; find blocks that no test cites, and citations that match no block.

A citation matches a block if the block's lines, stripped, occur in their order among the cited lines, stripped. A
stale citation is shown with the most similar block.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from selftest_core.tutorial.citations import Citation
    from selftest_core.tutorial.tutorial import Block

_FAR = 0.3
"""Similarity below which a block is unrelated, and not shown."""
_CANDIDATES = 64
"""Most blocks that are compared with one stale citation."""
_COMPARED = 4_000
"""Characters that are compared: the time is quadratic."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class CitedBlock:
    """A block and the node ids of the tests that cite it, in the order of the files, each once."""

    block: Block
    tests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stale:
    """A citation that matches no block. `similarity`: 0 to 1, None together with `nearest`."""

    citation: Citation
    nearest: Block | None
    similarity: float | None


@dataclass(frozen=True, slots=True)
class Coverage:
    """The result. `blocks`: in the order of the tutorial; `stale`: in the order of the tests."""

    blocks: tuple[CitedBlock, ...]
    stale: tuple[Stale, ...]

    @property
    def uncited(self) -> tuple[Block, ...]:
        """The blocks that no test cites."""
        return tuple(cited.block for cited in self.blocks if not cited.tests)

    @property
    def is_complete(self) -> bool:
        """True if every block is cited and every citation matches a block."""
        return not self.stale and all(cited.tests for cited in self.blocks)


def cover(blocks: Sequence[Block], citations: Sequence[Citation]) -> Coverage:
    """Match citations with blocks."""
    needed = [_lines(block.text) for block in blocks]
    by_rarest_line = _by_rarest_line(needed)
    nearest = _Nearest(needed)
    tests: list[dict[str, None]] = [{} for _ in blocks]
    matched: dict[str, tuple[int, ...]] = {}
    stale: list[Stale] = []
    for citation in citations:
        found = matched.get(citation.text)
        if found is None:
            cited = _lines(citation.text)
            candidates = {index for line in set(cited) for index in by_rarest_line.get(line, ())}
            found = tuple(sorted(index for index in candidates if _occurs(needed[index], cited)))
            matched[citation.text] = found
        for index in found:
            tests[index][citation.test] = None
        if not found:
            index_or_none, similarity = nearest.to(citation.text)
            stale.append(Stale(citation, None if index_or_none is None else blocks[index_or_none], similarity))
    cited_blocks = tuple(CitedBlock(block, tuple(names)) for block, names in zip(blocks, tests, strict=True))
    return Coverage(cited_blocks, tuple(stale))


def _by_rarest_line(needed: Sequence[Sequence[str]]) -> dict[str, list[int]]:
    """Index the blocks by their rarest line: two thousand blocks may all start with the same `cd`."""
    counted = Counter(line for lines in needed for line in set(lines))
    found: defaultdict[str, list[int]] = defaultdict(list)
    for index, lines in enumerate(needed):
        if lines:
            found[min(lines, key=counted.__getitem__)].append(index)
    return found


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _occurs(block: Sequence[str], cited: Sequence[str]) -> bool:
    """Return whether the block's lines occur in order among the cited lines; other lines may be between them."""
    rest = iter(cited)
    return all(line in rest for line in block)


class _Nearest:
    """Finds the most similar block of a text. Of many blocks, only those with its rarest words are compared.

    The index is built for the first stale citation, since most checks have none.
    """

    def __init__(self, needed: Sequence[Sequence[str]]) -> None:
        self._needed = needed
        self._choices: list[str] = []
        self._having: dict[str, list[int]] = {}
        self._known: dict[str, tuple[int | None, float | None]] = {}

    def to(self, text: str) -> tuple[int | None, float | None]:
        """Return the index of the nearest block and the similarity, 0 to 1; None and None if nothing is near."""
        normal = "\n".join(_lines(text))[:_COMPARED]
        if normal not in self._known:
            self._known[normal] = self._find(normal)
        return self._known[normal]

    def _find(self, normal: str) -> tuple[int | None, float | None]:
        from rapidfuzz import fuzz, process

        if not self._choices:
            self._choices = ["\n".join(lines)[:_COMPARED] for lines in self._needed]
            having: defaultdict[str, list[int]] = defaultdict(list)
            for index, choice in enumerate(self._choices):
                for word in set(_WORD.findall(choice)):
                    having[word].append(index)
            self._having = dict(having)
        candidates = {index: self._choices[index] for index in self._candidates(normal)}
        best = process.extractOne(normal, candidates, scorer=fuzz.ratio, score_cutoff=_FAR * 100)
        return (None, None) if best is None else (best[2], round(best[1] / 100, 3))

    def _candidates(self, normal: str) -> Iterable[int]:
        if len(self._choices) <= _CANDIDATES:
            return range(len(self._choices))
        shared = sorted((self._having[word] for word in set(_WORD.findall(normal)) if word in self._having), key=len)
        counted: Counter[int] = Counter()
        for number, having in enumerate(shared):
            if number and len(having) > _CANDIDATES:
                break
            counted.update(having[:_CANDIDATES])
        return sorted(index for index, _ in counted.most_common(_CANDIDATES))
