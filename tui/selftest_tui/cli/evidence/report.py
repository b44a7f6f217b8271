"""Command `report`: writes the report of a run or a review, a folder of pages that opens offline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_core.paths import runs_folder
from selftest_core.review.changes.inputs import home_of
from selftest_core.review.decisions import read_decisions
from selftest_core.review.repository import LOG, find_review
from selftest_core.run.overview import repository_of
from selftest_core.run.store import RunFolder, find_run
from selftest_recorder.report.builder import ReportBuilder
from selftest_recorder.report.review_facts import inputs_of_log
from selftest_recorder.report.writer import ReportWriter
from selftest_tui.cli.command import DONE, Progress, add_targets, print_lines, review_request, tell, write_answer
from selftest_tui.shared.present import plural
from selftest_tui.shared.reports import open_page

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.review.changes.inputs import Request
    from selftest_tui.cli.command import AddCommand, Call

PLAN = "plan.json"
_REVIEW = "review-"


def add_report(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """One folder of pages that opens offline in any browser: tests, clusters, escalations, decisions, diffs,
        transcripts and recordings; beside them run.json, junit.xml and summary.md for programs. It is also written as
        a run goes on, in the folder `report` of the run.""",
        """
        selftest-tui report                the newest run of this repository
        selftest-tui report 20261121-0931 --open
        selftest-tui report main..fixes    a review without a run
        selftest-tui report --batch | jq -r .path
        """,
    )
    add_targets(command)
    command.add_argument("--decisions", metavar="FILE", help="JSON with the decisions; default: the screen's")
    command.add_argument("--open", action="store_true", help="open it in the browser")
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.set_defaults(run=report, publish=None, pr=False)


def report(call: Call) -> int:
    """Write a report, and print its path."""
    arguments = call.arguments
    decisions = None if arguments.decisions is None else read_decisions(call.cwd / arguments.decisions)
    with _builder(call) as builder, Progress(f"writing the report of {builder.home.name}"):
        writer = ReportWriter(builder)
        document = writer.write(decisions=decisions)
    if document is None:
        raise UsageError(
            "Another process is writing this report", str(writer.folder), "Its pages are there; try again later."
        )
    if call.is_for_programs:
        from selftest_core.schema.report import ReportAnswer

        answer = ReportAnswer(path=str(writer.index), report=document).model_dump(mode="json")
        if arguments.batch:
            from selftest_core.schema.model import instant
            from selftest_tui.cli.command import write_line

            write_line({"event": "summary", "at": instant(time.time()), "run": document.id, **answer})
        else:
            write_answer(answer, is_batch=False)
    else:
        print_lines([str(writer.index)])
    for problem in document.problems:
        tell(f"missing: {problem.says}")
    tell(f"{plural(len(document.tests), 'test')}, {plural(len(document.changes), 'change')}")
    if arguments.open and not open_page(writer.index, call.environ):
        tell(f"no browser was found: open {writer.index.as_uri()}")
    return DONE


def renew_review_report(request: Request, call: Call) -> str | None:
    """Write the report of what was reviewed or verified; return its path, None where it cannot be written."""
    from selftest_recorder.report.writer import write_review_report

    inputs, name = find_review(request, call.cwd, call.environ, lambda text: None)
    decisions = None if request.decisions is None else read_decisions(request.decisions)
    return write_review_report(inputs, name, call.environ, tell, decisions)


def _builder(call: Call) -> ReportBuilder:
    """Return the builder for what the arguments name. Raises UsageError."""
    request = review_request(call.arguments, call.cwd)
    names = request.targets
    if len(names) == 1 and (call.cwd / names[0] / PLAN).is_file():
        folder = RunFolder((call.cwd / names[0]).resolve())
        return ReportBuilder(folder.path, call.environ, folder=folder)
    if len(names) == 1 and (call.cwd / names[0] / LOG).is_file():
        home = (call.cwd / names[0]).resolve()
        return ReportBuilder(home, call.environ, inputs=inputs_of_log(home, call.environ))
    if len(names) == 1 and names[0].startswith(_REVIEW) and ".." not in names[0] and request.base is None:
        home = _review_home(call, names[0])
        return ReportBuilder(home, call.environ, inputs=inputs_of_log(home, call.environ))
    if request.base is None and not request.agents and (not names or (len(names) == 1 and ".." not in names[0])):
        folder = find_run(call.environ, repository_of(call.cwd, call.environ), names[0] if names else None)
        return ReportBuilder(folder.path, call.environ, folder=folder, onto=request.onto)
    inputs, name = find_review(request, call.cwd, call.environ, tell)
    return ReportBuilder(home_of(inputs, name), call.environ, inputs=inputs)


def _review_home(call: Call, name: str) -> Path:
    """Find the folder of a review of this repository by its id or the beginning of it."""
    top = repository_of(call.cwd, call.environ)
    found = [] if top is None else sorted(runs_folder(top).glob(f"{_REVIEW}*"))
    matching = [path for path in found if path.name == name] or [path for path in found if path.name.startswith(name)]
    if len(matching) != 1:
        says = "There is no review" if not matching else "There are several reviews"
        listed = ", ".join(path.name for path in matching or found)
        raise UsageError(f"{says} {name[:80]}", listed, "`selftest-tui review BASE..BRANCH` begins one.")
    return matching[0]
