"""Facts of single pages that are in no other document: transcripts and diffs. Made when a page is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from selftest_core.git.diffs import FileDiff
    from selftest_core.schema.report import ReportChange, ReportDocument, ReportTest


@dataclass(frozen=True, slots=True)
class TextPart:
    """Beginning and end of a text file, without escape sequences. `left_out`: bytes between them."""

    head: str
    left_out: int = 0
    tail: str = ""


@dataclass(frozen=True, slots=True)
class TestPage:
    """The page of one test. `conversation`: what its agent said and did."""

    __test__ = False

    report: ReportDocument
    test: ReportTest
    transcript: TextPart | None
    conversation: TextPart | None


@dataclass(frozen=True, slots=True)
class ChangePage:
    """The page of one change. `files`: its diff, safe to show."""

    report: ReportDocument
    change: ReportChange
    files: tuple[FileDiff, ...]
