"""Our own walks through folders where agents' code has run: nothing is followed or waited for."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from selftest_core.verify.folders.hostile import opened, read_file, remove_tree
from selftest_core.verify.folders.mirror import Mirror

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    (made / "folder" / "deep").mkdir(parents=True)
    (made / "a.py").write_text("1\n")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o755)
    (made / "folder" / "deep" / "b.py").write_text("b\n")
    (made / "link").symlink_to("folder/deep/b.py")
    (tmp_path / "target").mkdir()
    return made


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """Each path with its rights, and its content or where it leads."""
    found = {}
    for path in sorted(folder.rglob("*")):
        text = str(path.readlink()) if path.is_symlink() else "" if path.is_dir() else path.read_text()
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, text)
    return found


def settle(folder: Path) -> None:
    """Wait until a change of a file in this folder would have another time than those before."""
    latest = max(path.lstat().st_ctime_ns for path in folder.rglob("*"))
    probe = folder.parent / "probe"
    while True:
        probe.touch()
        if probe.stat().st_ctime_ns > latest + 25_000_000:
            return


def test_whatever_is_done_to_the_target_is_undone(source: Path, tmp_path: Path) -> None:
    target, outside = tmp_path / "target", tmp_path / "outside"
    outside.mkdir()
    (outside / "b.py").write_text("mine\n")
    mirror = Mirror(source, target)
    mirror.update()
    assert state(target) == state(source)
    (target / "a.py").unlink()
    os.mkfifo(target / "a.py")
    (target / "run.sh").unlink()
    (target / "run.sh").mkdir()
    (target / "folder" / "deep" / "b.py").unlink()
    (target / "folder" / "deep").rmdir()
    (target / "folder" / "deep").symlink_to(outside)
    (target / "more" / "and").mkdir(parents=True)
    (target / "more" / "link").symlink_to(outside)
    (target / "more").chmod(0)
    (target / "folder").chmod(0o500)
    mirror.update()
    assert state(target) == state(source)
    assert (outside / "b.py").read_text() == "mine\n"


def test_what_is_the_same_is_not_copied_again(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    mirror = Mirror(source, target)
    mirror.update()
    settle(tmp_path)
    mirror.update()
    before = {path: path.lstat().st_ctime_ns for path in target.rglob("*.*")}
    settle(tmp_path)
    mirror.update()
    (source / "a.py").write_text("2\n")
    mirror.update()
    after = {path: path.lstat().st_ctime_ns for path in target.rglob("*.*")}
    assert [path.name for path in before if before[path] != after[path]] == ["a.py"]
    assert (target / "a.py").read_text() == "2\n"


@pytest.mark.parametrize("is_at_once", [True, False])
def test_an_edit_is_seen_whatever_is_done_to_hide_it(source: Path, tmp_path: Path, *, is_at_once: bool) -> None:
    target = tmp_path / "target"
    mirror = Mirror(source, target)
    mirror.update()
    if not is_at_once:
        settle(tmp_path)
    before = (target / "a.py").stat()
    (tmp_path / "second").hardlink_to(target / "a.py")
    (tmp_path / "second").write_text("2\n")
    os.utime(tmp_path / "second", ns=(before.st_atime_ns, before.st_mtime_ns))
    mirror.update()
    assert (target / "a.py").read_text() == "1\n"
    assert (target / "a.py").stat().st_nlink == 1


def test_surplus_is_listed_up_to_a_limit(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    mirror = Mirror(source, target)
    mirror.update()
    (target / "made").mkdir()
    (target / "made" / "inside").touch()
    (target / "folder" / "__pycache__").mkdir()
    for number in range(50):
        (target / "folder" / f"{number:02}").touch()
    assert mirror.surplus(100) == [*(f"folder/{number:02}" for number in range(50)), "made"]
    assert len(mirror.surplus(9)) == 9


def test_no_depth_number_or_right_stops_a_removal(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    at = os.open(top, os.O_RDONLY)
    for _ in range(1100):  # deeper than a path can say, and than calls can nest
        os.mkdir("a-folder", dir_fd=at)
        inner = os.open("a-folder", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    for number in range(2500):
        (top / str(number)).touch()
    os.mkfifo(top / "pipe")
    top.chmod(0)
    began = time.process_time()
    remove_tree(top)
    assert not top.exists()
    assert time.process_time() - began < 5


def test_pipes_links_and_large_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to("secret")
    (tmp_path / "around").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with opened(tmp_path) as at:
        assert read_file("secret", at, 6) == b"secret"
        for name, largest in (("secret", 5), ("link", 99), ("pipe", 99)):
            with pytest.raises((OSError, ValueError)):
                read_file(name, at, largest)
    with pytest.raises(OSError, match="Not a directory"), opened(tmp_path, "around"):
        pass
