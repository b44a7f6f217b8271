"""Commands `resume` and `stop`: continue a run that stopped early, or stop one.

With a terminal `resume` starts the conductor in a tmux session of its own and opens the screen; with `--batch` it
conducts in this process.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError, UsageError
from selftest_core.run.overview import glance, own_folders, repository_of
from selftest_core.run.store import RequestKind, RunFolder, RunRequest, find_run
from selftest_tui.cli.command import DONE, SOMETHING_LEFT, Progress, print_lines, require_terminal, write_line
from selftest_tui.cli.runs import read_run
from selftest_tui.shared.loading import loading

if TYPE_CHECKING:
    from selftest_core.config import Config
    from selftest_core.journal import Entry
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import Run
    from selftest_tui.cli.command import AddCommand, Call

_STEP = 0.5
"""Seconds between two reads of a run that is being stopped."""
_RUN_HELP = "a run, or the beginning of its name; default: the newest here"


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
    if found.state == "ended":
        return _show_ended(folder, found.run, call, "has ended already: nothing is left to resume")
    if call.arguments.batch:
        from selftest_tui.cli.run import conduct_in_batch

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

    if config.budget_usd is None:
        return None
    return dataclasses.replace(Policy(), budget_usd=config.budget_usd)
