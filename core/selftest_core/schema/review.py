"""JSON of `selftest-tui review --batch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.git.unsafe_paths import cautions
from selftest_core.schema.model import Line, Shape, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.git.history import HistoryCommit
    from selftest_core.review.apply_decisions import Reviewed

type Oid = str


class ReviewItem(Shape):
    """One change. Each commit id of `sources` identifies it."""

    source: Oid
    sources: list[Oid]
    kind: Literal["implementation", "test", "docs", "build", "mixed"]
    agents: list[Text]
    subject: Text
    why: Text = Field(description="Why the change has its place in the ranking.")
    decision: Literal["keep", "revert", "undecided"]
    status: Literal["laid", "held", "void", "dropped"]
    commit: Oid | None = Field(
        description="The change's commit on the candidate branch; changes that are squashed share one."
    )
    conflicts: list[Text]
    needs: list[Oid] = Field(description="Changes that this one needs in order to apply.")
    needed_by: list[Oid]
    lets_in: list[Oid] = Field(description="Changes in conflict that would apply without this one.")
    verified: Literal["passed", "failed", "unknown"]
    cautions: list[Text] = Field(
        default_factory=list, description="Risks that the diff does not show: submodules, settings."
    )


class PublishedCommit(Shape):
    """One commit of the published branch, as it was read back from the repository."""

    oid: Oid
    subject: Text
    authors: list[Text] = Field(description="The author, then everybody in Co-authored-by.")
    authored: str = Field(description="ISO 8601 with its zone.")


class LeftOutItem(Shape):
    """A branch that is not in the review."""

    branch: Text
    reason: Text


class ReviewDocument(Shape):
    """`selftest-tui review --batch`: the items in the order of the branch. `tip`, `tree`: of the candidate branch."""

    review: str
    base: Oid
    tip: Oid
    tree: Oid
    candidate: str
    published: str | None
    commits: list[PublishedCommit] = Field(
        default_factory=list, description="Of the published branch, oldest first; empty where nothing was published."
    )
    pull_request: str | None = Field(None, description="The URL of the pull request that was opened.")
    items: list[ReviewItem]
    left_out: list[LeftOutItem]


class ReviewLine(Line, ReviewDocument):
    """The last line of `selftest-tui review --batch`."""

    event: Literal["summary"] = "summary"


def review_document(
    reviewed: Reviewed,
    candidate: str,
    published: str | None,
    pull_request: str | None = None,
    commits: Sequence[HistoryCommit] = (),
) -> ReviewDocument:
    """Convert a review."""
    plan = reviewed.plan
    placed = {one.item.oid: one for one in reviewed.line.items}
    why = {one.change.oid: one.why for one in plan.ranked}
    needs: dict[str, list[str]] = {}
    for oid, broken in reviewed.dependents.needed_by.items():
        for other in broken:
            needs.setdefault(other, []).append(oid)
    items = [
        ReviewItem(
            source=change.oid,
            sources=list(dict.fromkeys(source.oid for source in change.sources)),
            kind=change.kind.value,
            agents=list(change.agents),
            subject=change.subject,
            why=why[change.oid],
            decision=reviewed.decided[change.oid].value,
            status=placed[change.oid].status.value,
            commit=placed[change.oid].commit,
            conflicts=[_text(conflict.path) for conflict in placed[change.oid].conflicts],
            needs=needs.get(change.oid, []),
            needed_by=list(reviewed.dependents.needed_by.get(change.oid, ())),
            lets_in=list(reviewed.dependents.lets_in.get(change.oid, ())),
            # Nothing re-runs tests yet.
            verified="unknown",
            cautions=[_text(one) for one in cautions(change.paths)],
        )
        for change in reviewed.order
    ]
    return ReviewDocument(
        review=plan.name,
        base=plan.base,
        tip=reviewed.line.tip,
        tree=reviewed.line.tree,
        candidate=candidate,
        published=published,
        commits=[
            PublishedCommit(
                oid=one.oid, subject=one.subject, authors=list(one.authors), authored=one.authored.isoformat()
            )
            for one in commits
        ],
        pull_request=pull_request,
        items=items,
        left_out=[LeftOutItem(branch=name, reason=reason) for name, reason in plan.left_out],
    )


def _text(path: str) -> str:
    """Replace bytes of a path that are not UTF-8: git's paths have them as surrogates, which JSON does not allow."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
