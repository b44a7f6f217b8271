"""Repositories with the branches of three agents, for tests of reviews: two of them mend the same line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.repositories import Repository

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = (("ada", "a", "2\n"), ("bob", "b", "2\n"), ("eve", "a", "3\n"))


def make_desk(folder: Path) -> Repository:
    """`main`, and ada, bob and eve on it with a test and a fix each; ada's and eve's fixes are in conflict."""
    repository = Repository.make(folder)
    repository.commit("Start", {"src/a.py": "1\n", "src/b.py": "1\n"})
    for agent, name, content in AGENTS:
        repository.git("checkout", "-q", "-b", agent, "main")
        repository.commit(f"[FIX_TEST] Test {name}", {f"tests/test_{agent}.py": "x\n"}, agent)
        repository.commit(f"[FIX_IMPL] Mend {name}", {f"src/{name}.py": content}, agent)
    repository.git("checkout", "-q", "main")
    return repository
