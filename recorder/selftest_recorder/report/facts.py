"""Facts of single pages that are in no other document: transcripts and diffs. Made when a page is written."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.git.diffs import FileDiff
    from selftest_core.schema.report import ReportChange, ReportDocument, ReportTest


@dataclass(frozen=True, slots=True)
class TextPart:
    """Beginning and end of a text file, without escape sequences. `left_out`: bytes between them."""

    head: str
    left_out: int = 0
    tail: str = ""


@dataclass(frozen=True, slots=True)
class MomentLink:
    """A moment of an agent's work. `slug`: the agent's test, None where it has no page.

    `recording`: the name of a recording in the report, and `seconds` the place in it; None where none shows the moment.
    `before`, `call` and `after`: the agent's words around it, empty where it said nothing. `step`: the number of
    the call's step in the text of its conversation, from 1.
    """

    agent: str
    slug: str | None
    recording: str | None
    seconds: float | None
    before: str = ""
    call: str = ""
    after: str = ""
    step: int | None = None


@dataclass(frozen=True, slots=True)
class TestPage:
    """The page of one test. `conversation`: what its agent said and did. `red`: the agent's own last red run.

    `diffs`: of its small changes, by their commits; the others are on pages of their own alone.
    """

    __test__ = False

    report: ReportDocument
    test: ReportTest
    transcript: TextPart | None
    conversation: TextPart | None
    red: MomentLink | None = None
    diffs: Mapping[str, ChangePage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PublishedDiff:
    """A change as it was published, read back from the repository. `authors` as the commit has them.

    `files`: the diff of its commit in the paths of the change; empty where the agent's own commit changes the same.
    """

    oid: str
    authors: tuple[str, ...]
    files: tuple[FileDiff, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ChangePage:
    """The page of one change. `files`: the diff of the agent's commit, safe to show; `published`: what became of it.

    `moments`: when each hunk was made, by the numbers of its file and of the hunk in it, both from 0.
    """

    report: ReportDocument
    change: ReportChange
    files: tuple[FileDiff, ...]
    moments: Mapping[tuple[int, int], MomentLink] = field(default_factory=dict)
    published: PublishedDiff | None = None
