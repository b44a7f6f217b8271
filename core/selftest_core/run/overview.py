"""All runs at a glance: which there are, and in what state each is.

A run that cannot be read (a newer version's, a damaged plan) is one row with its reason, and hides no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from selftest_core.errors import SelftestError, UsageError
from selftest_core.frozen import dataclass
from selftest_core.git.command import find_place
from selftest_core.paths import REPOSITORY_FOLDER
from selftest_core.run.store import RunFolder, run_folders

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from selftest_core.run.fold import Run

type State = Literal["live", "ended", "resumable", "unreadable"]


@dataclass(frozen=True, slots=True)
class RunGlance:
    """One run. `run` is None, and `error` says why, where it is `unreadable`. `repository`: an absolute path."""

    folder: RunFolder
    state: State
    repository: str
    run: Run | None = None
    error: str = ""


def glance(folder: RunFolder) -> RunGlance:
    """Look at one run."""
    repository = str(folder.path.parent.parent.parent)
    try:
        is_live = folder.is_conducted()
        run = folder.read()
    except (SelftestError, OSError) as error:
        says = " ".join(filter(None, (error.title, error.detail))) if isinstance(error, SelftestError) else str(error)
        return RunGlance(folder, "unreadable", repository, error=says)
    return RunGlance(folder, "live" if is_live else "ended" if run.is_over else "resumable", run.plan.repository, run)


def glances(environ: Mapping[str, str], repository: Path | None) -> tuple[RunGlance, ...]:
    """Every run that can be found: this repository's first, newest first."""
    return tuple(glance(folder) for folder in run_folders(environ, repository))


def repository_of(cwd: Path, environ: Mapping[str, str]) -> Path | None:
    """The top of the repository around a folder, where its runs are kept; None outside any."""
    try:
        return find_place(cwd, environ).top
    except UsageError:
        return None


def own_folders(environ: Mapping[str, str], repository: Path) -> tuple[RunFolder, ...]:
    """The runs of this repository alone, newest first."""
    own = (repository / REPOSITORY_FOLDER).resolve()
    return tuple(one for one in run_folders(environ, repository) if one.path.is_relative_to(own))


def open_run(environ: Mapping[str, str], repository: Path | None) -> RunFolder | None:
    """The newest run of this repository that a conductor holds, else its newest one if that can be gone on with."""
    if repository is None:
        return None
    own = own_folders(environ, repository)
    live = next((one for one in own if one.is_conducted()), None)
    if live is not None or not own:
        return live
    return own[0] if glance(own[0]).state == "resumable" else None
