"""Command `run`: prepares a run, shows its plan, and starts it after a yes.

With a terminal the first screen asks. With `--batch` the run starts at once and is conducted in this process, which
`resume`, `stop` and `demo` do too: its journal as JSON Lines on stdout, messages on stderr, its summary last. Nobody
can answer there, so a paused run is left, and can be resumed. `--dry-run` starts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import math
import shutil
import sys
import time
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError, UsageError
from selftest_tui.cli.command import (
    DONE,
    SOMETHING_LEFT,
    STOPPED_EARLY,
    count,
    print_lines,
    require_terminal,
    tell,
    write_answer,
    write_line,
)
from selftest_tui.shared.loading import loading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.journal import Entry
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import Run
    from selftest_core.run.plan.offer import Offer
    from selftest_core.run.plan.preparation import Prepared, RunOptions
    from selftest_core.run.store import RunFolder
    from selftest_core.schema.draft import DraftDocument
    from selftest_core.schema.review import ReviewDocument
    from selftest_core.schema.run import RunSummary
    from selftest_tui.cli.command import AddCommand, Call

    type Drafting = Callable[[RunFolder, Mapping[str, str]], DraftDocument]
    type Reviewing = Callable[[RunFolder, Mapping[str, str]], ReviewDocument | None]

_WIDEST = 120
_COLUMN = 10


def add_run(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """Their results are collected, then the agents are stopped. The plan is shown first, and nothing starts before
        a yes; with --batch the run starts at once. Agents work on copies of a commit: your checkout, index and
        branches are never touched. Arguments after -- go to pytest. Ends with 1 where a test is blocked or failed,
        with 3 where the run stopped early and can be resumed.""",
        """
        selftest-tui run --dry-run         show the plan: agents, costs, data sent
        selftest-tui run tests/e2e --max-running 5
        selftest-tui run --affected-by main
        selftest-tui run --agent-command ./agent.sh -- -m 'not slow'
        selftest-tui run --batch --on modal --env ANTHROPIC_API_KEY --budget-usd 20
        selftest-tui run --batch --scheduled          every night, from cron or CI
        """,
    )
    command.add_argument(
        "tests", nargs="*", metavar="TESTS", help="files, folders or node ids; default: all that pytest collects"
    )
    what = command.add_argument_group("tests")
    what.add_argument("--base", metavar="REF", default="HEAD", help="the commit that agents start from; default: HEAD")
    what.add_argument("--affected-by", metavar="BASE", help="only tests affected by the changes since BASE")
    what.add_argument(
        "--no-rest", dest="rest", action="store_false",
        help="give an agent to tests that rest, too (settings rest_after, rest_for)",
    )  # fmt: skip
    what.add_argument("--tutorial", metavar="FILE", default="tutorial.sh", help="default: tutorial.sh")
    add_agent_options(command)
    command.add_argument(
        "--scheduled", action="store_true",
        help="with --batch, for cron and CI: skip this run while an earlier pull request is open or another scheduled "
        "run is conducted",
    )  # fmt: skip
    command.set_defaults(run=run)


def add_agent_options(command: argparse.ArgumentParser, *, is_verifying: bool = True) -> None:
    """Add the flags that every command which starts agents has. `is_verifying`: tests run when a result arrives."""
    who = command.add_argument_group("agents")
    who.add_argument("--agent", metavar="TYPE", help="an agent type that mngr knows: claude, codex, command, …")
    who.add_argument("--agent-command", metavar="SCRIPT", help="the command of a command agent, with its arguments")
    who.add_argument("--on", metavar="PROVIDER", help="local, modal, or another provider that mngr knows")
    who.add_argument("--transfer", choices=("mirror", "worktree"), help="how an agent gets its copy of the commit")
    who.add_argument(
        "--env", nargs="+", action="extend", type=_variable, metavar="NAME",
        help="names of variables that agents get, besides those that their type needs",
    )  # fmt: skip
    limits = command.add_argument_group("limits")
    limits.add_argument("--max-running", type=count, metavar="N", help="agents at once")
    limits.add_argument("--launch-rate", type=_positive, metavar="PER_SECOND", help="launches per second")
    limits.add_argument("--timeout", type=_positive, metavar="S", help="seconds that one agent may take")
    limits.add_argument("--budget-usd", type=_money, metavar="X", help="launch no more agents after this is spent")
    limits.add_argument(
        "--on-cluster", choices=("ask", "pause", "go"), help="when many fail with one cause: ask, pause or continue"
    )
    command.add_argument(
        "--no-smoke", dest="smoke", action="store_false", default=None,
        help="do not try one agent with a tiny prompt first on each provider",
    )  # fmt: skip
    command.set_defaults(verify_on_arrival=None)
    if is_verifying:
        command.add_argument(
            "--verify-on-arrival", action=argparse.BooleanOptionalAction, default=None,
            help="verify each claim when it arrives: agents' code runs here; default: for agents on this machine",
        )  # fmt: skip
    command.add_argument("--dry-run", action="store_true", help="show the plan, start nothing")
    command.add_argument("--json", action="store_true", help="with --dry-run: print one JSON document")


def _positive(text: str) -> float:
    number = _number(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not more than 0")
    return number


def _money(text: str) -> float:
    number = _number(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 0")
    return number


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return number


def _variable(text: str) -> str:
    name = text.partition("=")[0]
    if "=" in text and name.isidentifier():
        # Everybody who lists processes would see its value.
        raise argparse.ArgumentTypeError(f"name the variable alone, as {name}: its value is taken from here")
    if not (text.isascii() and text.isidentifier()):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a variable (TESTS come before --env)")
    return text


def run(call: Call) -> int:
    """Show the plan, ask on the screen, or start at once with `--batch`."""
    from selftest_core.run.plan.preparation import prepare
    from selftest_core.verify.on_arrival import isolation_of_claims
    from selftest_tui.cli.runs.scheduled import check_scheduled, run_scheduled

    arguments, environ = call.arguments, call.environ
    if arguments.scheduled:
        check_scheduled(call)
    check_agent_options(call)
    wanted = run_options(
        arguments, tests=tuple(arguments.tests), affected_by=arguments.affected_by, is_resting=arguments.rest
    )

    def make() -> Prepared:
        return asyncio.run(prepare(wanted, call.config, environ, call.cwd, tell, isolation_of_claims))

    def start(prepared: Prepared, on_begin: Callable[[RunFolder], None]) -> int:
        return start_or_show(prepared, call, on_begin=on_begin)

    return run_scheduled(call, make, start) if arguments.scheduled else start_or_show(make(), call)


def check_agent_options(call: Call) -> None:
    """Raise UsageError where the flags do not fit together, or a screen is needed and there is no terminal."""
    arguments, name = call.arguments, call.arguments.command
    if arguments.json and not arguments.dry_run:
        raise UsageError("--json is for --dry-run", "", "A run prints JSON Lines with --batch.")
    if not arguments.batch and not arguments.dry_run:
        require_terminal(f"`selftest-tui {name} --batch` needs none; `selftest-tui {name} --dry-run` shows the plan.")


def start_or_show(
    prepared: Prepared,
    call: Call,
    draft: Drafting | None = None,
    on_begin: Callable[[RunFolder], None] | None = None,
) -> int:
    """Show a prepared run, ask on the screen, or start it at once with `--batch`, as the flags say.

    `draft`: decides about a draft that was made with `--batch`. `on_begin`: called once the folder of the run is made.
    """
    from selftest_core.run.outcome.claims import NOT_ISOLATED
    from selftest_core.run.plan.preparation import begin

    arguments, environ = call.arguments, call.environ
    if arguments.dry_run:
        return _show_plan(prepared.offer, call)
    if not arguments.batch:
        with loading():
            from selftest_tui.app.app import run_start

        return run_start(prepared, call.config, environ)
    for warning in prepared.plan.warnings:
        tell(f"! {warning}")
    for broken in prepared.uncollected:
        tell(f"! {broken.path} cannot be collected: {broken.message}")
    if prepared.plan.verify_on_arrival not in ("", NOT_ISOLATED):
        tell("claims are verified when they arrive: agents' code runs on this machine, in a sandbox")
    tell("making the private clone")
    folder = begin(prepared, environ)
    if on_begin is not None:
        on_begin(folder)
    return conduct_in_batch(folder, environ, draft=draft)


def run_options(
    arguments: argparse.Namespace,
    *,
    tests: tuple[str, ...] = (),
    affected_by: str | None = None,
    is_resting: bool = True,
) -> RunOptions:
    """Convert the flags of a command that starts agents."""
    from selftest_core.run.plan.preparation import RunOptions

    return RunOptions(
        tests=tests,
        pytest_args=tuple(arguments.pytest_args),
        base=arguments.base,
        provider=arguments.on,
        agent_type=arguments.agent,
        agent_command=arguments.agent_command,
        transfer=arguments.transfer,
        env_names=None if arguments.env is None else tuple(arguments.env),
        max_running=arguments.max_running,
        launch_rate=arguments.launch_rate,
        timeout=arguments.timeout,
        budget_usd=arguments.budget_usd,
        on_cluster=arguments.on_cluster,
        is_smoke=arguments.smoke,
        is_verify_on_arrival=arguments.verify_on_arrival,
        affected_by=affected_by,
        tutorial=arguments.tutorial,
        is_resting=is_resting,
    )


def shown_lines(offer: Offer, width: int) -> list[str]:
    """Return a plan for a terminal of this width: labels in the first column, made harmless."""
    from selftest_core.run.plan.offer import offer_parts

    lines: list[str] = []
    for part in offer_parts(offer):
        word = part.word
        for line in part.lines:
            indent = len(line) - len(line.lstrip(" "))
            for piece in _wrapped(line[indent:], max(20, width - _COLUMN - indent)):
                lines.append(f"{word:<{_COLUMN}}{' ' * indent}{piece}".rstrip())
                word = ""
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap a text into harmless lines of at most `width` cells, between words where possible."""
    from rich.cells import cell_len, set_cell_size

    from selftest_tui.shared.present import clean

    lines, line = [], ""
    for word in clean(text).split(" "):
        joined = f"{line} {word}" if line else word
        if cell_len(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        while cell_len(word) > width:
            head = set_cell_size(word, width).rstrip(" ")
            lines.append(head)
            word = word[len(head) :]
        line = word
    return [*lines, line]


def _show_plan(offer: Offer, call: Call) -> int:
    """Print the plan of a run that is not started."""
    if call.is_for_programs:
        from selftest_core.schema.run_plan import offer_document

        write_answer(offer_document(offer).model_dump(mode="json"), is_batch=call.arguments.batch)
        return DONE
    width = min(_WIDEST, shutil.get_terminal_size((80, 24)).columns)
    would = f"this is what `selftest-tui {call.arguments.command}` would do."
    print_lines([*shown_lines(offer, width), "", f"Nothing was started: {would}"])
    return DONE


# a run in this process


def conduct_in_batch(
    folder: RunFolder,
    environ: Mapping[str, str],
    policy: Policy | None = None,
    *,
    is_kept: bool = True,
    review: Reviewing | None = None,
    draft: Drafting | None = None,
    on_change: Callable[[Run, Entry], None] | None = None,
    others: Callable[[], list[RunSummary]] | None = None,
) -> int:
    """Conduct a run until it ends or pauses, and return the exit status. `is_kept`: it can be resumed afterwards.

    The commits of an ended run are applied to one branch, by `review` or by default. A draft is not reviewed: `draft`
    decides about it, by default nobody. `on_change` is called after each line of the journal, once it is printed.
    `others` conducts further runs that belong to it, and returns their summaries. Raises what `conduct` raises; the
    journal has all steps until then.
    """
    from selftest_core.run.conduct.conductor import SMOKE
    from selftest_core.run.conduct.conductor_process import INTERRUPTED
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.log_lines import plain
    from selftest_core.schema.run import exit_status, run_summary
    from selftest_recorder.report.writer import report_path, write_run_report
    from selftest_tui.run.conducting import conduct

    policy = dataclasses.replace(policy or Policy(), leave_when_paused=True)

    def follow(run: Run, entry: Entry) -> None:
        _show_change(run, entry)
        if on_change is not None:
            on_change(run, entry)

    why = asyncio.run(conduct(folder, environ, policy=policy, on_change=follow))
    run = folder.read()
    is_resumable = why in (INTERRUPTED, "budget", "paused")
    is_draft = run.plan.role == "drafter"
    document = None if is_resumable or is_draft else (review or _review_undecided)(folder, environ)
    # The conductor wrote the report; a review that decided and published made it old.
    has_decided = review is not None or (draft is not None and not is_resumable)
    drafted = None if is_resumable or not is_draft else (draft or _draft_undecided)(folder, environ)
    report = write_run_report(folder, environ, tell) if has_decided else report_path(folder.path)
    summary = run_summary(run, time.time(), str(folder.path), document, report)
    if drafted is not None:
        summary = summary.model_copy(update={"draft": drafted})
    if others is not None and not is_resumable:
        summary = summary.model_copy(update={"others": others()})
    write_line(summary.model_dump(mode="json"))
    if is_resumable:
        reason = f"{why}: {plain(run.paused)}" if run.paused else why
        resume = f"; `selftest-tui resume {folder.run}` resumes it" if is_kept else ""
        sys.stderr.write(f"{reason}{resume}\n")
        return STOPPED_EARLY
    if why == SMOKE:
        for one in run.smoke:
            for said in one.says.splitlines()[1:]:
                sys.stderr.write(f"  {plain(said)}\n")
        sys.stderr.write(
            "nothing else was started: `selftest-tui doctor` finds a missing login, key or program; "
            "where a dialog was open, start the program once yourself and answer it; "
            f"`selftest-tui resume {folder.run}` tries again, `run --no-smoke` skips this agent\n"
        )
    is_left = drafted is not None and (drafted.open > 0 or bool(drafted.not_published))
    return SOMETHING_LEFT if is_left else exit_status(run)


def _draft_undecided(folder: RunFolder, environ: Mapping[str, str]) -> DraftDocument:
    """Return the draft of a run with what was decided so far."""
    from selftest_core.draft.batch import look_at_draft
    from selftest_core.schema.draft import draft_document

    return draft_document(look_at_draft(folder, environ))


def _review_undecided(folder: RunFolder, environ: Mapping[str, str]) -> ReviewDocument | None:
    """Return the review of a run without decisions; None if there are no commits, or it cannot be made."""
    from selftest_core.review.batch import review
    from selftest_core.review.changes.inputs import Request
    from selftest_core.schema.check import check_of_tree
    from selftest_core.schema.review import review_document
    from selftest_core.sync.reviewed import check_tree

    if not any(row.commits for row in folder.read().rows.values()):
        return None
    try:
        answer = review(Request(run=folder.run), folder.path, environ)
    except Exception as error:
        # The run is done, and its summary must be printed, whatever its branches are.
        tell(f"no review: {error if isinstance(error, SelftestError) else f'{type(error).__name__}: {error}'}")
        return None
    document = review_document(answer.reviewed, answer.candidate, None)
    found = check_tree(folder.path, document.tree, environ)
    return document if found is None else document.model_copy(update={"check": check_of_tree(found)})


def _show_change(run: Run, entry: Entry) -> None:
    """Print one entry of the journal: for programs on stdout, for people on stderr."""
    from selftest_core.run.log_lines import log_line
    from selftest_core.schema.run import run_line

    write_line(run_line(run, entry))
    said = log_line(run, entry)
    if said:
        sys.stderr.write(f"{said}\n")
        sys.stderr.flush()
