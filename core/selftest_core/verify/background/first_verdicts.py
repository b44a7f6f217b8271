"""First verdicts on changes: from results on the candidate as they come, before causes are looked for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from selftest_core.verify.schedule import TestReport
from selftest_core.verify.verdicts import Effect, Result, verdict_of
from selftest_core.verify.verification import ItemVerdict, Verified

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.verify.verdicts import Execution


class FirstVerdicts:
    """The verdicts on changes from the results on one tree so far. `items` begins with those of an earlier line."""

    def __init__(self, tree: str, items: dict[str, ItemVerdict]) -> None:
        self.items = items
        self.begun = time.monotonic()
        self._tree = tree
        self._tests: Mapping[str, tuple[str, ...]] = {}
        self._owners: dict[str, list[str]] = {}
        self._runs: dict[str, Execution] = {}

    def own(self, tests: Mapping[str, tuple[str, ...]]) -> None:
        """Take in the tests of each change."""
        self._tests = tests
        for oid, names in tests.items():
            for name in names:
                self._owners.setdefault(name, []).append(oid)

    def take(self, tree: str, test: str, run: Execution) -> None:
        """Take in one result."""
        if tree != self._tree or test in self._runs:
            return
        self._runs[test] = run
        for oid in self._owners.get(test, ()):
            found = self._judge(oid)
            if found is not None:
                self.items[oid] = found

    def _judge(self, oid: str) -> ItemVerdict | None:
        runs = {test: self._runs[test] for test in self._tests[oid] if test in self._runs}
        reports = tuple(
            TestReport(test, None, verdict_of([run]), Effect.UNKNOWN, (run,), reason=run.reason)
            for test, run in runs.items()
        )
        red = next((test for test, run in runs.items() if run.result.is_red), None)
        if red is not None:
            return ItemVerdict(oid, Verified.FAILED, None, reports, reason=f"{red} failed once; its cause is searched")
        is_whole = len(runs) == len(self._tests[oid])
        if is_whole and all(run.result is Result.PASSED for run in runs.values()):
            return ItemVerdict(oid, Verified.PASSED, None, reports)
        return None
