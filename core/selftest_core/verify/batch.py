"""A verification without a screen: what is reviewed in, verdicts out. It changes no ref and decides nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from selftest_core.frozen import dataclass
from selftest_core.review.apply_decisions import apply_decisions
from selftest_core.review.changes.inputs import home_of
from selftest_core.review.changes.plan import make_plan
from selftest_core.review.decisions import Decisions, read_decisions
from selftest_core.review.engine import Engine
from selftest_core.review.evidence import claims_of
from selftest_core.review.repository import find_review
from selftest_core.review.session import DECISIONS
from selftest_core.verify.review_verifier import ReviewVerifier

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.changes.inputs import Request
    from selftest_core.verify.sandbox import Isolation
    from selftest_core.verify.verification import Verification
    from selftest_core.verify.verifier import Progress


@dataclass(frozen=True, slots=True)
class Verifying:
    """A request to verify. `jobs`: test processes at once, 0 for what the settings say.

    `tests`: node ids or files to restrict it to.
    """

    request: Request
    jobs: int = 0
    is_whole_suite: bool = False
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A verified review. `run`: the run that was reviewed, None where there was none."""

    reviewed: Reviewed
    verification: Verification
    isolation: Isolation
    seconds: float
    run: str | None


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
        ReviewVerifier.open(engine, inputs.place.top, home, config, environ, verifying.jobs) as verifier,
    ):
        plan = make_plan(engine.store, inputs.targets, claims_of(inputs.evidence), inputs.left_out)
        reviewed = apply_decisions(engine, plan, given or _decided(home))
        verification = verifier.verify(
            reviewed, inputs.evidence, inputs.targets.branches, on_progress, is_stopped,
            tests=verifying.tests, is_whole_suite=verifying.is_whole_suite or config.verify_all,
        )  # fmt: skip
    seconds = time.monotonic() - begun
    run = None if inputs.folder is None else inputs.folder.run
    return Answer(reviewed, verification, verifier.isolation, seconds, run)


def _decided(home: Path) -> Decisions:
    """Read what was decided on the screen; nothing where it was never opened."""
    path = home / DECISIONS
    return read_decisions(path) if path.is_file() else Decisions()
