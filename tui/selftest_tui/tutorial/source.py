"""Where the tutorial's screen gets its view from: the files of a repository, and the journal of its newest run.

Every look reads only what has changed since the last one, so that a screen can look whenever a file changes. What is
to be watched changes too (a folder more, a new run), so it is asked for after each look. Nothing is written.
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
from selftest_tui.tutorial.view import TutorialView, look_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.run.fold import Run
    from selftest_core.tutorial.check import Check

TUTORIAL = "tutorial.sh"
TESTS = "tests"


class TutorialSource:
    """Looks at `tutorial.sh` and `tests/` of `folder`, or of the repository around it where it has none of its own.

    For one thread at a time. Making it asks git once where the repository begins.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.root = repository_of(folder, environ)
        self.tutorial = _of_either(folder, self.root, TUTORIAL)
        self.tests = _of_either(folder, self.root, TESTS)
        self._checker = Checker(self.root, self.tutorial, self.tests)
        self._follower: RunFollower | None = None
        self._last: tuple[Check, Run | None, TutorialView] | None = None

    def look(self) -> TutorialView:
        """The view now; the same object as the last one where nothing has changed.

        Raises UsageError where there is no tutorial or no test, with what to do about it.
        """
        check = self._checker.check()
        run = self._run()
        if self._last is None or self._last[0] is not check or self._last[1] is not run:
            self._last = (check, run, look_at(check, run))
        return self._last[2]

    def folders(self) -> tuple[Path, ...]:
        """The folders in which a change may change the view."""
        runs = runs_folder(self.root)
        near = next(folder for folder in (runs, runs.parent, self.root) if folder.is_dir() or folder == self.root)
        of_run = self._follower.paths() if self._follower is not None else ()
        return tuple(dict.fromkeys((*self._checker.folders(), near, *of_run)))

    def _run(self) -> Run | None:
        """The newest run of this repository as it stands now; None where there is none that can be read."""
        try:
            newest = find_run(self._environ, self.root)
            if self._follower is None or self._follower.folder.path != newest.path:
                self._follower = RunFollower(newest)
            return self._follower.refresh()
        except (SelftestError, OSError):
            # A run of a later version, or one that is being removed: its results are not known, and the tutorial is.
            self._follower = None
            return None


def repository_of(folder: Path, environ: Mapping[str, str]) -> Path:
    """Where the repository around `folder` begins; outside of one, the folder itself."""
    with contextlib.suppress(SelftestError):
        return find_place(folder, environ).top
    return folder


def _of_either(folder: Path, root: Path, name: str) -> Path:
    return root / name if not (folder / name).exists() and (root / name).exists() else folder / name
