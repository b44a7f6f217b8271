"""The commands, one function each: ask the core, print, and return the exit status.

What is printed is made elsewhere (`cli.list_table`, `batch`, `schema.registry`); what goes wrong is raised, and shown
by `cli.error_text`. Nothing here is imported before its command runs, and only `supervise` and `demo` load Textual.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from selftest_core.errors import UsageError
from selftest_tui.shared.loading import loading

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.demo.world import DemoWorld
    from selftest_core.run.store import RunFolder

DONE = 0
SOMETHING_LEFT = 1
_SECONDS_TO_END_A_DEMO = 30.0


def supervise(config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """The screen: of the run of this repository that is live or can be gone on with, else of the fleet."""
    _need_terminal("`selftest-tui list` shows the fleet once, `selftest-tui list --batch` as JSON.")
    with loading():
        from selftest_tui.app.app import run

    folder = _open_run(cwd, environ)
    return run(config, environ) if folder is None else run(config, environ, run=folder)


def _open_run(cwd: Path, environ: Mapping[str, str]) -> RunFolder | None:
    """The run of the repository around `cwd` to begin with. Costs no git where no run ever was."""
    top = next((folder for folder in (cwd, *cwd.parents) if (folder / ".selftest" / "runs").is_dir()), None)
    if top is None:
        return None
    from selftest_core.run.overview import open_run

    return open_run(environ, top)


def run(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """An agent for each test."""
    from selftest_tui.cli import run as running

    return running.run(arguments, config, environ, cwd)


def runs(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """The runs of this and other repositories, or one run that stands in a folder."""
    from selftest_tui.cli import runs as runs_of

    return runs_of.runs(arguments, config, environ, cwd)


def resume(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """Go on where a run stopped."""
    from selftest_tui.cli import runs as runs_of

    return runs_of.resume(arguments, config, environ, cwd)


def stop(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """Stop a run and its agents."""
    from selftest_tui.cli import runs as runs_of

    return runs_of.stop(arguments, config, environ, cwd)


def list_fleet(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """The fleet once. Providers that fail are part of the answer, not a failure of the command."""
    from selftest_core.fleet.watch.fleet_watch import observe_once
    from selftest_core.fleet.watch.poll_schedule import watch_settings
    from selftest_tui.cli.progress import Progress

    with Progress("asking mngr"):
        view = observe_once(environ, watch_settings(config, cwd), config.list_deadline, wait=not arguments.no_wait)
    if arguments.json or arguments.batch:
        from selftest_core.schema.fleet import list_document
        from selftest_tui.cli import batch

        batch.write_answer(list_document(view).model_dump(mode="json"), is_batch=arguments.batch)
        return DONE
    from selftest_tui.cli.list_table import fleet_lines, problem_lines

    width = shutil.get_terminal_size((80, 24)).columns
    lines = fleet_lines(view, time.time(), width, colour=_may_colour(environ))
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    for line in problem_lines(view.problems):
        sys.stderr.write(line + "\n")
    return DONE


def doctor(arguments: argparse.Namespace, environ: Mapping[str, str], cwd: Path) -> int:
    """What is missing or wrong here."""
    import asyncio

    from selftest_core.doctor.doctor import diagnose
    from selftest_tui.cli.progress import Progress
    from selftest_tui.shared.present import clean

    with Progress("looking"):
        checks = asyncio.run(diagnose(environ, cwd))
    is_ok = all(check.status != "failed" for check in checks)
    if arguments.json or arguments.batch:
        from selftest_core.schema.maintenance import doctor_document
        from selftest_tui.cli import batch

        batch.write_answer(doctor_document(checks).model_dump(mode="json"), is_batch=arguments.batch)
    else:
        marks = {"ok": "✓", "warning": "!", "failed": "✗"}
        longest = max(len(check.name) for check in checks)
        for check in checks:
            sys.stdout.write(f"{marks[check.status]} {check.name:<{longest}}  {clean(check.says)}\n")
            if check.hint and check.status != "ok":
                sys.stdout.write(f"  {'':<{longest}}  → {clean(check.hint)}\n")
    return DONE if is_ok else SOMETHING_LEFT


def check(arguments: argparse.Namespace, environ: Mapping[str, str], cwd: Path) -> int:
    """The tutorial held against its tests."""
    from selftest_tui.cli import check as checking

    return checking.run(arguments, environ, cwd, shutil.get_terminal_size((80, 24)).columns)


def review(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """Many branches into one: on the screen, or under a decisions file."""
    from selftest_tui.cli import review as reviewing

    if not arguments.batch:
        _need_terminal("`selftest-tui review --batch …` prints the line, and publishes by a decisions file.")
    return reviewing.run(arguments, config, environ, cwd)


def record(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """What happens in tmux sessions, into files."""
    from selftest_tui.cli import record as recording

    return recording.run(arguments, config, environ, cwd)


def replay(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """A recording, on the screen or one moment of it printed."""
    from selftest_tui.cli import replay as replaying

    return replaying.replay(arguments, config, environ, cwd, has_terminal=_has_terminal())


def schema(arguments: argparse.Namespace) -> int:
    """The JSON Schema of everything that we print for programs."""
    from selftest_core.schema.registry import schema as all_documents
    from selftest_tui.cli import batch

    batch.write_answer(all_documents(), is_batch=arguments.batch)
    return DONE


def demo(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str]) -> int:
    """Scripted agents in a world of their own: on the screen, or as lines of JSON."""

    def say(line: str) -> None:
        from selftest_tui.shared.present import clean

        sys.stderr.write(clean(line) + "\n")
        sys.stderr.flush()

    if arguments.batch:
        from selftest_core.demo.reviewing import review_demo
        from selftest_core.demo.show import run_demo_batch
        from selftest_tui.cli.batch_run import conduct_in_batch

        conduct = partial(conduct_in_batch, is_kept=arguments.keep, review=partial(review_demo, say=say))
        return run_demo_batch(environ, arguments.agents, arguments.keep, conduct, say, arguments.agent)
    _need_terminal("`selftest-tui demo --batch` prints what happens as JSON Lines instead.")
    with loading():
        from selftest_core.demo.show import run_demo
        from selftest_tui.app.app import run
        from selftest_tui.run.conducting import start_conductor

    # The demo's mngr has no remote providers, so nothing is to be waited for.
    local = replace(config, remote=False)

    def show(world: DemoWorld, folder: RunFolder) -> int:
        return run(local, world.environ, run=folder, seconds_behind=_SECONDS_TO_END_A_DEMO, is_kept=False)

    return run_demo(
        environ, arguments.agents, arguments.keep, show, say,
        lambda folder, tools, policy: start_conductor(folder, tools, policy=policy), arguments.agent,
    )  # fmt: skip


def sweep(arguments: argparse.Namespace, environ: Mapping[str, str], cwd: Path) -> int:
    """Remove what was left behind."""
    from selftest_tui.cli import sweep as sweeping

    return sweeping.sweep(arguments, environ, cwd)


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _need_terminal(advice: str) -> None:
    if not _has_terminal():
        raise UsageError("There is no terminal to show the screen on", "", advice)


def _may_colour(environ: Mapping[str, str]) -> bool:
    return not environ.get("NO_COLOR") and environ.get("TERM") not in (None, "", "dumb") and os.isatty(1)
