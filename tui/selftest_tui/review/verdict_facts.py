"""Text of the tab "tests": each test of a change before and after, its runs, and its output with colours. Pure.

Names and output come from agents' code. Of escapes in output only colours and attributes are obeyed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text
from textual.content import Content

from selftest_core.verify.verdicts import Verdict
from selftest_tui.review import words as review_words
from selftest_tui.review.facts import HEAD, MOST_LISTED, MUTED, verdict_pieces
from selftest_tui.review.lines import subject_of
from selftest_tui.shared import present
from selftest_tui.shared.keys import shown
from selftest_tui.shared.widgets.screen_text import strips

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.review.evidence import Evidence
    from selftest_core.verify.background.background_verifier import VerificationState
    from selftest_core.verify.schedule import TestReport
    from selftest_tui.review.lines import ReviewRow

MOST_OUTPUTS = 20
MOST_OUTPUT_LINES = 200
_AFTER = {
    Verdict.GREEN: ("✓", "$text-success"), Verdict.RED: ("✗", "$text-error"), Verdict.FLAKY: ("~", "$text-warning"),
    Verdict.ORDER_DEPENDENT: ("~", "$text-warning"),
}  # fmt: skip


def tests(row: ReviewRow, rows: Mapping[str, ReviewRow], verification: VerificationState | None) -> Content:
    """Return the verdict on a change, and all that we know of its tests, the red ones first."""
    claim = f"claimed {review_words.claim(row)}" if row.tests else "no tests claimed"
    parts: list[Content] = [Content.assemble(claim, *verdict_pieces(row), "\n")]
    verdict = row.verdict
    if verdict is None:
        says = (
            "The verdict appears here as soon as its tests were run."
            if row.is_verifying
            else f"{shown('review.verify', 'v')} runs its tests."
        )
        parts.append(Content.styled(f"\n{says}\n", MUTED))
        return Content("").join(parts)
    if verification is not None:
        parts.append(Content.styled(f"{where(verification)}\n", MUTED))
    for test in verdict.broke[:MOST_LISTED]:
        owners = [one for one in rows.values() if one.oid != row.oid and _has(one, test)]
        whose = f", a test of “{subject_of(owners[0].change)}”" if owners else ""
        parts.append(Content.assemble(("\nbreaks ", "$text-error"), present.clean(test), (f"{whose}\n", MUTED)))
    reports = sorted(verdict.tests, key=lambda one: one.after is not Verdict.RED)
    flaky_before = verification.candidate.flaky_before if verification and verification.candidate else {}
    for number, report in enumerate(reports[:MOST_LISTED]):
        parts.append(_test(report, row, rows, flaky_before.get(report.test, 0)))
        if number < MOST_OUTPUTS:
            parts.append(_output(report))
    if len(reports) > MOST_LISTED:
        parts.append(Content.styled(f"… and {len(reports) - MOST_LISTED:,} more\n", MUTED))
    return Content("").join(parts)


def first_test(row: ReviewRow, evidence: Evidence) -> str:
    """Return the test that is shown first: a red one of the change, else any of it, else its agent's own test."""
    reports = row.verdict.tests if row.verdict is not None else ()
    shown = sorted(reports, key=lambda one: one.after is not Verdict.RED)
    return shown[0].test if shown else next((test for test, _ in evidence.tests), "")


def where(verification: VerificationState) -> str:
    """Return which tests were run, and where."""
    suite = "the whole suite" if verification.is_whole_suite else "the tests that changes own or affect"
    isolation = verification.isolation
    if isolation is None:
        return f"{suite}, on this machine"
    place = f"in a sandbox ({isolation.kind})" if isolation.is_isolated else f"not isolated: {isolation.reason}"
    by = f", by {present.clean(verification.environment)}" if verification.environment else ""
    return f"{suite}, on this machine, {place}{by}"


def _has(row: ReviewRow, test: str) -> bool:
    return row.verdict is not None and any(one.test == test for one in row.verdict.tests)


def _test(report: TestReport, row: ReviewRow, rows: Mapping[str, ReviewRow], flaky_before: int) -> Content:
    mark, style = _AFTER.get(report.after, ("?", MUTED))
    seconds = [run.seconds for run in report.runs if run.seconds is not None]
    facts = [
        f"before {report.before}" if report.before is not None else "before: not run yet",
        f"after {report.after}",
        str(report.effect),
        f"{seconds[0]:.2f} s" if seconds else "",
        present.plural(len(report.runs), "run"),
        f"flaky on {present.plural(flaky_before, 'tree')} before" if flaky_before else "",
    ]
    lines: list[str | tuple[str, str]] = [
        "\n", (f"{mark} ", style), (present.clean(report.test), HEAD), "\n",
        ("  " + " · ".join(fact for fact in facts if fact) + "\n", MUTED),
    ]  # fmt: skip
    if row.oid in report.false_claims:
        lines.append(("  its agent says that it passes; it fails on the agent's own tree\n", "$text-error"))
    if report.culprit is not None and report.culprit != row.oid:
        culprit = rows.get(report.culprit)
        name = f"“{subject_of(culprit.change)}”" if culprit is not None else report.culprit[:12]
        lines += [("  broken by ", "$text-error"), name, (f" ({shown('review.culprit', '^g')} goes there)\n", MUTED)]
    elif report.reason:
        lines.append((f"  {present.clean(report.reason)}\n", MUTED))
    return Content.assemble(*lines)


def _output(report: TestReport) -> Content:
    """Return the output of the run that says most: the last red one, else the last with any."""
    runs = [run for run in report.runs if run.output or run.reason]
    run = next((run for run in reversed(runs) if run.result.is_red), runs[-1] if runs else None)
    if run is None:
        return Content("")
    lines = run.output.replace("\r\n", "\n").split("\n") if run.output else []
    left_out = max(0, len(lines) - MOST_OUTPUT_LINES)
    text = Text(end="")
    if run.reason and run.reason != report.reason:
        text.append(f"  {present.clean(run.reason)}\n")
    if left_out:
        text.append(f"  … {left_out:,} lines before\n")
    for strip in strips(lines[left_out:]):
        text.append("  ")
        for segment in strip:
            text.append(segment.text, segment.style)
        text.append("\n")
    return Content.from_rich_text(text)
