"""The commands `runs`, `resume` and `stop`: runs that are there already, listed, taken up again, ended.

The work is the core's; here is what is asked, printed and returned. `resume` with a terminal starts the conductor in a
session of its own and opens the screen on it; with `--batch` it conducts in this process.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, SelftestError, UsageError
from selftest_core.run.overview import RunGlance, glance, glances, own_folders, repository_of
from selftest_core.run.store import RequestKind, RunFolder, RunRequest, find_run
from selftest_tui.shared.loading import loading

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from selftest_core.config import Config
    from selftest_core.run.conduct.policy import Policy
    from selftest_core.run.fold import Run
    from selftest_core.run.outcome.foreign import ForeignRun

DONE = 0
SOMETHING_LEFT = 1
_STEP = 0.5
"""Seconds between two looks at a run that is being stopped."""


def runs(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """List the runs, or show one: on the screen where it is ours and there is a terminal."""
    if arguments.path is not None:
        return _show(Path(arguments.path).expanduser(), arguments, config, environ, cwd)
    found = glances(environ, repository_of(cwd, environ))
    if arguments.json or arguments.batch:
        from selftest_core.schema.run import runs_document
        from selftest_tui.cli import batch

        batch.write_answer(runs_document(found).model_dump(mode="json"), is_batch=arguments.batch)
        return DONE
    from selftest_tui.cli.run_table import runs_lines

    _print(runs_lines(found, time.time(), _width()))
    return DONE


def _show(path: Path, arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    path = cwd / path
    own = RunFolder(path.resolve()) if (path / "plan.json").is_file() else None
    if own is None and not path.exists() and "/" not in arguments.path:
        own = find_run(environ, repository_of(cwd, environ), arguments.path)
    if arguments.json or arguments.batch:
        from selftest_core.schema.run_detail import foreign_document, own_document
        from selftest_tui.cli import batch

        document = foreign_document(_foreign(path)) if own is None else own_document(own, own.read())
        batch.write_answer(document.model_dump(mode="json"), is_batch=arguments.batch)
        return DONE
    if own is not None and _readable(own).run is not None and sys.stdin.isatty() and sys.stdout.isatty():
        with loading():
            from selftest_tui.app.app import run

        return run(config, environ, run=own)
    from selftest_tui.cli.run_table import foreign_lines, run_lines

    width = _width()
    _print(foreign_lines(_foreign(path), width) if own is None else run_lines(own.read(), width))
    return DONE


def _foreign(path: Path) -> ForeignRun:
    from selftest_core.run.outcome.foreign import read_foreign

    return read_foreign(path)


def resume(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """Go on with a run that nobody conducts."""
    folder = _chosen(arguments.run, environ, cwd)
    found = _readable(folder)
    if found.state == "ended":
        return _say_how_it_is(folder, found.run, arguments, "has ended already: nothing is left to go on with")
    if arguments.batch:
        from selftest_tui.cli.batch_run import conduct_in_batch

        # Whoever resumes a run that rests, or was being stopped, wants it to go on.
        if found.run is not None and found.state != "live" and (found.run.paused or found.run.is_halted):
            folder.add_request(RunRequest(RequestKind.GO))
        return conduct_in_batch(folder, environ, _policy(config))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("There is no terminal to show the run on", "", "`selftest-tui resume --batch` needs none.")
    if found.state != "live":
        from selftest_tui.cli.progress import Progress
        from selftest_tui.run.conducting import start_conductor

        with Progress(f"starting the conductor of {folder.run}"):
            start_conductor(folder, environ, policy=_policy(config))
    with loading():
        from selftest_tui.app.app import run

    return run(config, environ, run=folder)


def stop(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """End a run: what runs is emptied and stopped, the rest is not started; waits for that."""
    folder = _chosen(arguments.run, environ, cwd)
    found = _readable(folder)
    if found.state == "ended":
        return _say_how_it_is(folder, found.run, arguments, "has ended already: there was nothing to stop")
    folder.add_request(RunRequest(RequestKind.STOP))
    if found.state == "live":
        sys.stderr.write(f"stopping {folder.run}\n")
        run = _wait_until_ended(folder)
    else:
        sys.stderr.write(f"{folder.run} has no conductor: stopping what it left from here\n")
        run = _stop_here(folder, environ, config)
    if arguments.batch:
        _write_summary(folder, run)
    else:
        from selftest_core.run.log_lines import summary_lines

        _print(summary_lines(run))
    return SOMETHING_LEFT if any(row.says for row in run.rows.values()) else DONE


def _wait_until_ended(folder: RunFolder) -> Run:
    """Follow the run to its end. Raises SelftestError where its conductor leaves it before."""
    from selftest_core.run.follower import RunFollower

    follower = RunFollower(folder)
    follower.refresh()
    while True:
        run = follower.refresh(_tell)
        if run.is_over and not follower.is_conducted:
            return run
        if not follower.is_conducted:
            run = follower.refresh(_tell)  # its last lines may have come in between
            if run.is_over:
                return run
            hint = f"`selftest-tui stop {folder.run}` stops what it left."
            raise SelftestError("The conductor ended before it had stopped the run", str(folder.path), hint)
        time.sleep(_STEP)


def _stop_here(folder: RunFolder, environ: Mapping[str, str], config: Config) -> Run:
    """Conduct the run to its stop in this process."""
    import asyncio

    from selftest_core.run.conduct.conductor_process import INTERRUPTED
    from selftest_tui.run.conducting import conduct

    why = asyncio.run(conduct(folder, environ, policy=_policy(config), on_change=_tell))
    if why == INTERRUPTED:
        raise KeyboardInterrupt
    return folder.read()


def _tell(run: Run, entry: object) -> None:
    from selftest_core.journal import Entry
    from selftest_core.run.log_lines import tell

    said = tell(run, entry) if isinstance(entry, Entry) else ""
    if said:
        sys.stderr.write(f"{said}\n")
        sys.stderr.flush()


def _say_how_it_is(folder: RunFolder, run: Run | None, arguments: argparse.Namespace, says: str) -> int:
    from selftest_core.schema.run import exit_status

    if run is None:
        raise UsageError(f"{folder.run} cannot be read")
    sys.stderr.write(f"{folder.run} {says}\n")
    if arguments.batch:
        _write_summary(folder, run)
    else:
        from selftest_core.run.log_lines import summary_lines

        _print(summary_lines(run))
    return exit_status(run)


def _write_summary(folder: RunFolder, run: Run) -> None:
    from selftest_core.schema.run import run_summary
    from selftest_tui.cli import batch

    batch.write_line(run_summary(run, time.time(), str(folder.path)).model_dump(mode="json"))


def _chosen(run: str | None, environ: Mapping[str, str], cwd: Path) -> RunFolder:
    """The run that was named, by id or folder; else this repository's newest that has not ended, else its newest."""
    if run is not None and "/" in run:
        path = (cwd / Path(run).expanduser()).resolve()
        if not (path / "plan.json").is_file():
            raise UsageError("That is no run of ours", str(path), "`selftest-tui runs` lists them.")
        return RunFolder(path)
    repository = repository_of(cwd, environ)
    if run is None and repository is not None:
        for folder in own_folders(environ, repository):
            if glance(folder).state in ("live", "resumable"):
                return folder
    return find_run(environ, repository, run)


def _readable(folder: RunFolder) -> RunGlance:
    found = glance(folder)
    if found.state == "unreadable":
        raise RefusedError(
            f"The run {folder.run} cannot be read", found.error, "Restore its files, or begin a new run."
        )
    return found


def _policy(config: Config) -> Policy | None:
    """How to conduct: a budget that is set now overrules the plan's, so that a run that used its own up can go on."""
    from selftest_core.run.conduct.policy import Policy

    if config.budget_usd is None:
        return None
    return dataclasses.replace(Policy(), budget_usd=config.budget_usd)


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def _print(lines: list[str]) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
