"""What a sweep offers of reviews: what is long over, by exact names, and never what somebody may come back to."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import pytest

from core.review.desks import environ, make_desk, oid, opened
from selftest_core.cleanup.review_leftovers import OLD, ReviewLeftover, remove_review, review_leftovers
from selftest_core.cleanup.selection import Selection, select
from selftest_core.errors import RefusedError
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.repository import open_log
from selftest_core.tools.process import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from core.review.repositories import Repository

LATER = time.time() + 2 * OLD
"""Long after whatever these tests do, which may be an hour after this file was read."""


@pytest.fixture
def desk(tmp_path: Path) -> Repository:
    return make_desk(tmp_path / "desk")


def found(desk: Repository, now: float = LATER) -> tuple[ReviewLeftover, ...]:
    seen, problems = review_leftovers(environ(desk), desk.folder, now)
    assert problems == ()
    return seen


def own_refs(desk: Repository) -> list[str]:
    return desk.git("for-each-ref", "--format=%(refname)", "refs/selftest/").split()


def test_a_review_that_was_published_goes_with_its_refs_when_it_is_old(desk: Repository) -> None:
    with opened(desk) as session:
        session.decide([oid(desk, "bob")], Decision.KEEP)
        assert found(desk) == (), "somebody is in it"
        home, name = session.state.home, session.state.name
        session.publish("fixes")
    assert found(desk, time.time()) == (), "it is not old"
    (one,) = found(desk)
    assert (one.kind, one.review, one.path) == ("review", name, home)
    selected = select([name[:12]], environ(desk), desk.folder, is_here=True)
    assert review_leftovers(environ(desk), desk.folder, LATER, selected) == ((one,), ())
    nothing = Selection(frozenset({"review-00000000-00000000"}))
    assert review_leftovers(environ(desk), desk.folder, LATER, nothing) == ((), ())
    assert one.names == (str(home), *own_refs(desk))
    published = desk.git("rev-parse", "fixes")
    with opened(desk) as session:
        (problem,) = remove_review(one, environ(desk), LATER)
        assert "under review in another process" in problem
    assert remove_review(one, environ(desk), LATER) == ()
    assert not home.exists()
    assert own_refs(desk) == []
    assert desk.git("rev-parse", "fixes") == published, "what was published is the person's"
    assert found(desk) == ()


def test_a_repository_that_git_cannot_read_is_told_of(desk: Repository) -> None:
    (desk.folder / ".git" / "packed-refs").write_text("no refs at all\n")
    seen, (problem,) = review_leftovers(environ(desk), desk.folder, LATER)
    assert seen == ()
    assert problem.startswith(f"the reviews of {desk.folder} were not checked: ")
    assert "packed-refs" in problem


def test_what_was_decided_and_never_published_stays(desk: Repository) -> None:
    with opened(desk) as session:
        session.decide([oid(desk, "bob")], Decision.KEEP)
        session.publish("fixes")
        session.decide([oid(desk, "ada")], Decision.REVERT)
    assert found(desk) == ()
    with opened(desk) as session:
        session.publish("fixes")
    (one,) = found(desk)
    with opened(desk) as session:
        session.note(oid(desk, "ada"), "come back to this")
    (problem,) = remove_review(one, environ(desk), LATER)
    assert "in use again" in problem
    assert one.path.is_dir()


def test_refs_whose_folder_is_gone_everywhere_are_offered(desk: Repository, tmp_path: Path) -> None:
    with opened(desk) as session:
        home = session.state.home
    refs = own_refs(desk)
    assert refs
    # Another work tree of the repository has the folder: the refs are its review's.
    desk.git("worktree", "add", "-q", "--detach", str(tmp_path / "other"))
    kept = tmp_path / "other" / ".selftest" / "runs" / home.name
    kept.parent.mkdir(parents=True)
    home.rename(kept)
    assert found(desk) == ()
    kept.rename(tmp_path / "elsewhere")
    desk.git("update-ref", "refs/selftest/20260101-0000-abcd/x", "main")
    (one,) = found(desk, time.time())
    assert (one.kind, one.names) == ("refs", tuple(refs))
    desk.git("update-ref", refs[0], "main")
    assert remove_review(one, environ(desk), LATER), "one of them is not what was shown"
    assert own_refs(desk) == ["refs/selftest/20260101-0000-abcd/x", *refs]
    (one,) = found(desk)
    assert remove_review(one, environ(desk), LATER) == ()
    assert own_refs(desk) == ["refs/selftest/20260101-0000-abcd/x"], "what is of a run is for its own rules"


@pytest.fixture
def temporary() -> Iterator[str]:
    """A short folder of its own: a sweep offers what killed demos left there, and those of others are not ours."""
    with tempfile.TemporaryDirectory(prefix="st-", dir="/tmp") as folder:
        yield folder


def test_the_command_lists_first_and_removes_what_it_named(desk: Repository, temporary: str) -> None:
    with opened(desk) as session:
        home = session.state.home
    long_ago = time.time() - OLD - 60.0
    os.utime(home / "review.jsonl", (long_ago, long_ago))

    def sweep(*flags: str) -> dict[str, Any]:
        argv = (sys.executable, "-m", "selftest_tui", "sweep", "--json", *flags)
        env = {**environ(desk), "TMUX_TMPDIR": "/nonexistent/tmux", "TMPDIR": temporary}
        done = run(argv, timeout=400, cwd=desk.folder, env=env)
        (one,) = json.loads(done.stdout)["leftovers"]
        assert done.exit_status == (0 if one["removed"] else 1)
        return dict(one)

    one = sweep()
    assert (one["kind"], one["path"], one["removed"]) == ("review", str(home), False)
    assert home.is_dir()
    assert sweep("--yes")["removed"]
    assert not home.exists()


def test_a_log_that_is_removed_while_somebody_waits_for_it_is_not_written_into_nowhere(desk: Repository) -> None:
    home = desk.folder / ".selftest" / "runs" / "review-00000000-00000000"
    with open_log(home) as journal:
        (home / "review.jsonl").rename(home / "moved.jsonl")
        with pytest.raises(RefusedError, match="removed just now"):
            journal._require_its_place()
