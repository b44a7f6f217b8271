"""Repositories with the branches of three agents, for tests of reviews: two of them mend the same line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from core.review.repositories import Repository
from selftest_core.review.candidate_branch import Status
from selftest_core.review.changes.inputs import Request
from selftest_core.review.session import ReviewSession
from worlds import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from selftest_core.review.state import ReviewState

ALL = Request(("ada", "bob", "eve"), base="main")
AGENTS = (("ada", "a", "2\n"), ("bob", "b", "2\n"), ("eve", "a", "3\n"))


def make_desk(folder: Path) -> Repository:
    """`main`, and ada, bob and eve on it with a test and a fix each; ada's and eve's fixes are in conflict."""
    repository = Repository.make(folder)
    repository.commit("Start", {"src/a.py": "1\n", "src/b.py": "1\n"})
    for agent, name, content in AGENTS:
        repository.git("checkout", "-q", "-b", agent, "main")
        repository.commit(f"[FIX_TEST] Test {name}", {f"tests/test_{agent}.py": "X = 1\n"}, agent)
        repository.commit(f"[FIX_IMPL] Mend {name}", {f"src/{name}.py": content}, agent)
    repository.git("checkout", "-q", "main")
    return repository


def environ(desk: Repository) -> dict[str, str]:
    """The whole environment of a review: a HOME of its own, which remembers nothing yet."""
    return {"PATH": os.environ["PATH"], "HOME": str(desk.folder.parent / "home")}


def opened(desk: Repository, request: Request = ALL) -> ReviewSession:
    """The review, opened."""
    return ReviewSession.open(request, desk.folder, environ(desk), lambda text: None)


def oid(desk: Repository, name: str) -> str:
    """The commit of that name."""
    return desk.git("rev-parse", name)


def status(state: ReviewState, change: str) -> Status:
    """What became of that change."""
    return {one.item.oid: one.status for one in state.reviewed.line.items}[change]


def looks(state: ReviewState) -> tuple[object, ...]:
    """All that a decision can change."""
    order = [change.oid for change in state.reviewed.order]
    return (
        dict(state.reviewed.decided), order, dict(state.notes), state.reviewed.line.tip, state.reviewed.line.tree,
        state.stat, state.held, state.open, state.plan.base,
    )  # fmt: skip


def settled(session: ReviewSession) -> ReviewState:
    """The state when it is known who needs whom, which is found out bit by bit."""
    eventually(lambda: session.refresh().reviewed.dependents.is_whole, "all dependents")
    return session.state


def held_one(desk: Repository, state: ReviewState) -> str:
    """The one of the two rivals that is held."""
    (held,) = (one for one in (oid(desk, "ada"), oid(desk, "eve")) if status(state, one) is Status.HELD)
    return held
