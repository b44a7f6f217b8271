"""A run that somebody else conducts, followed by its journal: for the screen, and for who waits for its end.

Nothing is asked of the conductor and nothing is locked for longer than a look: each refresh reads what is new in the
journal and folds it on. A line that is not whole yet is left for the next time. Without anything new, the run is the
same object as before, so that a screen knows that it need not paint.
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
    """Follows one run. For one thread at a time. Raises UsageError or UnreadablePlanError where it is no run."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.plan = folder.plan()
        self.run: Run = begin(self.plan)
        self.is_conducted = False
        """Whether a conductor held the journal at the last refresh."""
        self._offset = 0
        self._file = (0, 0)

    def paths(self) -> tuple[Path, ...]:
        """What to watch: it changes whenever a refresh would find something new."""
        return (self.folder.path,)

    def refresh(self, on_change: Callable[[Run, Entry], None] | None = None) -> Run:
        """The run as it stands in the journal now; `on_change` is called for each line that is new."""
        # Before reading: a conductor that writes its last line and leaves is then followed to that line.
        is_conducted = self.folder.is_conducted()
        for line in self._new():
            entry = decode(line)
            if entry is None or entry.number != self.run.last + 1:
                break  # being written, or not ours: whatever is behind was never acknowledged
            self._offset += len(line) + 1
            self.run = apply(self.run, entry)
            if on_change is not None:
                on_change(self.run, entry)
        self.is_conducted = is_conducted
        return self.run

    def _new(self) -> list[bytes]:
        """The whole lines behind what was read."""
        try:
            with self.folder.journal.open("rb") as file:
                about = _identity(file.fileno())
                if about != self._file or file.seek(0, 2) < self._offset:
                    self._begin_anew(about)
                file.seek(self._offset)
                return file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return []

    def _begin_anew(self, about: tuple[int, int]) -> None:
        """Another file stands there, such as one that was put back from a copy."""
        if self._offset:
            self.run = begin(self.plan)
        self._file, self._offset = about, 0


def _identity(handle: int) -> tuple[int, int]:
    about = os.fstat(handle)
    return about.st_dev, about.st_ino
