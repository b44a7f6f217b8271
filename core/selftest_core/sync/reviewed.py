"""The check of a tree that a review made of writers' work: what is published is what the summary tells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from selftest_core.git.command import find_place
from selftest_core.git.object_store import ObjectStore
from selftest_core.sync.snapshot import take_snapshot
from selftest_core.sync.writer_gate import paths_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.run.store import RunFolder
    from selftest_core.tutorial.check import Check


def check_tree(folder: RunFolder, tree: str, environ: Mapping[str, str]) -> Check | None:
    """Check a tree of the review of a run; None for a run whose agents are no writers. Raises ToolError."""
    plan = folder.plan()
    if plan.role != "writer":
        return None
    place = find_place(Path(plan.repository), environ)
    with ObjectStore.open(folder.path / "engine.git", place.git_dir, environ) as store:
        return take_snapshot(store, tree, paths_of(plan.tests[0])).check
