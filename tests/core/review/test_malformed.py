"""One bad branch is one row: what git or a parser cannot read is left out, or told, and the others go on."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.review.desks import make_desk
from core.review.repositories import Repository
from core.review.test_guards import reviewed_and_published
from selftest_core.errors import UsageError
from selftest_core.git.command import Git
from selftest_core.git.object_store import ObjectStore
from selftest_core.review.apply_decisions import apply_decisions
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.collect_changes import Branch
from selftest_core.review.changes.plan import make_plan, resolve_branches
from selftest_core.review.decisions import Decisions
from selftest_core.review.engine import Engine
from selftest_core.run.fetch import bundles
from selftest_core.run.fetch.bundles import UnusableBundleError

if TYPE_CHECKING:
    from pathlib import Path

MALFORMED = {
    "an empty name": b"tree TREE\nparent PARENT\nauthor  <a@b> 1 +0000\ncommitter  <a@b> 1 +0000\n\nBad\n",
    "no tree": b"parent PARENT\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nBad\n",
    "a tree that is a blob": b"tree BLOB\nparent PARENT\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nBad\n",
    "a missing parent": b"tree TREE\nparent "
    + b"1" * 40
    + b"\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nBad\n",
    "NUL in the message": b"tree TREE\nparent PARENT\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nBa\0d\n",
    "two authors": b"tree TREE\nparent PARENT\nauthor A <a@b> 1 +0000\nauthor B <a@b> 1 +0000\n"
    b"committer A <a@b> 1 +0000\n\nBad\n",
    "several parents": b"tree TREE\nparent PARENT\nparent OTHER\nauthor A <a@b> 1 +0000\n"
    b"committer A <a@b> 1 +0000\n\nBad\n",
    "an unsorted tree": b"tree UNSORTED\nparent PARENT\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nBad\n",
    "a cut tree": b"tree CUT\nparent PARENT\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nBad\n",
    "a path into git": b"tree HOOKS\nparent PARENT\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nBad\n",
    "a missing blob": b"tree LOST\nparent PARENT\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nBad\n",
    "nothing": b"",
    "no date": b"tree TREE\nparent PARENT\nauthor A\ncommitter A\n\nBad\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_desk(tmp_path / "desk")


def plant(repository: Repository, kind: str, body: bytes) -> str:
    """Write an object as it is, whatever is wrong with it."""
    path = repository.folder.parent / "object"
    path.write_bytes(body)
    return repository.git("hash-object", "-w", "--literally", "-t", kind, str(path))


def with_branch(repository: Repository, oid: str) -> None:
    (repository.folder / ".git" / "refs" / "heads" / "bad").write_text(f"{oid}\n")


def malformed(repository: Repository, body: bytes) -> Branch:
    """A branch of one commit, with these names replaced by ids."""
    blob = plant(repository, "blob", b"text")
    entry = b"\0" + bytes.fromhex(blob)
    hooks = plant(repository, "tree", b"100644 post-checkout" + entry)
    for name, value in {
        b"TREE": repository.git("rev-parse", "ada^{tree}"), b"PARENT": repository.git("rev-parse", "main"),
        b"OTHER": repository.git("rev-parse", "bob"), b"BLOB": blob,
        b"UNSORTED": plant(repository, "tree", b"100644 z" + entry + b"100644 a" + entry),
        b"CUT": plant(repository, "tree", b"100644 a\0123"),
        b"LOST": plant(repository, "tree", b"100644 a\0" + b"2" * 20),
        b"HOOKS": plant(repository, "tree", b"40000 .git\0" + bytes.fromhex(hooks)),
    }.items():  # fmt: skip
        body = body.replace(name, value.encode())
    return Branch("bad", plant(repository, "commit", body))


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_commit_leaves_the_others_as_they_are(repository: Repository, body: bytes) -> None:
    bad = malformed(repository, body)
    git_dir = repository.folder / ".git"
    with Engine.open(repository.folder.parent / "engine.git", git_dir, os.environ) as engine:
        # As a run hands them on: by their ids, from the bundles of agents.
        targets = resolve_branches(Git(git_dir, os.environ), "main", ["ada", "bob"])
        plan = make_plan(engine.store, replace(targets, branches=(*targets.branches, bad)))
        reviewed = apply_decisions(engine, plan, Decisions(Decision.KEEP))
    laid = {one.item.oid for one in reviewed.line.items if one.status is Status.LAID}
    good = {change.oid for change in reviewed.order if set(change.agents) & {"ada", "bob"}}
    assert good
    assert good <= laid


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_commit_alone_is_reviewed_or_its_reason_is_told(repository: Repository, body: bytes) -> None:
    bad = malformed(repository, body)
    git_dir = repository.folder / ".git"
    with Engine.open(repository.folder.parent / "engine.git", git_dir, os.environ) as engine:
        targets = replace(resolve_branches(Git(git_dir, os.environ), "main", ["ada"]), branches=(bad,))
        try:
            apply_decisions(engine, make_plan(engine.store, targets), Decisions(Decision.KEEP))
        except UsageError as error:
            assert error.detail.startswith("bad: ")  # noqa: PT017 -- some of them can be reviewed


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_a_bundle_with_a_malformed_commit_is_taken_or_refused(repository: Repository, body: bytes) -> None:
    there = Repository(repository.folder.parent / "there")
    shutil.copytree(repository.folder, there.folder)
    known = set(there.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())
    bad = malformed(there, body)
    new = set(there.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()) - known
    packed = subprocess.run(
        ["git", "pack-objects", "--stdout", "-q"],
        cwd=there.folder, input="\n".join(new).encode(), capture_output=True, check=True, timeout=60,
    )  # fmt: skip
    main = repository.git("rev-parse", "main")
    bundle = repository.folder.parent / "agent.bundle"
    # Written by hand: git itself refuses to bundle most of them.
    bundle.write_bytes(f"# v2 git bundle\n-{main} main\n{bad.tip} HEAD\n\n".encode() + packed.stdout)
    folder = repository.folder.parent / "quarantine.git"
    with (
        ObjectStore.open(folder, repository.folder / ".git", os.environ) as quarantine,
        contextlib.suppress(UnusableBundleError),
    ):
        assert bundles._examine(quarantine.git, main, bundle).commits >= 1


DEEP = 3000


def test_folders_by_the_thousand_are_left_out(repository: Repository) -> None:
    blob = plant(repository, "blob", b"deep")
    tree = plant(repository, "tree", b"100644 file\0" + bytes.fromhex(blob))
    for _ in range(DEEP):
        tree = plant(repository, "tree", b"40000 d\0" + bytes.fromhex(tree))
    main = repository.git("rev-parse", "main")
    text = f"tree {tree}\nparent {main}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nDeep\n"
    with_branch(repository, plant(repository, "commit", text.encode()))
    reviewed, _ = reviewed_and_published(repository, branches=("ada", "bad"))
    assert {agent for one in reviewed.order for agent in one.agents} == {"ada"}
    assert "'d/d/d" in dict(reviewed.plan.left_out)["bad"]


def test_an_assertion_with_thousands_of_additions_is_told_and_nothing_ends(repository: Repository) -> None:
    test = f"def test_it():\n    assert 1{' + 1' * DEEP} == 1\n"
    repository.git("switch", "-q", "-c", "bad", "main")
    repository.commit("[FIX_TEST] Deep", {"tests/test_deep.py": test})
    repository.commit("[FIX_TEST] Deeper", {"tests/test_deep.py": test.replace("== 1", "== 2")})
    repository.git("switch", "-q", "main")
    reviewed, _ = reviewed_and_published(repository, branches=("ada", "bad"))
    assert {agent for one in reviewed.order for agent in one.agents} == {"ada", "bad"}
