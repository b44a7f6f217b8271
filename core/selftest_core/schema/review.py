"""JSON of `selftest-tui review --batch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from selftest_core.review.decisions import Rule, rule_of
from selftest_core.schema.check import CheckOfTree  # noqa: TC001 -- pydantic reads it
from selftest_core.schema.model import EPOCH, Line, Shape, Text, instant
from selftest_core.verify.schedule import ALONE
from selftest_core.verify.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.git.history import HistoryCommit
    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.changes.collect_changes import Change
    from selftest_core.review.review_log import Integration, Integrations
    from selftest_core.verify.batch import Answer as VerifyAnswer
    from selftest_core.verify.schedule import TestReport
    from selftest_core.verify.verification import Verification
    from selftest_core.verify.verifier import Progress

type Oid = str


type VerdictWord = Literal["green", "red", "flaky", "order-dependent", "cannot fail", "skipped", "missing", "unknown"]


class VerifiedTest(Shape):
    """A test that was run again. `before`: on the base with the candidate's test files; `after`: on the candidate."""

    id: Text
    before: VerdictWord | None
    after: VerdictWord
    verdict: Literal["fixed", "kept", "still red", "broken", "new", "gone", "flaky", "unknown"]
    seconds: float | None = Field(description="Of its first run on the candidate.")
    runs: int = Field(description="Runs on the candidate.")
    assertions: int | None = Field(None, description="`assert` statements that held in its first run; null: unknown.")
    assertions_before: int | None = Field(None, description="The same before, also where it failed then.")
    fixed_by: Oid | None = Field(
        None, description="The change that turns it green, where another one claims that and does not."
    )
    as_base_has_it: Text = Field(
        "", description="Its verdict with the test files of the base, where that is not green."
    )
    flaky_before: int = Field(0, description="Trees of this repository on which the test was flaky.")
    reason: Text = ""


class BrokenTest(Shape):
    """A test and the change that turns it red."""

    test: Text
    culprit: Oid


class UncollectedFile(Shape):
    """A file whose tests could not be collected. `message`: the last line of the error."""

    path: Text
    message: Text
    breaker: Oid | None = Field(description="The change that is the cause, where that is known.")


class UnverifiedTest(Shape):
    """A test that did not pass, or of which that proves nothing."""

    test: Text
    verdict: VerdictWord
    reason: Text


class VerificationItem(Shape):
    """The verification of one tree. Counts are of this call; `from_cache` counts results of earlier ones."""

    tree: Oid
    verdict: Literal["passed", "failed", "flaky", "unknown"]
    suite: Literal["owned", "whole"] = Field(description="Tests that changes own or affect, or the whole suite.")
    executions: int
    processes: int
    checkouts: int
    from_cache: int
    isolation: Text = Field(description="bubblewrap, none, or host: the tests ran on the hosts that `reason` names.")
    environment: Text = Field("", description="The interpreter that ran the tests, and where it was found.")
    seconds: float
    broken: list[BrokenTest]
    flaky: list[Text]
    reason: Text = ""
    vanished: list[Text] = Field(
        [], description="Tests of the base that are not collected any more; none if it passed."
    )
    collection_errors: list[UncollectedFile] = Field([])
    not_verified: list[UnverifiedTest] = Field([], description="All tests that were wanted, and are not green.")


class IntegrationItem(Shape):
    """The work of an agent on the conflict of a change (`review --integrate`)."""

    run: str
    agent: Text
    state: Literal["working", "resolved", "refused"]
    reason: Text = Field("", description="The reason why its answer was refused: the change is in conflict still.")


class ReviewItem(Shape):
    """One change. Each commit id of `sources` identifies it."""

    source: Oid
    sources: list[Oid]
    part_of: Oid | None = Field(
        None, description="The change that was split; `source` is a commit of this review then. null: a whole change."
    )
    kind: Literal["implementation", "test", "docs", "build", "mixed"]
    agents: list[Text]
    subject: Text
    why: Text = Field(description="Why the change has its place in the ranking.")
    decision: Literal["keep", "revert", "undecided"]
    decided_by: Literal["items", "kinds", "default", "alternatives"] = Field(
        "default",
        description="The part of the decisions that decides it. alternatives: another one of its row is chosen.",
    )
    row: Oid = Field(description="The id of its row: changes that say the same in other words, of which one is chosen.")
    chosen: bool = Field(description="It is the one of its row that is applied; the others are `dropped`.")
    status: Literal["laid", "held", "void", "dropped"]
    commit: Oid | None = Field(
        description="The change's commit on the candidate branch; changes that are squashed share one."
    )
    conflicts: list[Text]
    resolved: list[Text] = Field(
        default_factory=list,
        description="Paths whose conflict was resolved: what is applied is not the agent's commit.",
    )
    resolved_by: list[Text] = Field(
        default_factory=list,
        description="For each path of `resolved`: person, memory (a person in an earlier review), union (both sides "
        "of a changelog), or the name of the agent.",
    )
    integration: IntegrationItem | None = Field(
        None, description="The agent that works, or worked last, on its conflict; null where none did."
    )
    needs: list[Oid] = Field(description="Changes that this one needs in order to apply.")
    needed_by: list[Oid]
    lets_in: list[Oid] = Field(description="Changes in conflict that would apply without this one.")
    verified: Literal["passed", "failed", "flaky", "unknown"] = Field(
        description="Our own run of its tests on the candidate branch. unknown: not verified, or `reason` says why."
    )
    claimed: Literal["passed", "failed"] | None = Field(None, description="What its agents say of their tests.")
    tests: list[VerifiedTest] = Field(default_factory=list, description="The tests that the change owns.")
    broke: list[Text] = Field(default_factory=list, description="Tests of others that the change turns red.")
    marks: list[
        Literal[
            "liar",
            "culprit",
            "changes its own judge",
            "passes only as it edits the test",
            "fewer assertions run",
            "claims a fix that is not there",
            "proves nothing new",
        ]
    ] = Field(default_factory=list)
    reason: Text = Field("", description="The reason for any verdict but passed.")
    cautions: list[Text] = Field(
        default_factory=list, description="Risks: weakened tests with their lines, submodules, settings of git."
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
    candidate: str | None = Field(
        description="The ref of the candidate branch; null for `verify`, where `refused` says why none was written, "
        "and where a decisions file differs from what was decided on the screen."
    )
    published: str | None
    refused: Text = Field("", description="The reason why `--require-verified` let no ref be written.")
    commits: list[PublishedCommit] = Field(
        default_factory=list, description="Of the published branch, oldest first; empty where nothing was published."
    )
    pull_request: str | None = Field(None, description="The URL of the pull request that was opened.")
    report: Text | None = Field(
        None, description="The path of the report, written where a branch was published or verified."
    )
    check: CheckOfTree | None = Field(
        None,
        description="Of a run of `sync`: the answer of `check` for the published tree; for the candidate's where "
        "nothing was published. null: of other runs.",
    )
    items: list[ReviewItem]
    left_out: list[LeftOutItem]
    verification: VerificationItem | None = Field(
        None, description="Of the candidate, with undecided changes. null: nothing was verified."
    )
    published_verification: VerificationItem | None = Field(
        None, description="Of the exact tree that is published: the base with what is kept. null: none was asked for."
    )
    kept_weakening: list[Oid] = Field(
        default_factory=list, description="Kept changes that weaken a test; the lines are in their `cautions`."
    )
    guarded: list[Oid] = Field(
        default_factory=list,
        description="Changes that `kinds` does not keep, since they weaken a test or ask by their `marks`.",
    )


class ReviewLine(Line, ReviewDocument):
    """The last line of `selftest-tui review --batch` and `verify --batch`."""

    event: Literal["summary"] = "summary"


class TestLine(Line):
    """A line of `selftest-tui verify --batch` and `review --batch --verify`: one run of one test ended."""

    event: Literal["tested"] = "tested"
    test: Text
    tree: Oid
    purpose: Text = Field(description="The question that the run answers, such as candidate, repeat, bisect.")
    attempt: int | None = Field(description="Earlier runs of the test on this tree; null for a run without others.")
    result: Literal[
        "passed",
        "failed",
        "error",
        "skipped",
        "xfailed",
        "xpassed",
        "flaky",
        "timeout",
        "crashed",
        "missing",
        "not run",
    ]
    seconds: float | None
    reason: Text


class VerdictLine(Line):
    """A line of `selftest-tui verify --batch` and `review --batch --verify`: the verdict on one change."""

    event: Literal["verdict"] = "verdict"
    source: Oid
    subject: Text
    verified: Literal["passed", "failed", "flaky", "unknown"]
    claimed: Literal["passed", "failed"] | None
    broke: list[Text]
    marks: list[Text]
    reason: Text


def test_line(progress: Progress, at: float, run: str | None) -> TestLine:
    """Convert one run of a test."""
    return TestLine.model_validate(
        {
            "at": instant(at) or EPOCH,
            "run": run,
            "test": progress.test,
            "tree": progress.job.tree,
            "purpose": progress.job.purpose,
            "attempt": None if (number := dict(progress.job.runs)[progress.test]) == ALONE else number,
            "result": progress.run.result.value,
            "seconds": progress.run.seconds,
            "reason": progress.run.reason,
        }
    )


def verdict_line(item: ReviewItem, at: float, run: str | None) -> VerdictLine:
    """Convert the verdict on one change."""
    fields = item.model_dump(include={"source", "subject", "verified", "claimed", "broke", "marks", "reason"})
    return VerdictLine(at=instant(at) or EPOCH, run=run, **fields)


def review_document(
    reviewed: Reviewed,
    candidate: str | None,
    published: str | None,
    pull_request: str | None = None,
    commits: Sequence[HistoryCommit] = (),
    verified: VerifyAnswer | None = None,
    refused: str = "",
    integrations: Integrations | None = None,
) -> ReviewDocument:
    """Convert a review, and its verification where there was one."""
    plan = reviewed.plan
    placed = {one.item.oid: one for one in reviewed.line.items}
    why = {one.change.oid: one.why for one in reviewed.ranked}
    needs: dict[str, list[str]] = {}
    for oid, broken in reviewed.dependents.needed_by.items():
        for other in broken:
            needs.setdefault(other, []).append(oid)
    items = [
        ReviewItem(
            source=change.oid,
            sources=list(dict.fromkeys(source.oid for source in change.sources)),
            part_of=None if change.part is None else change.part.of,
            kind=change.kind.value,
            agents=list(change.agents),
            subject=change.subject,
            why=why[change.oid],
            decision=reviewed.decided[change.oid].value,
            decided_by=_rule(reviewed, change).value,
            row=reviewed.row_of[change.oid].id,
            chosen=reviewed.is_chosen(change.oid),
            status=placed[change.oid].status.value,
            commit=placed[change.oid].commit,
            conflicts=[_text(conflict.path) for conflict in placed[change.oid].conflicts],
            resolved=[_text(answer.path) for answer in placed[change.oid].answers],
            resolved_by=[answer.by for answer in placed[change.oid].answers],
            integration=None if integrations is None else _integration_item(integrations.by_change.get(change.oid)),
            needs=needs.get(change.oid, []),
            needed_by=list(reviewed.dependents.needed_by.get(change.oid, ())),
            lets_in=list(reviewed.dependents.lets_in.get(change.oid, ())),
            **_verified_fields(change.oid, None if verified is None else verified.verification),
            cautions=[_text(one) for one in change.cautions],
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
        refused=refused,
        commits=[
            PublishedCommit(
                oid=one.oid, subject=one.subject, authors=list(one.authors), authored=one.authored.isoformat()
            )
            for one in commits
        ],
        pull_request=pull_request,
        report=None,
        check=None,
        items=items,
        left_out=[LeftOutItem(branch=name, reason=reason) for name, reason in plan.left_out],
        verification=None if verified is None else _verification_item(verified, verified.verification),
        published_verification=(
            None if verified is None or verified.published is None else _verification_item(verified, verified.published)
        ),
        kept_weakening=[change.oid for change in reviewed.kept_weakening],
        guarded=[change.oid for change in reviewed.guarded],
    )


def _rule(reviewed: Reviewed, change: Change) -> Rule:
    if not reviewed.is_chosen(change.oid):
        return Rule.ALTERNATIVE
    return Rule.DEFAULT if change.oid in reviewed.asking else rule_of(change, reviewed.decisions)


def _integration_item(found: Integration | None) -> IntegrationItem | None:
    if found is None:
        return None
    state: Literal["working", "resolved", "refused"] = "working"
    if found.is_ended:
        state = "refused" if found.reason else "resolved"
    return IntegrationItem(run=found.run, agent=found.agent, state=state, reason=found.reason)


def _verified_fields(oid: str, verification: Verification | None) -> dict[str, Any]:
    verdict = None if verification is None else verification.items.get(oid)
    if verification is None or verdict is None:
        return {"verified": "unknown"}
    claims: dict[bool | None, str | None] = {True: "passed", False: "failed", None: None}
    return {
        "verified": verdict.verified.value,
        "claimed": claims[verdict.claimed],
        "tests": [verified_test(one, verification.flaky_before) for one in verdict.tests],
        "broke": list(verdict.broke),
        "marks": [mark.value for mark in verdict.marks],
        "reason": verdict.reason,
    }


def verified_test(report: TestReport, flaky_before: Mapping[str, int]) -> VerifiedTest:
    """Convert a test that was run again. `flaky_before`: trees on which each test was flaky."""
    return VerifiedTest.model_validate(
        {
            "id": report.test,
            "before": None if report.before is None else report.before.value,
            "after": report.after.value,
            "verdict": report.effect.value,
            "seconds": report.runs[0].seconds if report.runs else None,
            "runs": len(report.runs),
            "assertions": report.runs[0].assertions if report.runs else None,
            "assertions_before": report.assertions_before,
            "fixed_by": report.fixed_by,
            "as_base_has_it": report.only_edited,
            "flaky_before": flaky_before.get(report.test, 0),
            "reason": report.reason or (report.runs[0].reason if report.runs else ""),
        }
    )


def _verification_item(answer: VerifyAnswer, one: Verification) -> VerificationItem:
    return VerificationItem(
        tree=one.tree,
        verdict=one.verified.value,
        suite="whole" if one.is_whole_suite else "owned",
        executions=one.executions,
        processes=one.processes,
        checkouts=one.checkouts,
        from_cache=one.from_cache,
        isolation=answer.isolation.kind,
        environment=answer.environment,
        seconds=round(answer.seconds, 3),
        broken=[BrokenTest(test=test, culprit=culprit) for test, culprit in one.broken],
        flaky=list(one.flaky),
        reason=answer.isolation.reason,
        vanished=list(one.vanished),
        collection_errors=[
            UncollectedFile(path=_text(file.path), message=file.message, breaker=file.breaker)
            for file in one.collection_errors
        ],
        not_verified=[
            UnverifiedTest.model_validate(
                {
                    "test": test.test,
                    "verdict": test.after.value,
                    "reason": test.reason or (test.runs[0].reason if test.runs else ""),
                }
            )
            for test in one.tests
            if test.after is not Verdict.GREEN
        ],
    )


def _text(path: str) -> str:
    """Replace bytes of a path that are not UTF-8: git's paths have them as surrogates, which JSON does not allow."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
