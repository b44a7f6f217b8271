"""Command `sweep`: lists what earlier demos, runs and reviews left behind, asks, and removes it.

Everything is named before it is removed. Without a terminal nothing is removed, unless `--yes` is given.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

from selftest_core.cleanup import demo_folders as demos
from selftest_core.cleanup.modal_leftovers import ModalLeftover, modal_leftovers, remove_modal
from selftest_core.cleanup.review_leftovers import ReviewLeftover, remove_review, review_leftovers
from selftest_core.cleanup.run_leftovers import RunLeftover, remove, run_leftovers
from selftest_core.cleanup.selection import select
from selftest_core.cleanup.verify_leftovers import VerifyLeftover, remove_verify, verify_leftovers
from selftest_core.frozen import dataclass
from selftest_core.run.overview import repository_of
from selftest_tui.cli.command import DONE, SOMETHING_LEFT, has_terminal, write_answer
from selftest_tui.shared.present import clean, plural

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_tui.cli.command import AddCommand, Call

_MOST_NAMES = 10


@dataclass(frozen=True, slots=True)
class _Found:
    """One leftover of any kind; `problems` is None until its removal was tried."""

    leftover: demos.Leftover | RunLeftover | ReviewLeftover | VerifyLeftover | ModalLeftover
    problems: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The exact names of what is removed."""
        one = self.leftover
        return (str(one.folder.path),) if isinstance(one, demos.Leftover) else one.names

    @property
    def run(self) -> str | None:
        """The id of its run or review; None for a demo, a verification and Modal."""
        one = self.leftover
        if isinstance(one, demos.Leftover | VerifyLeftover | ModalLeftover):
            return None
        return one.run if isinstance(one, RunLeftover) else one.review

    @property
    def path(self) -> Path:
        """The folder of its demo, run, review or verification."""
        one = self.leftover
        return one.folder.path if isinstance(one, demos.Leftover) else one.path


def add_sweep(add_command: AddCommand) -> None:
    """Add the command and its flags."""
    command = add_command(
        """That is agents and their copies, tmux sessions, clones, refs and old folders, what killed verifications
        left, also on other machines, and sandboxes on Modal that mngr does not see. Lists all of it and asks first.
        Runs that have not ended are never touched; the folder of a run is kept for 30 days.""",
        """
        selftest-tui sweep                all repositories, and demos
        selftest-tui sweep --here         runs and reviews of this repository only
        selftest-tui sweep 20261121-0931  one run only
        selftest-tui sweep --yes          remove without a question
        """,
    )
    command.add_argument(
        "runs", nargs="*", metavar="RUN", help="only of these runs or reviews, or of names that begin so; default: all"
    )
    command.add_argument("--here", action="store_true", help="only runs and reviews of this repository")
    command.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    command.add_argument("--yes", action="store_true", help="do not ask")
    command.set_defaults(run=sweep)


def sweep(call: Call) -> int:
    """List, ask, remove. Returns 1 where something is left."""
    arguments, environ, is_for_programs = call.arguments, call.environ, call.is_for_programs
    out = sys.stderr if is_for_programs else sys.stdout
    repository, now = repository_of(call.cwd, environ), time.time()
    selection = select(arguments.runs, environ, repository, is_here=arguments.here)
    of_runs, unseen_runs = asyncio.run(run_leftovers(environ, repository, now, selection))
    of_reviews, unseen_reviews = review_leftovers(environ, repository, now, selection)
    of_demos = demos.leftovers(environ) if selection.includes_demos else ()
    found = [*map(_Found, of_demos), *map(_Found, of_runs), *map(_Found, of_reviews)]
    found += map(_Found, verify_leftovers(environ, now, selection))
    of_modal, unseen_sandboxes = asyncio.run(modal_leftovers(environ, selection))
    found += map(_Found, of_modal)
    for one in found:
        out.write(f"{clean(one.leftover.says)}\n")
        if not isinstance(one.leftover, demos.Leftover):
            for name in one.names[:_MOST_NAMES]:
                out.write(f"    {clean(name)}\n")
            if len(one.names) > _MOST_NAMES:
                out.write(f"    and {len(one.names) - _MOST_NAMES} more\n")
    unseen = (*unseen_runs, *unseen_reviews, *unseen_sandboxes)
    for problem in unseen:
        out.write(f"! {clean(problem)}\n")
    if not found:
        out.write("Nothing else was left behind.\n" if unseen else "Nothing was left behind.\n")
    if found and _is_agreed(len(found), is_asked_for=arguments.yes, may_ask=not is_for_programs):
        found = asyncio.run(_remove(found, environ))
    for one in found:
        for problem in one.problems or ():
            out.write(f"! {clean(problem)}\n")
    is_clear = all(one.problems == () for one in found)
    if is_for_programs:
        _write(found, is_batch=arguments.batch)
    elif found and is_clear:
        out.write(f"Removed {plural(len(found), 'leftover')}.\n")
    return DONE if is_clear else SOMETHING_LEFT


def _is_agreed(count: int, *, is_asked_for: bool, may_ask: bool) -> bool:
    if is_asked_for:
        return True
    if may_ask and has_terminal():
        sys.stdout.write(f"Remove {plural(count, 'leftover')}? [y/N] ")
        sys.stdout.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    sys.stderr.write("Nothing was removed. Add --yes to remove it without a question.\n")
    return False


async def _remove(found: list[_Found], environ: Mapping[str, str]) -> list[_Found]:
    removed = []
    for one in found:
        if isinstance(one.leftover, RunLeftover):
            problems = await remove(one.leftover, environ)
        elif isinstance(one.leftover, ReviewLeftover):
            problems = remove_review(one.leftover, environ, time.time())
        elif isinstance(one.leftover, ModalLeftover):
            problems = await remove_modal(one.leftover, environ)
        elif isinstance(one.leftover, VerifyLeftover):
            problems = await asyncio.to_thread(remove_verify, one.leftover, environ)
        else:
            (swept,) = demos.sweep([one.leftover], environ)
            problems = swept.problems
        removed.append(_Found(one.leftover, problems))
    return removed


def _write(found: list[_Found], *, is_batch: bool) -> None:
    from selftest_core.schema.maintenance import LeftoverItem, SweepDocument

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
    write_answer(SweepDocument(leftovers=items).model_dump(mode="json"), is_batch=is_batch)
