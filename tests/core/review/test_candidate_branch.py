"""Laying gives what `git cherry-pick` gives in a real worktree, and the same ids every time."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from selftest_core.git.commit_changes import read_changes
from selftest_core.review.candidate_branch import Decision, Item, Line, Squash, Status, build_line
from selftest_core.review.dependencies import find_dependents
from selftest_core.review.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.make(tmp_path / "r")


@pytest.fixture
def engine(repository: Repository, tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as opened:
        yield opened


def item(engine: Engine, oid: str) -> Item:
    commit = engine.store.commit(oid)
    base = engine.store.tree_of(commit.parents[0]) if commit.parents else engine.store.empty_tree()
    return Item(oid, base, commit.tree, commit.author, commit.message)


def laid(engine: Engine, base: str, oids: list[str], **decisions: Decision) -> Line:
    items = [item(engine, oid) for oid in oids]
    return build_line(engine, base, engine.store.tree_of(base), items, decisions)


def cherry_picked(repository: Repository, base: str, oids: list[str]) -> tuple[str, dict[str, str]]:
    """The tree that git reaches by picking one after the other, and what became of each."""
    worktree = Repository(repository.folder.parent / "picked")
    if not worktree.folder.is_dir():
        repository.git("worktree", "add", "-q", "--detach", str(worktree.folder), base)
    worktree.git("reset", "-q", "--hard", base)
    became = {}
    for oid in oids:
        before = worktree.git("rev-parse", "HEAD^{tree}")
        worktree.git(
            "-c",
            "merge.directoryRenames=true",
            "cherry-pick",
            "--allow-empty",
            "--keep-redundant-commits",
            oid,
            check=False,
        )
        if worktree.git("status", "--porcelain"):
            worktree.git("cherry-pick", "--abort")
            worktree.git("reset", "-q", "--hard")
            worktree.git("clean", "-fdxq")
            became[oid] = "held"
        else:
            became[oid] = "void" if worktree.git("rev-parse", "HEAD^{tree}") == before else "laid"
    return worktree.git("rev-parse", "HEAD^{tree}"), became


def test_a_fix_of_each_agent_becomes_one_branch(repository: Repository, engine: Engine) -> None:
    base = repository.commit("Start", {"a": "1\n2\n3\n", "b": "x\n"})
    first = repository.commit("Mend a", {"a": "1\n2\nthree\n"})
    repository.git("checkout", "-q", "-b", "other", base)
    second = repository.commit("Mend b", {"b": "y\n"})
    line = laid(engine, base, [first, second])
    assert [one.status for one in line.items] == [Status.LAID, Status.LAID]
    names = engine.store.git.ask("ls-tree", "-r", "--name-only", line.tip).split()
    assert names == ["a", "b"]
    assert engine.store.git.ask("log", "--format=%s", f"{base}..{line.tip}").splitlines() == ["Mend b", "Mend a"]
    assert line.tree == cherry_picked(repository, base, [first, second])[0]


def test_what_is_reverted_is_left_out_and_comes_back(repository: Repository, engine: Engine) -> None:
    base = repository.commit("Start", {"a": "1\n", "b": "1\n"})
    first = repository.commit("Mend a", {"a": "2\n"})
    second = repository.commit("Mend b", {"b": "2\n"})
    whole = laid(engine, base, [first, second])
    without = laid(engine, base, [first, second], **{first: Decision.REVERT})
    assert [one.status for one in without.items] == [Status.DROPPED, Status.LAID]
    assert without.tree == cherry_picked(repository, base, [second])[0]
    assert laid(engine, base, [first, second]) == whole


def test_a_conflict_is_held_with_its_three_sides_and_the_rest_goes_on(repository: Repository, engine: Engine) -> None:
    base = repository.commit("Start", {"a": "old\n", "b": "1\n"})
    first = repository.commit("One way", {"a": "one\n"})
    repository.git("checkout", "-q", "-b", "other", base)
    second = repository.commit("Another way", {"a": "two\n"})
    third = repository.commit("Mend b", {"b": "2\n"})
    line = laid(engine, base, [first, second, third])
    assert [one.status for one in line.items] == [Status.LAID, Status.HELD, Status.LAID]
    (conflict,) = line.items[1].conflicts
    sides = [conflict.base, conflict.ours, conflict.theirs]
    assert [engine.store.read(side.oid)[1] for side in sides if side] == [b"old\n", b"one\n", b"two\n"]
    assert "a" in conflict.path
    assert any("content" in word for word in conflict.messages)
    assert engine.store.git.ask("show", f"{line.tip}:a") == "one\n"


def test_a_deleted_file_that_another_changed_is_a_conflict_without_markers(
    repository: Repository, engine: Engine
) -> None:
    base = repository.commit("Start", {"a": "old\n"})
    first = repository.commit("Drop it", {"a": None})
    repository.git("checkout", "-q", "-b", "other", base)
    second = repository.commit("Change it", {"a": "new\n"})
    line = laid(engine, base, [first, second])
    (conflict,) = line.items[1].conflicts
    assert (conflict.base is None, conflict.ours is None, conflict.theirs is None) == (False, True, False)


def test_a_change_that_is_already_there_is_void(repository: Repository, engine: Engine) -> None:
    base = repository.commit("Start", {"a": "1\n"})
    first = repository.commit("Mend", {"a": "2\n"})
    repository.git("checkout", "-q", "-b", "other", base)
    second = repository.commit("Mend too", {"a": "2\n"})
    assert [one.status for one in laid(engine, base, [first, second]).items] == [Status.LAID, Status.VOID]


def test_a_first_commit_and_a_merge_commit_can_be_laid(repository: Repository, engine: Engine) -> None:
    base = repository.commit("Start", {"a": "1\n"})
    side = repository.commit("Side", {"s": "1\n"})
    repository.git("checkout", "-q", "-b", "other", base)
    repository.commit("Main", {"m": "1\n"})
    repository.git("merge", "-q", "--no-ff", "-m", "Merge", side)
    merge = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-q", "--orphan", "fresh")
    repository.git("rm", "-rfq", ".")
    first = repository.commit("First of its own", {"z": "1\n"})
    line = laid(engine, base, [first, merge])
    assert [one.status for one in line.items] == [Status.LAID, Status.LAID]
    assert engine.store.git.ask("ls-tree", "-r", "--name-only", line.tip).split() == ["a", "s", "z"]


def test_the_same_decisions_give_the_same_ids_in_another_engine(
    repository: Repository, engine: Engine, tmp_path: Path
) -> None:
    base = repository.commit("Start", {"a": "1\n"})
    oids = [repository.commit(f"Add {n}", {f"f{n}": f"{n}\n"}) for n in range(4)]
    environ = {**os.environ, "GIT_AUTHOR_NAME": "Somebody else", "TZ": "Asia/Tokyo"}
    with Engine.open(tmp_path / "second.git", repository.folder / ".git", environ) as second:
        assert laid(second, base, oids[::-1]) == laid(engine, base, oids[::-1])


def random_history(repository: Repository, dice: random.Random) -> tuple[str, list[str]]:
    """A base of a few files and branches of commits that edit, add, delete, rename, chmod and clash."""
    files = {
        f"{folder}f{n}.txt": "".join(f"{n} line {k}\n" for k in range(12)) for folder in ("", "d/") for n in range(3)
    }
    base = repository.commit("Start", {**files, "binary": bytes(range(256))})
    oids = []
    for branch in range(3):
        repository.git("checkout", "-q", "-f", "-b", f"agent{branch}", base)
        for step in range(dice.randint(1, 3)):
            here = [name for name in repository.git("ls-files", "-z").split("\0") if name]
            name = dice.choice(here)
            path = repository.folder / name
            match dice.randrange(7):
                case 0 | 1 | 2:
                    lines = path.read_bytes().splitlines(keepends=True) or [b""]
                    lines[dice.randrange(len(lines))] = f"by {branch}.{step}\n".encode()
                    path.write_bytes(b"".join(lines))
                case 3:
                    (repository.folder / f"new{dice.randrange(3)}.txt").write_text(f"new {dice.randrange(2)}\n")
                case 4:
                    path.unlink()
                case 5:
                    target = repository.folder / dice.choice(["moved", "d/moved", "e/moved"])
                    target.parent.mkdir(exist_ok=True)
                    path.rename(target)
                case _:
                    path.chmod(0o755)
            oids.append(repository.commit(f"agent {branch} step {step}", {}))
    return base, oids


@pytest.mark.parametrize("seed", range(4))
def test_any_order_and_any_decisions_give_the_tree_of_cherry_pick(
    repository: Repository, engine: Engine, seed: int
) -> None:
    dice = random.Random(seed)
    base, oids = random_history(repository, dice)
    for _ in range(3):
        order = dice.sample(oids, len(oids))
        reverted = {oid for oid in order if dice.random() < 0.3}
        line = laid(engine, base, order, **dict.fromkeys(reverted, Decision.REVERT))
        tree, became = cherry_picked(repository, base, [oid for oid in order if oid not in reverted])
        told = {one.item.oid: one.status.value for one in line.items if one.status is not Status.DROPPED}
        assert told == became
        assert line.tree == tree


def test_joint_items_share_a_commit_and_are_reverted_one_by_one(repository: Repository, engine: Engine) -> None:
    base = repository.commit("Start", {"a": "1\n"})
    tests = [repository.commit(f"Test {n}", {f"tests/test_{n}.py": f"{n}\n"}, f"Agent{n}") for n in range(3)]
    fix = repository.commit("Mend a", {"a": "2\n"})
    members = tuple(item(engine, oid) for oid in tests)
    whole = build_line(
        engine, base, engine.store.tree_of(base), [Squash(members, is_joint=True), item(engine, fix)], {}
    )
    assert len({one.commit for one in whole.items}) == 2
    assert engine.store.git.ask("rev-list", "--count", f"{base}..{whole.tip}").strip() == "2"
    message = engine.store.git.ask("log", "-1", "--format=%B", f"{whole.tip}~1")
    assert "- Test 0\n- Test 1\n- Test 2\n" in message
    assert "Co-authored-by: Agent2 <agent2@example.org>" in message
    decided = {tests[1]: Decision.REVERT}
    without = build_line(
        engine, base, engine.store.tree_of(base), [Squash(members, is_joint=True), item(engine, fix)], decided
    )
    names = engine.store.git.ask("ls-tree", "-r", "--name-only", without.tip).split()
    assert names == ["a", "tests/test_0.py", "tests/test_2.py"]
    assert "Agent1" not in engine.store.git.ask("log", "--format=%B", f"{base}..{without.tip}")


def test_dropping_one_says_what_it_breaks_and_what_it_lets_in(repository: Repository, engine: Engine) -> None:
    base = repository.commit("Start", {"a": "1\n2\n3\n", "far": "x\n"})
    first = repository.commit("Add a function", {"a": "1\n2\n3\ndef f\n"})
    second = repository.commit("Use it", {"a": "1\n2\n3\ndef f\nuse f\n"})
    far = repository.commit("Elsewhere", {"far": "y\n"})
    repository.git("checkout", "-q", "-f", "-b", "other", base)
    rival = repository.commit("Another function", {"a": "1\n2\n3\ndef g\n"})
    order = [item(engine, oid) for oid in (first, second, far, rival)]
    paths = read_changes(engine.store.git, [one.oid for one in order])
    found = find_dependents(engine, engine.store.tree_of(base), order, {}, paths)
    assert found.needed_by == {first: (second,)}
    # With the first gone the second is held, so the rival has nobody in its way.
    assert found.lets_in == {first: (rival,)}


@pytest.mark.parametrize("seed", range(4))
def test_dependents_are_what_laying_everything_again_gives(repository: Repository, engine: Engine, seed: int) -> None:
    base, oids = random_history(repository, random.Random(100 + seed))
    items = [item(engine, oid) for oid in oids]
    tree = engine.store.tree_of(base)
    found = find_dependents(engine, tree, items, {}, read_changes(engine.store.git, oids))
    before = {one.item.oid: one.status for one in build_line(engine, base, tree, items, {}).items}
    for oid in oids:
        if before[oid] is not Status.LAID:
            continue
        again = build_line(engine, base, tree, items, {oid: Decision.REVERT}).items
        broken = tuple(
            one.item.oid for one in again if one.status is Status.HELD and before[one.item.oid] is Status.LAID
        )
        freed = tuple(
            one.item.oid for one in again if one.status is Status.LAID and before[one.item.oid] is Status.HELD
        )
        assert found.needed_by.get(oid, ()) == broken
        assert found.lets_in.get(oid, ()) == freed
