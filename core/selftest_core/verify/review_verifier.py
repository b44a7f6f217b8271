"""Verify a review that is open, again and again: the screen, `verify`, `review --batch` and publishing all use this.

    with ReviewVerifier.open(engine, top, home, config, environ) as verifier:
        rows = verifier.verify(reviewed, evidence, branches)
        published = verifier.verify(reviewed, evidence, branches, is_kept_only=True)

Slots, kept results and the environment of the tests stay open in between, so that a second verification runs only what
a decision changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from selftest_core.agents import LOCAL_PROVIDER
from selftest_core.errors import RefusedError, ToolFailedError
from selftest_core.paths import cache_folder
from selftest_core.review.apply_decisions import only_what_is_kept, with_text
from selftest_core.review.candidate_branch import Status
from selftest_core.review.changes.inputs import own_folder
from selftest_core.review.evidence import write_row_verdicts, write_verified
from selftest_core.run.providers import places
from selftest_core.run.store import RunFolder
from selftest_core.verify.elsewhere.remote import RemoteVerifier, elsewhere_testing, refuse_unknown_providers
from selftest_core.verify.environment import find_testing
from selftest_core.verify.kept.results import Results
from selftest_core.verify.kept.verification_file import keep_verification
from selftest_core.verify.local import LocalVerifier, jobs_of
from selftest_core.verify.sandbox import choose_isolation
from selftest_core.verify.schedule import judge_tests
from selftest_core.verify.verdicts import Effect, Verdict
from selftest_core.verify.verification import ItemVerdict, ReviewLine, Verified, verify_line
from selftest_core.verify.verifier import Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.changes.collect_changes import Branch
    from selftest_core.review.engine import Engine
    from selftest_core.review.evidence import Evidence
    from selftest_core.verify.environment import Testing
    from selftest_core.verify.schedule import Judged
    from selftest_core.verify.verdicts import Execution
    from selftest_core.verify.verification import Verification
    from selftest_core.verify.verifier import Progress


class ReviewVerifier:
    """Verifies one review. For the thread that has its engine; close it.

    `isolation`: what the tests are isolated by, or the reason why by nothing. `environment`: what they run in.
    """

    def __init__(
        self,
        engine: Engine,
        verifier: LocalVerifier,
        results: Results,
        testing: Testing,
        home: Path,
        resources: contextlib.ExitStack,
    ) -> None:
        self.isolation = testing.isolation
        self.environment = testing.environment
        self._home = home
        self._engine = engine
        self._verifier = verifier
        self._results = results
        self._resources = resources

    @classmethod
    def open(
        cls,
        engine: Engine,
        top: Path,
        home: Path,
        config: Config,
        environ: Mapping[str, str],
        jobs: int = 0,
        on: str = "",
    ) -> Self:
        """Prepare to verify the review in the folder `home` of the work tree `top`; nothing is run yet.

        `engine`: open on the review's repository. `jobs`: test processes at once, 0 for what the settings say.
        `on`: the places where tests run, as for a run; empty: this machine.
        Raises RefusedError, also where another process verifies this review, UsageError for an unknown provider, and
        ToolError.
        """
        is_here = places(on) == (LOCAL_PROVIDER,)
        if is_here:
            isolation = choose_isolation(config.verify_isolation, environ)
            testing = find_testing(top, config, isolation, environ, _started_with(home))
        else:
            testing = elsewhere_testing(top, on, config, environ)
            refuse_unknown_providers(on, environ)
        slots = cache_folder(environ) / "verify" / f"{home.name}-{home.stat().st_ino}"
        with contextlib.ExitStack() as resources:
            resources.enter_context(lock_slots(slots, home.name))
            results = resources.enter_context(
                contextlib.closing(Results.open(own_folder(top), testing.environment.digest))
            )
            verifier = resources.enter_context(
                LocalVerifier(slots, engine.store.git, testing, jobs_of(config, jobs))
                if is_here
                else RemoteVerifier(slots, engine.store.git, testing, jobs or len(places(on)), on, config, environ)
            )
            return cls(engine, verifier, results, testing, home, resources.pop_all())
        raise AssertionError("an ExitStack swallows nothing")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        """End what runs, remove the slots, and let others verify this review."""
        self._resources.close()

    def verify(
        self,
        reviewed: Reviewed,
        evidence: Mapping[str, Evidence],
        branches: Iterable[Branch],
        on_progress: Callable[[Progress], None] = lambda _: None,
        is_stopped: threading.Event | None = None,
        *,
        is_kept_only: bool = False,
        tests: Sequence[str] = (),
        is_whole_suite: bool = False,
        first: Callable[[], Sequence[str]] = tuple,
        on_owned: Callable[[Mapping[str, tuple[str, ...]]], None] = lambda _: None,
        on_kept: Callable[[str, str, Execution], None] = lambda _tree, _test, _run: None,
    ) -> Verification:
        """Verify the candidate branch, or only what is kept: exactly the tree that would be published. Blocking.

        `evidence`: what each agent says. `branches`: the agents' own, on which their claims are judged. `on_progress`
        is called from threads of its own, one at a time. `is_stopped`, once set by any thread, ends the test processes;
        what was run is kept. `tests`: node ids or files to restrict it to. `first`, `on_owned`, `on_kept`: as
        `verify_line` has them. Raises StoppedError, ToolError, and RefusedError where the tree that was built to be
        tested is not the branch's.
        """
        begun = time.monotonic()
        self._begin(is_stopped, reviewed)
        if is_kept_only:
            reviewed = only_what_is_kept(self._engine, reviewed)
        line = self._line(reviewed, branches)
        found = verify_line(
            self._engine, reviewed, line, evidence, self._verifier, self._results,
            on_progress, only=tests, is_whole_suite=is_whole_suite, first=first, on_owned=on_owned, on_kept=on_kept,
        )  # fmt: skip
        if not tests:
            # Without the files a report lacks the verdicts, and claims rank the changes; the caller has all of it.
            with contextlib.suppress(OSError):
                keep_verification(self._home, found, self.isolation, time.monotonic() - begun)
                if not is_kept_only:
                    write_verified(self._home, _fixed(reviewed, found))
                    write_row_verdicts(self._home, _of_rows(reviewed, found))
        return found

    def verify_texts(
        self,
        reviewed: Reviewed,
        verification: Verification,
        on_progress: Callable[[Progress], None] = lambda _: None,
        is_stopped: threading.Event | None = None,
    ) -> Verification:
        """Run the tests of each row on its other texts, each on the candidate branch in place of the chosen one.

        Blocking. Returns the verification with a verdict on each text whose row has tests and is applied. The verdicts
        are kept for the choice of a text when the review is opened again. Raises what `verify` raises.
        """
        self._begin(is_stopped, reviewed)
        laid = {one.item.oid for one in reviewed.line.items if one.status is Status.LAID}
        found: dict[str, ItemVerdict] = {}
        driver = Driver(self._verifier, self._results, on_progress)
        for row in dict.fromkeys(reviewed.row_of.values()):
            tests = [one.test for one in verification.items[row.chosen].tests] if row.chosen in laid else []
            for oid in row.others if tests else ():
                other = with_text(self._engine, reviewed, oid)
                self._line(other, ())
                judged = driver.drive(judge_tests(other.line.tree, tests, "text"))
                found[oid] = _text_verdict(oid, judged)
        with contextlib.suppress(OSError):  # the choice is by size then
            write_row_verdicts(self._home, _known(found))
        return replace(
            verification,
            items={**verification.items, **found},
            executions=verification.executions + driver.executions,
            from_cache=verification.from_cache + driver.from_cache,
        )

    def look(
        self,
        reviewed: Reviewed,
        tests: Sequence[str],
        on_progress: Callable[[Progress], None],
        is_stopped: threading.Event,
        on_kept: Callable[[str, str, Execution], None] = lambda _tree, _test, _run: None,
    ) -> None:
        """Run some tests on the candidate branch alone, red ones repeatedly: `verify` finds the results. Blocking.

        Raises what `verify` raises.
        """
        self._begin(is_stopped, reviewed)
        self._line(reviewed, ())
        tree = reviewed.line.tree
        Driver(self._verifier, self._results, on_progress, on_kept).drive(judge_tests(tree, tests, "candidate"))

    def _begin(self, is_stopped: threading.Event | None, reviewed: Reviewed) -> None:
        base = self._engine.store.tree_of(reviewed.plan.base)
        self._verifier.begin(is_stopped or threading.Event(), base)

    def _line(self, reviewed: Reviewed, branches: Iterable[Branch]) -> ReviewLine:
        """Build the line, with its tree in the engine, which other engines of this review need not have."""
        # The tip of one branch of many changes is the candidate itself, and shows no agent's claim.
        own = () if reviewed.plan.is_linear else branches
        left_out = dict(reviewed.plan.left_out)
        trees = {one.agent: self._engine.store.tree_of(one.tip) for one in own if one.agent not in left_out}
        line = ReviewLine(self._engine, reviewed, trees)
        tree = line.prefix(len(line.changes))
        if tree != reviewed.line.tree:
            detail = f"It was built as {tree}; the branch's is {reviewed.line.tree}."
            raise RefusedError("The tree to be tested is not the branch's", detail, "Please report this.")
        return line


def _text_verdict(oid: str, judged: Mapping[str, Judged]) -> ItemVerdict:
    """Sum up the tests of a row on one of its texts."""
    verdicts = {one.verdict for one in judged.values()}
    if verdicts & {Verdict.RED, Verdict.MISSING}:
        verified = Verified.FAILED
    elif verdicts & {Verdict.FLAKY, Verdict.ORDER_DEPENDENT}:
        verified = Verified.FLAKY
    else:
        verified = Verified.PASSED if verdicts == {Verdict.GREEN} else Verified.UNKNOWN
    bad = [f"{test} is {one.verdict}" for test, one in judged.items() if one.verdict is not Verdict.GREEN]
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    return ItemVerdict(oid, verified, claimed=None, reason=f"with this text {bad[0]}{more}" if bad else "")


def _fixed(reviewed: Reviewed, verification: Verification) -> dict[str, tuple[str, ...]]:
    """The tests that each agent's changes fix, where that is known."""
    found: dict[str, dict[str, None]] = {}
    for change in reviewed.chosen:
        verdict = verification.items[change.oid]
        if verdict.verified in (Verified.PASSED, Verified.FAILED):
            fixed = [one.test for one in verdict.tests if one.effect in (Effect.FIXED, Effect.NEW)]
            for agent in reviewed.agents_of(change.oid):
                found.setdefault(agent, {}).update(dict.fromkeys(fixed))
    return {agent: tuple(tests) for agent, tests in found.items()}


def _of_rows(reviewed: Reviewed, verification: Verification) -> dict[str, str]:
    """The verdicts on chosen changes that have alternatives."""
    found = {row.chosen: verification.items[row.chosen].verified for row in reviewed.row_of.values() if row.others}
    return {oid: verified.value for oid, verified in found.items() if verified is not Verified.UNKNOWN}


def _known(found: Mapping[str, ItemVerdict]) -> dict[str, str]:
    return {oid: one.verified.value for oid, one in found.items() if one.verified is not Verified.UNKNOWN}


@contextlib.contextmanager
def lock_slots(folder: Path, name: str) -> Iterator[None]:
    """Have the slots of a review to ourselves, by a lock beside their folder.

    Raises RefusedError, ToolFailedError where they cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = folder.with_suffix(".lock").open("w")
    except OSError as error:
        hint = "Tests run in the cache folder, on copies: XDG_CACHE_HOME names another place for it."
        raise ToolFailedError("The cache folder cannot be written", str(error), hint) from error
    with lock as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            hint = "Wait for its end, or stop it with Ctrl-C where it runs."
            raise RefusedError(f"{name} is verified by another process", "", hint) from error
        yield


def _started_with(home: Path) -> tuple[str, ...]:
    """Return what collected the tests of the run whose folder this is; empty for other reviews."""
    return RunFolder(home).plan().started_with if (home / "plan.json").is_file() else ()
