"""What git would do for an agent's or a stranger's sake is provoked, guard by guard, and does not happen."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from core.review.desks import make_desk
from core.review.repositories import Repository
from selftest_core.errors import RefusedError, ToolFailedError, UsageError
from selftest_core.git.command import Git, find_place
from selftest_core.review.apply_decisions import Reviewed, apply_decisions, publish_review
from selftest_core.review.candidate_branch import Decision, Line, Status
from selftest_core.review.changes.kinds import Kind
from selftest_core.review.changes.plan import make_plan, resolve_branches, resolve_range
from selftest_core.review.decisions import Decisions
from selftest_core.review.engine import Engine
from selftest_core.review.publishing import keep_candidate, own_ref

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

KEEP = Decisions(Decision.KEEP)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_desk(tmp_path / "a repository")


def reviewed_and_published(
    repository: Repository, environ: Mapping[str, str] = os.environ, branches: tuple[str, ...] = ("ada", "bob")
) -> tuple[Reviewed, Line]:
    """A whole review of some branches on main, published as `fixes`."""
    source = find_place(repository.folder, {**os.environ, "HOME": str(repository.folder.parent)}).git_dir
    user = Git(source, environ)
    with Engine.open(repository.folder.parent / "engine.git", source, environ) as engine:
        plan = make_plan(engine.store, resolve_branches(user, "main", branches))
        reviewed = apply_decisions(engine, plan, KEEP)
        keep_candidate(engine, user, plan.name, reviewed.line)
        _, line = publish_review(engine, user, reviewed, "fixes", repository.folder.parent, environ)
    assert repository.git("rev-parse", "fixes") == line.tip
    return reviewed, line


def test_nothing_of_the_callers_git_environment_counts(repository: Repository, tmp_path: Path) -> None:
    plain = reviewed_and_published(repository)[1]
    repository.git("branch", "-D", "fixes")
    environ = {
        **os.environ,
        "GIT_DIR": "/nonexistent", "GIT_WORK_TREE": "/nonexistent", "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "objects"), "GIT_NAMESPACE": "elsewhere",
        "GIT_TRACE": str(tmp_path / "trace"), "GIT_EXTERNAL_DIFF": "false", "GIT_CEILING_DIRECTORIES": "/",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.bare", "GIT_CONFIG_VALUE_0": "nonsense",
        "GIT_CONFIG_PARAMETERS": "'core.bare=nonsense'", "GIT_AUTHOR_DATE": "nonsense",
    }  # fmt: skip
    assert reviewed_and_published(repository, environ)[1] == plain
    assert not {"index", "objects", "trace"} & {path.name for path in tmp_path.iterdir()}


def test_no_setting_of_the_repository_runs_signs_or_renames_anything(repository: Repository, tmp_path: Path) -> None:
    plain = reviewed_and_published(repository)[1]
    repository.git("branch", "-D", "fixes")
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{ran}'\ncat\n")
    program.chmod(0o755)
    for key in (
        "gpg.program",
        "gpg.ssh.program",
        "core.editor",
        "core.pager",
        "core.sshCommand",
        "diff.external",
        "core.alternateRefsCommand",
        "uploadpack.packObjectsHook",
        "core.fsmonitor",
        "credential.helper",
        "sequence.editor",
        "interactive.diffFilter",
        "merge.x.driver",
        "diff.x.textconv",
        "filter.x.process",
    ):
        repository.git("config", key, str(program))
    for key, value in (
        ("commit.gpgSign", "true"),
        ("tag.gpgSign", "true"),
        ("log.showSignature", "true"),
        ("merge.renames", "false"),
        ("diff.renames", "copies"),
        ("merge.conflictStyle", "zdiff3"),
        ("core.autocrlf", "true"),
        ("core.quotePath", "true"),
        ("diff.noprefix", "true"),
        ("core.precomposeUnicode", "true"),
        ("diff.algorithm", "patience"),
        ("core.abbrev", "5"),
        ("i18n.logOutputEncoding", "latin1"),
        ("rebase.autoStash", "true"),
        ("diff.context", "0"),
    ):
        repository.git("config", key, value)  # fmt: skip
    (repository.folder / ".git" / "info").mkdir(exist_ok=True)
    (repository.folder / ".git" / "info" / "attributes").write_text("* merge=x diff=x filter=x\n")
    ran.unlink(missing_ok=True)
    assert reviewed_and_published(repository)[1] == plain
    assert not ran.exists()


def test_a_person_without_a_name_can_publish(repository: Repository) -> None:
    repository.git("config", "user.useConfigOnly", "true")
    reviewed_and_published(repository)


def test_a_replaced_commit_is_reviewed_as_it_is(repository: Repository) -> None:
    before = reviewed_and_published(repository)[1]
    repository.git("branch", "-D", "fixes")
    repository.git("replace", repository.git("rev-parse", "bob"), repository.git("rev-parse", "eve"))
    assert reviewed_and_published(repository)[1] == before


def test_a_branch_that_looks_like_an_option_is_a_branch(repository: Repository, tmp_path: Path) -> None:
    target = tmp_path / "written"
    name = f"--output={target}"
    repository.git("update-ref", f"refs/heads/{name}", repository.git("rev-parse", "bob"))
    reviewed, _ = reviewed_and_published(repository, branches=(f"refs/heads/{name}", "ada"))
    assert {agent for change in reviewed.order for agent in change.agents} == {f"refs/heads/{name}", "ada"}
    with pytest.raises(UsageError, match="is not a commit of this repository"):
        resolve_branches(Git(repository.folder / ".git", os.environ), "main", [name, "--all"])
    assert not target.exists()


def test_file_names_of_any_bytes_are_laid_and_published(repository: Repository) -> None:
    names = ["--help", "a\nb", 'say "hi"', "tab\there", "ümlaut", "\udcff\udcfe", " ", "-z", "semi;colon", "$(touch x)"]
    repository.git("checkout", "-q", "-f", "-b", "odd", "main")
    repository.commit("[FIX_IMPL] Odd names", {f"src/{name}": f"{name!r}\n" for name in names})
    repository.git("checkout", "-q", "-f", "main")
    reviewed, line = reviewed_and_published(repository, branches=("odd", "ada"))
    assert all(placed.status is Status.LAID for placed in reviewed.line.items)
    there = repository.git("ls-tree", "-r", "-z", "--name-only", line.tip).split("\0")
    assert {f"src/{name}" for name in names} < set(there)
    repository.git("fsck", "--strict", "--no-dangling")


def test_a_repository_that_borrows_objects_itself_and_a_linked_work_tree(
    repository: Repository, tmp_path: Path
) -> None:
    plain = reviewed_and_published(repository)[1]
    clone = Repository(tmp_path / "clone")
    repository.git("clone", "-q", "--shared", str(repository.folder), str(clone.folder))
    for name in ("ada", "bob"):
        clone.git("branch", "-q", name, f"origin/{name}")
    assert reviewed_and_published(clone)[1] == plain
    repository.git("branch", "-D", "fixes")
    linked = Repository(tmp_path / "linked")
    repository.git("worktree", "add", "-q", "--detach", str(linked.folder), "main")
    assert reviewed_and_published(linked)[1] == plain


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to somebody else")
def test_a_repository_of_another_owner_is_read(repository: Repository) -> None:
    plain = reviewed_and_published(repository)[1]
    repository.git("branch", "-D", "fixes")
    for folder, _, files in os.walk(repository.folder):
        for name in (folder, *(os.path.join(folder, file) for file in files)):  # noqa: PTH118 -- os.walk's own
            os.chown(name, 12345, 12345, follow_symlinks=False)
    user = Git(repository.folder / ".git", os.environ)
    with Engine.open(repository.folder.parent / "other.git", user.git_dir, os.environ) as engine:
        plan = make_plan(engine.store, resolve_branches(user, "main", ["ada", "bob"]))
        assert apply_decisions(engine, plan, KEEP).line.tip == plain.tip


def test_objects_are_kept_when_their_branches_go(repository: Repository) -> None:
    reviewed, line = reviewed_and_published(repository)
    repository.git("branch", "-D", "fixes", "ada", "bob", "eve")
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "-q", "--prune=now")
    candidate = own_ref(reviewed.plan.name, "candidate")
    assert repository.git("rev-parse", f"{candidate}^{{tree}}") == line.tree
    repository.git("fsck", "--strict", "--no-dangling")


def test_a_lock_that_a_crash_left_on_a_ref_of_ours_goes_and_a_fresh_one_is_obeyed(repository: Repository) -> None:
    reviewed, _ = reviewed_and_published(repository)
    user = Git(repository.folder / ".git", os.environ)
    candidate = own_ref(reviewed.plan.name, "candidate")
    user.ask("update-ref", "-d", candidate)
    lock = user.git_dir / f"{candidate}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    os.utime(lock, (1 << 32, 1 << 32))  # fresh however long this takes
    with Engine.open(repository.folder.parent / "engine.git", user.git_dir, os.environ) as engine:
        with pytest.raises(RefusedError, match="could not update") as raised:
            keep_candidate(engine, user, reviewed.plan.name, reviewed.line)
        assert ".lock" in str(raised.value)
        assert candidate not in user.refs()
        os.utime(lock, (1, 1))
        assert keep_candidate(engine, user, reviewed.plan.name, reviewed.line) == candidate
    assert user.refs()[candidate] == reviewed.line.tip
    assert not lock.exists()


def test_a_lock_on_a_branch_of_the_person_is_theirs(repository: Repository) -> None:
    lock = repository.folder / ".git" / "refs" / "heads" / "fixes.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    with pytest.raises(RefusedError, match="could not update"):
        reviewed_and_published(repository)
    assert lock.exists()
    assert repository.git("for-each-ref", "refs/heads/fixes", "refs/selftest/*/published/") == ""


def test_a_history_that_was_cut_is_told(repository: Repository, tmp_path: Path) -> None:
    shallow = Repository(tmp_path / "shallow")
    repository.git("clone", "-q", "--depth=1", "--no-single-branch", f"file://{repository.folder}", str(shallow.folder))
    user = Git(shallow.folder / ".git", os.environ)
    with Engine.open(tmp_path / "shallow-engine.git", user.git_dir, os.environ) as engine:
        with pytest.raises(UsageError, match="nothing to review") as raised:
            make_plan(engine.store, resolve_branches(user, "origin/main", ["origin/ada"]))
        assert "is incomplete (a shallow clone)" in raised.value.detail
        with pytest.raises(UsageError, match="does not build on"):
            resolve_range(user, "origin/main", "origin/ada")


def test_contents_that_a_partial_clone_left_away_are_told(repository: Repository, tmp_path: Path) -> None:
    repository.git("config", "uploadpack.allowFilter", "true")
    partial = Repository(tmp_path / "partial")
    repository.git("clone", "-q", "--filter=blob:none", f"file://{repository.folder}", str(partial.folder))
    user = Git(partial.folder / ".git", os.environ)
    with Engine.open(tmp_path / "partial-engine.git", user.git_dir, os.environ) as engine:
        with pytest.raises(UsageError, match="nothing to review") as raised:
            make_plan(engine.store, resolve_branches(user, "origin/main", ["origin/ada"]))
        assert "partial clone" in raised.value.detail
        # Where everything is there, a partial clone is as good as any.
        partial.git("checkout", "-q", "ada")
        partial.git("checkout", "-q", "ada~1")
        plan = make_plan(engine.store, resolve_branches(user, "origin/main", ["ada"]))
        assert apply_decisions(engine, plan, KEEP).line.tree == partial.git("rev-parse", "ada^{tree}")


def test_folders_that_a_partial_clone_left_away_are_told(repository: Repository, tmp_path: Path) -> None:
    repository.git("config", "uploadpack.allowFilter", "true")
    partial = Repository(tmp_path / "treeless")
    url = f"file://{repository.folder}"
    repository.git("clone", "-q", "--filter=tree:0", "--no-checkout", url, str(partial.folder))
    user = Git(partial.folder / ".git", os.environ)
    with Engine.open(tmp_path / "treeless-engine.git", user.git_dir, os.environ) as engine:
        with pytest.raises(UsageError) as raised:
            make_plan(engine.store, resolve_branches(user, "origin/main", ["origin/ada"]))
        assert "origin/ada: its commits cannot be read" in raised.value.detail
        tree = user.ask("log", "-1", "--format=%T", "origin/main").strip()
        with pytest.raises(RefusedError, match="partial clone without some of the folders"):
            engine.start(tree, [], stored=False)


def test_another_object_format_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "sha256"
    made = subprocess.run(["git", "init", "-q", "--object-format=sha256", str(folder)], check=False, timeout=60)
    assert made.returncode == 0
    with pytest.raises(RefusedError, match="another object format") as raised:
        Engine.open(tmp_path / "engine.git", folder / ".git", os.environ)
    assert raised.value.exit_status == 4
    with pytest.raises(RefusedError, match="has sha256 objects: only repositories with SHA-1 can be reviewed"):
        find_place(folder, os.environ)


def test_an_object_that_is_not_there_is_an_error_and_the_next_merge_works(repository: Repository) -> None:
    source = repository.folder / ".git"
    main, ada, bob = repository.git("rev-parse", "main^{tree}", "ada^{tree}", "bob^{tree}").split()
    with Engine.open(repository.folder.parent / "engine.git", source, os.environ) as engine:
        # git itself would take a missing tree for an empty one, and say that all files were deleted.
        for trees in ((main, ada, "f" * 40), (main, "e" * 40, ada), ("d" * 40, ada, bob)):
            with pytest.raises(ToolFailedError, match="A tree to merge is missing"):
                engine.merger.merge(*trees)
        with pytest.raises(KeyError):
            engine.store.read("f" * 40)
        assert engine.merger.merge(main, ada, bob).is_clean
        with pytest.raises(ValueError, match="full object id"):
            engine.store.read("--help")


def test_an_engine_that_was_half_deleted_is_made_anew(repository: Repository) -> None:
    before = reviewed_and_published(repository)[1]
    repository.git("branch", "-D", "fixes")
    shutil.rmtree(repository.folder.parent / "engine.git" / "objects")
    assert reviewed_and_published(repository)[1] == before


def test_a_submodule_is_laid_as_a_pointer_and_two_pointers_are_a_conflict(repository: Repository) -> None:
    def pointing(branch: str, at: str) -> None:
        repository.git("checkout", "-q", "-f", "-B", branch, "main")
        repository.git("update-index", "--add", "--cacheinfo", f"160000,{at * 40},vendored")
        repository.git("commit", "-q", "-m", f"[FIX_IMPL] {branch}")

    pointing("one", "a")
    pointing("two", "b")
    repository.git("checkout", "-q", "-f", "main")
    source = repository.folder / ".git"
    with Engine.open(repository.folder.parent / "engine.git", source, os.environ) as engine:
        plan = make_plan(engine.store, resolve_branches(Git(source, os.environ), "main", ["one", "two"]))
        statuses = [placed.status for placed in apply_decisions(engine, plan, KEEP).line.items]
    assert statuses == [Status.LAID, Status.HELD]


@pytest.mark.parametrize("path", ["conftest.py", ".pytest.ini", "pytest.py", "x.dist-info/entry_points.txt", "odd.pth"])
def test_no_rule_keeps_what_changes_how_tests_are_run(repository: Repository, path: str) -> None:
    repository.git("switch", "-q", "-c", "mal", "main")
    repository.commit("[FIX_IMPL] Help", {path: "x = 1\n"})
    repository.git("switch", "-q", "main")
    git_dir = repository.folder / ".git"
    with Engine.open(repository.folder.parent / "engine.git", git_dir, os.environ) as engine:
        plan = make_plan(engine.store, resolve_branches(Git(git_dir, os.environ), "main", ["mal"]))
        reviewed = apply_decisions(engine, plan, Decisions(kinds=dict.fromkeys(Kind, Decision.KEEP)))
    (mal,) = reviewed.order
    assert reviewed.decided[mal.oid] is Decision.UNDECIDED
    assert {one.path for one in mal.weakenings} == {path}


def test_no_rule_keeps_a_product_that_could_know_that_it_is_tested(repository: Repository) -> None:
    repository.git("switch", "-q", "-c", "mal", "main")
    code = "import os\n\n\ndef add(a, b):\n    return a + b if 'PYTEST_CURRENT_TEST' in os.environ else a - b\n"
    repository.commit("[FIX_IMPL] Mend add", {"calc.py": code})
    repository.git("switch", "-q", "main")
    git_dir = repository.folder / ".git"
    with Engine.open(repository.folder.parent / "engine.git", git_dir, os.environ) as engine:
        plan = make_plan(engine.store, resolve_branches(Git(git_dir, os.environ), "main", ["mal"]))
        reviewed = apply_decisions(engine, plan, Decisions(kinds=dict.fromkeys(Kind, Decision.KEEP)))
    (mal,) = reviewed.order
    assert reviewed.decided[mal.oid] is Decision.UNDECIDED
    assert mal.cautions == ("calc.py:5: knows that it is tested: the text 'PYTEST'",)
