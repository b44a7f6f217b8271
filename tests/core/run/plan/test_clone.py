"""The private clone holds the base and nothing else, and the person's repository is as it was."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from core.run.fingerprints import fingerprint
from selftest_core.errors import RefusedError, UsageError
from selftest_core.git.command import find_place
from selftest_core.run.plan.clone import BRANCH, CloneError, make_clone
from selftest_core.run.plan.source import identity, left_out, look_at, parse_status

if TYPE_CHECKING:
    from pathlib import Path


class Person:
    """A person with a home, a repository with two commits, and settings that must not run."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.repository = Repository.make(folder / 'it is "mine": all')
        self.first = self.repository.commit(
            "one", {"a.txt": "one\n", "run.sh": "#!/bin/sh\n", "d/\u00fc b.txt": "x" * 5000}
        )
        self.base = self.repository.commit("two", {"a.txt": "two\n"})
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}

    @property
    def folder(self) -> Path:
        return self.repository.folder

    def fingerprint(self) -> dict[str, str]:
        return fingerprint(find_place(self.folder, self.environ), self.environ)

    def clone(self, base: str | None = None, name: str = "run/clone") -> Repository:
        return Repository(make_clone(self.folder, base or self.base, self.home / name, self.environ))


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_the_clone_is_the_base_and_nothing_else_of_the_person(person: Person) -> None:
    mine = person.repository
    mine.git("tag", "v1")
    mine.git("branch", "secret-plans")
    mine.git("remote", "add", "origin", "https://example.org/shop")
    later = mine.commit("three", {"later.txt": "later\n"})
    clone = person.clone()
    assert clone.git("for-each-ref", "--format=%(refname) %(objectname)") == f"refs/heads/{BRANCH} {person.base}"
    assert clone.git("log", "--format=%s") == "two\none"
    assert clone.git("remote") == ""
    assert clone.git("cat-file", "-e", later, check=False) == ""
    assert "fatal" not in clone.git("fsck", "--strict")
    assert not list((clone.folder / ".git" / "hooks").glob("*"))
    assert (clone.folder / "a.txt").read_text() == "two\n"
    assert (clone.folder / "d" / "\u00fc b.txt").stat().st_size == 5000
    with pytest.raises(AssertionError):
        clone.git("cat-file", "-p", later)


def test_the_clone_lives_on_when_the_persons_repository_is_gone(person: Person) -> None:
    clone = person.clone(person.first)
    person.folder.rename(person.home / "moved")
    clone.git("fsck", "--full", "--strict")
    assert clone.git("show", "HEAD:a.txt") == "one"
    clone.git("push", "--quiet", Repository.make(person.home / "mirror").folder.as_uri(), f"{BRANCH}:other")


def test_agents_commit_as_the_person_and_never_what_is_ours(person: Person) -> None:
    clone = person.clone()
    assert clone.git("config", "user.name") == "selftest agent"
    (clone.folder / ".selftest" / "out").mkdir(parents=True)
    (clone.folder / ".selftest" / "out" / "outcome.json").write_text("{}")
    assert clone.git("status", "--porcelain") == ""
    person.repository.git("config", "user.name", "-Ann B.")
    person.repository.git("config", "user.email", "ann@example.org")
    place = find_place(person.folder, person.environ)
    assert identity(place, person.environ) == ("-Ann B.", "ann@example.org")
    assert identity(place, {**person.environ, "GIT_AUTHOR_NAME": "CI"})[0] == "CI"
    assert person.clone(name="again").git("config", "user.name") == "-Ann B."


def test_nothing_of_the_persons_is_changed_or_run(person: Person) -> None:
    mine = person.repository
    trap = person.home / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch '{person.home}/sprung'\ncat\n")
    trap.chmod(0o755)
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        path = person.folder / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(trap)
    mine.git("config", "uploadpack.packObjectsHook", str(trap))
    mine.git("config", "core.fsmonitor", str(trap))
    (person.home / ".gitconfig").write_text(
        f'[core]\n\thooksPath = {person.folder}/.git/hooks\n[filter "x"]\n\tsmudge = {trap}\n'
    )
    (person.folder / "a.txt").write_text("dirty\n")
    (person.folder / "new.txt").write_text("new\n")
    before = person.fingerprint()
    index = (person.folder / ".git" / "index").read_bytes()
    source = look_at(person.folder, "HEAD", person.environ)
    person.clone(source.base)
    assert person.fingerprint() == before
    assert (person.folder / ".git" / "index").read_bytes() == index
    assert not (person.home / "sprung").exists()
    assert (person.folder / "a.txt").read_text() == "dirty\n"
    mine.git("branch", "another", env={"GIT_CONFIG_GLOBAL": "/dev/null"})
    assert {name for name, value in person.fingerprint().items() if value != before[name]} == {"refs"}


def test_a_clone_that_stands_is_kept_and_half_a_clone_is_made_anew(person: Person) -> None:
    draft = person.home / "run" / "clone.draft"
    draft.mkdir(parents=True)
    (draft / "half").write_text("")
    clone = person.clone()
    (clone.folder / "mark").write_text("")
    assert (person.clone().folder / "mark").exists()
    assert not draft.exists()
    with pytest.raises(RefusedError):
        person.clone(person.first)


def test_objects_that_are_missing_leave_no_clone(person: Person) -> None:
    blob = person.repository.git("rev-parse", "HEAD:a.txt")
    (person.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(CloneError) as raised:
        person.clone()
    assert raised.value.detail
    assert not list((person.home / "run").iterdir())
    with pytest.raises(UsageError, match="missing here"):
        look_at(person.folder, "HEAD", person.environ)


def test_what_a_dirty_tree_leaves_out_is_listed_without_what_the_person_ignores(person: Person) -> None:
    (person.home / ".config" / "git").mkdir(parents=True)
    (person.home / ".config" / "git" / "ignore").write_text("*.swp\n")
    (person.folder / "a.txt").write_text("changed\n")
    (person.folder / "run.sh").unlink()
    (person.folder / "x.swp").write_text("")
    (person.folder / "new folder").mkdir()
    (person.folder / "new folder" / "\u00fc.txt").write_text("")
    (person.folder / "renamed\nto.txt").write_text("")
    (person.folder / ".selftest").mkdir()
    (person.folder / ".selftest" / "x").write_text("")
    person.repository.git("mv", "d/\u00fc b.txt", "moved.txt")
    assert set(left_out(find_place(person.folder, person.environ), person.environ)) == {
        "a.txt", "run.sh", "new folder/", "renamed\nto.txt", "moved.txt", "d/\u00fc b.txt",
    }  # fmt: skip


def test_every_kind_of_status_line_is_read() -> None:
    zeros = "0" * 40
    out = (
        f"1 .M N... 100644 100644 100644 {zeros} {zeros} a b\0"
        f"2 R. N... 100644 100644 100644 {zeros} {zeros} R100 to here\0from there\0"
        f"u UU N... 100644 100644 100644 100644 {zeros} {zeros} {zeros} both\0"
        "? .selftest/\0? new/\0! ignored\0"
    )
    assert parse_status(out) == ("a b", "to here", "both", "new/")


def test_a_source_tells_its_size_its_base_and_what_is_left_out(person: Person) -> None:
    source = look_at(person.folder / "d", "HEAD~1", person.environ)
    assert (source.base, source.head) == (person.first, person.base)
    assert source.size.files == 3
    assert source.size.checkout == 2 * 4096 + 8192
    assert source.size.history is not None
    assert source.left_out == ()
    assert any(person.base[:12] in warning for warning in source.warnings)
    assert look_at(person.folder, person.base, person.environ).warnings == ()


def test_a_linked_work_tree_has_a_head_of_its_own(person: Person) -> None:
    person.repository.git("worktree", "add", "-q", "-b", "side", str(person.home / "side"), person.first)
    assert look_at(person.home / "side", "HEAD", person.environ).base == person.first
    clone = make_clone(person.home / "side", person.first, person.home / "clone", person.environ)
    assert Repository(clone).git("log", "--format=%s") == "one"


def test_a_repository_without_a_commit_is_told_so(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    empty = Repository.make(tmp_path / "empty")
    with pytest.raises(UsageError, match="no commit yet") as raised:
        look_at(empty.folder, "HEAD", environ)
    assert "git commit" in raised.value.hint
    with pytest.raises(UsageError, match="'v1' is not a commit of this repository"):
        look_at(empty.folder, "v1", environ)
    empty.commit("one", {"a": "1"})
    empty.git("checkout", "-q", "--orphan", "fresh")
    with pytest.raises(UsageError, match="no commit yet") as raised:
        look_at(empty.folder, "HEAD", environ)
    assert "--base" in raised.value.hint
    with pytest.raises(UsageError, match="not in a git repository"):
        look_at(tmp_path, "HEAD", environ)


def test_a_base_that_looks_like_an_option_is_only_a_wrong_name(person: Person) -> None:
    with pytest.raises(UsageError, match="is not a commit of this repository"):
        look_at(person.folder, f"--output={person.home}/x", person.environ)
    assert not (person.home / "x").exists()


def test_a_shallow_clone_can_go_to_worktrees_only(person: Person) -> None:
    shallow = Repository(person.home / "shallow")
    person.repository.git("clone", "-q", "--depth=1", person.folder.as_uri(), str(shallow.folder))
    with pytest.raises(UsageError, match="shallow") as raised:
        look_at(shallow.folder, "HEAD", person.environ)
    assert "--unshallow" in raised.value.hint
    source = look_at(shallow.folder, "HEAD", person.environ, "worktree")
    assert any("shallow" in warning for warning in source.warnings)
    clone = make_clone(shallow.folder, source.base, person.home / "clone", person.environ)
    assert Repository(clone).git("log", "--format=%s") == "two"


def test_submodules_and_large_files_are_told(person: Person) -> None:
    mine = person.repository
    mine.git("update-index", "--add", "--cacheinfo", f"160000,{person.first},libs/sub")
    (person.folder / ".gitattributes").write_text("*.bin filter=lfs\n")
    mine.git("add", ".gitattributes")
    mine.git("commit", "-q", "-m", "three")
    source = look_at(person.folder, "HEAD", person.environ)
    assert [word for word in ("libs/sub", "LFS") if any(word in warning for warning in source.warnings)] == [
        "libs/sub",
        "LFS",
    ]
    assert make_clone(person.folder, source.base, person.home / "clone", person.environ).is_dir()


def test_a_bare_repository_can_be_a_source(person: Person) -> None:
    person.repository.git("clone", "-q", "--bare", str(person.folder), str(person.home / "bare.git"))
    source = look_at(person.home / "bare.git", "main", person.environ)
    assert (source.base, source.left_out) == (person.base, ())
    assert make_clone(person.home / "bare.git", source.base, person.home / "clone", person.environ).is_dir()
