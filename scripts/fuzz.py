"""Compare candidate branches of random histories, after random acts, with git's own results.

    make fuzz [ARGS="--seconds 300 --seed N --commits 6"]

Small histories are compared with `git cherry-pick` in a work tree, longer ones with merges of whole trees. When a
branch differs, the seed is printed; the same seed gives the same history and the same acts.

    make fuzz ARGS="--history /path/to/repository --topics 100"

takes the commits of the last topic branches that were merged into HEAD of a repository, picks them onto the commit
before the first of these merges, and compares the branch with cherry-pick. The repository is only read.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from core.review.random_histories import CherryPicks, RandomHistory, make_history  # noqa: E402 -- the tests' own, from where it is
from core.review.repositories import Repository  # noqa: E402
from core.review.test_candidate_branch_properties import Walk, check, items_of  # noqa: E402
from selftest_core.review.candidate_branch import build_line  # noqa: E402
from selftest_core.review.engine import Engine  # noqa: E402
from selftest_core.review.resolutions import is_changelog  # noqa: E402

_LISTS = ("CHANGES", "CHANGELOG", "HISTORY", "NEWS")


def main() -> int:
    """Fuzz until the time is over; returns 1 where a branch differs from git's."""
    arguments = _arguments()
    if arguments.history is not None:
        return _real(arguments.history, arguments.topics)
    until = time.monotonic() + arguments.seconds
    seed, lines, counts = arguments.seed, 0, Counter[str]()
    while time.monotonic() < until or lines == 0:
        dice = random.Random(seed)
        is_small = seed % 2 == 0
        try:
            lines += _small(dice, arguments.commits, counts) if is_small else _long(dice, counts)
        except AssertionError as error:
            print(f"seed {seed}: {error}", flush=True)
            return 1
        seed += 1
    words = ", ".join(f"{count:,} {word}" for word, count in sorted(counts.items()))
    seeds = f"seeds {arguments.seed} to {seed - 1}"
    print(f"{lines:,} branches of {seed - arguments.seed} histories ({seeds}) equal git's: {words}")
    return 0


def _small(dice: random.Random, commits: int, counts: Counter[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="fuzz ") as made:
        folder = Path(made)
        history = make_history(folder / "r", dice, agents=3, steps=max(1, commits // 3))
        before = history.fingerprint()
        picks = CherryPicks(history, folder / "picked")
        walk = Walk(history.oids, dice)
        with Engine.open(folder / "engine.git", history.repository.folder / ".git", os.environ) as engine:
            items = items_of(engine, history.oids)
            for _ in range(150):
                walk.step()
                members = dice.choice([0, 0, dice.randint(0, len(items))])
                line = check(history, picks, engine, items, walk, members)
                counts.update(placed.status.value for placed in line.items)
        assert history.fingerprint() == before, "the repository changed"
        counts["cherry-picks"] += len(picks.known)
    return 150


def _long(dice: random.Random, counts: Counter[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="fuzz ") as made:
        folder = Path(made)
        history = make_history(folder / "r", dice, agents=6, steps=5)
        source = history.repository.folder / ".git"
        with (
            Engine.open(folder / "engine.git", source, os.environ) as engine,
            Engine.open(folder / "plain.git", source, os.environ, is_plain=True) as plain,
        ):
            items, tree = items_of(engine, history.oids), engine.store.tree_of(history.base)
            walk = Walk(history.oids, dice)
            for _ in range(20):
                walk.step()
                order, decisions = walk.now
                laid = [items[oid] for oid in order]
                line = build_line(engine, history.base, tree, laid, decisions, stored=False)
                whole = build_line(plain, history.base, tree, laid, decisions)
                assert line == whole, (order, decisions)
                counts.update(placed.status.value for placed in line.items)
    return 20


def _real(source: Path, topics: int) -> int:
    """Rebase topic branches of a real history, with our engine and with git."""
    with tempfile.TemporaryDirectory(prefix="fuzz ") as made:
        repository = Repository(Path(made) / "r")
        Repository(Path(made)).git("clone", "-q", "--shared", "--no-checkout", str(source.resolve()), "r")
        merges = repository.git(
            "rev-list", "--first-parent", "--merges", "--parents", f"-{topics}", "HEAD"
        ).splitlines()
        oids: dict[str, None] = {}
        for merge in reversed(merges):
            _, first, second, *more = merge.split()
            commits = repository.git("rev-list", "--reverse", "--parents", second, f"^{first}").splitlines()
            if not more and all(len(commit.split()) == 2 for commit in commits):
                oids.update(dict.fromkeys(commit.split()[0] for commit in commits))
        base = merges[-1].split()[1]
        history = RandomHistory(repository, base, {"topics": list(oids)})
        picks = CherryPicks(history, Path(made) / "picked")
        # Our rule for changelogs, as attributes of git.
        ends = ("", ".md", ".rst", ".txt")
        attributes = "".join(f"{name}{end} merge=union\n" for name in _LISTS for end in ends)
        (picks.folder / ".git" / "info" / "attributes").write_text(attributes)
        with Engine.open(Path(made) / "engine.git", repository.folder / ".git", os.environ) as engine:
            items = items_of(engine, history.oids)
            began = time.perf_counter()
            line = build_line(engine, base, engine.store.tree_of(base), list(items.values()), {})
            took = time.perf_counter() - began
            files = engine.store.git.ask("ls-tree", "-r", "-z", line.tree).split("\0")
        began = time.perf_counter()
        became, tree = picks.lay(history.oids)
        beside = time.perf_counter() - began
        theirs = Repository(picks.folder).git("ls-tree", "-r", "-z", tree).split("\0")
    counts = Counter(placed.status.value for placed in line.items)
    # Both merge changelogs by union, and find the lines in conflict in different ways.
    other = [entry for entry in {*files} ^ {*theirs} if not is_changelog(entry.partition("\t")[2])]
    is_same = {one.item.oid: one.status.value for one in line.items} == became and not other
    words = ", ".join(f"{count} {word}" for word, count in sorted(counts.items()))
    print(f"{len(items)} commits of {len(merges)} merges on {base[:10]}: {words}")
    for entry in sorted(other):
        print(entry)
    for placed in line.items:
        if placed.status.value != became[placed.item.oid]:
            print(f"{placed.item.oid}: {placed.status.value} here, {became[placed.item.oid]} by git")
    print(f"ours {took:.2f} s, cherry-pick {beside:.2f} s: {'equal' if is_same else 'NOT EQUAL'}")
    return 0 if is_same else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to run")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="seed of the first history")
    parser.add_argument("--commits", type=int, default=6, help="most commits of a history for cherry-pick")
    parser.add_argument("--history", type=Path, help="a repository whose merged topic branches are rebased")
    parser.add_argument("--topics", type=int, default=100, help="how many of its last merges")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
