"""Facts of a review for a report: its changes, decisions, publications and verdicts. Nothing is locked or changed.

Another process may have the review open: its log is read as it is, and the candidate is built from it as the review
does. Read again only when a branch, the log or the verification changed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from selftest_core.errors import SelftestError, ToolError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git, find_place
from selftest_core.git.diffs import FileDiff, read_diff
from selftest_core.git.history import HistoryCommit, read_commit_diff, read_history
from selftest_core.git.patches import LineKind
from selftest_core.journal import read
from selftest_core.review.apply_decisions import apply_decisions, build_kept_line
from selftest_core.review.changes.inputs import Inputs
from selftest_core.review.changes.plan import Targets
from selftest_core.review.decisions import notes_of
from selftest_core.review.engine import Engine
from selftest_core.review.repository import LOG, current_subject, subject_of
from selftest_core.review.resolutions import ResolutionMemory, resolution_folder
from selftest_core.review.review_log import decisions_of, fold, seconds_spent
from selftest_core.review.state import StateBuilder
from selftest_core.schema.model import instant
from selftest_core.schema.report import (
    ReportChange,
    ReportPath,
    ReportPublication,
    ReportReview,
    ReportSource,
)
from selftest_core.schema.review import review_document
from selftest_core.verify.batch import Answer
from selftest_core.verify.kept.verification_file import FILE_NAME as VERIFICATION
from selftest_core.verify.kept.verification_file import read_verification
from selftest_recorder.report.facts import PublishedDiff

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.git.commit_changes import PathChange
    from selftest_core.git.objects import Commit
    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.candidate_branch import Line
    from selftest_core.review.decisions import Decisions
    from selftest_core.review.review_log import ReviewLog
    from selftest_core.verify.kept.verification_file import KeptVerification
    from selftest_core.verify.schedule import TestReport

_LARGEST_LOG = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReviewFacts:
    """A review as it was read. `tests`: by node id, as the newest verification has them. `problems`: in words."""

    review: ReportReview
    changes: tuple[ReportChange, ...]
    tests: Mapping[str, TestReport]
    problems: tuple[str, ...] = ()


class ReviewReader:
    """Reads one review, again and again. For one thread; close it.

    `slugs`: the tests' pages by agent. `decisions`: of a decisions file, instead of those of the log.
    """

    def __init__(self, home: Path, inputs: Inputs, environ: Mapping[str, str], name: str) -> None:
        self._home = home
        self._inputs = inputs
        self._environ = environ
        self._name = name
        self._user = Git(inputs.place.git_dir, environ)
        self._engine = Engine.open(home / "engine.git", inputs.place.git_dir, environ)
        self._histories: dict[tuple[str, str], tuple[HistoryCommit, ...]] = {}
        self._diffs: dict[str, tuple[FileDiff, ...]] = {}

    def close(self) -> None:
        """End the processes that read git's objects."""
        self._engine.close()

    def read(self, inputs: Inputs, slugs: Mapping[str, str], decisions: Decisions | None = None) -> ReviewFacts:
        """Read the review. Raises UsageError, RefusedError, ToolError, JournalError."""
        self._inputs = inputs
        entries = read(_bytes(self._home / LOG)).entries
        log = fold(entries)
        first = log.subject or subject_of(inputs)
        subject = current_subject(first, inputs, self._user)
        builder = StateBuilder(self._engine, self._name, self._home, ResolutionMemory(resolution_folder(self._environ)))
        builder.collect(subject, inputs)
        applied = builder.apply(log, subject, 0.0, lambda: True)
        reviewed, kept = applied.reviewed, applied.kept
        onto = inputs.targets.onto_oid
        is_rebased = onto not in (inputs.targets.base, reviewed.plan.base)
        if decisions is not None or is_rebased:
            plan = replace(reviewed.plan, base=onto) if is_rebased else reviewed.plan
            wanted = decisions_of(log)[0] if decisions is None else decisions
            reviewed = apply_decisions(self._engine, plan, wanted, stored=False, should_stop=lambda: True)
            kept = build_kept_line(self._engine, reviewed)
        problems: list[str] = []
        publications = [
            ReportPublication(ref=str(one.fields["ref"]), tip=str(one.fields["tip"]), at=instant(one.at))
            for one in entries
            if one.event == "published" and {"ref", "tip"} <= set(one.fields)
        ]
        last = publications[-1] if publications else None
        commits = self._history(reviewed.plan.base, last, problems)
        verified = read_verification(self._home)
        answer = None if verified is None else _answer(reviewed, verified)
        document = review_document(reviewed, None, None if last is None else last.ref, commits=commits, verified=answer)
        notes = builder.build(log, applied).notes if decisions is None else notes_of(reviewed.order, decisions)
        published = _published_commits(log, kept, commits)
        by_oid = {change.oid: change for change in reviewed.order}
        changes = tuple(
            ReportChange.model_validate(
                dict(item)
                | {
                    "page": f"changes/{item.source[:12]}.html",
                    "members": [
                        ReportSource(oid=one.oid, agent=one.agent, slug=slugs.get(one.agent))
                        for one in by_oid[item.source].sources
                    ],
                    "note": notes.get(item.source, ""),
                    "lines": by_oid[item.source].lines,
                    "paths": [_path(one) for one in by_oid[item.source].paths],
                    "message": by_oid[item.source].commit.text,
                    "published": published.get(item.source),
                }
            )
            for item in document.items
        )
        acts = log.done
        review = ReportReview(
            id=self._name,
            base=reviewed.plan.base,
            tip=reviewed.line.tip,
            tree=reviewed.line.tree,
            opened_at=next((instant(one.at) for one in entries if one.event == "opened"), None),
            decisions=_counts((reviewed.decided[one.oid] for one in reviewed.chosen), ("keep", "revert", "undecided")),
            statuses=_counts(
                (one.status for one in reviewed.line.items if reviewed.is_chosen(one.item.oid)),
                ("laid", "held", "void", "dropped"),
            ),
            acts=acts,
            seconds=seconds_spent(entries) if acts else None,
            publications=publications,
            published=last,
            commits=document.commits,
            verification=document.verification,
            verified_at=None if verified is None else instant(verified.at),
            verification_of=None if verified is None else _subject_of(verified, reviewed, kept),
            left_out=document.left_out,
        )
        if last is not None and (not log.published or log.published[-1][2] != kept.tip):
            problems.append(f"{last.ref} was published; what is kept now is another tree.")
        tests = {} if verified is None else _tests(verified)
        return ReviewFacts(review, changes, tests, tuple(problems))

    def diff(self, oid: str) -> tuple[FileDiff, ...]:
        """Read the diff of a change. Raises KeyError, ToolError."""
        return read_diff(self._engine.store, oid)

    def published(self, change: ReportChange, files: tuple[FileDiff, ...]) -> PublishedDiff | None:
        """Read back what was published of a change, whose own diff is `files`; None where it was not."""
        oid = change.published
        if oid is None:
            return None
        authors = next((one.authors for history in self._histories.values() for one in history if one.oid == oid), ())
        try:
            if oid not in self._diffs:
                self._diffs[oid] = read_commit_diff(self._inputs.place.git_dir, oid, self._environ)
        except (ToolError, ValueError) as error:
            says = error.detail if isinstance(error, SelftestError) else str(error)
            return PublishedDiff(oid, authors, problem=f"It cannot be read back: {says}")
        paths = {path for one in files for path in (one.path, one.old_path)}
        made = tuple(one for one in self._diffs[oid] if one.path in paths)
        return PublishedDiff(oid, authors, () if _lines(made) == _lines(files) else made)

    def commit(self, oid: str) -> Commit:
        """Read one commit. Raises KeyError."""
        return self._engine.store.commit(oid)

    def _history(self, base: str, last: ReportPublication | None, problems: list[str]) -> tuple[HistoryCommit, ...]:
        """Read back what was published last."""
        if last is None:
            return ()
        key = base, last.tip
        if key not in self._histories:
            try:
                self._histories[key] = read_history(self._inputs.place.git_dir, base, last.tip, self._environ)
            except (ToolError, ValueError) as error:
                says = error.detail if isinstance(error, SelftestError) else str(error)
                problems.append(f"The published branch cannot be read back: {says}.")
                return ()
        return self._histories[key]


def _lines(files: tuple[FileDiff, ...]) -> list[tuple[object, ...]]:
    """Return the added and removed lines of each file, wherever they stand."""
    return [
        (file.path, file.status, file.new_mode, file.new_size, [
            (line.kind, line.text) for hunk in file.hunks for line in hunk.lines if line.kind is not LineKind.CONTEXT
        ])
        for file in files
    ]  # fmt: skip


def review_stamp(home: Path) -> tuple[object, ...]:
    """Return a stamp of a review's log and verification, which changes when one of them is written."""
    return tuple(_stamp(home / name) for name in (LOG, VERIFICATION))


def inputs_of_log(home: Path, environ: Mapping[str, str]) -> Inputs:
    """Return the inputs of a review that has a folder of its own, as its log has them. Raises UsageError."""
    subject = fold(read(_bytes(home / LOG)).entries).subject
    if subject is None:
        hint = "Name its branches as for `selftest-tui review`, such as `selftest-tui report BASE..BRANCH`."
        raise UsageError(f"The review {home.name} was never opened on a screen", str(home), hint)
    place = find_place(home, environ)
    targets = Targets(subject.base, subject.base, subject.branches, subject.is_linear, id=home.name)
    return Inputs(subject.kind, subject.key, place, targets, subject.base_name)


def _tests(verified: KeptVerification) -> dict[str, TestReport]:
    """Return the tests of a verification, and those of changes that were reverted since they ran."""
    of_items = {one.test: one for item in verified.verification.items.values() for one in item.tests}
    return of_items | {one.test: one for one in verified.verification.tests}


def _answer(reviewed: Reviewed, kept: KeptVerification) -> Answer:
    return Answer(reviewed, kept.verification, kept.isolation, kept.seconds, None)


def _subject_of(verified: KeptVerification, reviewed: Reviewed, kept: Line) -> Literal["candidate", "kept", "earlier"]:
    tree = verified.verification.tree
    return "kept" if tree == kept.tree else "candidate" if tree == reviewed.line.tree else "earlier"


def _published_commits(log: ReviewLog, kept: Line, commits: Sequence[HistoryCommit]) -> dict[str, str]:
    """Return the published commit of each change, which has trailers that the kept one has not; none if others are."""
    if not log.published or log.published[-1][2] != kept.tip:
        return {}
    made = dict.fromkeys(one.commit for one in kept.items if one.commit is not None)
    oids = dict(zip(made, (one.oid for one in commits), strict=False))
    return {one.item.oid: oids[one.commit] for one in kept.items if one.commit in oids}


def _counts(values: Any, words: Sequence[str]) -> dict[Any, int]:
    counted = Counter(str(value) for value in values)
    return {word: counted[word] for word in words}


def _path(one: PathChange) -> ReportPath:
    status = "added" if one.before is None else "deleted" if one.after is None else "modified"
    return ReportPath.model_validate({"path": _text(one.path), "status": status})


def _text(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.stat().st_size <= _LARGEST_LOG else b""
    except OSError:
        return b""
