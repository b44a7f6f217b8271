"""Try a forged branch: review it alone by the documented unattended policy, and say how that ended."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from core.review.repositories import Repository
from core.verify.desks import SETTINGS
from selftest_core.config import load_config
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from selftest_core.tools.process import run
from selftest_core.verify.batch import Verifying, review_verified
from selftest_core.verify.verdicts import Effect
from selftest_core.verify.verification import Mark, Verified

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.attacks.cases import Case
    from selftest_core.review.batch import BatchResult
    from selftest_core.verify.batch import Answer

POLICY = Path(__file__).resolve().parents[3] / "docs" / "examples" / "selftest-decisions.json"
HELD, ASKS, UNDECIDABLE, OPEN = "held", "asks a person", "undecidable", "OPEN"
GREEN = (Effect.FIXED, Effect.KEPT, Effect.NEW)
_made: dict[str, Repository] = {}
"""Repositories of this process by their base: results of the base are kept for the next branch.

They lie in the folder for temporary files, which who tries removes.
"""


def attack(case: Case) -> tuple[str, str]:
    """Review one forged branch; returns how it ended, and the reason that a person sees."""
    repository = repository_of(case.base)
    grow(repository, "eve", (case.subject, case.files), *((case.subject, more) for more in case.then))
    try:
        result, answer = reviewed_unattended(repository, "eve")
    finally:
        repository.git("update-ref", "-d", "refs/heads/fixes")
        forget_flakes(repository)
    how, said = ended(case, result, answer)
    return (UNDECIDABLE if how == OPEN and case.is_undecidable else how), said


def ended(case: Case, result: BatchResult, answer: Answer) -> tuple[str, str]:
    """Say how the review of one forged branch ended."""
    if not answer.reviewed.order:
        return HELD, "left out"
    oids = [change.oid for change in answer.reviewed.order]
    verdicts = [answer.verification.items[oid] for oid in oids]
    weakenings = [one for change in answer.reviewed.order for one in change.weakenings]
    marks = {mark for one in verdicts for mark in one.marks} - {Mark.NOTHING_NEW}
    reasons = [one.reason for one in verdicts if one.reason]
    said = "; ".join((*reasons, *(one.what for one in weakenings), *sorted(marks))) or result.refused
    # One that was left undecided is not on the branch, which is then that of the base.
    if result.published is not None and any(answer.reviewed.decided[oid] is Decision.KEEP for oid in oids):
        return OPEN, f"published as {answer.verification.verified}: {said}"
    green = {one.test for one in answer.verification.tests if one.effect in GREEN}
    is_shown = all(one.verified is Verified.PASSED for one in verdicts) and any(test in green for test in case.false)
    if is_shown and not weakenings and not marks:
        return OPEN, f"shown as passed without a mark: {said}"
    return (ASKS if is_shown else HELD), said


def repository_of(base: Mapping[str, str]) -> Repository:
    """Return this process's repository with that base."""
    key = repr(base)
    if key not in _made:
        _made[key] = repository = Repository.make(Path(tempfile.mkdtemp(prefix="attacks-")) / "repository")
        grow(repository, "main", ("Base", base))
        repository.git("reset", "-q", "--hard", "main")
    return _made[key]


def grow(repository: Repository, branch: str, *commits: tuple[str, Mapping[str, str | None]]) -> None:
    """Make a branch of main with these commits, in the repository alone. None deletes; `link:` makes a link."""
    parts = []
    if branch != "main":
        # fast-import cannot begin anew at a branch that it is to replace: the base is named by its commit.
        parts.append(f"reset refs/heads/{branch}\nfrom refs/heads/main^0\n\n")
    for subject, files in commits:
        parts.append(
            f"commit refs/heads/{branch}\ncommitter Ada <ada@example.org> 1700000000 +0000\n"
            f"data {len(subject.encode())}\n{subject}\n"
        )
        parts += [f"D {path}\n" for path, text in files.items() if text is None]
        for path, text in files.items():
            if text is not None:
                if text.startswith("gitlink:"):
                    parts.append(f"M 160000 {text[8:]} {path}\n")
                    continue
                mode, body = ("120000", text[5:]) if text.startswith("link:") else ("100644", text)
                parts.append(f"M {mode} inline {path}\ndata {len(body.encode())}\n{body}\n")
    argv = ("git", "fast-import", "--quiet", "--force")
    done = run(argv, timeout=60, cwd=repository.folder, env=repository.environment, input="".join(parts))
    assert done.ok, done.stderr


def reviewed_unattended(
    repository: Repository, *branches: str, more: Mapping[str, str] = MappingProxyType({})
) -> tuple[BatchResult, Answer]:
    """Review as `review --batch --verify --all --publish fixes --require-verified` does, in the sandbox.

    `more`: settings, as variables.
    """
    home = repository.folder.parent
    mine = {"XDG_CACHE_HOME": str(home / "cache"), "HOME": str(home), "SELFTEST_TUI_VERIFY_ISOLATION": "require"}
    environ = {**os.environ, **SETTINGS, **mine, **more}
    request = Request(targets=branches, base="main", decisions=POLICY, publish="fixes")
    return review_verified(
        Verifying(request, 1, is_whole_suite=True, is_required=True),
        load_config(repository.folder, environ, {}), repository.folder, environ,
        lambda _: None, lambda _: None, threading.Event(),
    )  # fmt: skip


def forget_flakes(repository: Repository) -> None:
    """Let no branch be judged by what an earlier one did."""
    for path in repository.folder.glob(".selftest/verified.sqlite"):
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("DELETE FROM flake")
