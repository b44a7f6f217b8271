"""A review among what goes on around it: branches and main that move, what is published, others who want the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from core.review.desks import ALL, environ, make_desk, oid, opened, settled, status
from selftest_core.errors import RefusedError
from selftest_core.review.batch import review
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.inputs import Request
from selftest_core.review.session import ReviewSession
from worlds import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository

pytestmark = pytest.mark.slow  # waits for what follows by itself


@pytest.fixture
def desk(tmp_path: Path) -> Repository:
    return make_desk(tmp_path / "a desk")


def test_a_branch_that_moves_brings_what_is_new_and_changes_no_decision(desk: Repository) -> None:
    with opened(desk) as session:
        session.decide([oid(desk, "bob")], Decision.REVERT)
        reverted = oid(desk, "bob")
        desk.git("checkout", "-q", "bob")
        added = desk.commit("[FIX_IMPL] Mend c", {"src/c.py": "1\n"}, "bob")
        desk.git("checkout", "-q", "main")
        state = session.refresh()
        assert (state.new, state.total) == (frozenset({added}), 7)
        assert state.reviewed.decided[reverted] is Decision.REVERT
        state = settled(session)
        assert session.refresh() is state
    # It moves while nobody looks, and one of its commits goes.
    desk.git("branch", "-f", "bob", "bob~2")
    with opened(desk) as session:
        state = session.state
        assert state.total == 5
        assert set(state.missing) == {reverted}
        assert state.undo_text.startswith("revert")
        assert session.decide([oid(desk, "ada")], Decision.KEEP).decided == 1
        line = session.state.reviewed.line
    replay = Request(ALL.targets, base="main", decisions=state.home / "decisions.json")
    assert review(replay, desk.folder, environ(desk)).reviewed.line.tip == line.tip


def test_a_branch_that_is_deleted_can_still_be_reviewed(desk: Repository) -> None:
    tip = oid(desk, "bob")
    opened(desk).close()
    desk.git("branch", "-D", "bob")
    desk.git("reflog", "expire", "--expire=now", "--all")
    desk.git("gc", "-q", "--prune=now")
    with opened(desk) as session:
        assert status(session.decide([tip], Decision.KEEP), tip) is Status.LAID


def test_on_a_newer_main_what_is_there_already_is_void(desk: Repository) -> None:
    with opened(desk) as session:
        first = session.state.plan.base
        desk.git("cherry-pick", oid(desk, "bob"))
        state = session.refresh()
        assert (state.main_moved, state.plan.base) == (1, first)
        state = session.rebase(state.main)
        assert (state.main_moved, state.plan.base) == (0, oid(desk, "main"))
        assert status(state, oid(desk, "bob")) is Status.VOID
        assert session.rebase("main") is state
    with opened(desk) as session:
        assert session.state.plan.base == oid(desk, "main")
        assert status(session.undo(), oid(desk, "bob")) is Status.LAID
    with opened(desk, Request(ALL.targets, base="main", onto="main")) as session:
        assert session.state.plan.base == oid(desk, "main")


def test_a_branch_that_was_rebased_takes_its_base_along(desk: Repository) -> None:
    request = Request(("main..bob",))
    with opened(desk, request) as session:
        assert session.state.total == 2
        desk.commit("Go on", {"other.txt": "1\n"})
        desk.git("rebase", "-q", "main", "bob")
        desk.git("checkout", "-q", "main")
        assert session.refresh().total == 2
        assert session.state.plan.base == oid(desk, "main")


def test_publishing_is_told_and_found_again(desk: Repository) -> None:
    with opened(desk) as session:
        session.decide([oid(desk, name) for name in ("ada~1", "bob~1", "eve~1")], Decision.REVERT)
        assert session.state.publish_disabled_reason != ""
        with pytest.raises(RefusedError, match="nothing to publish"):
            session.publish("fixes")
        state = session.decide([oid(desk, "bob")], Decision.KEEP)
        assert (state.publish_disabled_reason, state.stat) == ("", (1, 1))
        published = session.publish("fixes")
        assert desk.git("diff", "--name-only", "main", "fixes") == "src/b.py"
        assert session.state.published == published
        with pytest.raises(RefusedError, match="checked out"):
            session.publish("main")
        assert session.decide([oid(desk, "ada")], Decision.KEEP).published is not None
    with opened(desk) as session:
        again = session.state.published
        assert again is not None
        assert (again.ref, again.tip, again.is_current) == ("refs/heads/fixes", published.tip, False)
        session.publish("fixes")
        assert session.refresh().published == session.state.published
    assert desk.git("status", "--porcelain") == ""


def test_a_second_review_of_the_same_is_refused(desk: Repository) -> None:
    with opened(desk) as session:
        with pytest.raises(RefusedError, match="under review in another process") as refused:
            opened(desk)
        assert refused.value.exit_status == 4
        with pytest.raises(RefusedError, match="under review in another process"):
            review(ALL, desk.folder, environ(desk))
        with session.open_reader() as reader:
            assert reader.store.commit(oid(desk, "bob")).subject == "[FIX_IMPL] Mend b"


GH = """#!/bin/sh
cat > "$HOME/text"
echo "$@" > "$HOME/arguments"
echo https://example.org/pull/7
"""


def test_a_pull_request_is_of_what_was_published(desk: Repository) -> None:
    home = desk.folder.parent / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "gh").write_text(GH)
    (home / "bin" / "gh").chmod(0o755)
    remote = desk.folder.parent / "remote.git"
    desk.git("init", "-q", "--bare", str(remote))
    desk.git("remote", "add", "origin", str(remote))
    surroundings = environ(desk)
    surroundings["PATH"] = f"{home / 'bin'}{os.pathsep}{surroundings['PATH']}"
    with ReviewSession.open(ALL, desk.folder, surroundings, lambda text: None) as session:
        session.decide([oid(desk, "bob"), oid(desk, "bob~1")], Decision.KEEP)
        session.note(oid(desk, "bob"), "as it was meant")
        with pytest.raises(RefusedError, match="is not published"):
            session.open_pull_request()
        tip = session.publish("fixes").tip
        assert session.open_pull_request() == "https://example.org/pull/7"
        assert (home / "text").read_text().rstrip() == session.pull_request().body.rstrip()
        assert "as it was meant" in session.pull_request().body
        assert desk.git("--git-dir", str(remote), "rev-parse", "fixes") == tip
        session.decide([oid(desk, "bob~1")], Decision.REVERT)
        with pytest.raises(RefusedError, match="is not published"):
            session.open_pull_request()


def test_the_candidate_follows_when_nothing_is_done_for_a_while(desk: Repository) -> None:
    with opened(desk) as session:
        state = session.decide([oid(desk, "bob")], Decision.REVERT)
        ref = f"refs/selftest/{state.name}/candidate"

        def candidate() -> str:
            session.refresh()
            return desk.git("rev-parse", "--verify", "--quiet", ref, check=False)

        eventually(lambda: candidate() == state.reviewed.line.tip, "the candidate")
        assert "src/b.py" not in desk.git("diff", "--name-only", "main", ref).split()


def test_a_look_without_a_screen_sees_what_was_decided_on_it_and_moves_nothing(desk: Repository) -> None:
    with opened(desk) as session:
        session.decide([oid(desk, "bob")], Decision.REVERT)
        state = session.decide([oid(desk, "ada"), oid(desk, "ada~1")], Decision.KEEP)
    refs = desk.git("for-each-ref")
    look = review(ALL, desk.folder, environ(desk))
    assert (look.reviewed.plan.name, look.reviewed.line) == (state.name, state.reviewed.line)
    assert look.reviewed.decided == state.reviewed.decided
    assert look.candidate == f"refs/selftest/{state.name}/candidate"
    assert desk.git("for-each-ref") == refs
    # A file that says otherwise is looked at, and the screen's candidate stays.
    file = desk.folder.parent / "decisions.json"
    file.write_text('{"default": "keep"}')
    other = review(Request(ALL.targets, base="main", decisions=file), desk.folder, environ(desk))
    assert (other.candidate, set(other.reviewed.decided.values())) == (None, {Decision.KEEP})
    assert other.reviewed.line.tip != state.reviewed.line.tip
    assert desk.git("for-each-ref") == refs
    # Its branches move: the decisions stay with the commits that are left.
    desk.git("branch", "-f", "bob", "bob~1")
    said: list[str] = []
    moved = review(ALL, desk.folder, environ(desk), said.append)
    assert moved.reviewed.plan.name == state.name
    assert [one for one in said if "no branch has it any more" in one]
    assert moved.reviewed.decided[oid(desk, "ada")] is Decision.KEEP
    # What the screen kept is published without a file.
    published = review(Request(ALL.targets, base="main", publish="fixes"), desk.folder, environ(desk))
    assert published.published is not None
    assert desk.git("diff", "--name-only", "main", "fixes").split() == ["src/a.py", "tests/test_ada.py"]
    with opened(desk) as session:
        assert session.state.undo_text, "the log goes on"
        assert session.state.published is not None
        session.rebase(None)
    desk.commit("Go on", {"other.txt": "1\n"})
    with opened(desk) as session:
        state = session.rebase("main")
    assert review(ALL, desk.folder, environ(desk)).reviewed.line.tip == state.reviewed.line.tip
