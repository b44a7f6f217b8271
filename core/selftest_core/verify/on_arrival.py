"""Verification of an agent's claim as it arrives in a run: its own test, on its own tree, in a slot, in the background.

It implements the run's port `ClaimVerifier`. Runs are kept like all others, so that the review finds them there. The
gates of other roles run tests at the same desks.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selftest_core.errors import SelftestError, describe_error, describe_unexpected
from selftest_core.frozen import dataclass
from selftest_core.git.command import Place, find_place
from selftest_core.git.object_store import ObjectStore
from selftest_core.paths import cache_folder
from selftest_core.review.changes.inputs import own_folder
from selftest_core.run.outcome.claims import ChosenIsolation, ClaimResult, ClaimVerdict
from selftest_core.verify.commands.setup import why_environment_differs
from selftest_core.verify.control import turn_tree
from selftest_core.verify.environment import Testing, find_testing
from selftest_core.verify.folders.hostile import remove_tree
from selftest_core.verify.kept.results import Results
from selftest_core.verify.local import LocalVerifier, jobs_of
from selftest_core.verify.sandbox import choose_isolation
from selftest_core.verify.schedule import (
    CANNOT_BE_TURNED,
    MOST_SIBLINGS,
    PASSED_ALL_THE_SAME,
    STAYS_GREEN,
    can_fail,
    judge_tests,
    run_once,
)
from selftest_core.verify.verdicts import Result, Verdict
from selftest_core.verify.verifier import Driver, StoppedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from selftest_core.config import Config
    from selftest_core.run.plan.plan import RunPlan
    from selftest_core.verify.schedule import Judged

_STOPPED = ClaimVerdict(ClaimResult.UNKNOWN, "the verification was stopped")


def isolation_of_claims(config: Config, environ: Mapping[str, str]) -> ChosenIsolation:
    """Try how tests can be isolated. Raises RefusedError where the setting requires what does not work."""
    isolation = choose_isolation(config.verify_isolation, environ)
    return ChosenIsolation(isolation.kind, isolation.reason)


@dataclass(frozen=True, slots=True)
class ArrivalDesk:
    """One thread's place to test trees of a run. `folder`: for slots and more. `store`: borrows the user's objects.

    `base`: the commit that the run's agents began at.
    """

    base: str
    folder: Path
    store: ObjectStore
    top: Path
    is_stopped: threading.Event
    _testing: Callable[[], Testing]

    @property
    def testing(self) -> Testing:
        """The way to run the tests. Raises ToolMissingError, ToolFailedError, RefusedError."""
        return self._testing()

    @contextmanager
    def opened(self) -> Iterator[tuple[LocalVerifier, Results]]:
        """Open a verifier, and the results that are kept."""
        with (
            closing(Results.open(own_folder(self.top), self.testing.environment.digest)) as results,
            self.verifier() as verifier,
        ):
            yield verifier, results

    def verifier(self, testing: Testing | None = None) -> LocalVerifier:
        """Make a verifier of one slot, which stays for the next. `testing`: another way to run the tests."""
        made = LocalVerifier(self.folder / "slot", self.store.git, testing or self.testing, 1, is_kept=True)
        made.begin(self.is_stopped, self.tree_of(self.base))
        return made

    def tree_of(self, commit: str) -> str:
        """Return the tree of a commit."""
        return self.store.git.ask("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}").strip()


class ArrivalDesks:
    """The desks of one run, as many as tests may run at once. Its methods are for one event loop."""

    def __init__(self, plan: RunPlan, config: Config, environ: Mapping[str, str]) -> None:
        self._plan, self._config, self._environ = plan, config, environ
        self._home = cache_folder(environ) / "verify" / f"{plan.run}-arrival"
        jobs = jobs_of(config)
        self._free = list(range(jobs))
        self._may_run = asyncio.Semaphore(jobs)
        self._first = threading.Lock()
        self._threads: set[asyncio.Future[Any]] = set()

    async def hold[T](self, work: Callable[[ArrivalDesk], T]) -> T:
        """Do work in a thread when a desk is free; cancelled, its processes end at once."""
        async with self._may_run:
            number = self._free.pop()
            is_stopped = threading.Event()
            thread = asyncio.ensure_future(asyncio.to_thread(self._hold, number, work, is_stopped))
            self._threads.add(thread)
            thread.add_done_callback(self._threads.discard)
            try:
                return await asyncio.shield(thread)
            except asyncio.CancelledError:
                is_stopped.set()
                await asyncio.wait((thread,))
                raise
            finally:
                self._free.append(number)

    async def close(self) -> None:
        """Remove the slots."""
        if self._threads:
            await asyncio.wait(self._threads)
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        if self._home.exists():
            remove_tree(self._home)

    def _hold[T](self, number: int, work: Callable[[ArrivalDesk], T], is_stopped: threading.Event) -> T:
        with self._first:  # each is made once
            place = self._place
        with ObjectStore.open(self._home / "engine.git", place.git_dir, self._environ) as store:
            return work(
                ArrivalDesk(self._plan.base, self._home / str(number), store, place.top, is_stopped, self._find_testing)
            )

    @cached_property
    def _place(self) -> Place:
        place = find_place(Path(self._plan.repository), self._environ)
        remove_tree(self._home)  # of a conductor that was killed
        self._home.mkdir(parents=True)
        ObjectStore.open(self._home / "engine.git", place.git_dir, self._environ).close()
        return place

    def _find_testing(self) -> Testing:
        with self._first:
            return self._testing

    @cached_property
    def _testing(self) -> Testing:
        # What the user was told before the run holds: a sandbox that does not work now is no reason to go without.
        wanted = "none" if self._plan.verify_on_arrival == "none" else "require"
        isolation = choose_isolation(wanted, self._environ)
        return find_testing(self._place.top, self._config, isolation, self._environ, self._plan.started_with)


class ArrivalVerifier:
    """Verifies claims of one run, a few at once; implements `ClaimVerifier`. Its methods are for one event loop."""

    def __init__(self, plan: RunPlan, config: Config, environ: Mapping[str, str]) -> None:
        self._base = plan.base
        self._desks = ArrivalDesks(plan, config, environ)

    async def verify(self, test: str, commit: str) -> ClaimVerdict:
        """Verify one claim, when a slot is free."""
        return await self._desks.hold(lambda desk: self._verify(desk, test, commit))

    async def close(self) -> None:
        """Remove the slots."""
        await self._desks.close()

    def _verify(self, desk: ArrivalDesk, test: str, commit: str) -> ClaimVerdict:
        try:
            return self._judge(desk, test, commit)
        except StoppedError:
            return _STOPPED
        except SelftestError as error:
            return ClaimVerdict(ClaimResult.UNKNOWN, describe_error(error))
        except Exception as error:
            return ClaimVerdict(ClaimResult.UNKNOWN, describe_unexpected(error))

    def _judge(self, desk: ArrivalDesk, test: str, commit: str) -> ClaimVerdict:
        with desk.opened() as (verifier, results):
            driver, tree = Driver(verifier, results), desk.tree_of(commit)
            found = driver.drive(judge_tests(tree, (test,), "claim"))[test]
            results.purge(((test, tree),) if found.verdict is Verdict.FLAKY else ())
            if found.verdict is Verdict.RED:
                doubt = self._doubt(desk, verifier, driver, results, test, commit, found)
                if doubt:
                    return ClaimVerdict(ClaimResult.UNKNOWN, doubt, found.runs[-1].output)
            if found.verdict is Verdict.GREEN:
                unproved = self._control(desk, driver, tree, test, results.secret())
                if unproved is not None:
                    return unproved
        return verdict_on_claim(found)

    def _doubt(
        self,
        desk: ArrivalDesk,
        verifier: LocalVerifier,
        driver: Driver,
        results: Results,
        test: str,
        commit: str,
        found: Judged,
    ) -> str:
        """Return the reason why a red test refutes no claim: nothing shows that it can pass here; empty for none."""
        last, base = found.runs[-1], desk.tree_of(self._base)
        if last.lacks:
            return last.reason
        if last.is_unimportable:
            before = driver.drive(run_once(base, test, "base"))
            if before.is_unimportable:
                return f"{last.reason}; nor can that of the base: see `verify_command`"
        if not verifier.makes_environments:
            changed = desk.store.git.ask("diff-tree", "-r", "-z", "--name-only", base, desk.tree_of(commit))
            differs = why_environment_differs(changed.split("\0"))
            if differs:
                return differs
        if results.has_passed():
            return ""
        folder = test.partition("::")[0].rpartition("/")[0]
        collected, _ = verifier.collect(base, lambda root: [folder] if folder and (root / folder).is_dir() else [])
        siblings = [one for one in collected.tests if one != test][:MOST_SIBLINGS]
        passed = driver.drive(judge_tests(base, siblings, "ground"))
        if any(one.verdict is Verdict.GREEN for one in passed.values()):
            return ""
        return "no test of the base has passed here, so that nothing shows that this one can: see `verify_command`"

    def _control(self, desk: ArrivalDesk, driver: Driver, tree: str, test: str, seed: bytes) -> ClaimVerdict | None:
        """Run a green test where it must fail; None where it does, or where its file is none of Python."""
        file = test.partition("::")[0]
        control, turnable = turn_tree(desk.store, tree, {test}, seed)
        if file not in turnable:
            return None
        if not turnable[file]:
            return ClaimVerdict(ClaimResult.UNKNOWN, CANNOT_BE_TURNED)
        run = driver.drive(run_once(control, test, "control"))
        if can_fail(run):
            return None
        if run.result not in PASSED_ALL_THE_SAME:
            why = run.reason or run.result
            return ClaimVerdict(ClaimResult.UNKNOWN, f"it was not seen to fail where it must: {why}", run.output)
        at_base, _ = turn_tree(desk.store, desk.tree_of(self._base), {test}, seed)
        if can_fail(driver.drive(run_once(at_base, test, "control of the base"))):
            return ClaimVerdict(ClaimResult.FAILED, f"{STAYS_GREEN}; that of the base does not", run.output)
        return ClaimVerdict(ClaimResult.UNKNOWN, f"{STAYS_GREEN}: it proves nothing", run.output)


def verdict_on_claim(found: Judged) -> ClaimVerdict:
    """Judge the claim that a test passes by its runs."""
    last = found.runs[-1]
    match found.verdict:
        case Verdict.GREEN:
            return ClaimVerdict(ClaimResult.PASSED)
        case Verdict.RED if all(run.result is Result.TIMEOUT for run in found.runs):
            # It may hang, or this machine may be busy.
            return ClaimVerdict(ClaimResult.UNKNOWN, last.reason, last.output)
        case Verdict.RED:
            reason = f"it failed in {len(found.runs)} of {len(found.runs)} runs"
            why = f" ({last.reason})" if last.reason else ""
            return ClaimVerdict(ClaimResult.FAILED, f"{reason}{why}", last.output)
        case Verdict.FLAKY:
            reds = sum(run.result.is_red for run in found.runs)
            return ClaimVerdict(ClaimResult.FLAKY, f"it failed in {reds} of {len(found.runs)} runs", last.output)
        case _:
            return ClaimVerdict(ClaimResult.UNKNOWN, last.reason or f"the test is {last.result}", last.output)
