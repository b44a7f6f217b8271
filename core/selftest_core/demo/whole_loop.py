"""The draft and the sync of a demo that nobody watches, each decided headless and published.

They are normal runs of the demo's repository, prepared and begun as by the commands `draft` and `sync`. The program's
entry conducts them. Only the demo's own repository changes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selftest_core.config import load_config
from selftest_core.demo.other_roles import HEADING
from selftest_core.demo.world import PLAIN_PYTEST
from selftest_core.draft.batch import decide_draft
from selftest_core.draft.decisions import BlockDecision
from selftest_core.draft.drafting import prepare_draft
from selftest_core.draft.session import DraftSession
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from selftest_core.review.publishing import own_ref
from selftest_core.review.session import ReviewSession
from selftest_core.run.plan.preparation import RunOptions, begin
from selftest_core.sync.preparation import prepare_sync
from selftest_core.verify.on_arrival import isolation_of_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_core.draft.batch import DraftResult
    from selftest_core.run.plan.preparation import Prepared
    from selftest_core.run.store import RunFolder
    from selftest_core.schema.review import ReviewDocument

DRAFTED, WRITTEN = "drafted", "tests-of-blocks"
"""The branches that the draft and the sync are published as, in the demo's repository."""
_FINDING = "confusing because a mistyped file name looks like success"


class WholeLoop:
    """Begins and decides other runs of a demo in `top`. `conduct` conducts a run to its end; `say` gets lines."""

    def __init__(
        self,
        top: Path,
        environ: Mapping[str, str],
        conduct: Callable[[RunFolder], object],
        say: Callable[[str], None],
    ) -> None:
        self._top = top
        self._environ = environ
        self._conduct = conduct
        self._say = say
        self._config = load_config(top, environ, {"env": PLAIN_PYTEST})

    def draft(self) -> tuple[RunFolder, DraftResult]:
        """Draft the heading without blocks; keep what is good, drop the bad example, note why, and publish."""
        options = RunOptions()
        folder = self._begin(
            asyncio.run(prepare_draft((HEADING,), options, self._config, self._environ, self._top, _ignore))
        )
        self._conduct(folder)
        with DraftSession.open(folder, self._environ) as session:
            for block in session.draft.blocks:
                is_bad = "nobody saved" in block.text
                session.decide((block.id,), BlockDecision.DROP if is_bad else BlockDecision.KEEP)
                if is_bad:
                    session.find(block.id, _FINDING)
                    self._say(f"dropped, {_FINDING}: {block.text.splitlines()[-1]}")
        result = decide_draft(folder, self._environ, branch=DRAFTED)
        if result.published is not None:
            self._say(f"{result.published.blocks} proposed blocks kept, published as {DRAFTED}")
        return folder, result

    def sync(self) -> tuple[RunFolder, ReviewDocument | None]:
        """Let agents write the missing tests, review what passed the checks, and publish it."""
        prepared = asyncio.run(
            prepare_sync(
                (), "tests", RunOptions(), self._config, self._environ, self._top, _ignore, isolation_of_claims
            )
        )
        assert prepared.run is not None, "the demo's tutorial has an uncited block"
        folder = self._begin(prepared.run)
        self._conduct(folder)
        return folder, self._publish_tests(folder)

    def _publish_tests(self, folder: RunFolder) -> ReviewDocument | None:
        from selftest_core.schema.review import review_document

        if not any(row.commits for row in folder.read().rows.values()):
            return None
        with ReviewSession.open(Request(run=folder.run), self._top, self._environ, _ignore) as session:
            session.decide([change.oid for change in session.state.reviewed.order], Decision.KEEP)
            published = session.publish(WRITTEN, has_trailers=self._config.publish_trailers)
            self._say(f"{session.state.total} change of written tests kept, published as {WRITTEN}")
            return review_document(session.state.reviewed, own_ref(folder.run, "candidate"), published.ref)

    def _begin(self, prepared: Prepared) -> RunFolder:
        self._say(f"an agent as {prepared.plan.role}: {', '.join(test.node_id for test in prepared.plan.tests)}")
        return begin(prepared, self._environ)


def _ignore(text: str) -> None:
    """Say nothing of the steps."""
