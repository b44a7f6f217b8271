"""`verify` on the command line: the reasons are whole, and what cannot work is said."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from core.verify.desks import PYTEST, make_shop
from worlds import BIN

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from worlds import World

# Not part of `make quick`: each test starts several processes of pytest.
pytestmark = pytest.mark.real


def verify(world: World, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Verify the branch ada of a shop."""
    repository = make_shop(folder / "shop")
    argv = [str(BIN / "selftest-tui"), "verify", "--base", "main", "ada", *arguments]
    return world.run(argv, cwd=repository.folder, check=False)


def test_the_reason_of_an_unknown_result_is_whole(world: World, tmp_path: Path) -> None:
    done = verify(world, tmp_path, "--set", f"pytest_command={' '.join(PYTEST)} --no-such-flag")
    assert done.returncode == 1
    heading, change, *reason = done.stdout.splitlines()
    assert heading.split() == ["claimed", "verified", "change"]
    assert "? unknown" in change
    assert len(reason) > 1
    assert "unrecognized arguments: --no-such-flag" in " ".join(line.strip() for line in reason)
    assert all(len(line) <= 80 for line in reason)


def test_the_end_of_a_long_reason_is_shown(world: World, tmp_path: Path) -> None:
    done = verify(world, tmp_path, "--set", "setup_command=seq 1000 1200; echo error: no such package; exit 3")
    _heading, _change, *reason = done.stdout.splitlines()
    assert "the set-up of its environment failed" in reason[0]
    assert "error: no such package" in " ".join(line.strip() for line in reason[-2:])
    assert len(reason) <= 6


def test_the_environment_is_named_and_our_own_python_loudly(world: World, tmp_path: Path) -> None:
    done = verify(world, tmp_path, "--set", f"pytest_command={' '.join(PYTEST)}")
    assert f"by {PYTEST[0]} (Python 3." in done.stderr
    assert "ATTENTION" not in done.stderr
    world.extra["PATH"] = str(tmp_path / "bin")
    (tmp_path / "bin").mkdir()
    for name in ("git", "bwrap", "prlimit", "nice", "python3"):
        if (found := shutil.which(name)) is not None:
            (tmp_path / "bin" / name).symlink_to(found)
    done = verify(world, tmp_path / "again")
    assert "ATTENTION: no environment of the project was found, so our own Python runs its tests" in done.stderr


def test_a_cache_folder_that_is_a_file_is_named(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    world.extra["XDG_CACHE_HOME"] = str(tmp_path / "file")
    done = verify(world, tmp_path, "--set", f"pytest_command={' '.join(PYTEST)}")
    assert done.returncode == 2
    assert "The cache folder cannot be written" in done.stderr
    assert str(tmp_path / "file") in done.stderr
    assert "XDG_CACHE_HOME" in done.stderr


def test_an_unknown_provider_is_refused_at_once_with_the_known_ones(world: World, tmp_path: Path) -> None:
    done = verify(world, tmp_path, "--on", "nowhere")
    assert done.returncode == 2
    assert "mngr knows no provider 'nowhere'" in done.stderr
    assert "Registered backends: local, ssh" in done.stderr
