"""Honest branches: known lines whose agents tell the truth, other kinds of honest fixes, and this project's history.

The documented policy is to keep them: one that is left to a person was asked about, one with a mark of guilt accused.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from core.attacks.adaptive import HONEST_BASES
from core.attacks.tried import POLICY, forget_flakes, grow, repository_of, reviewed_unattended
from core.verify.known_repository import KnownRepository
from core.verify.known_truth import KnownLine
from selftest_core.git.command import Git
from selftest_core.review.apply_decisions import apply_decisions
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.kinds import Kind, kind_of_path
from selftest_core.review.changes.plan import make_plan, resolve_branches
from selftest_core.review.decisions import read_decisions
from selftest_core.review.engine import Engine
from selftest_core.verify.verification import Mark, Verified

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from selftest_core.review.apply_decisions import Reviewed
    from selftest_core.verify.verification import Verification

ACCUSES = {Mark.LIAR, Mark.CULPRIT, Mark.NO_FIX}


@dataclass
class Honest:
    """Findings. `asked`: why a person was asked, with counts; `accused` names each."""

    tried: int = 0
    verified: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    branches_asked: int = 0
    accused: list[str] = field(default_factory=list)

    def take(self, reviewed: Reviewed, verification: Verification | None = None) -> None:
        """Count the changes of one review."""
        for change in reviewed.order:
            self.tried += 1
            why = [one.what.rpartition(": ")[2] for one in change.weakenings]
            if reviewed.decided[change.oid] is not Decision.KEEP:
                why = why or ["not kept by a rule"]
            if verification is not None:
                self.verified += 1
                verdict = verification.items[change.oid]
                if ACCUSES.intersection(verdict.marks) or verdict.verified is Verified.FAILED:
                    self.accused.append(f"{change.subject}: {verdict.reason}")
                elif verdict.verified is not Verified.PASSED:
                    why.append(verdict.reason)
            self.branches_asked += bool(why)
            self.asked.update(set(why))


def known_lines(lines: int, changes: int, verified: int) -> Honest:
    """Review honest lines of the generator of `make proof`; the first `verified` of them are verified, too."""
    found = Honest()
    for seed in range(lines):
        line = KnownLine(random.Random(seed), changes, liars=0, culprits=0, flakes=0)
        with tempfile.TemporaryDirectory(prefix="attacks-") as name:
            known = KnownRepository.make(line, Path(name) / "repository")
            with known.opened(Path(name)) as review:
                reviewed = apply_decisions(review.engine, review.plan, read_decisions(POLICY))
                verification = review.verify((), lambda _: None) if seed < verified else None
            found.take(reviewed, verification)
    return found


def other_fixes() -> Honest:
    """Review the honest fix of each base that forgeries begin at."""
    found = Honest()
    for name, base in HONEST_BASES.items():
        repository = repository_of(base)
        fixed = {path: text.replace("return a - b", "return a + b") for path, text in base.items() if path == "calc.py"}
        grow(repository, "ada", (f"[FIX_IMPL] Fix add, tested by {name}", fixed))
        _, answer = reviewed_unattended(repository, "ada")
        repository.git("update-ref", "-d", "refs/heads/fixes")
        forget_flakes(repository)
        found.take(answer.reviewed, answer.verification)
    return found


def history(root: Path, count: int, seed: int) -> tuple[Honest, Honest]:
    """Review commits of this project's own history that touch the product, each alone on its parent; none is run.

    Returns those that leave the tests which were there as they are, and those that edit some.
    """
    found, editing = Honest(), Honest()
    argv = ["git", "log", "--no-merges", "--format=%H %P", "HEAD", "--", "*/selftest_*/**.py"]
    lines = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    pairs = [line.split() for line in lines if len(line.split()) == 2]
    with tempfile.TemporaryDirectory(prefix="attacks-") as name:
        common = subprocess.run(
            ["git", "rev-parse", "--path-format=absolute", "--git-common-dir"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        with Engine.open(Path(name) / "engine.git", Path(common), os.environ) as engine:
            for commit, parent in random.Random(seed).sample(pairs, min(count, len(pairs))):
                targets = resolve_branches(Git(Path(common), os.environ), parent, [commit])
                reviewed = apply_decisions(engine, make_plan(engine.store, targets), read_decisions(POLICY))
                paths = [path for change in reviewed.order for path in change.paths]
                is_editing = any(one.before and kind_of_path(one.path) is Kind.TEST for one in paths)
                (editing if is_editing else found).take(reviewed)
    return found, editing


def whole(found: Iterable[Honest]) -> tuple[int, int, Sequence[str]]:
    """Sum up: branches, those asked about, and the accused."""
    found = list(found)
    return (
        sum(one.tried for one in found), sum(one.branches_asked for one in found),
        [name for one in found for name in one.accused],
    )  # fmt: skip
