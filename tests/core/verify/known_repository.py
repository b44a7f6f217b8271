"""A known line as a repository: real git, real tests, and the same truth. Each change is the branch of one agent."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.review.repositories import Repository
from core.verify.desks import PYTEST
from selftest_core.config import load_config
from selftest_core.git.command import Git
from selftest_core.review.apply_decisions import apply_decisions
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.plan import make_plan, resolve_branches
from selftest_core.review.decisions import Decisions
from selftest_core.review.engine import Engine
from selftest_core.review.evidence import Evidence
from selftest_core.tools.process import run
from selftest_core.verify.review_verifier import ReviewVerifier

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from core.verify.known_truth import KnownLine
    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.review.changes.collect_changes import Branch
    from selftest_core.review.changes.plan import Plan
    from selftest_core.verify.verification import Verification
    from selftest_core.verify.verifier import Progress

TEST_FILE = """\
import os
from pathlib import Path

from shop.i{place} import STATE

BREAKS = sorted(Path(__file__).parents[1].glob("shop/breaks*.txt"))


def check(number):
    assert not any(f"test_{place}.py::test_{{number}}" in path.read_text().split() for path in BREAKS)
    assert number not in {flaky} or os.urandom(1)[0] >= {below}
    assert STATE[number]
"""
A_TEST = "\n\ndef test_{number}():\n    check({number})\n"


@dataclass(frozen=True)
class KnownRepository:
    """The repository of a line. `evidence`: what each agent says, which is that all of its tests pass."""

    line: KnownLine
    repository: Repository
    branches: tuple[str, ...]
    evidence: Mapping[str, Evidence]

    @classmethod
    def make(cls, line: KnownLine, folder: Path, more_files: int = 0) -> KnownRepository:
        """Write it to `folder`; `more_files`: modules that nobody changes, forty to a folder."""
        repository = Repository.make(folder)
        base = {"shop/__init__.py": ""}
        base |= {f"more/d{n // 40}/m{n}.py": f"VALUE = {n}\n" * 20 for n in range(more_files)}
        for place in range(line.count):
            base |= _files(line, place, is_applied=False)
        parts = ["commit refs/heads/main\n", _header("Start"), *(_file(path, text) for path, text in base.items())]
        branches = tuple(f"agent{place}" for place in range(line.count))
        for place, branch in enumerate(branches):
            changed = _files(line, place, is_applied=True)
            broken = [test for test, culprit in line.broken_by.items() if culprit == place]
            if broken:
                changed[f"shop/breaks{place}.txt"] = "\n".join(broken) + "\n"
            parts += [
                f"commit refs/heads/{branch}\n",
                _header(f"[FIX_IMPL] Change {place}"),
                "from refs/heads/main\n",
            ]
            parts += [_file(path, text) for path, text in changed.items()]
        argv = ("git", "fast-import", "--quiet")
        done = run(argv, timeout=600, cwd=folder, env=dict(os.environ), input="".join(parts))
        assert done.ok, done.stderr_end
        repository.git("reset", "-q", "--hard", "main")
        evidence = {
            branch: Evidence(tests=tuple((f"tests/{test}", True) for test in line.items[place].tests))
            for place, branch in enumerate(branches)
        }
        return cls(line, repository, branches, evidence)

    @contextmanager
    def opened(self, folder: Path, jobs: int = 2) -> Iterator[OpenReview]:
        """The review of all branches, open to be verified; `folder` holds its home, its cache and its engine."""
        (folder / "home").mkdir()
        plain = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
        top = self.repository.folder
        environ = {**os.environ, "HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache"), plain: "1"}
        config = load_config(top, environ, {"pytest_command": " ".join(PYTEST), "env": plain})
        targets = resolve_branches(Git(top / ".git", environ), "main", self.branches)
        with (
            Engine.open(folder / "engine.git", top / ".git", environ) as engine,
            ReviewVerifier.open(engine, top, folder / "home", config, environ, jobs) as verifier,
        ):
            plan = make_plan(engine.store, targets)
            places = {change.oid: int(change.agents[0].removeprefix("agent")) for change in plan.changes}
            yield OpenReview(self, engine, verifier, plan, targets.branches, places)


@dataclass(frozen=True)
class OpenReview:
    """The review of a known line. `places`: the place on the known line of each change."""

    known: KnownRepository
    engine: Engine
    verifier: ReviewVerifier
    plan: Plan
    branches: tuple[Branch, ...]
    places: Mapping[str, int]

    def reviewed(self, reverted: Collection[int] = ()) -> Reviewed:
        """The review with these changes of the known line reverted."""
        items = {oid: Decision.REVERT for oid, place in self.places.items() if place in reverted}
        return apply_decisions(self.engine, self.plan, Decisions(items=items))

    def verify(self, reverted: Collection[int], on_progress: Callable[[Progress], None]) -> Verification:
        """Verify it with these changes of the known line reverted."""
        return self.verifier.verify(self.reviewed(reverted), self.known.evidence, self.branches, on_progress)


def _files(line: KnownLine, place: int, *, is_applied: bool) -> dict[str, str]:
    tests = [test for test, owner in line.owner.items() if owner == place]
    state = {}
    text = ""
    for number, test in enumerate(tests):
        if is_applied or line.on_base[test] != "missing":
            text += A_TEST.format(number=number)
        state[number] = test not in line.lies if is_applied else line.on_base[test] == "green"
    flaky = {number for number, test in enumerate(tests) if test in line.flaky}
    head = TEST_FILE.format(place=place, flaky=flaky or "()", below=round(line.flaky_rate * 256))
    word = "mended" if is_applied else "to be mended"
    return {f"shop/i{place}.py": f"# {word}\nSTATE = {state}\n", f"tests/test_{place}.py": head + text}


def _header(subject: str) -> str:
    return f"committer Ada <ada@example.org> 1700000000 +0000\ndata {len(subject)}\n{subject}\n"


def _file(path: str, text: str) -> str:
    return f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n"
