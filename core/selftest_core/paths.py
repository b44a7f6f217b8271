"""Folders of this program: settings, state, cache, and the folder in each repository.

All rules are here, by the XDG specification on every system: a relative path in a variable is ignored. Nothing is made.
They are functions of an environment, not of this process, since tests, demos and conductors have environments of their
own; platformdirs reads `os.environ` alone, and would move existing files on macOS.

    <config>/selftest-tui/selftest-tui.toml     the user's settings
    <state>/selftest-tui/<hash>/                the last known fleet of one mngr host folder, answers of its person,
                                                and the sandboxes that were seen and ended on Modal
    <state>/selftest-tui/screen-preferences.json  theme, splits, columns and hidden agents, as chosen on screens
    <state>/selftest-tui/runs/<run>.json        pointers to runs, so that they are found from other repositories
    <state>/selftest-tui/resolutions/           resolutions of conflicts
    <state>/selftest-tui/recordings/            recordings of agents that belong to no run
    <state>/selftest-tui/demos/                 notes of demos, for their removal
    <cache>/selftest-tui/                       indexes of recordings, unpacked recordings, folders of verifications
    <repository>/.selftest/runs/<run>/          one run or one review

The collector on remote hosts has its own rules (`selftest_recorder.onhost`): it has the standard library alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PROGRAM = "selftest-tui"
REPOSITORY_FOLDER = ".selftest"
"""The folder in a repository that is ours. It ignores itself in git."""


def config_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of the user's settings, None without HOME."""
    if not environ.get("HOME") and not _is_absolute(environ, "XDG_CONFIG_HOME"):
        return None
    return _folder(environ, "XDG_CONFIG_HOME", ".config")


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of what must outlive a process and can be lost without harm."""
    return _folder(environ, "XDG_STATE_HOME", ".local/state")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of what can be made again."""
    return _folder(environ, "XDG_CACHE_HOME", ".cache")


def runs_registry(environ: Mapping[str, str]) -> Path:
    """Return the folder of pointers to runs: `<run>.json` with `{"path": FOLDER}`."""
    return state_folder(environ) / "runs"


def runs_folder(repository: Path) -> Path:
    """Return the folder of the runs and reviews of a repository."""
    return repository / REPOSITORY_FOLDER / "runs"


def _folder(environ: Mapping[str, str], variable: str, default: str) -> Path:
    if _is_absolute(environ, variable):
        return Path(environ[variable]) / _PROGRAM
    return Path(environ.get("HOME") or Path.home()) / default / _PROGRAM


def _is_absolute(environ: Mapping[str, str], variable: str) -> bool:
    return Path(environ.get(variable, "")).is_absolute()
