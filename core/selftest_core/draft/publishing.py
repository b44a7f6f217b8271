"""Publish what is kept of a draft: one commit on a branch of the person's choice, by plumbing alone.

The commit stands on the run's base. The branch must be new, or still where this draft last published it, and checked
out nowhere (`review.publishing`); no work tree and no index is touched. The same decisions give the same commit.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.draft.decisions import BlockDecision
from selftest_core.draft.proposals import ProposalKind, compose
from selftest_core.errors import RefusedError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git, find_place
from selftest_core.git.object_store import ObjectStore
from selftest_core.git.objects import Commit
from selftest_core.git.trees import LiveTree, TreeReader, parts_of
from selftest_core.review.candidate_branch import COMMITTER
from selftest_core.review.changes.provenance import add_trailers
from selftest_core.review.publishing import publish_commit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.draft.decisions import DraftDecisions
    from selftest_core.draft.draft import Draft, DraftedHeading
    from selftest_core.draft.proposals import ProposedBlock
    from selftest_core.run.store import RunFolder

_MOST_COMMITS = 100


@dataclass(frozen=True, slots=True)
class PublishedDraft:
    """A published draft: the full ref, its commit, and the number of its blocks."""

    ref: str
    tip: str
    blocks: int


def nothing_kept_reason(draft: Draft, decisions: DraftDecisions) -> str:
    """The reason why there is nothing to publish, empty where there is something."""
    kept = _kept(draft, decisions)
    if not kept:
        return "no block is kept"
    return "" if compose(draft.text, kept) != draft.text else "what is kept changes nothing"


def publish_draft(
    folder: RunFolder, draft: Draft, decisions: DraftDecisions, branch: str, environ: Mapping[str, str]
) -> PublishedDraft:
    """Publish the kept blocks. Raises RefusedError (exit 4) as `review.publishing.publish` does, UsageError."""
    kept = _kept(draft, decisions)
    reason = nothing_kept_reason(draft, decisions)
    if reason:
        raise RefusedError("Nothing is published", f"In this draft {reason}.", "Keep a block first.")
    place = find_place(Path(folder.plan().repository), environ)
    with (
        tempfile.TemporaryDirectory(dir=folder.path, prefix="publishing-") as made,
        ObjectStore.open(Path(made) / "git", place.git_dir, environ) as store,
    ):
        text = compose(draft.text, kept)
        tree = LiveTree(TreeReader(store), store.tree_of(draft.base))
        blob = store.write(b"blob", text.encode("utf-8", "surrogateescape"))
        tree.put(parts_of(draft.tutorial), (draft.mode.encode(), blob))
        headings = [one for one in draft.headings if any(block.heading == one.id for block, _ in kept)]
        commits = [store.commit(oid) for one in headings for oid in _commits(store.git, draft.base, one.tip)]
        people = dict.fromkeys(commit.author.rpartition(b">")[0] + b">" for commit in commits)
        date = max((b" ".join(commit.author.rsplit(maxsplit=2)[-2:]) for commit in commits), key=_seconds)
        message = _message(draft, kept, headings, list(people))
        who = COMMITTER + b" " + date
        tip = store.write_commit(Commit(tree.flush(), (draft.base,), who, who, message))
        ref = publish_commit(store, Git(place.git_dir, environ), draft.run, branch, tip, draft.base)
    return PublishedDraft(ref, tip, len(kept))


def _kept(draft: Draft, decisions: DraftDecisions) -> list[tuple[ProposedBlock, str]]:
    return [(block, decisions.text_of(block)) for block in draft.blocks if decisions.on(block) is BlockDecision.KEEP]


def _commits(git: Git, base: str, tip: str) -> list[str]:
    return git.ask("rev-list", f"--max-count={_MOST_COMMITS}", tip, f"^{base}").split()


def _seconds(date: bytes) -> tuple[int, bytes]:
    return int(date.split()[0]), date


def _message(
    draft: Draft, kept: Sequence[tuple[ProposedBlock, str]], headings: Sequence[DraftedHeading],
    people: Sequence[bytes],
) -> bytes:  # fmt: skip
    verbs = {ProposalKind.NEW: "add", ProposalKind.EDITED: "edit", ProposalKind.REMOVED: "remove"}
    counts = [(verb, sum(block.kind is kind for block, _ in kept)) for kind, verb in verbs.items()]
    told = [f"{verb} {count} {'block' if count == 1 else 'blocks'}" for verb, count in counts if count]
    subject = f"{', '.join(told)} of {draft.tutorial}"
    lines = [subject[:1].upper() + subject[1:], "", *(f"- {one.id}" for one in headings), ""]
    credit = b"\n".join(b"Co-authored-by: " + person for person in people)
    own = "\n".join(lines).encode("utf-8", "replace") + b"\n" + credit + b"\n"
    return add_trailers(own, [("Run", draft.run), *(("Agent", one.agent) for one in headings)])
