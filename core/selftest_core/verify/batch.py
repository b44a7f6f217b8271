"""Verification without a screen: `verify` changes no ref, `review_verified` verifies before it writes any."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.review.apply_decisions import (
    apply_decisions,
    build_kept_line,
    publish_disabled_reason,
    with_asking,
)
from selftest_core.review.batch import Checked, review
from selftest_core.review.changes.inputs import home_of
from selftest_core.review.changes.plan import make_plan
from selftest_core.review.decisions import Decisions, read_decisions
from selftest_core.review.engine import Engine
from selftest_core.review.evidence import claims_of, read_row_verdicts
from selftest_core.review.repository import LOG, find_review, read_log, with_proposed
from selftest_core.review.session import DECISIONS
from selftest_core.verify.review_verifier import ReviewVerifier
from selftest_core.verify.verdicts import Verdict
from selftest_core.verify.verification import ASKS, Verified, verified_tests

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.batch import BatchResult
    from selftest_core.review.changes.inputs import Inputs, Request
    from selftest_core.verify.sandbox import Isolation
    from selftest_core.verify.verification import ItemVerdict, Verification
    from selftest_core.verify.verifier import Progress


@dataclass(frozen=True, slots=True)
class Verifying:
    """A request to verify. `jobs`: test processes at once, 0 for what the settings say.

    `tests`: node ids or files to restrict it to. `is_required`: a branch is published only if it passes. `on`: where
    tests run, as for a run; empty: this machine. `is_texts`: the texts of rows that are not chosen are run too.
    """

    request: Request
    jobs: int = 0
    is_whole_suite: bool = False
    tests: tuple[str, ...] = ()
    is_required: bool = False
    on: str = ""
    is_texts: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A verified review. `run`: the run that was reviewed, None where there was none.

    `published`: the verification of the exact tree that is published, None where no branch was asked for.
    `is_with_texts`: `verification` has verdicts on texts that are not chosen. `environment`: what ran the tests.
    """

    reviewed: Reviewed
    verification: Verification
    isolation: Isolation
    seconds: float
    run: str | None
    published: Verification | None = None
    is_with_texts: bool = False
    environment: str = ""

    @property
    def is_green(self) -> bool:
        """True where all tests passed that were run on the candidate."""
        return self.verification.verified is Verified.PASSED


def verify(
    verifying: Verifying,
    config: Config,
    cwd: Path,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    on_progress: Callable[[Progress], None],
    is_stopped: threading.Event,
) -> Answer:
    """Verify a review under a decisions file, else under what was decided on its screen.

    `is_stopped`, once set, ends the test processes. Raises StoppedError, UsageError,
    RefusedError, ToolError.
    """
    begun = time.monotonic()
    request = verifying.request
    given = None if request.decisions is None else read_decisions(request.decisions)
    inputs, name = find_review(request, cwd, environ, say)
    home = home_of(inputs, name)
    with (
        Engine.open(home / "engine.git", inputs.place.git_dir, environ) as engine,
        ReviewVerifier.open(engine, inputs.place.top, home, config, environ, verifying.jobs, verifying.on) as verifier,
    ):
        _warn(verifier, say)
        targets = with_proposed(inputs.targets, read_log(home / LOG).subject)
        verdicts = {} if given else read_row_verdicts(home)
        plan = make_plan(engine.store, targets, claims_of(inputs.evidence), inputs.left_out, verdicts=verdicts)
        reviewed = apply_decisions(engine, plan, given or _decided(home))
        verification = verifier.verify(
            reviewed, inputs.evidence, inputs.targets.branches, on_progress, is_stopped,
            tests=verifying.tests, is_whole_suite=verifying.is_whole_suite or config.verify_all,
        )  # fmt: skip
        if verifying.is_texts:
            verification = verifier.verify_texts(reviewed, verification, on_progress, is_stopped)
    seconds = time.monotonic() - begun
    return Answer(
        reviewed, verification, verifier.isolation, seconds, _run_of(inputs), is_with_texts=verifying.is_texts,
        environment=verifier.environment.name,
    )  # fmt: skip


def review_verified(
    verifying: Verifying,
    config: Config,
    cwd: Path,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    on_progress: Callable[[Progress], None],
    is_stopped: threading.Event,
) -> tuple[BatchResult, Answer]:
    """Review as `review.batch.review` does, and verify before any ref is written.

    The candidate is verified, and the exact tree that is to be published, if one is. Raises the errors of both.
    """
    answers: list[Answer] = []

    def check(engine: Engine, reviewed: Reviewed, inputs: Inputs, *, is_publishing: bool) -> Checked:
        begun = time.monotonic()
        top, home = inputs.place.top, home_of(inputs, inputs.name)
        is_whole_suite = verifying.is_whole_suite or config.verify_all
        published: Verification | None = None
        with ReviewVerifier.open(engine, top, home, config, environ, verifying.jobs, verifying.on) as verifier:
            _warn(verifier, say)

            def run(*, is_kept_only: bool) -> Verification:
                return verifier.verify(
                    reviewed, inputs.evidence, inputs.targets.branches, on_progress, is_stopped,
                    is_kept_only=is_kept_only, is_whole_suite=is_whole_suite,
                )  # fmt: skip

            candidate = run(is_kept_only=False)
            found: Verification | None = candidate
            while found is not None:
                asking = _asking(reviewed, found)
                if not asking and published is not None:
                    break
                for oid, why in asking.items():
                    say(f"{oid[:12]} is not kept by its kind: {why}")
                reviewed = with_asking(engine, reviewed, asking) if asking else reviewed
                if is_publishing and publish_disabled_reason(reviewed, build_kept_line(engine, reviewed)):
                    is_publishing = False
                published = found = run(is_kept_only=True) if is_publishing else None
        seconds = time.monotonic() - begun
        name, named = verifier.environment.name, _run_of(inputs)
        answers.append(Answer(reviewed, candidate, verifier.isolation, seconds, named, published, environment=name))
        asked = reviewed if reviewed.asking else None
        if published is None or not verifying.is_required or published.verified is Verified.PASSED:
            tests = None if published is None else verified_tests(published, verifier.isolation)
            verdicts = {} if published is None else {oid: _in_trailer(one) for oid, one in published.items.items()}
            return Checked(tests=tests, verdicts=verdicts, reviewed=asked)
        why = why_not_passed(published)
        refusal = f"the tree that would be published, {published.tree[:12]}, is not verified: {why}"
        return Checked(refusal, reviewed=asked)

    result = review(verifying.request, cwd, environ, say, check, has_trailers=config.publish_trailers)
    return result, answers[0]


def _in_trailer(item: ItemVerdict) -> str:
    """Return a verdict for the trailer of a commit: with counts where not all of its tests were verified."""
    passed = sum(one.after is Verdict.GREEN for one in item.tests)
    return str(item.verified) if passed == len(item.tests) else f"{item.verified} ({passed} of {len(item.tests)} tests)"


def _asking(reviewed: Reviewed, found: Verification) -> dict[str, str]:
    """Map the changes that only a rule keeps, and that ask a person by their verdict, to the reason."""
    marks = {
        one.oid: ", ".join(mark for mark in found.items[one.oid].marks if mark in ASKS) for one in reviewed.kept_by_kind
    }
    return {oid: why for oid, why in marks.items() if why}


def _warn(verifier: ReviewVerifier, say: Callable[[str], None]) -> None:
    """Say before anything runs what makes verdicts doubtful, and that nothing keeps agents' code from the files."""
    if verifier.environment.warning:
        say(f"ATTENTION: {verifier.environment.warning}")
    isolation = verifier.isolation
    if not isolation.is_isolated:
        say(
            f"Tests are NOT isolated ({isolation.reason}): agents' code runs with all your rights, and can read and "
            "change your files."
        )


def why_not_passed(verification: Verification) -> str:
    """Return the reason why a tree did not pass, in one line; empty where it did."""
    if verification.verified is Verified.PASSED:
        return ""
    bad = [one for one in verification.tests if one.after is not Verdict.GREEN]
    # What a change turned red, or kept from failing, comes first.
    bad.sort(key=lambda one: (one.culprit is None, one.after is Verdict.SKIPPED))
    if bad:
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        is_what = "cannot fail" if bad[0].after is Verdict.CANNOT_FAIL else f"is {bad[0].after}"
        return f"{verification.verified}, {bad[0].test} {is_what}{more}"
    if verification.vanished:
        return f"{verification.verified}, {_first_of(verification.vanished)} of the base vanished"
    if verification.collection_errors:
        first = verification.collection_errors[0]
        return f"{verification.verified}, {first.path} cannot be collected: {first.message}"
    reasons = [one.reason for one in verification.items.values() if one.reason]
    return f"{verification.verified}, {next(iter(reasons), 'no test')}"


def _first_of(tests: Sequence[str]) -> str:
    return tests[0] + (f" and {len(tests) - 1} more" if len(tests) > 1 else "")


def _run_of(inputs: Inputs) -> str | None:
    return None if inputs.folder is None else inputs.folder.run


def _decided(home: Path) -> Decisions:
    """Read what was decided on the screen; nothing where it was never opened."""
    path = home / DECISIONS
    return read_decisions(path) if path.is_file() else Decisions()
