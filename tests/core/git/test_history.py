"""The history of a branch, read back from the user's repository."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from selftest_core.errors import ToolFailedError
from selftest_core.git.diffs import read_diff
from selftest_core.git.history import read_commit_diff, read_history
from selftest_core.git.object_store import ObjectStore

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.make(tmp_path / "r")


def test_the_commits_of_a_branch_are_read_oldest_first_with_everybody_credited(repository: Repository) -> None:
    base = repository.commit("Start", {"a": "1\n"})
    first = repository.commit("Mend a\n\nCo-authored-by: Grace <g@example.org>", {"a": "2\n"}, "Ada")
    second = repository.commit("Mend b", {"b": "2\n"}, "Bob")
    found = read_history(repository.folder / ".git", base, second, os.environ)
    assert [(one.oid, one.subject, one.authors) for one in found] == [
        (first, "Mend a", ("Ada", "Grace")),
        (second, "Mend b", ("Bob",)),
    ]
    stamps = repository.git("log", "--reverse", "--format=%at", f"{base}..{second}").split()
    assert [str(int(one.authored.timestamp())) for one in found] == stamps
    assert read_history(repository.folder / ".git", base, base, os.environ) == ()


def test_the_callers_git_environment_does_not_lead_elsewhere(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = repository.commit("Start", {"a": "1\n"})
    tip = repository.commit("Mend a", {"a": "2\n"})
    other = Repository.make(tmp_path / "other")
    other.commit("Another", {"z": "1\n"})
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.folder / ".git" / "objects"))
    assert [one.oid for one in read_history(repository.folder / ".git", base, tip, os.environ)] == [tip]


def test_what_cannot_be_read_is_an_error_and_names_never_reach_git(repository: Repository) -> None:
    base = repository.commit("Start", {"a": "1\n"})
    git_dir = repository.folder / ".git"
    with pytest.raises(ToolFailedError, match="cannot be read"):
        read_history(git_dir, base, "f" * 40, os.environ)
    with pytest.raises(ToolFailedError, match="cannot be read"):
        read_history(git_dir, "f" * 40, base, os.environ)
    with pytest.raises(ValueError, match="full object ids"):
        read_history(git_dir, base, "--output=x", os.environ)


def test_gitpython_is_not_imported_before_a_history_is_read() -> None:
    code = "import selftest_core.git.history, selftest_core.review.batch, sys; sys.exit('git' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_the_diff_of_a_commit_is_as_our_own_reader_has_it(repository: Repository, tmp_path: Path) -> None:
    repository.commit("Start", {"a b": "1\n2\n3\n", "gone": "x\n"})
    (repository.folder / "gone").unlink()
    (repository.folder / "picture").write_bytes(b"\x00\x01\x02")
    tip = repository.commit("Mend a", {"a b": "1\ntwo\n3\n", "new": "\x1b[31mred\n"})

    found = read_commit_diff(repository.folder / ".git", tip, os.environ)

    with ObjectStore.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as store:
        assert found == read_diff(store, tip)
    assert {one.path: one.status.value for one in found} == {
        "a b": "modified", "gone": "deleted", "new": "added", "picture": "added",
    }  # fmt: skip
    with pytest.raises(ToolFailedError):
        read_commit_diff(repository.folder / ".git", "1" * 40, os.environ)
