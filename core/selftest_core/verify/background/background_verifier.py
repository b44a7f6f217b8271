"""Verification of an open review in a thread of its own, while decisions are made. No decision waits for it.

    want            the review as it is now, after each act
    look_at         the changes to verify before the others, also of what runs already
    start           begin to verify; `pause`, `go_on`, `cancel`, `close`
    state           all that is known, a frozen value; `on_change` is called when there is a newer one

The candidate is verified first, then what would be published, where nothing is undecided or it was asked for. After a
decision the red tests and those of dependents are run at once; the rest waits until no other decision came for `QUIET`
seconds. A line that no decision leads to any more is dropped: its
processes end, and the results that it had are kept. Nothing runs before `start`, here or in an earlier session of the
same review: that is noted in `verification.json` beside the review's log, with the isolation that the user was told of.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from selftest_core.errors import SelftestError
from selftest_core.frozen import dataclass
from selftest_core.journal import unwritten
from selftest_core.review.apply_decisions import only_kept
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.verify.background.at_once import tests_at_once
from selftest_core.verify.background.first_verdicts import FirstVerdicts
from selftest_core.verify.background.note import Started, forget_start, read_start, write_start
from selftest_core.verify.verifier import StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.candidate_branch import Line
    from selftest_core.review.changes.collect_changes import Branch
    from selftest_core.review.engine import Engine
    from selftest_core.review.evidence import Evidence
    from selftest_core.verify.review_verifier import ReviewVerifier
    from selftest_core.verify.sandbox import Isolation
    from selftest_core.verify.verdicts import Execution
    from selftest_core.verify.verification import ItemVerdict, Verification
    from selftest_core.verify.verifier import Progress

QUIET = 3.0
"""Seconds without a decision before the new candidate is verified."""
BETWEEN_CHANGES = 0.1
"""Seconds between two calls of `on_change` for results; every other change is told at once."""
_MOST_FINISHED = 64
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Phase(StrEnum):
    """The present activity of a verification."""

    OFF = "off"
    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class VerificationState:
    """A verification at one moment.

    `items`: the newest verdict on each change; where not `is_settled`, some are of an earlier line, or not final yet.
    `finished`: whole verifications by tree. `done` of `known` test runs of the present line, `seconds_left` estimated;
    `is_of_kept`: that line is what would be published, not the candidate.
    """

    phase: Phase = Phase.OFF
    items: Mapping[str, ItemVerdict] = field(default_factory=lambda: _NOTHING)
    is_settled: bool = False
    finished: Mapping[str, Verification] = field(default_factory=lambda: _NOTHING)
    candidate: Verification | None = None
    done: int = 0
    known: int = 0
    seconds_left: float | None = None
    is_of_kept: bool = False
    isolation: Isolation | None = None
    environment: str = ""
    is_whole_suite: bool = False
    error: SelftestError | None = None

    @property
    def is_active(self) -> bool:
        """True while something is verified, or will be soon."""
        return self.phase in (Phase.RUNNING, Phase.WAITING)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A review to verify. `kept`: what would be published."""

    reviewed: Reviewed
    kept: Line
    evidence: Mapping[str, Evidence]
    branches: Sequence[Branch]


@dataclass(frozen=True, slots=True)
class _Task:
    reviewed: Reviewed
    wanted: Wanted
    is_of_kept: bool
    is_whole_suite: bool
    at_once: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NOTHING)
    """Only these tests, by change; empty: all."""

    @property
    def key(self) -> tuple[str, bool]:
        return self.reviewed.line.tip, self.is_whole_suite


class BackgroundVerifier:
    """Verifies one open review. All methods return at once; `close` waits for the processes to end."""

    def __init__(
        self,
        open_engine: Callable[[], Engine],
        top: Path,
        home: Path,
        config: Config,
        environ: Mapping[str, str],
        on_change: Callable[[], object],
        quiet: float = QUIET,
    ) -> None:
        self._open_engine = open_engine
        self._top, self._home, self._config, self._environ = top, home, config, environ
        self._on_change = on_change
        self._quiet = quiet
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._started: Started | None = None
        self._wanted: Wanted | None = None
        self._due = 0.0
        self._is_paused = self._is_closed = False
        self._running: _Task | None = None
        self._stop = threading.Event()
        self._resources = contextlib.ExitStack()
        self._verifier: ReviewVerifier | None = None
        self._finished: dict[tuple[str, bool], Verification] = {}
        self._first: FirstVerdicts | None = None
        self._looked_at: tuple[str, ...] = ()
        self._last: tuple[Reviewed, Verification] | None = None
        self._last_at_once = ""
        self._told = 0.0
        self.state = VerificationState()

    @property
    def started(self) -> Started | None:
        """The note of an earlier start of this review, None where it was never started, or cancelled."""
        return self._started or read_start(self._home)

    def want(self, wanted: Wanted) -> None:
        """Take in the review as it is now."""
        with self._changed:
            before, self._wanted = self._wanted, wanted
            if before is None or _lines(before) != _lines(wanted):
                self._due = time.monotonic() + (self._quiet if before is not None else 0)
                self._show_known(wanted)
            running = self._running
            if running is not None and running.reviewed.line.tip not in _lines(wanted):
                self._stop.set()
            self._changed.notify_all()

    def look_at(self, oids: tuple[str, ...]) -> None:
        """Verify these changes before the others, the first one first, from now on."""
        if oids != self._looked_at:
            self._looked_at = oids

    def start(self, started: Started) -> None:
        """Begin to verify, or go on, with what the user was told. Raises OSError where that cannot be noted."""
        write_start(self._home, started)
        with self._changed:
            if self._started is None or self._started.is_whole_suite is not started.is_whole_suite:
                self._stop.set()
            self._started, self._is_paused, self._due = started, False, 0.0
            # What timed out or was unknown is tried again; all other results are kept on disk.
            self._finished.clear()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="verification", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def pause(self) -> None:
        """End what runs, until `go_on`; results are kept."""
        with self._changed:
            self._is_paused = True
            self._stop.set()
            self._changed.notify_all()

    def go_on(self) -> None:
        """End a pause."""
        with self._changed:
            self._is_paused, self._due = False, 0.0
            self._changed.notify_all()

    def cancel(self) -> None:
        """End it, until it is started again; verdicts stay. Raises OSError where the note cannot be removed."""
        forget_start(self._home)
        with self._changed:
            self._started, self._is_paused = None, False
            self._stop.set()
            self._changed.notify_all()

    def close(self, patience: float = 30.0) -> None:
        """End what runs, and wait for that. Whoever opens the review next goes on."""
        with self._changed:
            self._is_closed = True
            self._stop.set()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(patience)

    # the thread

    def _run(self) -> None:
        while self._wait():
            task = self._running
            if task is None:
                self._release()
                continue
            try:
                self._look(task) if task.at_once else self._verify(task)
            except StoppedError:
                continue
            except Exception as error:
                # Its thread must not die unseen: the screen shows this as a problem.
                self._fail(error)
        self._release()

    def _wait(self) -> bool:
        """Wait for something to verify, or for None, to release the slots; False once it is closed."""
        with self._changed:
            self._running = None
            while not self._is_closed:
                if self._started is None and self._verifier is not None:
                    return True
                task, seconds = self._task(), self._due - time.monotonic()
                at_once = None if task is None or seconds <= 0 else self._at_once(task)
                if task is None or self._is_paused:
                    self._tell_rest()
                    self._changed.wait()
                elif at_once is not None:
                    self._stop = threading.Event()
                    self._running = at_once
                    return True
                elif seconds > 0:
                    if self.state.phase is not Phase.WAITING:
                        self._tell(phase=Phase.WAITING)
                    self._changed.wait(seconds)
                else:
                    self._stop = threading.Event()
                    self._running = task
                    return True
        return False

    def _task(self) -> _Task | None:
        """The next line to verify, None where all is known."""
        wanted, started = self._wanted, self._started
        if wanted is None or started is None:
            return None
        reviewed, whole = wanted.reviewed, self._is_whole_suite
        kept = replace(reviewed, decided=only_kept(reviewed), line=wanted.kept)
        is_decided = Decision.UNDECIDED not in reviewed.decided.values()
        tasks = [_Task(reviewed, wanted, False, whole)]
        if started.with_kept or is_decided:
            tasks.append(_Task(kept, wanted, True, whole))
        for task in tasks:
            is_empty = all(one.status is not Status.LAID for one in task.reviewed.line.items)
            if task.key not in self._finished and not is_empty:
                return task
        return None

    def _at_once(self, task: _Task) -> _Task | None:
        """The part of the candidate that need not wait for more decisions; None where there is none, or it was run."""
        if self._last is None or task.is_of_kept or task.reviewed.line.tip == self._last_at_once:
            return None
        before, found = self._last
        tests = tests_at_once(before, found.items, task.reviewed)
        return replace(task, at_once=tests) if tests else None

    def _tell_rest(self) -> None:
        """Tell why nothing runs."""
        if self._started is None:
            phase = Phase.FAILED if self.state.error is not None else Phase.OFF
        else:
            phase = Phase.PAUSED if self._is_paused else Phase.DONE
        if phase is not self.state.phase:
            self._tell(phase=phase, seconds_left=None)

    def _look(self, task: _Task) -> None:
        self._last_at_once = task.reviewed.line.tip
        self._tell(phase=Phase.RUNNING, is_of_kept=False, done=0, known=0, seconds_left=None, error=None)
        verifier = self._opened()
        first = self._first = FirstVerdicts(task.reviewed.line.tree, dict(self.state.items))
        first.own(task.at_once)
        tests = dict.fromkeys(test for names in task.at_once.values() for test in names)
        verifier.look(task.reviewed, list(tests), self._on_progress, self._stop, self._on_kept)
        self._tell(items=dict(first.items))

    def _verify(self, task: _Task) -> None:
        self._tell(
            phase=Phase.RUNNING, is_of_kept=task.is_of_kept, done=0, known=0, seconds_left=None, error=None,
            is_whole_suite=task.is_whole_suite,
        )  # fmt: skip
        verifier = self._opened()
        first = self._first = FirstVerdicts(task.reviewed.line.tree, {} if task.is_of_kept else dict(self.state.items))
        verification = verifier.verify(
            task.reviewed, task.wanted.evidence, task.wanted.branches, self._on_progress, self._stop,
            is_whole_suite=task.is_whole_suite, first=lambda: self._looked_at, on_owned=first.own,
            on_kept=self._on_kept,
        )  # fmt: skip
        if not task.is_of_kept:
            self._last = task.reviewed, verification
        with self._changed:
            self._finished[task.key] = verification
            while len(self._finished) > _MOST_FINISHED:
                del self._finished[next(iter(self._finished))]
            finished = {one.tree: one for one in self._finished.values()}
            self._tell(finished=finished)
            if self._wanted is not None:
                self._show_known(self._wanted)

    def _show_known(self, wanted: Wanted) -> None:
        """Show the verdicts of this line, if they are known; else those of before, as not settled."""
        known = self._finished.get((wanted.reviewed.line.tip, self._is_whole_suite))
        if known is not None:
            self._tell(items=known.items, candidate=known, is_settled=True)
        elif self.state.is_settled:
            self._tell(is_settled=False)

    @property
    def _is_whole_suite(self) -> bool:
        return self._config.verify_all or (self._started is not None and self._started.is_whole_suite)

    def _opened(self) -> ReviewVerifier:
        if self._verifier is None:
            from selftest_core.verify.review_verifier import ReviewVerifier  # opening a review needs none of it

            engine = self._resources.enter_context(self._open_engine())
            self._verifier = self._resources.enter_context(
                ReviewVerifier.open(engine, self._top, self._home, self._config, self._environ)
            )
            environment = self._verifier.environment
            self._tell(isolation=self._verifier.isolation, environment=environment.warning or environment.name)
        return self._verifier

    def _release(self) -> None:
        """Remove the slots, and let others verify this review."""
        self._verifier = None
        self._resources.close()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._started = None
            if isinstance(error, OSError):
                error = unwritten(error.filename or "a file of this verification", error)
            shown = error if isinstance(error, SelftestError) else SelftestError("Verification failed", repr(error))
            self._tell(phase=Phase.FAILED, error=shown, seconds_left=None)

    # results, from threads of the verifier

    def _on_progress(self, progress: Progress) -> None:
        first = self._first
        assert first is not None  # a verification runs
        first.take(progress.job.tree, progress.test, progress.run)
        left = max(progress.known - progress.done, 0)
        seconds = (time.monotonic() - first.begun) / max(progress.done, 1) * left
        self._tell_results(first, done=progress.done, known=progress.known, seconds_left=seconds)

    def _on_kept(self, tree: str, test: str, run: Execution) -> None:
        first = self._first
        assert first is not None  # a verification runs
        first.take(tree, test, run)
        self._tell_results(first)

    def _tell_results(self, first: FirstVerdicts, **changes: Any) -> None:
        with self._changed:
            # The first verdict at once: it is what somebody waits for.
            is_due = time.monotonic() - self._told > BETWEEN_CHANGES or not self.state.items
            if is_due:
                items = {} if self.state.is_of_kept else {"items": dict(first.items)}
                self._tell(**changes, **items)

    def _tell(self, **changes: Any) -> None:
        with self._changed:
            self.state = replace(self.state, **changes)
            self._told = time.monotonic()
        self._on_change()


def _lines(wanted: Wanted) -> tuple[str, str]:
    return wanted.reviewed.line.tip, wanted.kept.tip
