"""Run jobs on this machine: a few slots, each with one job at a time."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from selftest_core.errors import SelftestError, describe_error, describe_unexpected
from selftest_core.verify.commands.setup import prepare
from selftest_core.verify.folders.hostile import remove_tree
from selftest_core.verify.runner import Collected, PytestProcess, collect_tests, run_tests
from selftest_core.verify.slots import Slot
from selftest_core.verify.verdicts import Execution, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.git.command import Git
    from selftest_core.verify.environment import Testing
    from selftest_core.verify.runner import Ran
    from selftest_core.verify.schedule import Job, Order


def jobs_of(config: Config, wanted: int | None = None) -> int:
    """Return the number of test processes at once: what is asked for, else the setting, else half the cores."""
    return wanted or config.verify_jobs or max(1, (os.cpu_count() or 2) // 2)


class LocalVerifier:
    """Test processes side by side in slots below `folder`. Close it: the slots are removed, unless they are kept."""

    _start: type[PytestProcess] = PytestProcess

    def __init__(self, folder: Path, git: Git, testing: Testing, jobs: int, *, is_kept: bool = False) -> None:
        """`is_kept`: leave the slots for the next verifier with this folder, which then only lays what differs."""
        self._is_kept = is_kept
        self._folder = folder
        self._testing = testing
        self._slots: queue.Queue[Slot] = queue.Queue()
        for number in range(jobs):
            self._slots.put(self._make_slot(folder / str(number), git, number))
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="verify")
        self._is_stopped = threading.Event()
        self._base = ""
        self._is_closed = threading.Event()
        self.is_isolated = testing.isolation.is_isolated
        self.makes_environments = testing.environment.setup is not None
        self.processes = 0
        self.checkouts = 0

    def _make_slot(self, folder: Path, git: Git, number: int) -> Slot:
        return Slot(folder, git)

    def begin(self, is_stopped: threading.Event, base: str = "") -> None:
        """Begin a verification that ends its test processes once `is_stopped` is set.

        `base`: the tree that no branch has changed, whose environment others may use; "" for none.
        """
        self._is_stopped, self._base = is_stopped, base

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """End what runs."""
        self._is_closed.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if not self._is_kept:
            remove_tree(self._folder)

    @property
    def is_stopped(self) -> bool:
        """True once somebody wants it to end."""
        return self._should_stop()

    def _should_stop(self) -> bool:
        return self._is_stopped.is_set() or self._is_closed.is_set()

    def collect(self, tree: str, files: Callable[[Path], Sequence[str]]) -> tuple[Collected, Path]:
        """Collect the tests of a tree. `files`: given the folder of the laid tree, the files to look into.

        Returns what was found and the folder, in which nothing runs, and which keeps the tree until the next job.
        """
        slot = self._take(tree)
        try:
            try:
                slot.lay(tree)
                failure = prepare(slot, self._testing, self._should_stop, self._base)
                if failure is not None:
                    return Collected((), {}, f"{failure.reason}\n{failure.output}"), slot.untouched
                self.processes += 1
                return self._collect_in(slot, files(slot.untouched)), slot.untouched
            except Exception as error:
                return Collected((), {}, _described(error)), slot.untouched
        finally:
            self._slots.put(slot)

    def run(
        self, jobs: Sequence[tuple[Job, Sequence[str]]], on_run: Callable[[Job, str, Execution], None], order: Order
    ) -> Iterator[tuple[Job, Mapping[str, Execution]]]:
        """Run these tests of these jobs; yields each job as it ends. `on_run` is called from threads of its own."""
        left, taking = list(jobs), threading.Lock()

        def hold_next() -> tuple[Job, Mapping[str, Execution]]:
            # Chosen when there is a slot for it: what somebody looks at may have changed since.
            with taking:
                job, tests = left.pop(min(range(len(left)), key=lambda at: order.place_of(left[at][1])))
            return job, self._hold(job, tests, on_run, order)

        for future in [self._pool.submit(hold_next) for _ in jobs]:
            yield future.result()

    def _hold(
        self, job: Job, tests: Sequence[str], on_run: Callable[[Job, str, Execution], None], order: Order
    ) -> Mapping[str, Execution]:
        if self._should_stop():
            return {}
        slot = self._take(job.tree)
        try:
            slot.lay(job.tree)
            failure = prepare(slot, self._testing, self._should_stop, self._base)
            if failure is not None:
                return {test: Execution(Result.NOT_RUN, None, failure.output, failure.reason) for test in tests}
            ran = self._run_in(slot, tests, lambda test, one: on_run(job, test, one), order)
            self.processes += ran.processes
            return ran.runs
        except Exception as error:
            # One tree that cannot be laid out, or a full disk, must not stop the queue.
            return {test: Execution(Result.NOT_RUN, None, "", _described(error)) for test in tests}
        finally:
            self._slots.put(slot)

    def _take(self, tree: str) -> Slot:
        """Take a free slot: one that holds this tree, where there is one. Waits for one to be free."""
        slots = [self._slots.get()]
        with contextlib.suppress(queue.Empty):
            while True:
                slots.append(self._slots.get_nowait())
        chosen = next((slot for slot in slots if slot.laid == tree), slots[0])
        for slot in slots:
            if slot is not chosen:
                self._slots.put(slot)
        self.checkouts += chosen.laid != tree
        return chosen

    def _collect_in(self, slot: Slot, files: Sequence[str]) -> Collected:
        return collect_tests(slot, files, self._testing, self._should_stop, self._start)

    def _run_in(self, slot: Slot, tests: Sequence[str], on_run: Callable[[str, Execution], None], order: Order) -> Ran:
        return run_tests(slot, tests, self._testing, on_run, self._should_stop, self._start, order)


def _described(error: Exception) -> str:
    return describe_error(error) if isinstance(error, SelftestError) else describe_unexpected(error)
