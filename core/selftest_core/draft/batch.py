"""A draft without a screen: decisions of a file in, and optionally a published branch out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.draft.draft import read_draft
from selftest_core.draft.draft_log import decisions_of, read_log
from selftest_core.draft.session import DraftSession, undecided
from selftest_core.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.draft.decisions import DraftDecisions
    from selftest_core.draft.draft import Draft
    from selftest_core.draft.draft_log import DraftLog
    from selftest_core.draft.publishing import PublishedDraft
    from selftest_core.run.store import RunFolder


@dataclass(frozen=True, slots=True)
class DraftResult:
    """The result. `open`: number of undecided blocks. `published`: by this call; `last_published`: ref and commit.

    `not_published`: why nothing was published, though it was asked for.
    """

    draft: Draft
    decisions: DraftDecisions
    open: int
    published: PublishedDraft | None
    last_published: tuple[str, str] | None
    not_published: str = ""

    @property
    def is_done(self) -> bool:
        """True when no block is undecided, and what should be published is."""
        return not self.open and not self.not_published


def look_at_draft(folder: RunFolder, environ: Mapping[str, str]) -> DraftResult:
    """Read a draft and what was decided so far, also while it is open elsewhere. Writes nothing."""
    draft, log = read_draft(folder, environ), read_log(folder.path)
    decisions = decisions_of(log)
    return DraftResult(draft, decisions, len(undecided(draft, decisions)), None, last_of(log))


def decide_draft(
    folder: RunFolder, environ: Mapping[str, str], decisions: Path | None = None, branch: str | None = None
) -> DraftResult:
    """Apply a decisions file over what was decided on the screen, and publish if asked.

    Raises UsageError, RefusedError (exit 4) where the branch cannot be written or the draft is open elsewhere.
    """
    with DraftSession.open(folder, environ) as session:
        if decisions is not None:
            session.import_decisions(decisions)
        reason = "" if branch is None else session.publish_disabled_reason()
        published = session.publish(branch) if branch is not None and not reason else None
        last = last_of(session.log)
        return DraftResult(session.draft, session.decisions, len(session.open_blocks), published, last, reason)


def last_of(log: DraftLog) -> tuple[str, str] | None:
    """Return the ref and the commit that were published last."""
    return log.published[-1] if log.published else None
