"""A machine on which something basic is wrong: each command says what, and what mends it."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from core.run.shop import commit
from worlds import BIN, a_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worlds import World

PROGRAM = BIN / "selftest-tui"


@pytest.fixture(scope="module")
def without_tmux() -> Iterator[World]:
    """One agent, and a PATH that has everything but tmux."""
    with a_world(SELFTEST_TUI_REMOTE="false") as world:
        world.create("one", "sleep", "1000")
        programs = world.root / "b"
        programs.mkdir()
        for name in ("git", "rsync", "sh", "ps", "env"):
            found = shutil.which(name)
            assert found is not None
            (programs / name).symlink_to(found)
        path = world.environment["PATH"]
        world.extra["PATH"] = str(programs)
        yield world
        world.extra["PATH"] = path


@pytest.fixture
def read_only_home(world: World) -> Iterator[World]:
    """A world whose HOME cannot be written, not even by root."""
    home = world.root / "read-only"
    home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "none", str(home)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("a file system can be mounted by root alone")
    world.make_repository()
    world.extra.update({"HOME": str(home), "MNGR_HOST_DIR": str(home / ".mngr"), "SELFTEST_TUI_REMOTE": "false"})
    world.extra.update(dict.fromkeys(("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), ""))
    try:
        yield world
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)


def test_without_tmux_recording_says_so(without_tmux: World) -> None:
    done = without_tmux.run([PROGRAM, "record", "x"], check=False)
    assert done.returncode == 2
    assert "tmux is not installed" in done.stderr
    assert "Install tmux" in done.stderr


def test_without_tmux_the_list_says_why_nothing_is_known(without_tmux: World) -> None:
    done = without_tmux.run([PROGRAM, "list"], check=False)
    assert done.stdout.splitlines()[0] == "1 agent: 1 unknown, as tmux is not installed"
    assert "! tmux is not installed" in done.stderr
    assert "Install tmux" in done.stderr
    assert "does not answer" not in done.stderr


def test_a_home_that_cannot_be_written_is_named_by_list_and_doctor(read_only_home: World) -> None:
    done = read_only_home.run([PROGRAM, "list"], check=False)
    assert "Read-only file system" in done.stderr
    assert "^^^" not in done.stderr
    told = read_only_home.run([PROGRAM, "doctor", "--json"], check=False)
    assert told.returncode == 1
    agents = next(check for check in json.loads(told.stdout)["checks"] if check["name"] == "agents")
    assert agents["status"] == "failed"
    assert "MNGR_HOST_DIR" in agents["hint"]


@pytest.mark.parametrize("words", [("review", "--batch", "main..fix"), ("verify", "main..fix")])
def test_a_file_in_the_place_of_our_folder_is_named(world: World, words: tuple[str, ...]) -> None:
    folder = world.make_repository()
    world.run(["git", "checkout", "-q", "-b", "fix"])
    (folder / "test_it.py").write_text("def test_it(): pass\n")
    commit(world, "A test")
    world.run(["git", "checkout", "-q", "main"])
    (folder / ".selftest").touch()
    done = world.run([PROGRAM, *words], check=False)
    assert done.returncode == 2
    assert f"{folder / '.selftest'} cannot be used" in done.stderr
    assert "inside selftest-tui" not in done.stderr
