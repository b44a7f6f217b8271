"""The port `Verifier`, which runs test jobs somewhere, and the driver that answers a schedule through it.

`verify.local` runs jobs on this machine. One contract test holds every implementation to the same answers.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.verify.schedule import Order
from selftest_core.verify.verdicts import Execution, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from pathlib import Path

    from selftest_core.verify.kept.results import Results
    from selftest_core.verify.runner import Collected
    from selftest_core.verify.schedule import Answers, Job


class StoppedError(SelftestError):
    """Somebody stopped the verification; what was run is kept."""

    exit_status = 3


def stopped() -> StoppedError:
    """Return the error to raise once `is_stopped` is true."""
    return StoppedError("The verification was stopped", "", "What was run is kept: verify again to go on.")


class Verifier(Protocol):
    """Runs tests on trees. Counters are of its whole life; `is_isolated`: no test can reach the user's checkout.

    `makes_environments`: tests run in what a set-up makes of the manifests of their tree.
    """

    is_isolated: bool
    makes_environments: bool
    processes: int
    checkouts: int

    @property
    def is_stopped(self) -> bool:
        """True once somebody wants it to end."""
        ...

    def collect(self, tree: str, files: Callable[[Path], Sequence[str]]) -> tuple[Collected, Path]:
        """Collect the tests of a tree. `files`: given the folder of the laid tree, the files to look into.

        Returns what was found and the folder, which keeps the tree until the next job. Raises ToolError.
        """
        ...

    def run(
        self, jobs: Sequence[tuple[Job, Sequence[str]]], on_run: Callable[[Job, str, Execution], None], order: Order
    ) -> Iterator[tuple[Job, Mapping[str, Execution]]]:
        """Run these tests of these jobs, as near to `order` as it can; yields each job, in any order.

        `on_run` may be called from other threads.

        A job that cannot be run gives NOT_RUN with the reason; only a stop leaves tests out.
        """
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """One run that ended. `done` of `known` runs: more may follow from what is found."""

    job: Job
    test: str
    run: Execution
    done: int
    known: int


class Driver:
    """Answer the schedule's jobs: from kept results where there are some, else by the verifier."""

    def __init__(
        self,
        verifier: Verifier,
        results: Results,
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_kept: Callable[[str, str, Execution], None] = lambda _tree, _test, _run: None,
        order: Order | None = None,
    ) -> None:
        self._order = order or Order()
        self._verifier, self._results, self._on_progress, self._on_kept = verifier, results, on_progress, on_kept
        self._lock = threading.Lock()
        self.executions = self.from_cache = self._known = 0

    def drive[T](self, steps: Generator[list[Job], Answers, T]) -> T:
        """Go through a schedule to its end. Raises StoppedError."""
        answers: Answers | None = None
        while True:
            try:
                jobs = next(steps) if answers is None else steps.send(answers)
            except StopIteration as end:
                result: T = end.value
                return result
            answers = self._answer(jobs)
            if self._verifier.is_stopped:
                raise stopped()

    def _answer(self, jobs: Sequence[Job]) -> Answers:
        answers: dict[Job, dict[str, Execution]] = {}
        wanted: list[tuple[Job, list[str]]] = []
        for job in jobs:
            known = {test: run for test, number in job.runs if (run := self._results.find(job.tree, test, number))}
            answers[job] = known
            self.from_cache += len(known)
            for test, run in known.items():
                self._on_kept(job.tree, test, run)
            left = [test for test, _ in job.runs if test not in known]
            self._known += len(left)
            if left:
                wanted.append((job, left))
        for job, runs in self._verifier.run(wanted, self._take, self._order):
            if not self._verifier.is_isolated:
                self._keep(job, runs)
            for test, _ in job.runs:
                answers[job].setdefault(test, runs.get(test, Execution(Result.NOT_RUN, reason="stopped")))
        return answers

    def _take(self, job: Job, test: str, run: Execution) -> None:
        with self._lock:
            # Without isolation it is known at the end only whether the right tree was tested.
            if self._verifier.is_isolated:
                self._keep(job, {test: run})
            self.executions += run.result not in (Result.MISSING, Result.NOT_RUN)
            self._on_progress(Progress(job, test, run, self.executions, self._known))

    def _keep(self, job: Job, runs: Mapping[str, Execution]) -> None:
        numbers = dict(job.runs)
        for test, run in runs.items():
            if run.result is Result.NOT_RUN:
                self._results.forget(job.tree, test, numbers[test])
            else:
                self._results.keep(job.tree, test, numbers[test], run)
