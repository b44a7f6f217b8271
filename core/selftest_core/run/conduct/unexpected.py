"""Unexpected errors inside a conductor: each is written to the journal with its evidence and retried with backoff.

A bug of ours, or an answer that no tool should give, costs the test that it is about and never the run. The run ends
only if nothing can be written: JournalError and OwnDiskError. A test with the same error again and again is given
up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.errors import describe_unexpected
from selftest_core.fleet.clusters import signature
from selftest_core.journal import JournalError
from selftest_core.run.conduct.context import shorten
from selftest_core.run.events import Event
from selftest_core.run.fetch.fetching import OwnDiskError, refuse_own_disk

if TYPE_CHECKING:
    from collections.abc import Callable

    from selftest_core.run.conduct.context import Context
    from selftest_core.run.fold import RunRow

_LONGEST_PAUSE = 60.0
_FORGOTTEN_AFTER = 300.0
"""Seconds without an error after which a step of the loop has no backoff any more."""


def is_fatal(error: BaseException) -> bool:
    """True for an error that ends the run: nothing can be written any more, or the process is being ended."""
    return isinstance(error, JournalError | OwnDiskError) or not isinstance(error, Exception)


class UnexpectedErrors:
    """Writes unexpected errors to the journal and decides when their step is tried again."""

    def __init__(self, context: Context, give_up: Callable[[RunRow, str], None]) -> None:
        """`give_up` ends a test, with the reason."""
        self._context = context
        self._give_up = give_up
        self._of_tests: dict[tuple[str, int, str], int] = {}  # by test, attempt and signature: how many
        self._of_steps: dict[str, tuple[int, float]] = {}  # by step: errors in a row, and when the last was

    def attempt(self, step: str, act: Callable[[], object], test: str = "") -> None:
        """Do one step of the loop and handle its error. A step in backoff is skipped."""
        if not test and not self._may_try(step):
            return
        try:
            act()
        except Exception as error:
            self.handle(error, step, test)

    def handle(self, error: BaseException, step: str, test: str = "") -> None:
        """Write an error to the journal; pause the test that it is about, or give it up. Raise fatal errors."""
        if is_fatal(error):
            raise error
        if isinstance(error, Exception):
            refuse_own_disk(error, self._context.folder.path)
        text = describe_unexpected(error)
        row = self._context.run.rows.get(test)
        if row is not None:
            self._note(step, text, test)
            self._pause_or_give_up(row, step, text)
        elif self._may_try(step):
            self._note(step, text, test)
            count, _ = self._of_steps.get(step, (0, 0.0))
            self._of_steps[step] = count + 1, self._context.clock.elapsed()

    def _note(self, step: str, text: str, test: str) -> None:
        self._context.note(Event.ERROR, step=step, test=test, says=shorten(text))

    def _pause_or_give_up(self, row: RunRow, step: str, text: str) -> None:
        policy = self._context.policy
        key = row.name, row.attempt, signature(text)
        count = self._of_tests[key] = self._of_tests.get(key, 0) + 1
        total = sum(one for (name, attempt, _), one in self._of_tests.items() if (name, attempt) == key[:2])
        self._context.pause(row, min(policy.launch_pause * 2.0 ** (total - 1), _LONGEST_PAUSE))
        if count < policy.error_tries and total < 3 * policy.error_tries:
            return
        try:
            self._give_up(row, f"unexpected error while {step}: {text}")
        except Exception as error:
            if is_fatal(error):
                raise
            self._note(f"giving up after {step}", describe_unexpected(error), row.name)

    def _may_try(self, step: str) -> bool:
        count, last = self._of_steps.get(step, (0, 0.0))
        passed = self._context.clock.elapsed() - last
        if count and passed >= _FORGOTTEN_AFTER:
            del self._of_steps[step]
            return True
        return not count or passed >= min(self._context.policy.launch_pause * 2.0 ** (count - 1), _LONGEST_PAUSE)
