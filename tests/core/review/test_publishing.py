"""Publishing moves one branch or nothing, and nothing of the person's is ever touched beside it."""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from git import Repo

from core.review.repositories import Repository, tree_body
from selftest_core.errors import RefusedError, ToolFailedError, UsageError
from selftest_core.git.command import Git
from selftest_core.git.objects import Commit
from selftest_core.review.candidate_branch import Decision, Item, Line, build_line
from selftest_core.review.engine import Engine
from selftest_core.review.publishing import check_by_rebuilding, keep_candidate, publish, transfer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass
class Bench:
    """A person's repository with two fixes on branches, and an engine on it."""

    repository: Repository
    engine: Engine
    user: Git
    base: str
    items: list[Item]

    def line(self, **decisions: Decision) -> Line:
        return build_line(self.engine, self.base, self.engine.store.tree_of(self.base), self.items, decisions)

    def fingerprint(self) -> dict[str, str]:
        """Everything of the person's: HEAD, index, config, work tree, and every ref that is not ours."""
        top = self.repository.folder
        files = [top / ".git" / name for name in ("HEAD", "index", "config")]
        files += [path for path in top.rglob("*") if path.is_file() and ".git" not in path.parts]
        marks = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        refs = {name: oid for name, oid in self.user.refs().items() if not name.startswith("refs/selftest/")}
        return {**marks, **refs, "stash": self.repository.git("stash", "list")}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    repository = Repository.make(tmp_path / "r")
    base = repository.commit("Start", {"a": "1\n", "b": "1\n"})
    oids = []
    for name in ("a", "b"):
        repository.git("checkout", "-q", "-b", f"agent-{name}", base)
        oids.append(repository.commit(f"Mend {name}", {name: "2\n"}))
    repository.git("checkout", "-q", "main")
    (repository.folder / "a").write_text("the person is editing this\n")
    (repository.folder / "untracked").write_text("mine\n")
    with Engine.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as engine:
        items = []
        for oid in oids:
            commit = engine.store.commit(oid)
            items.append(Item(oid, engine.store.tree_of(base), commit.tree, commit.author, commit.message))
        yield Bench(repository, engine, Git(repository.folder / ".git", os.environ), base, items)


def test_a_line_becomes_a_branch_and_nothing_else_changes(bench: Bench) -> None:
    before = bench.fingerprint()
    line = bench.line()
    assert publish(bench.engine, bench.user, "r1", "fixes", line) == "refs/heads/fixes"
    assert bench.repository.git("rev-parse", "fixes") == line.tip
    assert bench.repository.git("log", "--format=%s", "main..fixes").splitlines() == ["Mend b", "Mend a"]
    bench.repository.git("fsck", "--strict", "--no-dangling")
    after = bench.fingerprint()
    assert after.pop("refs/heads/fixes") == line.tip
    assert after == before


def test_another_reader_of_git_finds_one_linear_branch_of_what_was_kept(bench: Bench) -> None:
    line = bench.line()
    publish(bench.engine, bench.user, "r1", "fixes", line)
    with Repo(bench.repository.folder) as repo:
        fixes = repo.heads["fixes"]
        assert fixes.commit.hexsha == line.tip
        commits = list(repo.iter_commits(f"{bench.base}..fixes"))
        assert [(len(one.parents), str(one.summary)) for one in commits] == [(1, "Mend b"), (1, "Mend a")]
        assert [one.author for one in commits] == [repo.commit(f"agent-{name}").author for name in "ba"]
        changed = [(diff.change_type, diff.b_path) for diff in repo.commit(bench.base).diff(fixes.commit)]
        assert changed == [("M", "a"), ("M", "b")]
        assert repo.is_dirty(), "the person's own edits are still there"
        assert repo.untracked_files == ["untracked"]
        assert repo.active_branch.name == "main"


def test_publishing_again_moves_it_only_while_nobody_else_did(bench: Bench) -> None:
    publish(bench.engine, bench.user, "r1", "fixes", bench.line())
    shorter = bench.line(**{bench.items[0].oid: Decision.REVERT})
    publish(bench.engine, bench.user, "r1", "fixes", shorter)
    assert bench.repository.git("rev-parse", "fixes") == shorter.tip
    bench.repository.git("branch", "-f", "fixes", bench.base)
    with pytest.raises(RefusedError, match="moved since it was published") as raised:
        publish(bench.engine, bench.user, "r1", "fixes", bench.line())
    assert raised.value.exit_status == 4
    assert bench.repository.git("rev-parse", "fixes") == bench.base


def test_a_branch_of_somebody_else_is_refused(bench: Bench) -> None:
    bench.repository.git("branch", "precious", bench.items[0].oid)
    with pytest.raises(RefusedError, match="not from this review"):
        publish(bench.engine, bench.user, "r1", "precious", bench.line())
    assert bench.repository.git("rev-parse", "precious") == bench.items[0].oid


@pytest.mark.parametrize("where", ["here", "worktree"])
def test_a_branch_that_is_checked_out_is_refused(bench: Bench, where: str, tmp_path: Path) -> None:
    publish(bench.engine, bench.user, "r1", "fixes", bench.line(**{bench.items[0].oid: Decision.REVERT}))
    if where == "here":
        bench.repository.git("checkout", "-q", "-f", "fixes")
    else:
        bench.repository.git("worktree", "add", "-q", str(tmp_path / "w"), "fixes")
    before = bench.fingerprint()
    with pytest.raises(RefusedError, match="checked out"):
        publish(bench.engine, bench.user, "r1", "fixes", bench.line())
    assert bench.fingerprint() == before


@pytest.mark.parametrize(
    "name",
    [
        "--force",
        "a..b",
        "a b",
        "",
        "x.lock",
        "refs/heads/../main",
        "a\nb",
        "HEAD",
        "FETCH_HEAD",
        "@",
        "-x",
        "refs/heads/-x",
        "refs/heads/HEAD",
        "refs/tags/x",
        "main.lock",
    ],
)
def test_a_name_that_no_branch_can_have_is_refused(bench: Bench, name: str) -> None:
    before = bench.user.refs()
    with pytest.raises(UsageError):
        publish(bench.engine, bench.user, "r1", name, bench.line())
    assert bench.user.refs() == before


def test_hooks_and_filters_of_the_person_never_run(bench: Bench, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    hooks = bench.repository.folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("reference-transaction", "post-checkout", "pre-push", "post-update", "post-rewrite"):
        (hooks / hook).write_text(f"#!/bin/sh\necho {hook} >> {ran}\n")
        (hooks / hook).chmod(0o755)
    for setting in ("merge.evil.driver", "diff.evil.textconv", "filter.evil.clean", "core.fsmonitor"):
        bench.repository.git("config", setting, f"sh -c 'echo {setting} >> {ran}' --")
    bench.repository.git("config", "commit.gpgSign", "true")
    ran.unlink(missing_ok=True)  # what git's own `config` call above may have started is not ours
    attributes = {"a": "3\n", ".gitattributes": "* merge=evil diff=evil filter=evil\n"}
    store = bench.engine.store
    tree = tree_body({n.encode(): store.write(b"blob", t.encode()) for n, t in attributes.items()})
    commit = Commit(store.write(b"tree", tree), (bench.base,), b"x <x@x> 1 +0000", b"x <x@x> 1 +0000", b"Evil\n")
    evil = Item(store.write_commit(commit), store.tree_of(bench.base), commit.tree, commit.author, commit.message)
    bench.items.append(evil)
    publish(bench.engine, bench.user, "r1", "fixes", bench.line())
    assert not ran.exists()


@pytest.mark.parametrize("name", [b".git", b"..", b".GIT", b"git~1", b"a/b"])
def test_paths_that_no_checkout_may_write_do_not_arrive(bench: Bench, name: bytes) -> None:
    blob = bench.engine.store.write(b"blob", b"evil\n")
    tree = bench.engine.store.write(b"tree", tree_body({name: blob}))
    commit = Commit(tree, (bench.base,), b"x <x@x> 1 +0000", b"x <x@x> 1 +0000", b"Evil\n")
    tip = bench.engine.store.write_commit(commit)
    with pytest.raises(ToolFailedError):
        transfer(bench.engine.store, bench.user, tip, bench.base)
    assert not bench.user.run("cat-file", "-e", tip).ok
    assert not list((bench.repository.folder / ".git" / "objects" / "pack").glob("tmp_*"))


def test_the_candidate_is_kept_where_gc_finds_it(bench: Bench) -> None:
    line = bench.line()
    ref = keep_candidate(bench.engine, bench.user, "r1", line)
    assert ref == "refs/selftest/r1/candidate"
    bench.repository.git("gc", "-q", "--prune=now")
    assert bench.repository.git("rev-parse", ref) == line.tip
    assert bench.repository.git("diff", "--name-only", "main", ref).split() == ["a", "b"]


def test_two_that_publish_at_once_leave_one_winner(bench: Bench, tmp_path: Path) -> None:
    lines = [bench.line(), bench.line(**{bench.items[0].oid: Decision.REVERT})]
    for line in lines:
        transfer(bench.engine.store, bench.user, line.tip, line.base)
    outcomes: list[str] = []
    source = bench.repository.folder / ".git"

    def go(number: int) -> None:
        # An engine is one thread's.
        with Engine.open(tmp_path / f"engine{number}.git", source, os.environ) as engine:
            try:
                publish(engine, bench.user, f"r{number}", "fixes", lines[number])
                outcomes.append(lines[number].tip)
            except RefusedError:
                outcomes.append("refused")

    threads = [threading.Thread(target=go, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes)[-1] == "refused"
    assert bench.repository.git("rev-parse", "fixes") in outcomes


def test_a_line_is_proved_by_laying_it_again(bench: Bench, tmp_path: Path) -> None:
    line = bench.line()
    source = bench.repository.folder / ".git"
    check_by_rebuilding(line, tmp_path, source, os.environ, bench.items, {})
    with pytest.raises(RefusedError, match="cannot be verified"):
        check_by_rebuilding(line, tmp_path, source, os.environ, bench.items[:1], {})
