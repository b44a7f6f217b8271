"""The data source of the tutorial's screen: the files of a repository, and the journals of its newest runs.

The newest run of testers has the results of tests, the newest of writers the tests that are being written, and the
newest of drafters the proposed blocks.

Each look reads only what has changed. The folders to watch change too (a new folder, a new run), so ask for them after
each look. Nothing is written.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from operator import is_not
from typing import TYPE_CHECKING

from selftest_core.draft.draft import read_draft
from selftest_core.draft.draft_log import read_log
from selftest_core.draft.sections import outline
from selftest_core.errors import SelftestError
from selftest_core.git.command import Git, find_place
from selftest_core.git.object_store import ObjectStore
from selftest_core.paths import runs_folder
from selftest_core.run.follower import RunFollower
from selftest_core.run.outcome.claims import ClaimResult
from selftest_core.run.store import RunFolder, plan_files
from selftest_core.sync.snapshot import take_snapshot
from selftest_core.sync.writer_gate import paths_of
from selftest_core.tutorial.check import Checker
from selftest_tui.tutorial.drafts import join_draft
from selftest_tui.tutorial.results import result_of_row
from selftest_tui.tutorial.view import HeadingView, join, title_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.draft.draft import Draft
    from selftest_core.draft.draft_log import DraftLog
    from selftest_core.run.fold import Run
    from selftest_core.run.plan.plan import Role
    from selftest_tui.tutorial.view import TutorialView

TUTORIAL = "tutorial.sh"
TESTS = "tests"
ROLES: tuple[Role, ...] = ("tester", "writer", "drafter")
"""The roles whose newest runs are shown."""


class TutorialSource:
    """Reads `tutorial.sh` and `tests/` of `folder`, or of the repository around it if it has none. Not thread-safe."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.root = repository_of(folder, environ)
        self.tutorial = _of_either(folder, self.root, TUTORIAL)
        self.tests = _of_either(folder, self.root, TESTS)
        self._checker = Checker(self.root, self.tutorial, self.tests)
        self._runs = _Runs(self.root)
        self._headings: tuple[HeadingView, ...] = ()
        self._draft: tuple[Run, Draft] | None = None
        self._offered: dict[str, tuple[str, ...]] = {}
        self._last: tuple[tuple[object, ...], DraftLog | None, TutorialView] | None = None

    def look(self) -> TutorialView:
        """Return the current view: the same object as before if nothing has changed.

        Raises UsageError if there is no tutorial or no test.
        """
        check = self._checker.check()
        tester, writer, drafter = self._runs.refresh()
        log = read_log(runs_folder(self.root) / drafter.plan.run) if drafter is not None else None
        seen = (check, tester, writer, drafter)
        last = self._last
        if last is None or any(map(is_not, seen, last[0])) or log != last[1]:
            if last is None or last[0][0] is not check:
                self._headings = self._read_headings()
            view = join(check, tester, writer, self._headings, self._read_offered(writer))
            if drafter is not None and log is not None:
                view = self._with_draft(view, drafter, log)
            last = self._last = (seen, log, view)
        return last[2]

    def _read_headings(self) -> tuple[HeadingView, ...]:
        with contextlib.suppress(OSError):
            text = self.tutorial.read_bytes().decode("utf-8-sig", errors="replace")
            return tuple(
                HeadingView(one.id, one.heading.line, title_of(one.heading), bool(one.blocks))
                for one in outline(text).sections
            )
        return ()

    def _read_offered(self, run: Run | None) -> Mapping[str, tuple[str, ...]]:
        """Read which tests cite the blocks of writers whose work passed the checks, by the commits with it."""
        passed = [row for row in run.rows.values() if row.gate == ClaimResult.PASSED] if run is not None else []
        for row in passed:
            text = row.planned.blocks[0] if row.planned.blocks else ""
            if row.tip and row.tip not in self._offered:
                try:
                    git = Git(find_place(self.root, self._environ).git_dir, self._environ)
                    with contextlib.closing(ObjectStore(git)) as store:
                        found = take_snapshot(store, row.tip, paths_of(row.planned)).check
                except SelftestError:  # its commit is gone
                    continue
                cited = (one.tests for one in found.coverage.blocks if one.block.text == text)
                self._offered[row.tip] = next(cited, ())
        return self._offered

    def _with_draft(self, view: TutorialView, run: Run, log: DraftLog) -> TutorialView:
        """Add what the agents proposed, which is read if the run has news, with the decisions on it."""
        if self._draft is None or self._draft[0] is not run:
            try:
                folder = RunFolder(runs_folder(self.root) / run.plan.run)
                self._draft = (run, read_draft(folder, self._environ))
            except SelftestError as error:  # its base is gone, for example
                return replace(view, draft_error=error)
        agents = {row.name: result_of_row(row, run) for row in run.rows.values()}
        headings = {one.id: (one.line, one.title) for one in self._headings}
        return replace(view, draft=join_draft(self._draft[1], log, agents, headings))

    def folders(self) -> tuple[Path, ...]:
        """List the folders to watch."""
        runs = runs_folder(self.root)
        near = next(folder for folder in (runs, runs.parent, self.root) if folder.is_dir() or folder == self.root)
        return tuple(dict.fromkeys((*self._checker.folders(), near, *self._runs.paths())))


class _Runs:
    """The newest run of each role that the screen shows. What cannot be read is no run: one of a later version."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._roles: dict[Path, Role | None] = {}
        self._followers: dict[Role, RunFollower] = {}

    def refresh(self) -> tuple[Run | None, ...]:
        """Return the newest run of each of ROLES, as far as there is one; the same object if it has no news."""
        self._find()
        return tuple(self._read(role) for role in ROLES)

    def paths(self) -> tuple[Path, ...]:
        """List the paths to watch."""
        return tuple(path for follower in self._followers.values() for path in follower.paths())

    def _find(self) -> None:
        missing = set(ROLES)
        for path in plan_files(self._root):
            folder = path.parent.resolve()
            if folder not in self._roles:
                self._roles[folder] = _role_of(RunFolder(folder))
            role = self._roles[folder]
            if role in missing:
                missing.discard(role)
                if role not in self._followers or self._followers[role].folder.path != folder:
                    self._follow(role, folder)
            if not missing:
                break
        for role in missing:
            self._followers.pop(role, None)

    def _follow(self, role: Role, folder: Path) -> None:
        with contextlib.suppress(SelftestError, OSError):
            self._followers[role] = RunFollower(RunFolder(folder))

    def _read(self, role: Role) -> Run | None:
        try:
            return self._followers[role].refresh() if role in self._followers else None
        except (SelftestError, OSError):  # it is being removed
            return None


def _role_of(folder: RunFolder) -> Role | None:
    try:
        return folder.plan().role
    except (SelftestError, OSError):
        return None


def repository_of(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the top of the repository around `folder`; outside of one, the folder itself."""
    with contextlib.suppress(SelftestError):
        return find_place(folder, environ).top
    return folder


def _of_either(folder: Path, root: Path, name: str) -> Path:
    return root / name if not (folder / name).exists() and (root / name).exists() else folder / name
