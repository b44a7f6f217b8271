"""All runs with their states. A run that cannot be read is one row with its error."""

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
    """One run and its state. If it is `unreadable`, `run` is None and `error` is the reason. `repository`: absolute."""

    folder: RunFolder
    state: State
    repository: str
    run: Run | None = None
    error: str = ""


def glance(folder: RunFolder) -> RunGlance:
    """Read one run and its state."""
    repository = str(folder.path.parent.parent.parent)
    try:
        is_live = folder.is_conducted()
        run = folder.read()
    except (SelftestError, OSError) as error:
        says = " ".join(filter(None, (error.title, error.detail))) if isinstance(error, SelftestError) else str(error)
        return RunGlance(folder, "unreadable", repository, error=says)
    return RunGlance(folder, "live" if is_live else "ended" if run.is_over else "resumable", run.plan.repository, run)


def glances(environ: Mapping[str, str], repository: Path | None) -> tuple[RunGlance, ...]:
    """List all runs that can be found: this repository's first, newest first."""
    return tuple(glance(folder) for folder in run_folders(environ, repository))


def repository_of(cwd: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the top of the repository around a folder, None outside a repository."""
    try:
        return find_place(cwd, environ).top
    except UsageError:
        return None


def own_folders(environ: Mapping[str, str], repository: Path) -> tuple[RunFolder, ...]:
    """List the runs of this repository only, newest first."""
    own = (repository / REPOSITORY_FOLDER).resolve()
    return tuple(one for one in run_folders(environ, repository) if one.path.is_relative_to(own))


def open_run(environ: Mapping[str, str], repository: Path | None) -> RunFolder | None:
    """Return the newest live run of this repository, else its newest run if that can be resumed."""
    if repository is None:
        return None
    own = own_folders(environ, repository)
    live = next((one for one in own if one.is_conducted()), None)
    if live is not None or not own:
        return live
    return own[0] if glance(own[0]).state == "resumable" else None
