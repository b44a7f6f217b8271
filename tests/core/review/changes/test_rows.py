"""Changes that are much alike are told together, and nothing is dropped for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from selftest_core.git.object_store import ObjectStore
from selftest_core.review.changes.collect_changes import Branch, Change, collect_changes
from selftest_core.review.changes.similar_changes import find_similar, hot_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "def total(items):\n    return sum(item.price for item in items)\n\n\ndef name(user):\n    return user.name\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository.make(tmp_path / "r")
    made.commit("Start", {"src/cart.py": FILE, "src/other.py": FILE})
    return made


@pytest.fixture
def store(repository: Repository, tmp_path: Path) -> Iterator[ObjectStore]:
    with ObjectStore.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as opened:
        yield opened


def changes_of(repository: Repository, store: ObjectStore, **commits: list[dict[str, str]]) -> dict[str, list[Change]]:
    base = repository.git("rev-parse", "main")
    branches = []
    for agent, contents in commits.items():
        repository.git("checkout", "-q", "-f", "-b", agent, "main")
        for files in contents:
            repository.commit(f"By {agent}", files, agent)
        branches.append(Branch(agent, repository.git("rev-parse", "HEAD")))
    changes = collect_changes(store, base, branches).changes
    return {agent: [change for change in changes if agent in change.agents] for agent in commits}


def guarded(word: str, name: str = "src/cart.py") -> dict[str, str]:
    return {name: FILE.replace("    return sum(", f"    if not items:  # {word}\n        return 0\n    return sum(")}


def test_nearly_the_same_change_of_several_agents_is_one_group(repository: Repository, store: ObjectStore) -> None:
    made = changes_of(
        repository,
        store,
        ada=[guarded("an empty cart")],
        bob=[guarded("empty carts too")],
        eve=[{"src/cart.py": FILE.replace("user.name", "user.full_name or user.login or 'nobody at all'")}],
        zoe=[guarded("an empty cart", "src/other.py")],
    )
    (ada,), (bob,) = made["ada"], made["bob"]
    everything = [change for changes in made.values() for change in changes]
    assert find_similar(store, everything) == {ada.oid: (bob.oid,), bob.oid: (ada.oid,)}


def test_an_agents_own_next_try_is_no_alternative(repository: Repository, store: ObjectStore) -> None:
    made = changes_of(repository, store, ada=[guarded("one"), guarded("two")])
    assert find_similar(store, made["ada"]) == {}


def test_hot_files_are_counted_by_agents_and_not_by_commits(repository: Repository, store: ObjectStore) -> None:
    made = changes_of(
        repository,
        store,
        ada=[guarded("one"), guarded("two"), {"alone": "x\n"}],
        bob=[guarded("three"), {"src/other.py": "x\n"}],
        eve=[{"src/cart.py": "x\n", "src/other.py": "y\n"}],
    )
    hot = hot_files([change for changes in made.values() for change in changes])
    assert list(hot.items()) == [("src/cart.py", 3), ("src/other.py", 2)]
