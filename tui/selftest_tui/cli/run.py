"""`selftest-tui run`: make a run ready, show what it would be, and begin it after a yes.

With a terminal the first screen asks; under --batch the flags are the yes, and the run is conducted in this process.
Nothing is begun by --dry-run. What is prepared, and how, is the core's.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from selftest_core.errors import UsageError
from selftest_tui.shared.loading import loading
from selftest_tui.shared.present import clean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.run.plan.offer import Offer
    from selftest_core.run.plan.preparation import RunOptions

DONE = 0
_WIDEST = 120
_COLUMN = 10


def run(arguments: argparse.Namespace, config: Config, environ: Mapping[str, str], cwd: Path) -> int:
    """An agent for each test."""
    from selftest_core.run.plan.preparation import begin, prepare

    if arguments.json and not arguments.dry_run:
        raise UsageError("--json is for --dry-run", "", "A run itself prints JSON Lines with --batch.")
    has_screen = not arguments.batch and not arguments.dry_run
    if has_screen and not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = "`selftest-tui run --batch` needs none; `selftest-tui run --dry-run` shows what it would be."
        raise UsageError("There is no terminal to show the run on", "", hint)
    prepared = asyncio.run(prepare(options_of(arguments), config, environ, cwd, _say))
    if arguments.dry_run:
        return _show(prepared.offer, arguments)
    if has_screen:
        with loading():
            from selftest_tui.app.app import run_start

        return run_start(prepared, config, environ)
    from selftest_tui.cli.batch_run import conduct_in_batch

    for warning in prepared.plan.warnings:
        _say(f"! {warning}")
    for broken in prepared.uncollected:
        _say(f"! {broken.path} cannot be collected: {broken.message}")
    _say("making the private clone")
    return conduct_in_batch(begin(prepared, environ), environ)


def options_of(arguments: argparse.Namespace) -> RunOptions:
    """What the flags ask for."""
    from selftest_core.run.plan.preparation import RunOptions

    return RunOptions(
        tests=tuple(arguments.tests),
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
        affected_by=arguments.affected_by,
        tutorial=arguments.tutorial,
    )


def shown_lines(offer: Offer, width: int) -> list[str]:
    """The offer for a terminal of this width: a word in the first column, what it says beside it, harmless."""
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
    """Harmless lines of at most `width` cells, broken between words where that can be."""
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


def _show(offer: Offer, arguments: argparse.Namespace) -> int:
    if arguments.json or arguments.batch:
        from selftest_core.schema.run_plan import offer_document
        from selftest_tui.cli import batch

        batch.write_answer(offer_document(offer).model_dump(mode="json"), is_batch=arguments.batch)
        return DONE
    width = min(_WIDEST, shutil.get_terminal_size((80, 24)).columns)
    lines = [*shown_lines(offer, width), "", "Nothing was started: this is what `selftest-tui run` would do."]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    return DONE


def _say(text: str) -> None:
    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()
