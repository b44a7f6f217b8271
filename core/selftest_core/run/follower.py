"""Follow the journal of a run that another process conducts: for the screen, and for waiting until it ends.

Each refresh reads the new lines of the journal and applies them; an incomplete line waits for the next refresh. Nothing
is locked. If nothing is new, the run is the same object as before, so a screen need not repaint.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from selftest_core.journal import decode
from selftest_core.run.fold import Run, apply, begin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from selftest_core.journal import Entry
    from selftest_core.run.store import RunFolder


class RunFollower:
    """Follows one run. Not thread-safe. Raises UsageError or UnreadablePlanError if the folder is not a run."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.plan = folder.plan()
        self.run: Run = begin(self.plan)
        self.is_conducted = False
        """True if a conductor held the journal at the last refresh."""
        self._offset = 0
        self._file = (0, 0)

    def paths(self) -> tuple[Path, ...]:
        """Return the paths to watch: they change whenever a refresh would find something new."""
        return (self.folder.path,)

    def refresh(self, on_change: Callable[[Run, Entry], None] | None = None) -> Run:
        """Apply the new lines of the journal, and call `on_change` for each."""
        # Checked before reading: otherwise the last lines of a conductor that ends meanwhile would be missed.
        is_conducted = self.folder.is_conducted()
        for line in self._new():
            entry = decode(line)
            if entry is None or entry.number != self.run.last + 1:
                break  # being written, or damaged: later lines were never synced
            self._offset += len(line) + 1
            self.run = apply(self.run, entry)
            if on_change is not None:
                on_change(self.run, entry)
        self.is_conducted = is_conducted
        return self.run

    def _new(self) -> list[bytes]:
        """Read the complete lines after the last offset."""
        try:
            with self.folder.journal.open("rb") as file:
                about = _identity(file.fileno())
                if about != self._file or file.seek(0, 2) < self._offset:
                    self._restart(about)
                file.seek(self._offset)
                return file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return []

    def _restart(self, about: tuple[int, int]) -> None:
        """Start again for another file, such as one that was restored from a copy."""
        if self._offset:
            self.run = begin(self.plan)
        self._file, self._offset = about, 0


def _identity(handle: int) -> tuple[int, int]:
    about = os.fstat(handle)
    return about.st_dev, about.st_ino
