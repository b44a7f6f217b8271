"""The JSON of `selftest-tui review --batch`, as models. Imported by commands that print JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from selftest_core.git.unsafe_paths import cautions
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.schema.registry import Line, Shape, Text

if TYPE_CHECKING:
    from selftest_core.review.apply_decisions import Reviewed

type Oid = str


class ReviewItem(Shape):
    """One distinct change. Any oid of `sources` names it."""

    source: Oid
    sources: list[Oid]
    kind: Literal["implementation", "test", "docs", "build", "mixed"]
    agents: list[Text]
    subject: Text
    why: Text = Field(description="Why it stands where it stands.")
    decision: Literal["keep", "revert", "undecided"]
    status: Literal["laid", "held", "void", "dropped"]
    commit: Oid | None = Field(description="Its commit on the candidate; members of the joint commit share one.")
    conflicts: list[Text]
    needs: list[Oid] = Field(description="Changes without which it would be held.")
    needed_by: list[Oid]
    lets_in: list[Oid] = Field(description="Held changes that would be laid without it.")
    verified: Literal["passed", "failed", "unknown"]
    cautions: list[Text] = Field(default_factory=list, description="What its diff does not say: submodules, settings.")


class LeftOutItem(Shape):
    """A branch that could not be taken."""

    branch: Text
    reason: Text


class ReviewDocument(Shape):
    """`selftest-tui review --batch`: the items in the order of the line. `tip` and `tree` are the candidate's."""

    review: str
    base: Oid
    tip: Oid
    tree: Oid
    candidate: str
    published: str | None
    pull_request: str | None = Field(None, description="The address of the pull request that was opened.")
    items: list[ReviewItem]
    left_out: list[LeftOutItem]


class ReviewLine(Line, ReviewDocument):
    """The last line of `selftest-tui review --batch`."""

    event: Literal["summary"] = "summary"


def review_document(
    reviewed: Reviewed, candidate: str, published: str | None, pull_request: str | None = None
) -> ReviewDocument:
    """What a review has come to, as it is printed."""
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
            decision=_word(reviewed.decided[change.oid]),
            status=_state(placed[change.oid].status),
            commit=placed[change.oid].commit,
            conflicts=[_text(conflict.path) for conflict in placed[change.oid].conflicts],
            needs=needs.get(change.oid, []),
            needed_by=list(reviewed.dependents.needed_by.get(change.oid, ())),
            lets_in=list(reviewed.dependents.lets_in.get(change.oid, ())),
            # Only tests that we re-run ourselves can verify, and nothing does that yet.
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
        pull_request=pull_request,
        items=items,
        left_out=[LeftOutItem(branch=name, reason=reason) for name, reason in plan.left_out],
    )


def _text(path: str) -> str:
    """A path of git: bytes that are not UTF-8 came as surrogates, which no JSON reader accepts."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _word(decision: Decision) -> Literal["keep", "revert", "undecided"]:
    match decision:
        case Decision.KEEP:
            return "keep"
        case Decision.REVERT:
            return "revert"
        case Decision.UNDECIDED:
            return "undecided"


def _state(status: Status) -> Literal["laid", "held", "void", "dropped"]:
    match status:
        case Status.LAID:
            return "laid"
        case Status.HELD:
            return "held"
        case Status.VOID:
            return "void"
        case Status.DROPPED:
            return "dropped"
