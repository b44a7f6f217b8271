"""Builder of a report: the facts of a run and of its review as one document, and the facts of single pages on demand.

    with run_report(folder, environ) as builder:
        document = builder.build()
        page = builder.test_page(document, document.tests[0])

It keeps what it has read, so that a second `build` reads only what changed.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from selftest_core.compare.comparison import has_results
from selftest_core.compare.reading import compare_runs, previous_run
from selftest_core.draft.batch import look_at_draft
from selftest_core.errors import SelftestError
from selftest_core.journal import is_held, read
from selftest_core.review.changes.inputs import Inputs, inputs_of_run
from selftest_core.run.conduct.circuit_breaker import run_clusters
from selftest_core.run.fold import fold
from selftest_core.schema.comparison import comparison_document
from selftest_core.schema.draft import draft_document
from selftest_core.schema.model import EPOCH, instant
from selftest_core.schema.report import ReportDocument, ReportProblem
from selftest_core.schema.review import verified_test
from selftest_core.schema.run import cluster_items, level_items, outcome_counts, run_usage_item, smoke_item
from selftest_core.schema.run_plan import suite_fields
from selftest_core.verify.verdicts import Verdict
from selftest_recorder.report.facts import ChangePage, TestPage, TextPart
from selftest_recorder.report.moment_links import MomentLinks
from selftest_recorder.report.review_facts import ReviewFacts, ReviewReader, review_stamp
from selftest_recorder.report.run_facts import TestFacts, escalations, read_tests
from selftest_recorder.report.texts import read_text
from selftest_recorder.report.unreadable_plan import readable_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from selftest_core.git.diffs import FileDiff
    from selftest_core.review.decisions import Decisions
    from selftest_core.run.fold import Run
    from selftest_core.run.store import RunFolder
    from selftest_core.schema.comparison import ComparisonDocument
    from selftest_core.schema.draft import DraftDocument
    from selftest_core.schema.report import ReportChange, ReportTest, ReportText
    from selftest_recorder.report.facts import MomentLink


_VERIFIED = {
    Verdict.GREEN: "passed", Verdict.RED: "failed", Verdict.FLAKY: "flaky", Verdict.ORDER_DEPENDENT: "flaky",
}  # fmt: skip

_MOST_LINES = 200
"""Lines of a change whose diff is on the pages of its tests, too."""


class ReportBuilder:
    """Builds the report of one run (`folder`) or of one review without a run (`inputs`). For one thread; close it.

    `home`: the folder of the run or review, in which the folder `report` is made. `onto`: the commit that the changes
    of a run are rebased onto; `inputs` has that of a review.
    """

    def __init__(
        self,
        home: Path,
        environ: Mapping[str, str],
        folder: RunFolder | None = None,
        inputs: Inputs | None = None,
        onto: str | None = None,
    ) -> None:
        self.home = home
        self.environ = dict(environ)
        self._folder = folder
        self._inputs = inputs
        self._onto = onto
        self._known: dict[str, TestFacts] = {}
        self._reader: ReviewReader | None = None
        self._review: ReviewFacts | None = None
        self._problem = ""
        self._stamp: object = None
        self._moments = MomentLinks(home)
        self._diffs: dict[str, ChangePage] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes that read git's objects."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def build(self, run: Run | None = None, decisions: Decisions | None = None) -> ReportDocument:
        """Build the document. `run`: where the journal was read already. `decisions`: of a decisions file.

        What is missing or cannot be read becomes a problem.
        """
        self._diffs.clear()
        if self._folder is None:
            return self._of_review(decisions)
        folder = self._folder
        run, reason = (_read_run(folder)) if run is None else (run, "")
        tests = read_tests(folder, run, self._known)
        review = self._read_review(run, decisions)
        problems = self._problems(review)
        if review is not None:
            tests = _with_review(tests, review)
        told = escalations(tests)
        plan = run.plan
        draft, problem = self._read_draft(run)
        problems += [problem] if problem else []
        is_live = run.left is None and is_held(folder.journal)
        ended = [row.ended_at for row in run.rows.values() if row.ended_at is not None]
        since, problem = self._compare(run) if not reason and (run.is_over or not is_live) else (None, None)
        problems += [problem] if problem else []
        if reason:
            problems.insert(0, ReportProblem(says=f"{reason}. Only what can be read is shown."))
        if not run.rows:
            problems.append(ReportProblem(says="The run has no tests."))
        return ReportDocument(
            id=folder.run,
            kind="run",
            repository=Path(plan.repository).name,
            state="unreadable" if reason else "ended" if run.is_over else "live" if is_live else "resumable",
            base=plan.base,
            written_at=instant(time.time()) or EPOCH,
            created_at=instant(plan.created_at),
            started_at=instant(run.started_at),
            ended_at=instant(max(ended)) if run.is_over and ended else None,
            provider=plan.provider,
            agent_type=plan.agent_type,
            paused=run.paused,
            left=run.left,
            outcomes=outcome_counts(run.ends()),
            verified=dict(Counter(test.verified for test in tests if test.verified != "unknown")),
            clusters=cluster_items(run_clusters(run)),
            escalations=told,
            escalation_counts=dict(Counter(one.kind for one in told)),
            usage=run_usage_item(run),
            at_once=level_items(run),
            smoke=[smoke_item(one) for one in run.smoke],
            review=None if review is None else review.review,
            tests=tests,
            changes=[] if review is None else list(review.changes),
            problems=problems,
            role=plan.role,
            draft=draft,
            since=since,
            **suite_fields(plan.suite),
        )

    def test_page(self, report: ReportDocument, test: ReportTest) -> TestPage:
        """Read the facts of the page of one test; problems of its files are added to it."""
        transcript, first = self._text(test.transcript)
        conversation, second = self._text(test.conversation)
        problems = [*test.problems, *(problem for problem in (first, second) if problem)]
        evidence = None if self._inputs is None else self._inputs.evidence.get(test.agent)
        red = None if evidence is None else self._moments.of_red(test, evidence)
        wanted = set(test.oids)
        small = [one for one in report.changes if one.source in wanted and one.lines <= _MOST_LINES]
        diffs = {one.source: self._diff_of(report, one) for one in small}
        return TestPage(report, test.model_copy(update={"problems": problems}), transcript, conversation, red, diffs)

    def change_page(self, report: ReportDocument, change: ReportChange) -> ChangePage:
        """Read the facts of the page of one change; a diff that cannot be read is a problem of it."""
        page = self._diff_of(report, change)
        if self._reader is None or page.change.problem:
            return page
        return replace(page, published=self._reader.published(change, page.files))

    def _diff_of(self, report: ReportDocument, change: ReportChange) -> ChangePage:
        """Read the diff of a change and its moments; small ones are kept until the next `build`."""
        known = self._diffs.get(change.source)
        if known is None:
            known = self._read_diff(report, change)
            if change.lines <= _MOST_LINES:
                self._diffs[change.source] = known
        return known

    def _read_diff(self, report: ReportDocument, change: ReportChange) -> ChangePage:
        try:
            files = () if self._reader is None else self._reader.diff(change.source)
        except KeyError:
            return ChangePage(report, change.model_copy(update={"problem": "The commit does not exist any more."}), ())
        except SelftestError as error:
            says = f"Its diff cannot be read: {error.title}. {error.detail}"
            return ChangePage(report, change.model_copy(update={"problem": says}), ())
        return ChangePage(report, change, files, self._moments_of(report, change, files))

    def _moments_of(
        self, report: ReportDocument, change: ReportChange, files: Sequence[FileDiff]
    ) -> dict[tuple[int, int], MomentLink]:
        """Find when the first agent that made the change made each of its hunks."""
        agent = next((one.agent for one in change.members if one.oid == change.source), "")
        evidence = None if self._inputs is None else self._inputs.evidence.get(agent)
        if evidence is None or self._reader is None:
            return {}
        return self._moments.of_hunks(report, files, self._reader.commit(change.source), agent, evidence)

    def path_of(self, place: str) -> Path:
        """Return a file of the run by its path in the document."""
        return self.home / place

    def _text(self, text: ReportText | None) -> tuple[TextPart | None, str]:
        return (None, "") if text is None else read_text(self.home / text.path)

    def _of_review(self, decisions: Decisions | None) -> ReportDocument:
        assert self._inputs is not None
        review = self._read_changes(self._inputs, {}, decisions)
        return ReportDocument(
            id=self.home.name, kind="review", repository=self._inputs.place.top.name, state="review",
            base=self._inputs.targets.base, written_at=instant(time.time()) or EPOCH, created_at=None,
            started_at=None if review is None else review.review.opened_at, ended_at=None, provider="", agent_type="",
            paused="", left=None, outcomes=None, verified={}, clusters=[], escalations=[], escalation_counts={},
            usage=None, at_once=[], smoke=[], review=None if review is None else review.review, tests=[],
            changes=[] if review is None else list(review.changes), problems=self._problems(review), role="tester",
            draft=None, since=None,
            **suite_fields(None),
        )  # fmt: skip

    def _read_draft(self, run: Run) -> tuple[DraftDocument | None, ReportProblem | None]:
        if run.plan.role != "drafter" or self._folder is None:
            return None, None
        try:
            return draft_document(look_at_draft(self._folder, self.environ)), None
        except (SelftestError, OSError) as error:
            return None, ReportProblem(says=f"The draft cannot be read: {_said(error)}")

    def _compare(self, run: Run) -> tuple[ComparisonDocument | None, ReportProblem | None]:
        """Compare the run with the one before it."""
        if self._folder is None or run.plan.role != "tester" or not has_results(run):
            return None, None
        try:
            before = previous_run(self._folder, self.environ)
            if before is None:
                return None, None
            return comparison_document(compare_runs(before, self._folder, self.environ)), None
        except (SelftestError, OSError) as error:
            return None, ReportProblem(says=f"The run cannot be compared with the one before: {_said(error)}")

    def _problems(self, review: ReviewFacts | None) -> list[ReportProblem]:
        said = [self._problem] if self._problem else []
        return [ReportProblem(says=says) for says in (*said, *(() if review is None else review.problems))]

    def _read_review(self, run: Run, decisions: Decisions | None) -> ReviewFacts | None:
        """Read the review of a run; None where no agent has left a commit yet."""
        assert self._folder is not None
        tips = tuple(row.tip for row in run.rows.values() if row.commits)
        if not tips:
            return None
        stamp = (tips, review_stamp(self.home), decisions)
        if stamp != self._stamp:
            self._problem = ""
            try:
                known = None if self._inputs is None else self._inputs.evidence
                self._inputs = inputs_of_run(self._folder, run, self.environ, self._onto, known)
            except (SelftestError, OSError) as error:
                self._problem = f"The changes of the agents cannot be read: {_said(error)}"
                self._review = None
            else:
                self._review = self._read_changes(self._inputs, {name: name for name in run.rows}, decisions)
            self._stamp = stamp
        return self._review

    def _read_changes(
        self, inputs: Inputs, slugs: Mapping[str, str], decisions: Decisions | None
    ) -> ReviewFacts | None:
        self._problem = ""
        try:
            if self._reader is None:
                self._reader = ReviewReader(self.home, inputs, self.environ, self.home.name)
            return self._reader.read(inputs, slugs, decisions)
        except (SelftestError, OSError, KeyError) as error:
            self._problem = f"The changes of the agents cannot be read: {_said(error)}"
            return None


def _read_run(folder: RunFolder) -> tuple[Run, str]:
    """Read a run, and why its plan cannot be read, empty where it can."""
    plan, reason = readable_plan(folder)
    return fold(plan, read(_bytes(folder.journal)).entries), reason


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _with_review(tests: Sequence[ReportTest], review: ReviewFacts) -> list[ReportTest]:
    """Add to each test the changes of its agent, and its verdict in the newest verification."""
    oids: dict[str, list[str]] = {}
    for change in review.changes:
        for slug in dict.fromkeys(member.slug for member in change.members if member.slug is not None):
            oids.setdefault(slug, []).append(change.source)
    found = []
    for test in tests:
        update: dict[str, object] = {"oids": oids[test.slug]} if test.slug in oids else {}
        told = review.tests.get(test.test)
        if told is not None:
            update["verdict"] = verified_test(told, {})
            if test.verified == "unknown":
                update |= {"verified": _VERIFIED.get(told.after, "unknown"), "verified_reason": told.reason}
            update["output"] = next((run.output for run in told.runs if run.output), "")
        found.append(test.model_copy(update=update) if update else test)
    return found


def _said(error: Exception) -> str:
    return f"{error.title}. {error.detail}".strip() if isinstance(error, SelftestError) else str(error)
