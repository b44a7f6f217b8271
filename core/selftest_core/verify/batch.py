"""A verification without a screen: what is reviewed in, verdicts out. It changes no ref and decides nothing."""

from __future__ import annotations

import fcntl
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from selftest_core.errors import RefusedError
from selftest_core.frozen import dataclass
from selftest_core.paths import cache_folder
from selftest_core.review.apply_decisions import apply_decisions
from selftest_core.review.changes.inputs import home_of, own_folder
from selftest_core.review.changes.plan import make_plan
from selftest_core.review.decisions import Decisions, read_decisions
from selftest_core.review.engine import Engine
from selftest_core.review.evidence import claims_of
from selftest_core.review.repository import find_review
from selftest_core.review.session import DECISIONS
from selftest_core.verify.environment import find_environment
from selftest_core.verify.line import ReviewLine
from selftest_core.verify.local import LocalVerifier
from selftest_core.verify.results import Results
from selftest_core.verify.runner import Testing
from selftest_core.verify.sandbox import choose_isolation
from selftest_core.verify.verification import verify_line

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from selftest_core.config import Config
    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.changes.inputs import Request
    from selftest_core.verify.sandbox import Isolation
    from selftest_core.verify.verification import Verification
    from selftest_core.verify.verifier import Progress


@dataclass(frozen=True, slots=True)
class Verifying:
    """A request to verify. `jobs`: test processes at once; `tests`: node ids or files to restrict it to."""

    request: Request
    jobs: int
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
    isolation = choose_isolation(config.verify_isolation, environ)
    inputs, name = find_review(request, cwd, environ, say)
    home = home_of(inputs, name)
    top = inputs.place.top
    words = config.verify_command or config.pytest_command
    environment = find_environment(top, words, config.env, isolation, environ)
    testing = Testing(environment, isolation, config.verify_timeout, config.verify_network)
    slots = cache_folder(environ) / "verify" / f"{name}-{home.stat().st_ino}"
    with (
        _held(slots, name),
        closing(Results.open(own_folder(top), environment.digest)) as results,
        Engine.open(home / "engine.git", inputs.place.git_dir, environ) as engine,
    ):
        plan = make_plan(engine.store, inputs.targets, claims_of(inputs.evidence), inputs.left_out)
        reviewed = apply_decisions(engine, plan, given or _decided(home))
        trees = {branch.agent: engine.store.tree_of(branch.tip) for branch in inputs.targets.branches}
        line = ReviewLine(engine, reviewed, trees)
        with LocalVerifier(slots, engine.store.git, testing, verifying.jobs, is_stopped) as verifier:
            verification = verify_line(
                engine, reviewed, line, inputs.evidence, verifier, results, on_progress,
                only=verifying.tests, is_whole_suite=verifying.is_whole_suite or config.verify_all,
            )  # fmt: skip
    seconds = time.monotonic() - begun
    return Answer(reviewed, verification, isolation, seconds, None if inputs.folder is None else inputs.folder.run)


@contextmanager
def _held(folder: Path, name: str) -> Iterator[None]:
    """Have the slots of a review to ourselves. Raises RefusedError."""
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            hint = "Wait for its end, or stop it with Ctrl-C where it runs."
            raise RefusedError(f"{name} is verified by another process", "", hint) from error
        yield


def _decided(home: Path) -> Decisions:
    """Read what was decided on the screen; nothing where it was never opened."""
    path = home / DECISIONS
    return read_decisions(path) if path.is_file() else Decisions()
