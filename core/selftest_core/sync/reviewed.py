"""The check of a tree that a review made of writers' work: what is published is what the summary tells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.git.command import find_place
from selftest_core.git.object_store import ObjectStore
from selftest_core.run.store import RunFolder
from selftest_core.sync.snapshot import take_snapshot
from selftest_core.sync.writer_gate import paths_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.tutorial.check import Check


def check_tree(home: Path, tree: str, environ: Mapping[str, str]) -> Check | None:
    """Check a tree or commit of the review in that folder; None if its agents are no writers. Raises SelftestError."""
    if not (home / "plan.json").is_file():  # a review of other branches than a run's
        return None
    plan = RunFolder(home).plan()
    if plan.role != "writer":
        return None
    place = find_place(Path(plan.repository), environ)
    with ObjectStore.open(home / "engine.git", place.git_dir, environ) as store:
        return take_snapshot(store, tree, paths_of(plan.tests[0])).check


def words_on(found: Check) -> str:
    """Say in one sentence what the check of a tree found."""
    if found.is_ok:
        return "every block is cited, and every citation is a block"
    uncited = len(found.coverage.uncited)
    stale = len({one.citation.test for one in found.coverage.stale})
    blocks, tests = "block" if uncited == 1 else "blocks", "test" if stale == 1 else "tests"
    return f"{uncited} uncited {blocks}, {stale} {tests} with a stale citation"
