"""Commands `resume`, `answer` and `stop`: continue a run that stopped early, answer its agents, or stop it.

With a terminal `resume` starts the conductor in a tmux session of its own and opens the screen; with `--batch` it
conducts in this process. `answer` does the same where no conductor works on the run, without a screen.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, SelftestError, UsageError
from selftest_core.run.overview import glance, own_folders, repository_of
from selftest_core.run.store import RequestKind, RunFolder, RunRequest, find_run
from selftest_tui.cli.command import (
    DONE,
    SOMETHING_LEFT,
    Progress,
    has_terminal,
    print_lines,
    require_terminal,
    tell,
    write_line,
)
from selftest_tui.cli.runs.runs import read_run
from selftest_tui.shared.loading import loading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selftest_core.config import Config
    from selftest_core.journal import Entry
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import Run, RunRow
    from selftest_tui.cli.command import AddCommand, Call

_STEP = 0.5
"""Seconds between two reads of a run that is being stopped."""
_RUN_HELP = "a run, or the beginning of its name; default: the newest here"
_LONGEST_QUESTION = 300


def add_resume(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """Works after Ctrl-C, a crash, a power cut or a full disk. Agents that still run are found again: none is lost
        and none is started twice.""",
        """
        selftest-tui resume
        selftest-tui resume 20261121-0931
        selftest-tui resume --batch
        """,
    )
    command.add_argument("run_name", nargs="?", metavar="RUN", help=_RUN_HELP)
    command.set_defaults(run=resume)


def add_answer(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """An agent that waits is told. One that has ended goes on in a new attempt: the same agent, started again, or a
        new one that starts from its commits, with the answer in SELFTEST_ANSWER and in its prompt. Starts a conductor
        where the run has none. Returns when the answers are taken; with --batch when the run has ended.""",
        """
        selftest-tui answer "Round half up." tests/test_tax.py::test_half
        selftest-tui answer "Yes." tests/test_tax.py::test_half --alike
        selftest-tui answer - tests/test_tax.py::test_half < answer.md
        """,
    )
    command.add_argument("text", nargs="?", metavar="TEXT", help="the answer; - reads it from stdin")
    command.add_argument("tests", nargs="*", metavar="TEST", help="a test's id, or the name of its agent")
    command.add_argument("--run", dest="run_name", metavar="RUN", help=_RUN_HELP)
    command.add_argument("--alike", action="store_true", help="also all tests that ask the same")
    command.add_argument("--yes", action="store_true", help="do not ask before several are answered")
    command.set_defaults(run=answer)


def add_stop(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """The results of its agents are collected first; tests without an agent are not started. Waits until that is
        done.""",
        """
        selftest-tui stop
        selftest-tui stop 20261121-0931
        selftest-tui stop --batch
        """,
    )
    command.add_argument("run_name", nargs="?", metavar="RUN", help=_RUN_HELP)
    command.set_defaults(run=stop)


def resume(call: Call) -> int:
    """Resume a run that no conductor works on."""
    folder, environ = _chosen_run(call), call.environ
    found = read_run(folder)
    if found.state == "ended" and not folder.requests():
        return _show_ended(folder, found.run, call, "has ended already: nothing is left to resume")
    if call.arguments.batch:
        from selftest_tui.cli.runs.run import conduct_in_batch

        # A run that is paused or was being stopped must go on now.
        if found.run is not None and found.state != "live" and (found.run.paused or found.run.is_halted):
            folder.add_request(RunRequest(RequestKind.GO))
        return conduct_in_batch(folder, environ, _policy(call.config))
    require_terminal("`selftest-tui resume --batch` needs none.")
    if found.state != "live":
        from selftest_tui.run.conducting import start_conductor

        with Progress(f"starting the conductor of {folder.run}"):
            start_conductor(folder, environ, policy=_policy(call.config))
    with loading():
        from selftest_tui.app.app import run

    return run(call.config, environ, run=folder)


def answer(call: Call) -> int:
    """Answer tests of a run, after naming them; then wait until the answers are taken."""
    from selftest_core.run.answer.answer import clean_answer
    from selftest_core.run.answer.answering import answer_disabled_reason, answer_requests

    arguments = call.arguments
    if not arguments.tests:
        raise UsageError("An answer needs a text and a test", "", "Such as `selftest-tui answer TEXT TEST`.")
    folder = _chosen_run(call)
    text = clean_answer(sys.stdin.read() if arguments.text == "-" else arguments.text)
    run = folder.read()
    named = _named(run, arguments.tests, is_alike=arguments.alike)
    rows = [row for row in named if not answer_disabled_reason(run, row)]
    _show_targets(run, named)
    if not rows:
        raise UsageError("None of these agents can be answered", "", f"`selftest-tui runs {folder.run}` shows the run.")
    if len(rows) > 1 and not arguments.yes and not arguments.batch and not _is_agreed(len(rows)):
        return SOMETHING_LEFT
    is_paused = not folder.is_conducted() and (run.paused or run.is_halted)
    if is_paused:
        folder.add_request(RunRequest(RequestKind.GO))
    requests = answer_requests(rows, text)
    for request in requests:
        folder.add_request(request)
    status = _continue_in_batch(folder, call) if arguments.batch else _await_answers(folder, requests, call)
    declined = _declined(folder, requests)
    return max(status, SOMETHING_LEFT if declined or len(rows) < len(named) else DONE)


def _named(run: Run, tests: Sequence[str], *, is_alike: bool) -> tuple[RunRow, ...]:
    """Find the tests by id or by the name of their agent. Raises UsageError for an unknown one."""
    from difflib import get_close_matches

    from selftest_core.run.answer.answering import asking_alike

    known = {name: row for row in run.rows.values() for name in (row.planned.node_id, row.name)}
    found: dict[str, RunRow] = {}
    for test in tests:
        if test not in known:
            near = get_close_matches(test, known, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"`selftest-tui runs {run.plan.run}` shows its tests."
            raise UsageError(f"There is no test {test[:200]} in {run.plan.run}", "", hint)
        for row in asking_alike(run, known[test]) if is_alike else (known[test],):
            found[row.name] = row
    return tuple(found.values())


def _show_targets(run: Run, rows: Sequence[RunRow]) -> None:
    """Name each test with what its agent asks, or why it cannot be answered."""
    from selftest_core.run.answer.answering import answer_disabled_reason, question_of
    from selftest_core.run.log_lines import plain

    for row in rows:
        refusal = answer_disabled_reason(run, row)
        if refusal:
            tell(f"not possible: {row.planned.node_id}: {refusal}")
        else:
            tell(f"to {row.planned.node_id}: {plain(question_of(row), _LONGEST_QUESTION) or 'it asks nothing'}")


def _is_agreed(count: int) -> bool:
    if has_terminal():
        sys.stdout.write(f"Send this answer to {count} agents? [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return True
    sys.stderr.write("Nothing was sent. Add --yes to answer several without a question.\n")
    return False


def _await_answers(folder: RunFolder, requests: Sequence[RunRequest], call: Call) -> int:
    """Wait until a conductor has taken or declined each answer; start one where there is none."""
    from selftest_core.run.follower import RunFollower
    from selftest_tui.run.conducting import start_conductor

    ids = {request.id for request in requests}
    waiting = set(ids)

    def settle(run: Run, entry: Entry) -> None:
        if entry.fields.get("id") in ids:
            _report(run, entry)
            row = run.rows.get(str(entry.fields.get("agent", "")))
            if row is None or row.telling is None:  # else it is being sent
                waiting.discard(str(entry.fields["id"]))

    follower = RunFollower(folder)
    while True:
        follower.refresh(settle)
        if not waiting:
            return DONE
        if follower.is_conducted:
            time.sleep(_STEP)
            continue
        with Progress(f"starting the conductor of {folder.run}"), contextlib.suppress(RefusedError):
            start_conductor(folder, call.environ, policy=_policy(call.config))


def _continue_in_batch(folder: RunFolder, call: Call) -> int:
    """Follow the run while it has a conductor, then conduct what is left of it here."""
    from selftest_core.run.follower import RunFollower
    from selftest_core.schema.run import exit_status
    from selftest_tui.cli.runs.run import conduct_in_batch

    follower = RunFollower(folder)
    follower.refresh()
    while folder.is_conducted():
        follower.refresh(_report)
        time.sleep(_STEP)
    run = follower.refresh(_report)
    if run.is_over and not folder.requests():
        _print_summary(folder, run, call)
        return exit_status(run)
    return conduct_in_batch(folder, call.environ, _policy(call.config))


def _declined(folder: RunFolder, requests: Sequence[RunRequest]) -> int:
    """Count the answers that were declined."""
    from selftest_core.journal import read
    from selftest_core.run.events import Event

    ids = {request.id for request in requests}
    entries = read(folder.journal.read_bytes()).entries
    return sum(entry.event == Event.DECLINED and entry.fields.get("id") in ids for entry in entries)


def stop(call: Call) -> int:
    """Stop a run, and wait until its agents are collected and stopped."""
    folder = _chosen_run(call)
    found = read_run(folder)
    if found.state == "ended":
        return _show_ended(folder, found.run, call, "has ended already: there is nothing to stop")
    folder.add_request(RunRequest(RequestKind.STOP))
    if found.state == "live":
        sys.stderr.write(f"stopping {folder.run}\n")
        run = _wait_until_ended(folder)
    else:
        sys.stderr.write(f"{folder.run} has no conductor: stopping its agents from here\n")
        run = _stop_here(folder, call)
    _print_summary(folder, run, call)
    return SOMETHING_LEFT if any(row.says for row in run.rows.values()) else DONE


def _wait_until_ended(folder: RunFolder) -> Run:
    """Follow a run to its end. Raises SelftestError if its conductor ends before."""
    from selftest_core.run.follower import RunFollower

    follower = RunFollower(folder)
    follower.refresh()
    while True:
        run = follower.refresh(_report)
        if run.is_over and not follower.is_conducted:
            return run
        if not follower.is_conducted:
            run = follower.refresh(_report)  # its last entries may have been written in between
            if run.is_over:
                return run
            hint = f"`selftest-tui stop {folder.run}` stops its remaining agents."
            raise SelftestError("The conductor ended before it had stopped the run", str(folder.path), hint)
        time.sleep(_STEP)


def _stop_here(folder: RunFolder, call: Call) -> Run:
    """Conduct a run to its stop in this process."""
    import asyncio

    from selftest_core.run.conduct.conductor_process import INTERRUPTED
    from selftest_tui.run.conducting import conduct

    why = asyncio.run(conduct(folder, call.environ, policy=_policy(call.config), on_change=_report))
    if why == INTERRUPTED:
        raise KeyboardInterrupt
    return folder.read()


def _report(run: Run, entry: Entry) -> None:
    """Print one entry of the journal on stderr."""
    from selftest_core.run.log_lines import log_line

    said = log_line(run, entry)
    if said:
        sys.stderr.write(f"{said}\n")
        sys.stderr.flush()


def _show_ended(folder: RunFolder, run: Run | None, call: Call, text: str) -> int:
    from selftest_core.schema.run import exit_status

    if run is None:
        raise UsageError(f"{folder.run} cannot be read")
    sys.stderr.write(f"{folder.run} {text}\n")
    _print_summary(folder, run, call)
    return exit_status(run)


def _print_summary(folder: RunFolder, run: Run, call: Call) -> None:
    if call.arguments.batch:
        from selftest_core.schema.run import run_summary
        from selftest_recorder.report.writer import report_path

        report = report_path(folder.path)
        write_line(run_summary(run, time.time(), str(folder.path), report=report).model_dump(mode="json"))
    else:
        from selftest_core.run.log_lines import summary_lines

        print_lines(summary_lines(run))


def _chosen_run(call: Call) -> RunFolder:
    """Return the run that was named, by id or folder; else this repository's newest open run, else its newest."""
    name = call.arguments.run_name
    if name is not None and "/" in name:
        path = (call.cwd / Path(name).expanduser()).resolve()
        if not (path / "plan.json").is_file():
            raise UsageError("This folder is not one of our runs", str(path), "`selftest-tui runs` lists them.")
        return RunFolder(path)
    repository = repository_of(call.cwd, call.environ)
    if name is None and repository is not None:
        for folder in own_folders(call.environ, repository):
            if glance(folder).state in ("live", "resumable"):
                return folder
    return find_run(call.environ, repository, name)


def _policy(config: Config) -> Policy | None:
    """Return the policy of a resumed run: a budget that is set now replaces the plan's, which may be used up."""
    from selftest_core.run.conduct.policy import Policy

    policy = Policy(
        budget_usd=config.budget_usd,
        budget_day_usd=config.budget_day_usd,
        budget_day_tokens=config.budget_day_tokens,
    )
    return None if policy == Policy() else policy
