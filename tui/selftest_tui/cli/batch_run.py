"""A run conducted in this process: its journal as JSON Lines on stdout, words on stderr, its summary last.

What `run --batch`, `resume --batch` and `demo --batch` have in common. Nobody sits there to say go, so a run that
rests (a cluster, a budget) is left, and can be resumed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import time
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.run.conduct.conductor import SMOKE
from selftest_core.run.conduct.conductor_process import INTERRUPTED
from selftest_core.run.conduct.policy import Policy
from selftest_core.run.log_lines import plain, tell
from selftest_core.schema.run import exit_status, run_line, run_summary
from selftest_tui.cli import batch
from selftest_tui.run.conducting import conduct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from selftest_core.journal import Entry
    from selftest_core.run.fold import Run
    from selftest_core.run.store import RunFolder
    from selftest_core.schema.review import ReviewDocument

    type Reviewing = Callable[[RunFolder, Mapping[str, str]], ReviewDocument | None]

STOPPED_EARLY = 3
RESUMABLE = (INTERRUPTED, "budget", "paused")


def conduct_in_batch(
    folder: RunFolder,
    environ: Mapping[str, str],
    policy: Policy | None = None,
    *,
    is_kept: bool = True,
    review: Reviewing | None = None,
) -> int:
    """Conduct the run until it is over or rests, and return the exit status. `is_kept`: it can be resumed afterwards.

    What came back of a run that is over is laid as one line, by `review` where another way is wanted. Raises what
    `conduct` raises; what was done until then stands in the journal.
    """
    policy = dataclasses.replace(policy or Policy(), leave_when_paused=True)
    why = asyncio.run(conduct(folder, environ, policy=policy, on_change=show_change))
    run = folder.read()
    line = None if why in RESUMABLE else (review or lay_line)(folder, environ)
    batch.write_line(run_summary(run, time.time(), str(folder.path), line).model_dump(mode="json"))
    if why in RESUMABLE:
        rests = f"{why}: {plain(run.paused)}" if run.paused else why
        resume = f"; `selftest-tui resume {folder.run}` goes on" if is_kept else ""
        sys.stderr.write(f"{rests}{resume}\n")
        return STOPPED_EARLY
    if why == SMOKE:
        for one in run.smoke:
            for said in one.says.splitlines()[1:]:
                sys.stderr.write(f"  {plain(said)}\n")
        sys.stderr.write(
            "nothing else was started: `selftest-tui doctor` looks for a missing login, key or program; "
            "where a dialog was open, start the program once yourself and answer it; "
            f"`selftest-tui resume {folder.run}` tries again, and `run --no-smoke` does without\n"
        )
    return exit_status(run)


def lay_line(folder: RunFolder, environ: Mapping[str, str]) -> ReviewDocument | None:
    """The review of a run before anybody decided anything; None where nothing came back, or it cannot be laid now."""
    from selftest_core.review.batch import review
    from selftest_core.review.changes.inputs import Request
    from selftest_core.schema.review import review_document

    if not any(row.commits for row in folder.read().rows.values()):
        return None
    try:
        answer = review(Request(run=folder.run), folder.path, environ)
    except Exception as error:
        # The run is what was asked for, and it is done: its summary must come, whatever its branches are.
        says = str(error) if isinstance(error, SelftestError) else f"{type(error).__name__}: {error}"
        sys.stderr.write(f"the line is not laid: {plain(says)}\n")
        return None
    return review_document(answer.reviewed, answer.candidate, None)


def show_change(run: Run, entry: Entry) -> None:
    """One line of the journal: for programs on stdout, for people on stderr."""
    batch.write_line(run_line(run, entry))
    said = tell(run, entry)
    if said:
        sys.stderr.write(f"{said}\n")
        sys.stderr.flush()
