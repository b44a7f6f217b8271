"""Reminders of agents in runs: markers in the folder of the run, for every process that shows the fleet.

    .selftest/runs/<run>/reminded/<agent id>     written just before the conductor reminds; its time is the reminder's
    <state folder>/runs/<run>.json               the folder of that run: the markers are found from anywhere

An agent gets one reminder. Before it the conductor handles the end of the agent's turn, after it a user. A run whose
folder is not known here counts as one without a conductor.
"""

# ruff: noqa: PTH116, PTH112, PTH123 -- asked at every look: a path for each would double its cost
from __future__ import annotations

import contextlib
import json
import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from selftest_core.paths import runs_registry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_FOLDER = "reminded"
_MOST_RUNS = 100
"""The newest runs only: their ids begin with the day."""
_POINTER_LIMIT = 65_536

type Reminders = Mapping[str, Mapping[str, float]]
"""By run and agent id: the time of the reminder, seconds since the epoch."""


def note_reminder(run_folder: Path, agent_id: str) -> None:
    """Write the marker of an agent's reminder. Raises OSError."""
    folder = run_folder / _FOLDER
    folder.mkdir(exist_ok=True)
    (folder / agent_id).touch()


class ReminderReader:
    """Reader of the markers of all known runs, with a cache. For one thread."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._registry = str(runs_registry(environ))
        self._registry_stamp = 0
        self._folders: dict[str, str] = {}
        self._read: dict[str, tuple[int, Mapping[str, float]]] = {}
        self._reminders: Reminders = MappingProxyType({})

    def read(self) -> Reminders:
        """Read the markers; the same object as before if nothing changed."""
        self._find_runs()
        read: dict[str, tuple[int, Mapping[str, float]]] = {}
        for run, folder in self._folders.items():
            stamp = _modified(f"{folder}/{_FOLDER}")
            if stamp is None and not os.path.isdir(folder):
                continue
            known = self._read.get(run)
            read[run] = known if known is not None and known[0] == stamp else (stamp or 0, _markers(folder))
        if read != self._read:
            self._read = read
            self._reminders = MappingProxyType({run: markers for run, (_, markers) in read.items()})
        return self._reminders

    def _find_runs(self) -> None:
        stamp = _modified(self._registry)
        if stamp is None or stamp == self._registry_stamp:
            return
        try:
            names = os.listdir(self._registry)  # noqa: PTH208
        except OSError:
            return  # no run is known by it
        folders = {}
        for name in sorted(names, reverse=True)[:_MOST_RUNS]:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                with open(f"{self._registry}/{name}", "rb") as file:
                    folder = json.loads(file.read(_POINTER_LIMIT))["path"]
                if name.endswith(".json") and isinstance(folder, str):
                    folders[name.removesuffix(".json")] = folder
        self._folders, self._registry_stamp = folders, stamp


def _markers(folder: str) -> Mapping[str, float]:
    with contextlib.suppress(OSError), os.scandir(f"{folder}/{_FOLDER}") as entries:
        return {entry.name: entry.stat(follow_symlinks=False).st_mtime for entry in entries}
    return {}


def _modified(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return None
