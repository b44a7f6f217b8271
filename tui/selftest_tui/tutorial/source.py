"""The data source of the tutorial's screen: the files of a repository, and the journal of its newest run.

Each look reads only what has changed. The folders to watch change too (a new folder, a new run), so ask for them after
each look. Nothing is written.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from selftest_core.errors import SelftestError
from selftest_core.git.command import find_place
from selftest_core.paths import runs_folder
from selftest_core.run.follower import RunFollower
from selftest_core.run.store import find_run
from selftest_core.tutorial.check import Checker
from selftest_tui.tutorial.view import TutorialView, join

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.run.fold import Run
    from selftest_core.tutorial.check import Check

TUTORIAL = "tutorial.sh"
TESTS = "tests"


class TutorialSource:
    """Reads `tutorial.sh` and `tests/` of `folder`, or of the repository around it if it has none. Not thread-safe."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.root = repository_of(folder, environ)
        self.tutorial = _of_either(folder, self.root, TUTORIAL)
        self.tests = _of_either(folder, self.root, TESTS)
        self._checker = Checker(self.root, self.tutorial, self.tests)
        self._follower: RunFollower | None = None
        self._last: tuple[Check, Run | None, TutorialView] | None = None

    def look(self) -> TutorialView:
        """Return the current view: the same object as before if nothing has changed.

        Raises UsageError if there is no tutorial or no test.
        """
        check = self._checker.check()
        run = self._run()
        if self._last is None or self._last[0] is not check or self._last[1] is not run:
            self._last = (check, run, join(check, run))
        return self._last[2]

    def folders(self) -> tuple[Path, ...]:
        """List the folders to watch."""
        runs = runs_folder(self.root)
        near = next(folder for folder in (runs, runs.parent, self.root) if folder.is_dir() or folder == self.root)
        of_run = self._follower.paths() if self._follower is not None else ()
        return tuple(dict.fromkeys((*self._checker.folders(), near, *of_run)))

    def _run(self) -> Run | None:
        """Read the newest run of this repository; None if there is no readable one."""
        try:
            newest = find_run(self._environ, self.root)
            if self._follower is None or self._follower.folder.path != newest.path:
                self._follower = RunFollower(newest)
            return self._follower.refresh()
        except (SelftestError, OSError):
            # A run of a later version, or one that is being removed: show the tutorial without results.
            self._follower = None
            return None


def repository_of(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the top of the repository around `folder`; outside of one, the folder itself."""
    with contextlib.suppress(SelftestError):
        return find_place(folder, environ).top
    return folder


def _of_either(folder: Path, root: Path, name: str) -> Path:
    return root / name if not (folder / name).exists() and (root / name).exists() else folder / name
