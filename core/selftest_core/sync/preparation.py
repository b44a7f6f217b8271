"""Prepare a run of writers: find the gaps of the tutorial at the base, and make a task of each.

    prepared = await prepare_sync(names, tests, options, config, environ, cwd, say, choose_isolation)
    folder = begin(prepared.run, environ)               # run.plan.preparation.begin, as for testers

The tutorial is read from the commit that agents start from, not from the work tree: an edit that is not committed is
not in their copies.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.git.command import Git
from selftest_core.git.object_store import ObjectStore
from selftest_core.run.plan.source import look_at
from selftest_core.run.plan.tasks import prepare_tasks
from selftest_core.sync.gaps import Gap, find_gaps, select_gaps, task_of
from selftest_core.sync.snapshot import paths_within, refuse_missing, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.run.outcome.claims import IsolationChooser
    from selftest_core.run.plan.preparation import Prepared, RunOptions
    from selftest_core.sync.snapshot import Paths
    from selftest_core.tutorial.check import Check


@dataclass(frozen=True, slots=True)
class PreparedSync:
    """The gaps at the base. `run`: one agent for each of `gaps`, None where there is nothing to do."""

    check: Check
    gaps: tuple[Gap, ...]
    run: Prepared | None


async def prepare_sync(
    names: Sequence[str],
    tests: str,
    wanted: RunOptions,
    config: Config,
    environ: Mapping[str, str],
    cwd: Path,
    say: Callable[[str], None],
    choose_isolation: IsolationChooser | None = None,
) -> PreparedSync:
    """Prepare agents for the gaps with these names, for all without names. `tests`: their folder or file.

    Changes nothing. Raises UsageError, ConfigError, RefusedError or ToolError for what cannot work.
    """
    paths = paths_within(wanted.tutorial, tests)
    check = await asyncio.to_thread(check_base, cwd, wanted.base, paths, environ)
    gaps = select_gaps(find_gaps(check, paths), names, check, paths)
    if not gaps:
        return PreparedSync(check, (), None)
    tasks = [task_of(gap, check, paths) for gap in gaps]
    run = await prepare_tasks("writer", tasks, wanted, config, environ, cwd, say, choose_isolation)
    return PreparedSync(check, gaps, run)


def check_base(cwd: Path, base: str, paths: Paths, environ: Mapping[str, str]) -> Check:
    """Check the tutorial of a commit against its tests. Raises UsageError where there is no tutorial."""
    source = look_at(cwd, base, environ, "worktree")
    with closing(ObjectStore(Git(source.git_dir, environ))) as store:
        found = take_snapshot(store, source.base, paths)
    refuse_missing(found, paths, source.base)
    return found.check
