"""The gaps between a tutorial and its tests, and the task that each becomes. Pure.

A gap is a block that no test cites, or a test whose citation is no block any more. An edited block is both: uncited
itself, and the nearest block of its stale tests. That is one gap, so that two agents do not mend one thing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.frozen import dataclass
from selftest_core.run.plan.plan import TaskFile
from selftest_core.run.plan.prompt import fenced
from selftest_core.run.plan.tasks import Task, task_id
from selftest_core.tutorial.citation_differences import differences

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from selftest_core.sync.snapshot import Paths
    from selftest_core.tutorial.check import Check
    from selftest_core.tutorial.coverage import Stale
    from selftest_core.tutorial.tutorial import Block

SAME = 0.6
"""Similarity from which the nearest block of a stale citation is the cited one, edited."""
_ALIKE = 0.4
_MOST_NEAR = 4
TASK_FILE = "task.json"


@dataclass(frozen=True, slots=True)
class Gap:
    """The work of one writer. `id`: as in the plan. `block`: the uncited block, None for stale citations alone.

    `stale`: citations to mend; without a block those of one test.
    """

    id: str
    block: Block | None
    stale: tuple[Stale, ...] = ()

    @property
    def stale_tests(self) -> tuple[str, ...]:
        """The tests with stale citations, each once."""
        return tuple(dict.fromkeys(stale.citation.test for stale in self.stale))


def find_gaps(check: Check, paths: Paths) -> tuple[Gap, ...]:
    """Return the gaps: uncited blocks in the tutorial's order, then tests with stale citations in the tests' order."""
    # A test that cites one of several equal blocks cites them all: the first is the task.
    firsts = {_lines(block.text): block for block in reversed(check.coverage.uncited)}
    uncited = sorted(firsts.values(), key=lambda block: block.line)
    edited: dict[int, list[Stale]] = {block.line: [] for block in uncited}
    other: dict[str, list[Stale]] = {}
    for stale in check.coverage.stale:
        block = edited_block(stale)
        if block is not None and block.line in edited:
            edited[block.line].append(stale)
        else:
            other.setdefault(stale.citation.test, []).append(stale)
    blocks = [Gap(task_id(f"{paths.tutorial}:{b.line} {_first(b.text)}"), b, tuple(edited[b.line])) for b in uncited]
    return (*blocks, *(Gap(task_id(test), None, tuple(found)) for test, found in other.items()))


def edited_block(stale: Stale) -> Block | None:
    """Return the block that a stale citation was before somebody edited it; None where none is like it."""
    return stale.nearest if stale.similarity is not None and stale.similarity >= SAME else None


def select_gaps(gaps: Sequence[Gap], wanted: Sequence[str], check: Check, paths: Paths) -> tuple[Gap, ...]:
    """Return the gaps that the user named, by a line of a block or by a test; all without names. Raises UsageError."""
    if not wanted:
        return tuple(gaps)
    chosen: dict[str, Gap] = {}
    for word in wanted:
        found = [gap for gap in gaps if _is_named(gap, word, paths)]
        if not found:
            raise UsageError(
                f"{word} is nothing that sync could do", _why(word, check, paths), "`sync --dry-run` lists all."
            )
        chosen |= {gap.id: gap for gap in found}
    return tuple(gap for gap in gaps if gap.id in chosen)


def task_of(gap: Gap, check: Check, paths: Paths) -> Task:
    """Make the task of one writer: a brief for its prompt, and the same for programs in `.selftest/task/task.json`."""
    near = near_tests(gap, check)
    parts = [*_about_block(gap, check, paths), *_about_stale(gap, paths), *_about_near(near)]
    document = {
        "tutorial": paths.tutorial,
        "tests": paths.tests,
        "line": None if gap.block is None else gap.block.line,
        "block": None if gap.block is None else gap.block.text,
        "stale": [
            {
                "test": stale.citation.test,
                "text": stale.citation.text,
                "nearest": None if stale.nearest is None else {"line": stale.nearest.line, "text": stale.nearest.text},
            }
            for stale in gap.stale
        ],
        "near": list(near),
    }
    files = (TaskFile(TASK_FILE, json.dumps(document, indent=2) + "\n"),)
    nearest = dict.fromkeys(block.text for stale in gap.stale if (block := edited_block(stale)) is not None)
    return Task(gap.id, "\n\n".join(parts), files, tuple(nearest) if gap.block is None else (gap.block.text,))


def near_tests(gap: Gap, check: Check) -> Mapping[str, int]:
    """Return a few tests that cite blocks beside the gap's or like it, each with the line of that block."""
    block = gap.block
    if block is None:
        return {}
    from rapidfuzz import fuzz

    place = next(i for i, cited in enumerate(check.coverage.blocks) if cited.block == block)
    beside = [check.coverage.blocks[i] for i in (place - 1, place + 1) if 0 <= i < len(check.coverage.blocks)]
    heading = _heading(check, block)
    beside = [cited for cited in beside if _heading(check, cited.block) == heading]
    scored = [
        (fuzz.ratio(block.text[:4000], cited.block.text[:4000]) / 100, cited)
        for cited in check.coverage.blocks
        if cited.tests
    ]
    alike = [cited for score, cited in sorted(scored, key=lambda one: -one[0]) if score >= _ALIKE]
    found: dict[str, int] = {}
    for cited in (*beside, *alike):
        for test in cited.tests:
            found.setdefault(test, cited.block.line)
    return dict(list(found.items())[:_MOST_NEAR])


def _is_named(gap: Gap, word: str, paths: Paths) -> bool:
    if word in gap.stale_tests:
        return True
    line = _line(word, paths)
    block = gap.block
    return line is not None and block is not None and block.line <= line <= _last(block)


def _line(word: str, paths: Paths) -> int | None:
    number = word.removeprefix(f"{paths.tutorial}:")
    return int(number) if number.isdecimal() and len(number) < 9 else None


def _last(block: Block) -> int:
    return block.line + block.text.count("\n")


def _why(word: str, check: Check, paths: Paths) -> str:
    """Explain why there is no gap for a word."""
    line = _line(word, paths)
    if line is None:
        return "It is neither a line of the tutorial nor a test with a stale citation."
    for cited in check.coverage.blocks:
        if cited.block.line <= line <= _last(cited.block):
            by = f"is cited by {cited.tests[0]}" if cited.tests else "stands further up, too: name that one"
            return f"The block at line {cited.block.line} {by}."
    for heading in check.tutorial.headings:
        if heading.line <= line <= heading.line + heading.text.count("\n"):
            return f"Line {line} is part of a heading, which needs no test."
    return f"Line {line} is in no block of {paths.tutorial}."


def _first(text: str) -> str:
    """Return the first command of a block."""
    return next(line.strip() for line in text.splitlines() if not line.lstrip().startswith("#"))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines())


def _heading(check: Check, block: Block) -> str:
    """Return the text of the heading above a block without its `#` signs, empty for none."""
    above = [heading for heading in check.tutorial.headings if heading.line < block.line]
    words = (line.strip().strip("#").strip() for line in above[-1].text.splitlines()) if above else ()
    return " ".join(word for word in words if word)


def _about_block(gap: Gap, check: Check, paths: Paths) -> Iterable[str]:
    block = gap.block
    if block is None:
        return
    heading = _heading(check, block)
    under = f", under the heading {heading!r}" if heading else ""
    yield f"No test cites this block. It is at line {block.line} of {paths.tutorial}{under}:"
    yield fenced(block.text, "sh")
    blocks = [cited.block for cited in check.coverage.blocks]
    place = blocks.index(block)
    for word, at in (("before", place - 1), ("after", place + 1)):
        if 0 <= at < len(blocks) and _heading(check, blocks[at]) == heading:
            yield f"The block {word} it, so that you know where it stands:"
            yield fenced(blocks[at].text, "sh")


def _about_stale(gap: Gap, paths: Paths) -> Iterable[str]:
    for stale in gap.stale:
        citation = stale.citation
        yield f"`{citation.test}` cites this at line {citation.line} of its file, and it is no block any more:"
        yield fenced(citation.text.strip("\n"), "sh")
        if edited_block(stale) is None:
            yield "No block is much like it. If what it tested is gone, remove the citation, and keep the test."
        if stale.nearest is None:
            continue
        yield f"The nearest block is at line {stale.nearest.line} of {paths.tutorial}. From the citation (-) to it (+):"
        lines = differences(citation.text, stale.nearest.text)
        yield fenced("\n".join(f"{line.sign} {line.text}" for line in lines), "diff")


def _about_near(near: Mapping[str, int]) -> Iterable[str]:
    if near:
        lines = [f"- `{test}` (the block at line {line})" for test, line in near.items()]
        yield "\n".join(["Tests of blocks that are near. Read them first, and write yours like them:", "", *lines])
