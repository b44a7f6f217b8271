"""JUnit XML of a report, for build servers: one test case for each test of the run.

A red test is a failure; a test whose agent could not work (no launch, crash, timeout, lost, unreadable) is an error; a
blocked, stopped, waiting or running one is skipped, with the reason. So is a test that succeeded, but is red in the
newest verification of the review, a failure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from selftest_core.conversation.conversation import harmless

if TYPE_CHECKING:
    from selftest_core.schema.report import ReportDocument, ReportTest

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST = 20_000


def junit(report: ReportDocument) -> bytes:
    """Write the document."""
    cases = [_case(test, _is_current(report)) for test in report.tests]
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": str(sum(case.find("error") is not None for case in cases)),
        "skipped": str(sum(case.find("skipped") is not None for case in cases)),
        "time": _seconds(sum(test.seconds or 0.0 for test in report.tests)),
    }
    top = ElementTree.Element("testsuites", {"name": _clean(f"selftest-tui {report.id}"), **counts})
    when = (report.started_at or report.written_at).removesuffix("Z")
    suite = ElementTree.SubElement(top, "testsuite", {"name": _clean(report.id), **counts, "timestamp": when})
    _properties(
        suite,
        {
            "run": report.id,
            "base": report.base or "",
            "provider": report.provider,
            "agent_type": report.agent_type,
            "state": report.state,
            "usd": "" if report.usage is None or report.usage.usd is None else f"{report.usage.usd:.4f}",
            "published": "" if report.review is None or not report.review.published else report.review.published.ref,
        },
    )
    suite.extend(cases)
    ElementTree.indent(top)
    return b"<?xml version='1.0' encoding='utf-8'?>\n" + ElementTree.tostring(top, encoding="unicode").encode() + b"\n"


def _case(test: ReportTest, is_current: bool) -> ElementTree.Element:
    path, names = _parts(test.test)
    stem = path.removesuffix(".py").replace("/", ".")
    case = ElementTree.Element(
        "testcase",
        {
            "classname": _clean(".".join((stem, *names[:-1])) if names else stem),
            "name": _clean(names[-1] if names else test.test),
            "file": _clean(path),
            "time": _seconds(test.seconds or 0.0),
        },
    )
    _properties(
        case,
        {
            "agent": test.agent,
            "claimed": test.claimed or "",
            "verified": test.verified if test.verdict is None else test.verdict.verdict,
            "attempts": str(len(test.attempts)),
            "page": test.page,
            "usd": "" if test.usage is None or test.usage.usd is None else f"{test.usage.usd:.4f}",
        },
    )
    is_red = is_current and test.verdict is not None and test.verdict.after == "red"
    if test.outcome == "red" or (test.group in ("succeeded", "unchanged") and is_red):
        said = test.says if test.outcome == "red" else "It is red in the newest verification of the review."
        _add(case, "failure", test, said, test.output or test.says)
    elif test.group == "failed":
        _add(case, "error", test, test.says or test.outcome, test.says)
    elif test.group in ("blocked", "stopped", "not_started"):
        word = {"blocked": "blocked", "stopped": "stopped", "not_started": "not started"}[test.group]
        says = test.says or test.summary
        _add(case, "skipped", test, f"{word if test.is_ended else 'not ended yet'}: {says}".rstrip(": "), "")
    return case


def _add(case: ElementTree.Element, name: str, test: ReportTest, message: str, text: str) -> None:
    first = next((line for line in message.splitlines() if line.strip()), "")
    made = ElementTree.SubElement(case, name, {"message": _clean(first[:500]), "type": test.outcome})
    made.text = _clean(text[-_LONGEST:]) or None


def _properties(parent: ElementTree.Element, values: dict[str, str]) -> None:
    found = ElementTree.SubElement(parent, "properties")
    for name, value in values.items():
        if value:
            ElementTree.SubElement(found, "property", {"name": name, "value": _clean(value)})


def _parts(node_id: str) -> tuple[str, list[str]]:
    """Split a node id into its path and its names; `::` within parameters splits nothing."""
    head, bracket, parameters = node_id.partition("[")
    path, *names = head.split("::")
    if names:
        names[-1] += bracket + parameters
    return path, names


def _is_current(report: ReportDocument) -> bool:
    return report.review is not None and report.review.verification_of in ("candidate", "kept")


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", harmless(text))
