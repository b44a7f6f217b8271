"""Summary of a report in Markdown, for a pull request or a CI job's page.

Texts of agents stand in code spans of one line, where they cannot mention a user (`@name`), close an issue
(`fixes #1`), load an image or render as HTML.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.compare.words import TITLES
from selftest_core.review.pull_request import code_span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.schema.comparison import ComparisonDocument
    from selftest_core.schema.report import ReportChange, ReportDocument, ReportReview, ReportTest
    from selftest_core.schema.run_plan import DeletionItem

LONGEST = 60_000
"""Characters; a pull request takes 65,536."""
_MOST_ROWS = 50
_WORDS = {
    "succeeded": "succeeded", "unchanged": "without a need to change", "blocked": "blocked", "stopped": "stopped",
    "not_started": "not started", "launch": "failed to launch", "crash": "crashed", "timeout": "timed out",
    "lost": "lost", "unreadable": "unreadable outcome", "red": "still failing",
}  # fmt: skip
_URGENT = ("BLOCKER", "FIX_DIRECTION_AMBIGUOUS")


def summary(report: ReportDocument) -> str:
    """Write the summary."""
    parts = [f"# {code_span(report.repository)}: {report.kind} {code_span(report.id)}", _head(report)]
    urgent = [one for one in report.escalations if one.kind in _URGENT]
    parts += _section(
        "Needs a decision",
        [f"- {code_span(one.kind)}: {code_span(one.title)} ({code_span(one.test)})" for one in urgent],
    )
    parts += _section(
        "Failures by cause",
        [f"- {_count(len(one.tests), 'test')}: {code_span(one.signature)}" for one in report.clusters],
    )
    for heading, group in (("Failed", "failed"), ("Blocked", "blocked")):
        parts += _section(heading, [_row(test) for test in report.tests if test.group == group and test.is_ended])
    if report.since is not None:
        parts += _section(f"Since run {code_span(report.since.before.run)}", _since(report.since))
    if report.draft is not None:
        told = [f"- {code_span(one.text)} ({code_span(one.heading)})" for one in report.draft.findings]
        parts += _section("Findings about the interface", told)
    if report.review is not None:
        parts += _section("Review", _review(report.review))
    parts += _section("Published", [_published_row(one) for one in report.changes if one.published])
    since = f" since run {code_span(report.compared_with)}" if report.compared_with else ""
    parts += _section(f"New tests{since}", [f"- {code_span(name)}" for name in report.grown])
    parts += _section(f"Tests that are gone{since}", [_deletion_row(one) for one in report.deleted])
    parts += _section("Resting", _resting(report))
    others = {kind: count for kind, count in report.escalation_counts.items() if kind not in _URGENT}
    parts += _section("Also reported", [f"- {count} {code_span(kind)}" for kind, count in others.items()])
    parts += _section("Missing from this report", [f"- {code_span(one.says)}" for one in report.problems])
    text = "\n\n".join(parts) + "\n"
    if len(text) > LONGEST:
        text = text[:LONGEST].rpartition("\n")[0] + "\n\n… shortened: `index.html` has all of it.\n"
    return text


def _head(report: ReportDocument) -> str:
    if report.outcomes is None:
        return f"{_count(len(report.changes), 'change')}."
    counts: dict[str, int] = {}
    for test in report.tests:
        word = _WORDS.get(test.outcome, test.outcome) if test.is_ended else "not ended yet"
        counts[word] = counts.get(word, 0) + 1
    said = [f"{_count(len(report.tests), 'test')}: " + ", ".join(f"{count} {word}" for word, count in counts.items())]
    if report.paused:
        said.append(f"paused: {code_span(report.paused)}")
    if report.usage is not None and report.usage.usd is not None:
        said.append(f"${report.usage.usd:.2f} ({report.usage.label})")
    return ". ".join(said) + "."


def _review(review: ReportReview) -> list[str]:
    decided = ", ".join(f"{count} {word}" for word, count in review.decisions.items() if count)
    rows = [f"- decisions: {decided or 'none'}"]
    if review.seconds is not None:
        spent = f"{review.seconds:.0f} s" if review.seconds < 90 else f"{review.seconds / 60:.0f} min"
        rows.append(f"- time of a person: {spent}")
    if review.published is not None:
        rows.append(f"- published: {code_span(review.published.ref)} at {code_span(review.published.tip[:12])}")
    if review.verification is not None:
        of = {"kept": "what is kept", "candidate": "the candidate", "earlier": "an earlier state"}
        rows.append(f"- verified: {review.verification.verdict}, on {of[review.verification_of or 'earlier']}")
    return rows


def _since(since: ComparisonDocument) -> list[str]:
    """List what is worse, and count the rest."""
    worse = [*since.newly_red, *since.newly_flaky, *since.no_result]
    lists = {title: getattr(since, field) for field, title in TITLES.items()}
    counted = [f"{len(tests)} {title}" for title, tests in lists.items() if tests]
    counted.append(f"{since.same} with the same result")
    rows = [f"- {', '.join(counted)}"]
    return rows + [f"- {code_span(one.test)}: {code_span(one.change)}" for one in worse]


def _row(test: ReportTest) -> str:
    said = next((line for line in (test.says or test.summary).splitlines() if line.strip()), "")
    word = _WORDS.get(test.outcome, test.outcome)
    return f"- {code_span(test.test)}: {word}" + (f", {code_span(said)}" if said else "")


def _deletion_row(deleted: DeletionItem) -> str:
    if deleted.commit is None:
        return f"- {code_span(deleted.test)}"
    by = f" by {code_span(deleted.agent)}" if deleted.agent else ""
    return f"- {code_span(deleted.test)}, deleted{by} in {deleted.commit[:12]}: {code_span(deleted.subject or '')}"


def _resting(report: ReportDocument) -> list[str]:
    counts: dict[str, int] = {}
    for one in report.resting:
        counts[one.reason] = counts.get(one.reason, 0) + 1
    return [f"- {_count(count, 'test')} without an agent: {reason}" for reason, count in counts.items()]


def _published_row(change: ReportChange) -> str:
    names = ", ".join(code_span(name) for name in change.agents[:5])
    return f"- {code_span(change.subject)} by {names}: {_verified(change.verified)}"


def _verified(word: str) -> str:
    return {"passed": "verified", "unknown": "not verified"}.get(word, f"verification {word}")


def _section(heading: str, rows: Sequence[str]) -> list[str]:
    if not rows:
        return []
    more = [f"- and {len(rows) - _MOST_ROWS} more"] if len(rows) > _MOST_ROWS else []
    return [f"## {heading}\n\n" + "\n".join([*rows[:_MOST_ROWS], *more])]


def _count(count: int, one: str) -> str:
    return f"{count} {one if count == 1 else one + 's'}"
