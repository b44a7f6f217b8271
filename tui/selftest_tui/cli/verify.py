"""Command `verify`: runs the tests of a review again, and gives each change a verdict. Also for `review --verify`."""

from __future__ import annotations

import shutil
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING

from selftest_core.review.candidate_branch import Status
from selftest_core.verify.batch import Verifying, review_verified, verify, why_not_passed
from selftest_core.verify.sandbox import HOST, NONE
from selftest_core.verify.verdicts import Result
from selftest_core.verify.verification import Verified
from selftest_tui.cli.command import (
    DONE,
    SOMETHING_LEFT,
    add_targets,
    count,
    print_lines,
    review_request,
    tell,
    write_answer,
    write_line,
)
from selftest_tui.cli.evidence.report import renew_review_report
from selftest_tui.shared.present import clean, plural

if TYPE_CHECKING:
    from selftest_core.review.batch import BatchResult
    from selftest_core.schema.review import ReviewDocument
    from selftest_core.verify.batch import Answer
    from selftest_core.verify.verification import Verification
    from selftest_core.verify.verifier import Progress
    from selftest_tui.cli.command import AddCommand, Call

_MARKS = {Verified.PASSED: "✓", Verified.FAILED: "✗", Verified.FLAKY: "~", Verified.UNKNOWN: "?"}
_CLEAR = "\r\x1b[K"
_INDENT = " " * 28
_NARROWEST = 20
_REASON_LINES = 6
_MOST_LINES = 20


def add_verify(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """Tests run on the candidate branch: claims that do not hold are named, and the change that breaks the test of
        another. No branch and no decision is changed. Results are kept by tree, so nothing is run twice. The code of
        agents runs on this machine, in a sandbox where bubblewrap works. Ends with 1 where a test is red, flaky or
        unknown, or where a change is in conflict and so not verified.""",
        """
        selftest-tui verify                the newest run of this repository
        selftest-tui verify --all          the whole test suite
        selftest-tui verify main..fixes -- tests/test_tax.py
        selftest-tui verify --batch --base main ada bob --decisions decisions.json
        """,
    )
    add_targets(command)
    command.add_argument(
        "--decisions", metavar="FILE", help="JSON with keep, revert or undecided for each change; default: the screen's"
    )
    command.add_argument("--jobs", type=count, metavar="N", help="test processes at once; default: half the cores")
    command.add_argument(
        "--on", metavar="PROVIDER", help="run the tests there: modal, a host as box.pool, or another one of mngr"
    )
    command.add_argument("--all", action="store_true", help="run the whole test suite")
    command.add_argument(
        "--texts", action="store_true",
        help="run the tests of each row on its other texts too: those that say the same and are not chosen",
    )  # fmt: skip
    command.add_argument("--json", action="store_true", help="print one JSON document")
    command.set_defaults(run=run_verify, publish=None, pr=False)


def run_verify(call: Call) -> int:
    """Verify a review. Returns 0 when all tests passed and no change is in conflict, else 1."""
    arguments = call.arguments
    verifying = Verifying(
        review_request(arguments, call.cwd),
        arguments.jobs or 0,
        arguments.all,
        arguments.pytest_args,
        on=arguments.on or "",
        is_texts=arguments.texts,
    )
    progress = _Progress(is_batch=arguments.batch)
    try:
        answer = verify(verifying, call.config, call.cwd, call.environ, tell, progress.show, threading.Event())
    finally:
        progress.clear()
    report = renew_review_report(verifying.request, call)
    if call.is_for_programs:
        _write_json(answer, report, is_batch=arguments.batch)
    else:
        print_lines(_table(answer, shutil.get_terminal_size((80, 24)).columns))
    tell(_summary(answer))
    for line in _not_collected(answer.verification):
        tell(line)
    is_held = any(one.status is Status.HELD for one in answer.reviewed.line.items)
    return DONE if answer.is_green and not is_held else SOMETHING_LEFT


def review_with_progress(verifying: Verifying, call: Call) -> tuple[BatchResult, Answer]:
    """Review and verify without a screen, with a line of JSON for each run of a test."""
    progress = _Progress(is_batch=True)
    try:
        return review_verified(
            verifying, call.config, call.cwd, call.environ, tell, progress.show, threading.Event()
        )  # fmt: skip
    finally:
        progress.clear()


def tell_verdicts(answer: Answer, document: ReviewDocument) -> None:
    """Write a line of JSON for each verdict, and say what was verified."""
    _write_verdicts(answer, document)
    tell(_summary(answer))
    if answer.published is not None and (reason := why_not_passed(answer.published)):
        tell(f"the tree with only what is kept is not verified: {reason}")


def _write_json(answer: Answer, report: str | None, *, is_batch: bool) -> None:
    from selftest_core.schema.review import review_document

    document = review_document(answer.reviewed, None, None, verified=answer).model_copy(update={"report": report})
    if is_batch:
        _write_verdicts(answer, document)
    write_answer({"run": answer.run, **document.model_dump(mode="json")}, is_batch=is_batch)


def _write_verdicts(answer: Answer, document: ReviewDocument) -> None:
    from selftest_core.schema.review import verdict_line

    for item in document.items:
        write_line(verdict_line(item, time.time(), answer.run).model_dump(mode="json"))


def _table(answer: Answer, width: int) -> list[str]:
    """Return a line for each change, claimed and verified side by side, and its reason below it."""
    lines = ["claimed verified  change"]
    claims = {True: "✓", False: "✗", None: "·"}
    for change in answer.reviewed.chosen:
        verdict = answer.verification.items[change.oid]
        mark = f"{_MARKS[verdict.verified]} {verdict.verified}"
        lines.append(f"{claims[verdict.claimed]:<7} {mark:<9} {clean(change.oid[:9])} {clean(change.subject)}"[:width])
        reasons = ", ".join([*verdict.marks, *([verdict.reason] if verdict.reason else [])])
        wrapped = textwrap.wrap(clean(reasons), max(width - len(_INDENT), _NARROWEST))
        # The end says what failed, as `error: …` of a command.
        cut = [wrapped[0], "…", *wrapped[2 - _REASON_LINES :]] if len(wrapped) > _REASON_LINES else wrapped
        lines += [_INDENT + line for line in cut]
        for oid in answer.reviewed.row_of[change.oid].others:
            text = answer.verification.items.get(oid)
            if text is not None and answer.is_with_texts:
                mark = f"{_MARKS[text.verified]} {text.verified}"
                lines.append(f"{'':<7} {mark:<9} {clean(oid[:9])} says the same {clean(text.reason)}".rstrip()[:width])
    return lines


def _not_collected(one: Verification) -> list[str]:
    """Say which tests were not collected, each with the change that is the cause."""
    lines = [f"vanished: {clean(test)}, which the base has" for test in one.vanished]
    for file in one.collection_errors:
        by = f" (since {file.breaker[:9]})" if file.breaker else ""
        lines.append(f"cannot be collected: {clean(file.path)}: {clean(file.message)}{by}")
    more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return lines[:_MOST_LINES] + more


def _summary(answer: Answer) -> str:
    one = answer.verification
    counts = {word: sum(item.verified is word for item in one.items.values()) for word in Verified}
    verdicts = ", ".join(f"{number} {word}" for word, number in counts.items() if number) or "nothing to verify"
    suite = "the whole suite" if one.is_whole_suite else "the tests that changes own or affect"
    where = {
        HOST: answer.isolation.reason,
        NONE: f"with all your rights: {answer.isolation.reason}",
    }.get(answer.isolation.kind, "in a sandbox")
    by = f", by {clean(answer.environment)}" if answer.environment else ""
    processes = "process" if one.processes == 1 else "processes"
    return (
        f"{verdicts}: {suite}, {where}{by}; {plural(one.executions, 'test run')} in {one.processes} {processes}, "
        f"{one.from_cache} from earlier, {answer.seconds:.1f} s"
    )


class _Progress:
    """Progress on stderr: one line that is overwritten, on a terminal only; under `--batch` a line of JSON per run."""

    def __init__(self, *, is_batch: bool) -> None:
        self._is_batch = is_batch
        self._is_terminal = sys.stderr.isatty()
        self._begun = time.monotonic()

    def show(self, progress: Progress) -> None:
        """Show one run of a test, and estimate the rest."""
        if self._is_batch:
            from selftest_core.schema.review import test_line

            write_line(test_line(progress, time.time(), None).model_dump(mode="json"))
        if self._is_terminal:
            left = max(progress.known - progress.done, 0)
            seconds = (time.monotonic() - self._begun) / max(progress.done, 1) * left
            mark = "✓" if progress.run.result is Result.PASSED else "✗"
            text = f"{progress.done} of {progress.known} runs, about {seconds:.0f} s: {mark} {clean(progress.test)}"
            sys.stderr.write(_CLEAR + text[: shutil.get_terminal_size((80, 24)).columns - 1])
            sys.stderr.flush()

    def clear(self) -> None:
        """Clear the line."""
        if self._is_terminal:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
