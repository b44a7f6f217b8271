"""Unexpected errors inside a conductor: each is noted with its evidence and tried again after a pause.

A bug in our code, or an answer that no tool should give, costs the test that it is about and never the run. Only what
keeps the conductor from writing things down ends a run: JournalError and OwnDiskError. A test that meets the same error
again and again is given up, so that no loop runs hot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_core.fleet.clusters import signature
from selftest_core.journal import JournalError
from selftest_core.run.conduct.context import evidence_of, short
from selftest_core.run.events import Event
from selftest_core.run.fetch.fetching import OwnDiskError, refuse_own_disk

if TYPE_CHECKING:
    from collections.abc import Callable

    from selftest_core.run.conduct.context import Context
    from selftest_core.run.fold import RunRow

_LONGEST_PAUSE = 60.0
_FORGOTTEN_AFTER = 300.0
"""Seconds without an error after which a step of the loop is tried without a pause again."""


def is_fatal(error: BaseException) -> bool:
    """True for an error that ends the run: nothing can be written down any more, or the process is being ended."""
    return isinstance(error, JournalError | OwnDiskError) or not isinstance(error, Exception)


class UnexpectedErrors:
    """Notes the unexpected errors of one conductor, and decides when their cause is tried again."""

    def __init__(self, context: Context, give_up: Callable[[RunRow, str], None]) -> None:
        """`give_up` ends a test, with the text that says why."""
        self._context = context
        self._give_up = give_up
        self._of_tests: dict[tuple[str, int, str], int] = {}
        self._of_steps: dict[str, tuple[int, float]] = {}  # by step: how many errors in a row, and when the last was

    def attempt(self, step: str, act: Callable[[], object], test: str = "") -> None:
        """Do one step of the loop; its unexpected error is noted. A step that failed just now is left out."""
        if not test and not self._may_try(step):
            return
        try:
            act()
        except Exception as error:
            self.heed(error, step, test)

    def heed(self, error: BaseException, step: str, test: str = "") -> None:
        """Note an error; the test that it is about is left alone for a while, or given up. Raises what is fatal."""
        if is_fatal(error):
            raise error
        if isinstance(error, Exception):
            refuse_own_disk(error, self._context.folder.path)
        says = evidence_of(error)
        row = self._context.run.rows.get(test)
        if row is not None:
            self._note(step, says, test)
            self._heed_about(row, step, says)
        elif self._may_try(step):
            self._note(step, says, test)
            count, _ = self._of_steps.get(step, (0, 0.0))
            self._of_steps[step] = count + 1, self._context.clock.elapsed()

    def _note(self, step: str, says: str, test: str) -> None:
        self._context.note(Event.ERROR, step=step, test=test, says=short(says))

    def _heed_about(self, row: RunRow, step: str, says: str) -> None:
        policy = self._context.policy
        key = row.name, row.attempt, signature(says)
        count = self._of_tests[key] = self._of_tests.get(key, 0) + 1
        whole = sum(one for (name, attempt, _), one in self._of_tests.items() if (name, attempt) == key[:2])
        self._context.pause(row, min(policy.launch_pause * 2.0 ** (whole - 1), _LONGEST_PAUSE))
        if count < policy.error_tries and whole < 3 * policy.error_tries:
            return
        try:
            self._give_up(row, f"an unexpected error while {step}: {says}")
        except Exception as error:
            if is_fatal(error):
                raise
            self._note(f"giving up after {step}", evidence_of(error), row.name)

    def _may_try(self, step: str) -> bool:
        count, last = self._of_steps.get(step, (0, 0.0))
        passed = self._context.clock.elapsed() - last
        if count and passed >= _FORGOTTEN_AFTER:
            del self._of_steps[step]
            return True
        return not count or passed >= min(self._context.policy.launch_pause * 2.0 ** (count - 1), _LONGEST_PAUSE)
