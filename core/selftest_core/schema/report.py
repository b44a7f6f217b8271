"""JSON of a report: `report/run.json`, which is also what `selftest-tui report --json` prints.

One document for a run, with its review where there is one, or for a review without a run. Everything that an agent
wrote is here as it wrote it: untrusted. Paths are relative: to the folder of the report where a page or a script is
meant, else to the folder of the run. Diffs and transcripts are in the pages only.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from selftest_core.schema.comparison import ComparisonDocument  # noqa: TC001 -- pydantic reads it
from selftest_core.schema.draft import DraftDocument  # noqa: TC001 -- pydantic reads it
from selftest_core.schema.model import Instant, Line, Shape, Text, UsageItem
from selftest_core.schema.review import LeftOutItem, PublishedCommit, ReviewItem, VerificationItem, VerifiedTest
from selftest_core.schema.run import ClusterItem, LevelItem, OutcomeCounts, RunUsageItem, SmokeItem  # noqa: TC001 -- for pydantic
from selftest_core.schema.run_detail import EscalationItem, TestItem
from selftest_core.schema.run_plan import SuiteFields

type Oid = str


class ReportProblem(Shape):
    """Something that is missing from the report, in words. `page`: where it is missing, empty for the whole report."""

    page: Text = ""
    says: Text


class ReportEscalation(EscalationItem):
    """An escalation, with the test whose agent reports it. `slug`: the test's, for links."""

    test: Text
    slug: str


class ReportMarker(Shape):
    """A marker of a recording. `at`: seconds from its beginning."""

    at: float
    label: Text


class ReportRecording(Shape):
    """One recording of a terminal."""

    name: str = Field(description="Unique in the report.")
    script: str | None = Field(description="The script that holds it, null where it is not in the report.")
    attempt: int
    path: Text = Field(description="The recording's own file.")
    bytes: int
    seconds: float | None = Field(description="Its length.")
    cols: int
    rows: int
    markers: list[ReportMarker]
    problem: Text = Field(description="Why it is not in the report, or what was repaired.")


class ReportText(Shape):
    """A text file, such as a transcript. The page shows its beginning and its end."""

    path: Text
    bytes: int
    left_out: int = Field(description="Bytes between beginning and end that the page does not show.")
    problem: Text = ""


class ReportFile(Shape):
    """A file that an agent left."""

    path: Text
    bytes: int


class ReportAttempt(Shape):
    """One attempt at a test: one agent. `says`: why another one followed, empty for the last."""

    number: int
    agent: Text
    agent_id: Text
    provider: Text
    host: Text
    reason: Text = Field(description="launch, lost, asked, answered or gone where another one followed, else empty.")
    says: Text
    usage: UsageItem | None


class ReportTestRun(Shape):
    """One run of the test, as the agent reports it."""

    name: Text
    description: Text


class ReportTest(TestItem):
    """One test of a run, with everything that is known of it."""

    slug: str = Field(description="Unique in the report; its page is `tests/<slug>.html`.")
    page: str
    group: Literal["failed", "blocked", "stopped", "not_started", "succeeded", "unchanged"]
    is_ended: bool = Field(description="False: it still runs or waits, and `outcome` says how it would count now.")
    attention: Text = Field(description="Why its agent needs a person, empty where it does not.")
    stage: Text = Field(description="Where a failure happened.")
    signature: Text = Field(description="Equal for failures with one cause.")
    blocks: list[Text] = Field(description="The blocks of the tutorial that it cites, word for word.")
    importance_reason: Text = ""
    claimed: Literal["passed", "failed"] | None = Field(description="What the agent says of the test.")
    verified: Literal["passed", "failed", "flaky", "unknown"] = Field(
        description="Our own run of it, when it arrived, else in the newest verification of the review."
    )
    verified_reason: Text
    verdict: VerifiedTest | None = Field(description="The test in the newest verification of the review.")
    output: Text = Field(description="The end of the output of its red run in that verification, empty without one.")
    started_at: Instant | None
    ended_at: Instant | None
    seconds: float | None = Field(description="From the launch of the last agent to the end.")
    attempts: list[ReportAttempt]
    commits: int = Field(description="Commits on the branch of the last agent.")
    tip: str | None = Field(description="The last commit of that branch.")
    oids: list[Oid] = Field(description="The changes of the report that this agent made, alone or with others.")
    test_runs: list[ReportTestRun]
    transcript: ReportText | None = Field(description="Transcript of the command line.")
    conversation: ReportText | None = Field(description="What the agent said and did.")
    recordings: list[ReportRecording]
    files: list[ReportFile]
    problems: list[Text] = Field(description="What is missing, in words.")


class ReportSource(Shape):
    """One commit of one agent that is part of a change."""

    oid: Oid
    agent: Text
    slug: str | None = Field(description="The agent's test in the report, null where there is none.")


class ReportPath(Shape):
    """One file of a change."""

    path: Text
    status: Literal["added", "deleted", "modified"]


class ReportChange(ReviewItem):
    """One distinct change, as `review --batch` has it, with its page and the note of the person."""

    page: str
    members: list[ReportSource]
    note: Text
    lines: int = Field(description="Lines added and removed.")
    paths: list[ReportPath]
    message: Text = Field(description="The whole message of the commit.")
    published: Oid | None = Field(description="The commit of the published branch that has it.")
    problem: Text = Field("", description="Why its diff is not in the report.")


class ReportPublication(Shape):
    """One publication of the review. `at`: null where it is unknown."""

    ref: Text
    tip: Oid
    at: Instant | None


class ReportReview(Shape):
    """The review of the changes: decisions, publications, verification."""

    id: Text
    base: Oid
    tip: Oid | None
    tree: Oid | None
    opened_at: Instant | None = Field(description="null: nobody has opened it yet.")
    decisions: dict[Literal["keep", "revert", "undecided"], int]
    statuses: dict[Literal["laid", "held", "void", "dropped"], int]
    acts: int = Field(description="Decisions, moves, notes and resolutions that are in effect.")
    seconds: float | None = Field(
        description="Time that a person spent, from the times of the acts: pauses of more than five minutes do not "
        "count. null: no act."
    )
    publications: list[ReportPublication]
    published: ReportPublication | None = Field(description="The last publication.")
    commits: list[PublishedCommit] = Field(description="Of the published branch, read back from the repository.")
    verification: VerificationItem | None = Field(description="The newest one, of the candidate or of what is kept.")
    verified_at: Instant | None
    verification_of: Literal["candidate", "kept", "earlier"] | None = Field(
        description="What the tree of the verification is now. earlier: decisions were made since."
    )
    left_out: list[LeftOutItem]


class ReportDocument(SuiteFields):
    """`report/run.json`: one run or one review. The counts add up to the tests."""

    version: Literal[1] = 1
    id: Text = Field(description="The id of the run or of the review.")
    kind: Literal["run", "review"]
    repository: Text = Field(description="The name of the repository's folder.")
    state: Literal["live", "ended", "resumable", "unreadable", "review"]
    base: Oid | None
    written_at: Instant
    created_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    provider: Text
    agent_type: Text
    paused: Text
    left: Text | None = Field(description="Why the conductor ended, as in the summary of `run --batch`.")
    outcomes: OutcomeCounts | None = Field(description="null for a review without a run.")
    verified: dict[Literal["passed", "failed", "flaky"], int] = Field(description="Tests that we ran, by verdict.")
    clusters: list[ClusterItem]
    escalations: list[ReportEscalation] = Field(description="Blockers first.")
    escalation_counts: dict[Text, int] = Field(
        description="Number of escalations of each kind, unknown kinds included."
    )
    usage: RunUsageItem | None
    at_once: list[LevelItem] = Field(
        [], description="The numbers of agents at a time, in their order; more than one where the run adapted it."
    )
    smoke: list[SmokeItem]
    review: ReportReview | None
    tests: list[ReportTest]
    changes: list[ReportChange]
    problems: list[ReportProblem]
    role: Literal["tester", "drafter", "writer", "integrator"] = Field(
        "tester", description="The work of the run's agents; of other roles than testers, `tests` are their tasks."
    )
    draft: DraftDocument | None = Field(
        None, description="What agents proposed for the tutorial, what was decided, and the findings; null: no draft."
    )
    since: ComparisonDocument | None = Field(
        None, description="The run compared with the run before it; null while it goes on, and without a run before."
    )


class ReportAnswer(Shape):
    """`selftest-tui report --json`: where the report is, and the report."""

    path: Text = Field(description="The path of index.html.")
    report: ReportDocument


class ReportLine(Line, ReportAnswer):
    """`selftest-tui report --batch`."""

    event: Literal["summary"] = "summary"
