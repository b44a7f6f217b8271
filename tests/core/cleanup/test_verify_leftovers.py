"""What a sweep offers of verifications: what a killed one left, and old package caches; never what one uses."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from selftest_core.cleanup.selection import Selection
from selftest_core.cleanup.verify_leftovers import OLD, remove_verify, verify_leftovers
from selftest_core.verify.review_verifier import lock_slots
from standins import mngr_that

if TYPE_CHECKING:
    from pathlib import Path

    from worlds import World

REVIEW = "review-0123abcd-4567cdef"


def test_folders_of_a_killed_verification_are_offered_and_those_in_use_are_not(tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    killed = tmp_path / "selftest-tui" / "verify" / f"{REVIEW}-77"
    used = killed.with_name(f"{REVIEW}-78")
    for folder in (killed, used):
        (folder / "0" / "tree").mkdir(parents=True)
    (killed / "0" / "tree").chmod(0o500)
    with lock_slots(used, REVIEW):
        (one,) = verify_leftovers(environ, time.time())
        assert (one.kind, one.path, one.names) == ("slots", killed, (str(killed),))
        assert REVIEW in one.says
        assert verify_leftovers(environ, time.time(), Selection(None, is_here=True)) == ()
        assert remove_verify(one, environ) == ()
        assert not killed.exists()
        assert verify_leftovers(environ, time.time()) == ()
    (again,) = verify_leftovers(environ, time.time())
    with lock_slots(used, REVIEW):
        assert "verified by another process" in remove_verify(again, environ)[0]
    assert used.is_dir()


def test_package_caches_go_when_no_set_up_used_them_for_long(tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    packages = tmp_path / "selftest-tui" / "verify-packages" / "0123456789abcdef"
    (packages / "uv").mkdir(parents=True)
    assert verify_leftovers(environ, time.time() + OLD / 2) == ()
    (one,) = verify_leftovers(environ, time.time() + OLD + 60)
    assert (one.kind, one.names) == ("packages", (str(packages),))
    assert remove_verify(one, environ) == ()
    assert not packages.exists()


def test_agents_of_a_killed_verification_elsewhere_are_named_and_removed(world: World) -> None:
    asked = world.root / "asked"
    mngr_that(world, f'echo "$@" >> {asked}; echo "{{}}"')
    environ = {**world.environment, "XDG_CACHE_HOME": str(world.root / "cache")}
    killed = world.root / "cache" / "selftest-tui" / "verify" / f"{REVIEW}-77"
    killed.mkdir(parents=True)
    (killed / "agents").write_text("agent-00aa\nagent-00bb\n")
    (one,) = verify_leftovers(environ, time.time())
    assert one.names == (str(killed), "agent-00aa", "agent-00bb")
    assert "2 of its agents" in one.says
    assert remove_verify(one, environ) == ()
    assert "destroy -f agent-00aa agent-00bb" in asked.read_text()
    assert not killed.exists()
