"""JSON of `selftest-tui check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.schema.model import Line, Shape, Text

if TYPE_CHECKING:
    from selftest_core.tutorial.check import Check


class BlockItem(Shape):
    """A block of the tutorial and the tests that cite it. `line`: its first line, 1-based."""

    line: int
    text: Text
    tests: list[Text] = Field(description="Node ids relative to the repository, without parameters.")


class HeadingItem(Shape):
    """A heading: a block of comments only."""

    line: int
    text: Text


class NearestItem(Shape):
    """The block that is most similar to a stale citation."""

    line: int
    similarity: float = Field(ge=0, le=1)


class StaleItem(Shape):
    """A citation that matches no block."""

    test: Text
    text: Text
    nearest: NearestItem | None
    path: Text
    line: int = Field(description="The line of the citation in the test's file, 1-based.")


class WarningItem(Shape):
    """A warning. `path`: the file, null for the tutorial itself."""

    line: int
    message: Text
    path: Text | None = None


class CheckDocument(Shape):
    """`selftest-tui check --json`. `ok`: every block is cited and every citation matches a block."""

    ok: bool
    blocks: list[BlockItem]
    headings: list[HeadingItem]
    uncited: list[int]
    stale: list[StaleItem]
    warnings: list[WarningItem]
    tests: int = Field(description="Number of test functions that were read.")


class CheckOfTree(Shape):
    """The answer of `check` for one tree. `uncited`: lines of blocks; `stale`: tests whose citation is no block."""

    ok: bool
    uncited: list[int]
    stale: list[Text]


class CheckLine(Line, CheckDocument):
    """`selftest-tui check --batch`."""

    event: Literal["summary"] = "summary"


def check_document(found: Check) -> CheckDocument:
    """Convert a check."""
    coverage = found.coverage
    return CheckDocument(
        ok=found.is_ok,
        blocks=[
            BlockItem(line=cited.block.line, text=cited.block.text, tests=list(cited.tests))
            for cited in coverage.blocks
        ],
        headings=[HeadingItem(line=heading.line, text=heading.text) for heading in found.tutorial.headings],
        uncited=[block.line for block in coverage.uncited],
        stale=[
            StaleItem(
                test=stale.citation.test,
                text=stale.citation.text,
                nearest=NearestItem(line=stale.nearest.line, similarity=stale.similarity)
                if stale.nearest is not None and stale.similarity is not None
                else None,
                path=stale.citation.path,
                line=stale.citation.line,
            )
            for stale in coverage.stale
        ],
        warnings=[
            *(WarningItem(line=one.line, message=one.message) for one in found.tutorial.warnings),
            *(WarningItem(line=one.line, message=one.message, path=one.path) for one in found.unreadable),
        ],
        tests=found.tests,
    )


def check_of_tree(found: Check) -> CheckOfTree:
    """Convert the check of one tree to what it lacks."""
    stale = dict.fromkeys(one.citation.test for one in found.coverage.stale)
    return CheckOfTree(ok=found.is_ok, uncited=[block.line for block in found.coverage.uncited], stale=list(stale))
