"""The one way to write a run's journal: a line is on the disk, then folded, then told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from selftest_core.run.fold import apply, fold
from selftest_core.run.outcome.ends import End

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from selftest_core.journal import Entry
    from selftest_core.run.clock import Clock
    from selftest_core.run.events import Event
    from selftest_core.run.fold import Run, RunRow
    from selftest_core.run.plan.plan import RunPlan


class RunJournal(Protocol):
    """What a conductor needs of a journal: `journal.Journal` is one."""

    @property
    def entries(self) -> Sequence[Entry]:
        """All lines so far."""
        ...

    def append(self, event: str, at: float, **fields: Any) -> Entry:
        """Write one line; it is on the disk on return."""
        ...


class Scribe:
    """Writes lines and keeps the run that they fold to. `changed`: when each test was last written about."""

    def __init__(
        self, plan: RunPlan, journal: RunJournal, clock: Clock, on_change: Callable[[Run, Entry], None] | None = None
    ) -> None:
        self.run: Run = fold(plan, journal.entries)
        self.changed: dict[str, float] = {}
        self._journal = journal
        self._clock = clock
        self._on_change = on_change

    def note(self, event: Event, **fields: Any) -> None:
        """Write a line about the run. Raises JournalError."""
        entry = self._journal.append(str(event), self._clock.now(), **fields)
        self.run = apply(self.run, entry)
        if self._on_change is not None:
            self._on_change(self.run, entry)

    def note_row(self, event: Event, row: RunRow, ahead: int = 0, **fields: Any) -> RunRow:
        """Write a line about a test, of the attempt `ahead` of its last; returns the test as it is then."""
        plain = {name: str(value) if isinstance(value, End) else value for name, value in fields.items()}
        self.note(event, agent=row.name, attempt=row.attempt + ahead, **plain)
        self.changed[row.name] = self._clock.elapsed()
        return self.run.rows[row.name]
