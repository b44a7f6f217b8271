"""A local agent's files are copied without mngr, and no link in its folder is followed."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from selftest_core.errors import ToolFailedError
from selftest_core.run.fetch.copying import pull_local
from selftest_core.tools.mngr import Mngr, MngrProgram

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World


def no_mngr(world: World) -> Mngr:
    """A missing mngr: no test may call it."""
    return Mngr(MngrProgram(world.root / "no-mngr", "PATH"), world.environment, world.root)


def left_by(world: World) -> tuple[Path, str]:
    """Return the copy of an agent with a commit and an outcome, and the base commit."""
    work_dir = world.make_repository()
    base = world.run(["git", "rev-parse", "HEAD"]).stdout.strip()
    (work_dir / "README").write_text("fixed\n")
    world.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qam", "[FIX_IMPL] Fix"])
    out = work_dir / ".selftest" / "out"
    out.mkdir(parents=True)
    (out / "outcome.json").write_text("{}")
    (out / "passwords").symlink_to("/etc/passwd")
    return work_dir, base


async def test_its_files_and_its_commits_come_and_its_links_do_not(world: World, tmp_path: Path) -> None:
    work_dir, base = left_by(world)
    await pull_local(no_mngr(world), work_dir, tmp_path, bundle_base=base)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["branch.bundle", "outcome.json"]
    heads = subprocess.run(
        ["git", "bundle", "list-heads", tmp_path / "branch.bundle"], capture_output=True, text=True, check=True
    )
    assert world.run(["git", "rev-parse", "HEAD"]).stdout.strip() in heads.stdout


async def test_hooks_of_the_agents_copy_are_not_run(world: World, tmp_path: Path) -> None:
    work_dir, base = left_by(world)
    trap = world.script("trap", f"#!/bin/sh\ntouch {world.root}/trapped\n")
    world.run(["git", "config", "core.fsmonitor", str(trap)])
    world.run(["git", "config", "core.hooksPath", str(trap.parent)])
    await pull_local(no_mngr(world), work_dir, tmp_path, bundle_base=base)
    assert (tmp_path / "branch.bundle").is_file()
    assert not (world.root / "trapped").exists()


@pytest.mark.parametrize("part", [".selftest", ".selftest/out"])
async def test_a_folder_that_is_a_link_is_refused(world: World, tmp_path: Path, part: str) -> None:
    work_dir, _ = left_by(world)
    real = work_dir / part
    real.rename(world.root / "elsewhere")
    real.symlink_to(world.root / "elsewhere")
    with pytest.raises(ValueError, match="no plain folder"):
        await pull_local(no_mngr(world), work_dir, tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_what_is_not_there_is_a_failure_in_words(world: World, tmp_path: Path) -> None:
    with pytest.raises(ToolFailedError, match="could not be copied"):
        await pull_local(no_mngr(world), world.root / "nobody", tmp_path)


async def test_a_branch_that_cannot_be_packed_is_said_beside_the_files(world: World, tmp_path: Path) -> None:
    work_dir, _ = left_by(world)
    await pull_local(no_mngr(world), work_dir, tmp_path, bundle_base="0" * 40)
    assert (tmp_path / "outcome.json").is_file()
    assert (tmp_path / "bundle-failed.txt").read_text().strip()
