"""Slots hold exactly a tree, whatever tests did to them, and cost little to move to a neighbour."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from core.review.repositories import Repository
from selftest_core.errors import ToolError
from selftest_core.git.object_store import ObjectStore
from selftest_core.verify.folders.hostile import remove_tree
from selftest_core.verify.ownership import python_files
from selftest_core.verify.slots import Slot

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository.make(tmp_path / "r")


@pytest.fixture
def slot(tmp_path: Path, repository: Repository) -> Iterator[Slot]:
    with ObjectStore.open(tmp_path / "engine.git", repository.folder / ".git", os.environ) as store:
        yield Slot(tmp_path / "slot", store.git)


def tree(repository: Repository, name: str = "HEAD") -> str:
    return repository.git("rev-parse", f"{name}^{{tree}}")


def files(slot: Slot) -> dict[str, bytes]:
    return {
        str(path.relative_to(slot.tree_folder)): path.read_bytes()
        for path in slot.tree_folder.rglob("*")
        if path.is_file()
    }


def test_it_moves_between_trees_and_leaves_nothing(repository: Repository, slot: Slot) -> None:
    repository.commit("One", {"a.py": "1\n", "folder/b.py": "1\n", ".gitignore": "*.pyc\n"})
    one = tree(repository)
    repository.commit("Two", {"a.py": "2\n", "folder/b.py": None, "folder2/c.py": "c\n"})
    slot.lay(one)
    assert files(slot) == {"a.py": b"1\n", "folder/b.py": b"1\n", ".gitignore": b"*.pyc\n"}
    slot.lay(tree(repository))
    assert files(slot) == {"a.py": b"2\n", "folder2/c.py": b"c\n", ".gitignore": b"*.pyc\n"}
    slot.lay(one)
    assert files(slot) == {"a.py": b"1\n", "folder/b.py": b"1\n", ".gitignore": b"*.pyc\n"}
    assert not (slot.tree_folder / ".git").exists()


def test_what_tests_leave_is_cleaned(repository: Repository, slot: Slot) -> None:
    repository.commit("One", {"a.py": "1\n", "folder/b.py": "1\n", ".gitignore": "*.pyc\n"})
    slot.lay(tree(repository))
    before = files(slot)
    (slot.tree_folder / "ignored.pyc").write_text("stale")
    (slot.tree_folder / "deep" / "er").mkdir(parents=True)
    (slot.tree_folder / "deep" / "er" / "junk").write_text("x")
    (slot.tree_folder / "nested").mkdir()
    Repository(slot.tree_folder / "nested").git("init", "-q")
    (slot.tree_folder / "a.py").unlink()
    shutil.rmtree(slot.tree_folder / "folder")
    (slot.tree_folder / "folder").symlink_to("/etc")
    slot.lay(tree(repository))
    assert files(slot) == before


def test_an_edit_of_the_same_size_and_time_is_undone(repository: Repository, slot: Slot) -> None:
    repository.commit("One", {"a.py": "1\n"})
    slot.lay(tree(repository))
    path = slot.tree_folder / "a.py"
    times = path.stat()
    path.write_text("2\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    slot.lay(tree(repository))
    assert path.read_text() == "1\n"


def test_a_folder_that_nobody_may_write_to_is_laid_anew(repository: Repository, slot: Slot) -> None:
    repository.commit("One", {"folder/a.py": "1\n"})
    one = tree(repository)
    repository.commit("Two", {"folder/a.py": "2\n"})
    slot.lay(one)
    (slot.tree_folder / "folder").chmod(0o500)
    slot.lay(tree(repository))
    assert files(slot) == {"folder/a.py": b"2\n"}


def test_a_slot_of_a_killed_process_is_laid_anew(repository: Repository, slot: Slot) -> None:
    repository.commit("One", {"a.py": "1\n"})
    slot.lay(tree(repository))
    (slot.folder / "index.lock").write_text("")
    (slot.tree_folder / "half").write_text("x")
    again = Slot(slot.folder, slot.git)
    again.lay(tree(repository))
    assert files(again) == {"a.py": b"1\n"}


def test_filters_and_hooks_of_the_tree_do_not_run(repository: Repository, slot: Slot, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    repository.commit("One", {".gitattributes": "*.txt filter=evil\n", "a.txt": "x\n", "hooks/post-checkout": "x"})
    repository.git("config", "filter.evil.smudge", f"touch {mark}")
    slot.lay(tree(repository))
    assert files(slot)["a.txt"] == b"x\n"
    assert not mark.exists()


def test_a_tree_that_is_not_there_is_an_error(repository: Repository, slot: Slot) -> None:
    repository.commit("One", {"a.py": "1\n"})
    with pytest.raises(ToolError):
        slot.lay("1" * 40)
    slot.lay(tree(repository))
    assert files(slot) == {"a.py": b"1\n"}


def test_what_is_read_of_a_tree_is_read_where_nothing_ran(repository: Repository, slot: Slot) -> None:
    repository.commit("One", {".gitattributes": "*.bin filter=lfs\n", "a.bin": "x", "test_a.py": ""})
    slot.lay(tree(repository))
    for name in (".gitattributes", ".gitmodules", "conftest.py"):
        (slot.tree_folder / name).unlink(missing_ok=True)
        os.mkfifo(slot.tree_folder / name)
    assert slot.absent() == {"a.bin": "a file of Git LFS"}
    assert python_files(slot.untouched) == ["test_a.py"]
    assert slot.untracked(9) == [".gitmodules", "conftest.py"]


def test_a_link_of_a_tree_is_not_read(repository: Repository, slot: Slot, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("filter=lfs\n")
    for name in (".gitattributes", "test_a.py"):
        (repository.folder / name).symlink_to(tmp_path / "outside.py")
    repository.commit("Links", {"a.py": ""})
    slot.lay(tree(repository))
    assert slot.absent() == {}
    assert python_files(slot.untouched) == ["a.py"]


def test_a_tree_is_removed_without_following_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("x")
    (tmp_path / "made" / "deep").mkdir(parents=True)
    (tmp_path / "made" / "link").symlink_to(outside)
    (tmp_path / "made" / "deep" / "link").symlink_to(outside)
    (tmp_path / "made" / "deep").chmod(0)
    remove_tree(tmp_path / "made")
    assert not (tmp_path / "made").exists()
    assert (outside / "mine").read_text() == "x"
    remove_tree(tmp_path / "made")


def test_no_filter_of_a_repository_that_a_set_up_makes_is_run(
    repository: Repository, slot: Slot, tmp_path: Path
) -> None:
    """A submodule's folder in which the set-up makes a repository: git would look into it, and run its filter."""
    repository.commit("One", {"a.py": "1\n"})
    inner = repository.git("rev-parse", "HEAD")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{inner},sub")
    repository.git("commit", "-qm", "A submodule that nobody named")
    slot.lay(tree(repository))
    (slot.tree_folder / "sub").rmdir()
    planted = Repository.make(slot.tree_folder / "sub")
    planted.commit("In it", {".gitattributes": "* filter=x\n", "file": "text\n"})
    planted.git("config", "filter.x.clean", f"touch {tmp_path}/reached; cat")
    # Of the same size, and of another time: git has to compare the content.
    (planted.folder / "file").write_text("tent\n")
    os.utime(planted.folder / "file", (1, 1))
    assert planted.git("status", "--porcelain").strip()
    assert (tmp_path / "reached").exists()  # so git does, where it looks into it
    (tmp_path / "reached").unlink()
    (slot.tree_folder / "made").mkdir()
    (slot.tree_folder / "made" / "deep").mkdir()
    assert slot.untracked(9) == ["made"]
    slot.keep_made(["made"], ("", ""))
    slot.lay(tree(repository))
    assert not (tmp_path / "reached").exists()
