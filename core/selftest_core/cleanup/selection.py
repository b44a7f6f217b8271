"""The runs and reviews that a sweep is limited to, from the user's ids.

An id must name exactly one run or review, and a run must have ended. If one of the ids is wrong, nothing is removed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError, SelftestError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.command import Git, find_place
from selftest_core.paths import runs_folder
from selftest_core.run.overview import glance, own_folders
from selftest_core.run.store import run_folders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from selftest_core.run.store import RunFolder

REFS = "refs/selftest/"
RUN_ID = re.compile(r"[0-9]{8}-[0-9]{4}-[0-9a-f]{4}")
REVIEW_ID = re.compile(r"review-[0-9a-f]{8}-[0-9a-f]{8}")
_LISTED = "`selftest-tui sweep --here` shows what was left behind here, `selftest-tui runs` lists the runs."


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection of a sweep. `ids`: of runs and reviews, None for all. `is_here`: only this repository, no demos."""

    ids: frozenset[str] | None = None
    is_here: bool = False

    def includes(self, run: str) -> bool:
        """Return whether this run or review is selected, by its id."""
        return self.ids is None or run in self.ids

    @property
    def includes_demos(self) -> bool:
        """True if the sweep is not limited."""
        return self.ids is None and not self.is_here


ALL = Selection()


def select(names: Sequence[str], environ: Mapping[str, str], repository: Path | None, *, is_here: bool) -> Selection:
    """Return the selection for these ids, each whole or the beginning of one; no id selects all.

    Raises UsageError for an id that names none or several, and for `is_here` outside a repository; RefusedError for a
    run that has not ended.
    """
    if is_here and repository is None:
        raise UsageError(
            "This folder is not in a git repository", "", "`selftest-tui sweep` without --here sweeps all."
        )
    if not names:
        return Selection(None, is_here)
    folders = own_folders(environ, repository) if is_here and repository else run_folders(environ, repository)
    known: dict[str, list[RunFolder]] = {one: [] for one in _ids_of(repository, environ)}
    for folder in folders:
        known.setdefault(folder.run, []).append(folder)
    chosen: set[str] = set()
    for name in names:
        run = _only(name, known)
        for folder in known[run]:
            _refuse_unless_ended(folder)
        chosen.add(run)
    return Selection(frozenset(chosen), is_here)


def _only(name: str, known: Mapping[str, Sequence[RunFolder]]) -> str:
    matching = [name] if name in known else sorted(one for one in known if name and one.startswith(name))
    if not matching:
        raise UsageError(f"There is no run or review {name}", "", _LISTED)
    if len(matching) > 1:
        raise UsageError(f"There are several runs or reviews {name}", ", ".join(matching), _LISTED)
    folders = known[matching[0]]
    if len(folders) > 1:
        places = ", ".join(str(one.path) for one in folders)
        raise UsageError(f"Several repositories have a run {matching[0]}", places, "Add --here in one of them.")
    return matching[0]


def _refuse_unless_ended(folder: RunFolder) -> None:
    found = glance(folder)
    if found.state == "unreadable":
        raise RefusedError(f"The run {folder.run} cannot be read", found.error, "Nothing was removed.")
    if found.state != "ended":
        hint = f"Nothing was removed. `selftest-tui stop {folder.run}` ends it."
        raise RefusedError(f"The run {folder.run} has not ended", str(folder.path), hint)


def _ids_of(repository: Path | None, environ: Mapping[str, str]) -> set[str]:
    """Return the ids of this repository's runs and reviews that have a folder or a ref."""
    if repository is None:
        return set()
    found = {path.name for path in runs_folder(repository).glob("review-*")}
    try:
        refs = Git(find_place(repository, environ).git_dir, environ).refs(REFS)
        found |= {ref.removeprefix(REFS).partition("/")[0] for ref in refs}
    except (SelftestError, OSError):
        pass  # the sweep itself reports it
    return {one for one in found if RUN_ID.fullmatch(one) or REVIEW_ID.fullmatch(one)}
