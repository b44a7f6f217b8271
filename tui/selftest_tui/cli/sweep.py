"""The command `sweep`: shows what earlier demos, runs and reviews left behind, asks, and removes it.

Everything that goes is named first. Without a terminal nothing is asked and nothing removed, unless `--yes` says so.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

from selftest_core.cleanup import demo_folders as demos
from selftest_core.cleanup.review_leftovers import ReviewLeftover, remove_review, review_leftovers
from selftest_core.cleanup.run_leftovers import RunLeftover, remove, run_leftovers
from selftest_core.cleanup.selection import select
from selftest_core.frozen import dataclass
from selftest_core.run.overview import repository_of
from selftest_tui.shared.present import clean, plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

DONE = 0
SOMETHING_LEFT = 1
_MOST_NAMES = 10


@dataclass(frozen=True, slots=True)
class Found:
    """One leftover of any kind; `problems` is None while nobody tried to remove it."""

    leftover: demos.Leftover | RunLeftover | ReviewLeftover
    problems: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Exactly what goes."""
        one = self.leftover
        return (str(one.folder.path),) if isinstance(one, demos.Leftover) else one.names

    @property
    def run(self) -> str | None:
        """The id of the run or review that it is of; None for a demo."""
        one = self.leftover
        if isinstance(one, demos.Leftover):
            return None
        return one.run if isinstance(one, RunLeftover) else one.review

    @property
    def path(self) -> Path:
        """The folder that it is or belongs to."""
        one = self.leftover
        return one.folder.path if isinstance(one, demos.Leftover) else one.path


def sweep(arguments: argparse.Namespace, environ: Mapping[str, str], cwd: Path) -> int:
    """Show, ask, remove; returns 1 where something is left."""
    is_for_programs = arguments.batch or arguments.json
    says = sys.stderr if is_for_programs else sys.stdout
    repository, now = repository_of(cwd, environ), time.time()
    selection = select(arguments.runs, environ, repository, is_here=arguments.here)
    of_runs, unseen_runs = asyncio.run(run_leftovers(environ, repository, now, selection))
    of_reviews, unseen_reviews = review_leftovers(environ, repository, now, selection)
    of_demos = demos.leftovers(environ) if selection.includes_demos else ()
    found = [*map(Found, of_demos), *map(Found, of_runs), *map(Found, of_reviews)]
    for one in found:
        says.write(f"{clean(one.leftover.says)}\n")
        if not isinstance(one.leftover, demos.Leftover):
            for name in one.names[:_MOST_NAMES]:
                says.write(f"    {clean(name)}\n")
            if len(one.names) > _MOST_NAMES:
                says.write(f"    and {len(one.names) - _MOST_NAMES} more\n")
    unseen = (*unseen_runs, *unseen_reviews)
    for problem in unseen:
        says.write(f"! {clean(problem)}\n")
    if not found:
        says.write("Nothing else was left behind.\n" if unseen else "Nothing was left behind.\n")
    if found and _is_agreed(len(found), is_asked_for=arguments.yes, may_ask=not is_for_programs):
        found = asyncio.run(_remove(found, environ))
    for one in found:
        for problem in one.problems or ():
            says.write(f"! {clean(problem)}\n")
    is_clear = all(one.problems == () for one in found)
    if is_for_programs:
        _write(found, is_batch=arguments.batch)
    elif found and is_clear:
        says.write(f"Removed {plural(len(found), 'leftover')}.\n")
    return DONE if is_clear else SOMETHING_LEFT


def _is_agreed(count: int, *, is_asked_for: bool, may_ask: bool) -> bool:
    if is_asked_for:
        return True
    if may_ask and sys.stdin.isatty() and sys.stdout.isatty():
        sys.stdout.write(f"Remove {plural(count, 'leftover')}? [y/N] ")
        sys.stdout.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    sys.stderr.write("Nothing was removed. Add --yes to remove it without a question.\n")
    return False


async def _remove(found: list[Found], environ: Mapping[str, str]) -> list[Found]:
    removed = []
    for one in found:
        if isinstance(one.leftover, RunLeftover):
            problems = await remove(one.leftover, environ)
        elif isinstance(one.leftover, ReviewLeftover):
            problems = remove_review(one.leftover, environ, time.time())
        else:
            (swept,) = demos.sweep([one.leftover], environ)
            problems = swept.problems
        removed.append(Found(one.leftover, problems))
    return removed


def _write(found: list[Found], *, is_batch: bool) -> None:
    from selftest_core.schema.maintenance import LeftoverItem, SweepDocument
    from selftest_tui.cli import batch

    items = [
        LeftoverItem(
            path=str(one.path),
            kind="demo" if isinstance(one.leftover, demos.Leftover) else one.leftover.kind,
            run=one.run,
            says=one.leftover.says,
            names=list(one.names),
            kept=isinstance(one.leftover, demos.Leftover) and one.leftover.is_kept,
            removed=one.problems == (),
            problems=list(one.problems or ()),
        )
        for one in found
    ]
    batch.write_answer(SweepDocument(leftovers=items).model_dump(mode="json"), is_batch=is_batch)
