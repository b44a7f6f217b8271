"""Whatever is decided, moved, taken back and done again, the line is what cherry-pick makes, and nothing else changes.

Each history has few enough commits that git's cherry-pick can be asked about every step once, so that thousands of
lines are compared with it. `make fuzz` does the same for as long as one likes.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from core.review.random_histories import CherryPicks, RandomHistory, make_history
from core.review.repositories import Repository
from selftest_core.review.candidate_branch import Decision, Entry, Item, Line, Squash, Status, build_line, store_line
from selftest_core.review.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.slow

WALKS = 10
STEPS = 250


def items_of(engine: Engine, oids: list[str]) -> dict[str, Item]:
    made = {}
    for oid in oids:
        commit = engine.store.commit(oid)
        made[oid] = Item(oid, engine.store.tree_of(commit.parents[0]), commit.tree, commit.author, commit.message)
    return made


class Walk:
    """A person's way through one review: an order, decisions, and all that can be taken back."""

    def __init__(self, oids: list[str], dice: random.Random) -> None:
        self.dice = dice
        self.past: list[tuple[tuple[str, ...], Mapping[str, Decision]]] = []
        self.future: list[tuple[tuple[str, ...], Mapping[str, Decision]]] = []
        self.now: tuple[tuple[str, ...], Mapping[str, Decision]] = (tuple(oids), {})

    def step(self) -> None:
        order, decisions = self.now
        match self.dice.randrange(8):
            case 0 | 1 | 2:
                oid = self.dice.choice(order)
                self._act((order, {**decisions, oid: self.dice.choice(list(Decision))}))
            case 3:
                some = self.dice.sample(order, self.dice.randint(1, len(order)))
                self._act((order, {**decisions, **dict.fromkeys(some, self.dice.choice(list(Decision)))}))
            case 4 | 5:
                oid = self.dice.choice(order)
                rest = [one for one in order if one != oid]
                place = self.dice.randint(0, len(rest))
                self._act(((*rest[:place], oid, *rest[place:]), decisions))
            case 6 if self.past:
                for _ in range(self.dice.randint(1, min(3, len(self.past)))):
                    self.future.append(self.now)
                    self.now = self.past.pop()
            case 7 if self.future:
                self.past.append(self.now)
                self.now = self.future.pop()

    def _act(self, state: tuple[tuple[str, ...], Mapping[str, Decision]]) -> None:
        self.past.append(self.now)
        self.future.clear()
        self.now = state


def check(
    history: RandomHistory, picks: CherryPicks, engine: Engine, items: Mapping[str, Item], walk: Walk, members: int
) -> Line:
    """Lay what the walk has come to, the first `members` as one commit, and hold it against cherry-pick."""
    order, decisions = walk.now
    rest = [items[oid] for oid in order[members:]]
    entries: list[Entry] = [*rest]
    if members:
        entries.insert(0, Squash(tuple(items[oid] for oid in order[:members]), is_joint=True))
    line = build_line(engine, history.base, picks.commits_tree(history.base), entries, decisions, stored=False)
    became, tree = picks.lay([oid for oid in order if decisions.get(oid) is not Decision.REVERT])
    told = {one.item.oid: one.status.value for one in line.items if one.status is not Status.DROPPED}
    assert (told, line.tree) == (became, tree), (order, decisions)
    return line


@pytest.mark.parametrize("seed", range(WALKS))
def test_any_way_through_a_review_gives_what_cherry_pick_gives(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    history = make_history(tmp_path / "r", dice, agents=2, steps=2)
    before = history.fingerprint()
    picks = CherryPicks(history, tmp_path / "picked")
    source = history.repository.folder / ".git"
    walk = Walk(history.oids, dice)
    with Engine.open(tmp_path / "engine.git", source, os.environ) as engine:
        items = items_of(engine, history.oids)
        lines = [check(history, picks, engine, items, walk, 0)]
        for step in range(STEPS):
            walk.step()
            members = dice.randint(0, len(items)) if step % 4 == 0 else 0
            line = check(history, picks, engine, items, walk, members)
            if members == 0:
                lines.append(line)
        tree = picks.commits_tree(history.base)
        store_line(engine, lines[-1], tree)
        engine.store.git.ask("fsck", "--strict", "--no-dangling", lines[-1].tip)
        assert engine.store.tree_of(lines[-1].tip) == lines[-1].tree
    # Another engine, that remembers nothing and merges whole trees, comes to the same commits.
    with Engine.open(tmp_path / "plain.git", source, os.environ, is_plain=True) as plain:
        decisions = {one.item.oid: Decision.REVERT for one in lines[-1].items if one.status is Status.DROPPED}
        again = build_line(plain, history.base, tree, [one.item for one in lines[-1].items], decisions)
        assert again == lines[-1]
    assert history.fingerprint() == before


LONG = "".join(f"line {n}\n" for n in range(14))
TEXTS = {"src/deep/a.txt": "a " + LONG, "src/deep/b.txt": "b " + LONG, "top.txt": LONG, "docs/one.md": "# One\n"}
GONE = dict.fromkeys(("src/deep/a.txt", "src/deep/b.txt"))
MOVED = {"lib/a.txt": TEXTS["src/deep/a.txt"], "lib/b.txt": TEXTS["src/deep/b.txt"], **GONE}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(MOVED, {"src/deep/new.txt": "new\n"}, id="folder moved, file added to it"),
        pytest.param(MOVED, {"src/deep/more/new.txt": "new\n"}, id="folder moved, file added below it"),
        pytest.param(GONE, {"src/deep/new.txt": "new\n"}, id="folder gone, file added to it"),
        pytest.param(MOVED, {"src/deep/a.txt": "a " + LONG + "more\n"}, id="file moved, and edited"),
        pytest.param({"top.txt": None, "moved.txt": LONG}, {"top.txt": "first\n" + LONG}, id="renamed, and edited"),
        pytest.param({"top.txt": None}, {"top.txt": "first\n" + LONG}, id="file deleted, and edited"),
        pytest.param({"top.txt": None}, {"top.txt": None, "docs/one.md": "# Two\n"}, id="file deleted twice"),
        pytest.param(
            {"top.txt": None, "x.txt": LONG}, {"top.txt": None, "y.txt": LONG + "end\n"}, id="file renamed two ways"
        ),
        pytest.param({"new.txt": "one\n"}, {"new.txt": "two\n"}, id="two files of one name"),
        pytest.param({"new.txt": "one\n"}, {"new.txt": "one\n", "docs/one.md": "# 2\n"}, id="the same file twice"),
        pytest.param({**GONE, "src/deep": "a file\n"}, {"src/deep/new.txt": "new\n"}, id="folder became a file"),
        pytest.param({"fresh": "a file\n"}, {"fresh/inside.txt": "new\n"}, id="file and folder of one name"),
        pytest.param({"top.txt": None, "docs/one.txt": LONG}, {"docs/one.txt": "x\n"}, id="file renamed onto another"),
    ],
)
def test_what_paths_alone_cannot_tell_is_given_to_git(
    tmp_path: Path, one: dict[str, str | None], other: dict[str, str | None]
) -> None:
    repository = Repository.make(tmp_path / "r")
    base = repository.commit("Start", TEXTS)
    branches = {}
    for name, files in (("one", one), ("other", other)):
        repository.git("checkout", "-q", "-f", "-b", name, base)
        for path in [path for path, content in files.items() if content is None]:
            (repository.folder / path).unlink()
        folder = repository.folder / "src" / "deep"
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
        branches[name] = [repository.commit(name, {path: text for path, text in files.items() if text is not None})]
    history = RandomHistory(repository, base, branches)
    picks = CherryPicks(history, tmp_path / "picked")
    with Engine.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as engine:
        items = items_of(engine, history.oids)
        for order in (history.oids, history.oids[::-1]):
            line = build_line(engine, base, picks.commits_tree(base), [items[oid] for oid in order], {})
            told = {placed.item.oid: placed.status.value for placed in line.items}
            assert (told, line.tree) == picks.lay(order)


@pytest.mark.parametrize("seed", range(12))
def test_longer_lines_are_what_whole_merges_give(tmp_path: Path, seed: int) -> None:
    dice = random.Random(1000 + seed)
    history = make_history(tmp_path / "r", dice, agents=4, steps=4)
    source = history.repository.folder / ".git"
    with (
        Engine.open(tmp_path / "engine.git", source, os.environ) as engine,
        Engine.open(tmp_path / "plain.git", source, os.environ, is_plain=True) as plain,
    ):
        items, tree = items_of(engine, history.oids), engine.store.tree_of(history.base)
        walk = Walk(history.oids, dice)
        for _ in range(8):
            walk.step()
            order, decisions = walk.now
            laid = [items[oid] for oid in order]
            line = build_line(engine, history.base, tree, laid, decisions, stored=False)
            assert line == build_line(plain, history.base, tree, laid, decisions)
