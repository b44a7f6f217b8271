"""What counts as a demo's folder, and what is never touched."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selftest_core.cleanup.demo_folders import (
    MARKER,
    PREFIX,
    Claim,
    demo_folders,
    end_world,
    leftovers,
    processes_of,
    sweep,
    sweep_dead_demos,
)
from selftest_core.demo.private_world import PrivateWorld
from selftest_core.errors import ToolMissingError
from selftest_core.tools.process import run, spawn
from worlds import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worlds import World


@pytest.fixture
def environ(world: World) -> dict[str, str]:
    """The environment of a person who has never seen a demo, with temporary and state folders of their own."""
    temporary = world.root / "d"
    temporary.mkdir()
    return {**world.environment, "TMPDIR": str(temporary)}


@pytest.fixture
def claim(environ: dict[str, str]) -> Iterator[Claim]:
    """A demo folder whose demo lives."""
    claimed = Claim(environ)
    yield claimed
    claimed.release()


def test_a_demo_that_runs_is_found_and_left_alone(environ: dict[str, str], claim: Claim) -> None:
    (folder,) = demo_folders(environ)

    assert folder.path == claim.path
    assert folder.is_live
    assert folder.pid == os.getpid()
    assert leftovers(environ) == ()
    assert sweep_dead_demos(environ) == ()
    assert claim.path.is_dir()


def test_a_demo_whose_process_is_gone_is_swept(environ: dict[str, str], claim: Claim) -> None:
    claim.release()

    (found,) = leftovers(environ)
    assert str(claim.path) in found.says
    assert not found.is_kept
    (swept,) = sweep_dead_demos(environ)

    assert swept.ok
    assert not claim.path.exists()
    assert demo_folders(environ) == ()


def test_a_demo_that_came_back_to_life_is_not_swept(environ: dict[str, str], claim: Claim) -> None:
    claim.release()
    found = leftovers(environ)
    import fcntl

    with (claim.path / MARKER).open("r+") as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        (swept,) = sweep(found, environ)

    assert not swept.ok
    assert "changed meanwhile: kept" in swept.problems[0]
    assert claim.path.is_dir()


def test_a_kept_demo_outlives_the_next_one_until_it_is_swept(environ: dict[str, str], claim: Claim) -> None:
    claim.keep()
    claim.release()

    assert sweep_dead_demos(environ) == ()
    (kept,) = leftovers(environ)
    assert kept.is_kept
    assert all(one.ok for one in sweep([kept], environ))
    assert not claim.path.exists()


def test_a_demo_of_another_temporary_folder_is_remembered(environ: dict[str, str], claim: Claim) -> None:
    claim.release()

    found = leftovers({**environ, "TMPDIR": "/nowhere"})

    assert [one.folder.path for one in found if str(one.folder.path).startswith(environ["TMPDIR"])] == [claim.path]


def test_what_only_looks_like_a_demo_is_never_touched(environ: dict[str, str], claim: Claim) -> None:
    claim.release()
    temporary = Path(environ["TMPDIR"])
    notes = Path(environ["XDG_STATE_HOME"]) / "selftest-tui" / "demos"
    theirs = temporary.parent / "theirs"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("years of work")

    bare = temporary / f"{PREFIX}bare"
    bare.mkdir()
    copied = temporary / f"{PREFIX}copied"
    shutil.copytree(claim.path, copied)
    linked = temporary / f"{PREFIX}linked"
    linked.symlink_to(theirs)
    linked_marker = temporary / f"{PREFIX}marker"
    linked_marker.mkdir()
    (linked_marker / MARKER).symlink_to(claim.path / MARKER)
    broken = temporary / f"{PREFIX}broken"
    broken.mkdir()
    (broken / MARKER).write_text("{")
    elsewhere = temporary / f"{PREFIX}elsewhere"
    elsewhere.mkdir()
    (elsewhere / MARKER).write_text(json.dumps({"folder": str(theirs), "pid": 1, "kept": False}))
    misnamed = notes / f"{PREFIX}misnamed"
    misnamed.write_text(str(theirs))

    assert [one.folder.path for one in leftovers(environ)] == [claim.path]
    sweep_dead_demos(environ)

    assert not claim.path.exists()
    assert (theirs / "thesis.txt").read_text() == "years of work"
    for path in (bare, copied, linked, linked_marker, broken, elsewhere):
        assert path.exists(), path


def test_ending_a_world_ends_what_left_its_family_and_opens_closed_folders(environ: dict[str, str]) -> None:
    world = PrivateWorld(environ)
    stubborn = 'trap "" HUP TERM INT; echo ready > "$HOME/ready"; while :; do sleep 1; done'
    run(("tmux", "new-session", "-d", "-s", "shop"), timeout=300, cwd=world.root, env=world.tools_environ)
    spawn(("sh", "-c", stubborn), cwd=world.root, env=world.tools_environ)
    eventually((world.root / "h/ready").exists, "the stubborn process is up")
    closed = world.root / "closed"
    closed.mkdir()
    (closed / "file").touch()
    closed.chmod(0o500)
    assert world.socket.is_socket()
    assert len(processes_of(world.root)) >= 2

    assert world.end() == ()

    assert not world.root.exists()
    assert processes_of(world.root) == ()


def test_ending_a_world_spares_all_others(environ: dict[str, str]) -> None:
    one, other = PrivateWorld(environ), PrivateWorld(environ)
    program = spawn(("sleep", "1000"), cwd=other.root, env=other.tools_environ)
    try:
        eventually(lambda: processes_of(other.root), "its environment is there once it was executed")
        end_world(one.root)

        assert program.poll() is None
        assert other.root.is_dir()
    finally:
        program.end()
        one.end()
        other.end()


def test_a_private_world_hides_the_persons_settings(environ: dict[str, str]) -> None:
    person = {**environ, "MNGR_PREFIX": "mine-", "GIT_DIR": "/mine", "TMUX": "/mine,1,0", "TMUX_PANE": "%1"}
    world = PrivateWorld(person)
    try:
        assert not {"MNGR_PREFIX", "GIT_DIR"} & world.environ.keys()
        assert world.environ["TMUX"] == "/mine,1,0"  # the screen opens its windows there
        assert not {"TMUX", "TMUX_PANE"} & world.tools_environ.keys()
        for name in ("HOME", "MNGR_HOST_DIR", "TMUX_TMPDIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            assert world.environ[name].startswith(f"{world.root}/"), name
        assert len(os.fsencode(world.socket)) <= 100
    finally:
        world.end()


def test_a_missing_program_is_named_before_anything_is_made(environ: dict[str, str]) -> None:
    with pytest.raises(ToolMissingError, match="tmux"):
        PrivateWorld({**environ, "PATH": "/nowhere"})

    assert list(Path(environ["TMPDIR"]).iterdir()) == []


@pytest.mark.parametrize("name", ["with a blank", "long" * 30])
def test_a_temporary_folder_that_agents_cannot_live_in_is_not_used(world: World, name: str) -> None:
    unfit = world.root / name
    unfit.mkdir()
    claimed = Claim({**world.environment, "TMPDIR": str(unfit)})
    try:
        assert claimed.path.parent == Path("/tmp").resolve()
        assert list(unfit.iterdir()) == []
    finally:
        claimed.release()
        end_world(claimed.path)
