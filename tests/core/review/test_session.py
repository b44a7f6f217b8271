"""A review that a person is in: every act logged first, undone at any depth, and found again after any end."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from core.review.desks import ALL, environ, held_one, looks, make_desk, oid, opened, settled, status
from selftest_core.errors import RefusedError, UsageError
from selftest_core.git.diffs import read_diff
from selftest_core.journal import JournalWriteError
from selftest_core.review.apply_decisions import ChangeDiff, read_change_diff
from selftest_core.review.batch import review
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.inputs import Request
from selftest_core.review.conflict_files import choose
from selftest_core.review.resolutions import Resolution
from selftest_core.schema.review import review_document
from worlds import ROOT, eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from core.review.repositories import Repository
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState


@pytest.fixture
def desk(tmp_path: Path) -> Repository:
    return make_desk(tmp_path / "a desk")


def test_a_review_begins_with_everything_open(desk: Repository) -> None:
    with opened(desk) as session:
        state = session.state
        assert (state.total, state.decided, state.held, state.open) == (6, 0, 1, 6)
        assert (state.undo_text, state.redo_text, state.new, state.published) == ("", "", frozenset(), None)
        assert (state.main, state.main_moved) == ("main", 0)
        assert state.home.is_relative_to(desk.folder / ".selftest" / "runs")
        assert session.undo() is state
        assert session.redo() is state
        state = settled(session)
        assert session.refresh() is state
    assert desk.git("rev-parse", f"refs/selftest/{state.name}/candidate") == state.reviewed.line.tip


def test_any_acts_undone_and_redone_at_any_depth_and_left_at_any_time(desk: Repository) -> None:
    chance = random.Random(7)
    names = ("ada", "ada~1", "bob", "bob~1", "eve", "eve~1")
    oids = [oid(desk, name) for name in names]
    session = opened(desk)
    # What a person saw after each act that holds, and where among those they are.
    seen, place = [looks(session.state)], 0
    for _ in range(90):
        kind = chance.choice(("decide", "decide", "move", "note", "undo", "undo", "redo", "leave"))
        before = session.state
        match kind:
            case "decide":
                some = chance.sample(oids, chance.randint(1, 3))
                after = session.decide(some, chance.choice(list(Decision)))
            case "move":
                after = session.move([chance.choice(oids)], chance.choice([None, *oids]))
            case "note":
                after = session.note(chance.choice(oids), chance.choice(["", "why", "[red]not[/] \x1b[1m"]))
            case "undo":
                after = session.undo()
                place = max(0, place - 1)
            case "redo":
                after = session.redo()
                place = min(len(seen) - 1, place + 1)
            case _:
                session.close()
                session = opened(desk)
                after = session.state
        if kind in ("decide", "move", "note") and after is not before:
            seen, place = [*seen[: place + 1], looks(after)], place + 1
        assert looks(after) == seen[place]
        assert bool(after.undo_text) == (place > 0)
        assert bool(after.redo_text) == (place < len(seen) - 1)
    session.close()
    assert len(seen) > 8


def test_what_was_decided_on_the_screen_is_laid_alike_without_it(desk: Repository) -> None:
    with opened(desk) as session:
        session.decide([oid(desk, "bob"), oid(desk, "ada")], Decision.KEEP)
        session.decide([oid(desk, "eve~1")], Decision.REVERT)
        session.move([oid(desk, "eve")], oid(desk, "ada"))
        state = session.note(oid(desk, "ada"), "not without a test")
        held = held_one(desk, state)
        state = session.resolve(held, choose(session.conflict_files(held), "theirs"))
        line = state.reviewed.line
    replay = Request(ALL.targets, base="main", decisions=state.home / "decisions.json")
    # Somebody else's machine, where nothing is remembered.
    answer = review(replay, desk.folder, {**environ(desk), "HOME": str(desk.folder.parent / "elsewhere")})
    assert (answer.reviewed.line.tip, answer.reviewed.line.tree) == (line.tip, line.tree)
    document = json.loads((state.home / "decisions.json").read_text())
    assert document["notes"] == {oid(desk, "ada"): "not without a test"}


def test_a_conflict_is_resolved_once_and_remembered_for_the_next_review(desk: Repository) -> None:
    with opened(desk) as session:
        held = held_one(desk, session.state)
        (file,) = session.conflict_files(held)
        assert (file.path, file.base, file.merged is not None) == ("src/a.py", b"1\n", True)
        state = session.resolve(held, choose((file,), "theirs"))
        assert (status(state, held), state.held) == (Status.LAID, 0)
        with pytest.raises(RefusedError, match="not in conflict"):
            session.conflict_files(held)
        # Taken back, it stays taken back, though it is remembered now.
        assert status(session.undo(), held) is Status.HELD
        assert status(session.refresh(), held) is Status.HELD
    with opened(desk, Request(("ada", "eve"), base="main")) as other:
        assert other.state.held == 0
        assert held in other.state.decisions.resolutions
        assert other.state.undo_text == ""


def test_a_diff_is_of_what_is_applied(desk: Repository) -> None:
    desk.git("checkout", "-q", "main")
    with opened(desk) as session, session.open_reader() as reader:
        held = held_one(desk, session.state)
        original = read_diff(reader.store, held)
        # In conflict it is not applied, so its agent's commit is shown.
        assert read_change_diff(reader, session.state.reviewed, held) == ChangeDiff(original, original)
        (file,) = session.conflict_files(held)
        resolution = Resolution((replace(choose((file,), "theirs").answers[0], content=b"4\n"),))
        state = session.resolve(held, resolution)
        found = read_change_diff(reader, state.reviewed, held)
        assert (found.differs, found.original) == (True, original)
        rival = next(one for one in (oid(desk, "ada"), oid(desk, "eve")) if one != held)
        (change,) = found.applied
        assert [(line.kind.value, line.text) for line in change.hunks[0].lines] == [
            ("removed", "2" if rival == oid(desk, "ada") else "3"), ("added", "4"),
        ]  # fmt: skip
        (side,) = session.resolved_files(held)
        assert (side.path, side.base) == ("src/a.py", b"1\n")
        # Others are applied as they were committed; so is the joint commit's member.
        for other in (rival, oid(desk, "bob"), oid(desk, "ada~1")):
            found = read_change_diff(reader, state.reviewed, other)
            assert (found.differs, found.applied) == (False, found.original)
        document = review_document(state.reviewed, None, None)
        assert {item.source: item.resolved for item in document.items if item.resolved} == {held: ["src/a.py"]}
        session.decide([held, rival], Decision.KEEP)
        assert "(1 file, its conflict resolved in the review)" in session.pull_request().body


def test_a_merge_that_takes_less_than_was_committed_is_told(desk: Repository) -> None:
    for agent, text in (("kim", "1\n2\n"), ("lee", "1\n2\n")):
        desk.git("checkout", "-q", "-b", agent, "main")
        more = {"src/more.py": "x\n"} if agent == "lee" else {}
        desk.commit(f"[FIX_IMPL] Lengthen {agent}", {"src/b.py": text, **more}, agent)
    desk.git("checkout", "-q", "main")
    with opened(desk, Request(("kim", "lee"), base="main")) as session, session.open_reader() as reader:
        reviewed = session.state.reviewed
        last = next(change for change in reversed(reviewed.order) if change.subject.endswith(("kim", "lee")))
        found = read_change_diff(reader, reviewed, oid(desk, "lee"))
        # Where kim's comes first, lee's lines in src/b.py are there already.
        is_second = last.oid == oid(desk, "lee")
        assert found.differs is is_second
        assert [file.path for file in found.applied] == (["src/more.py"] if is_second else ["src/b.py", "src/more.py"])
        # Onto a main that has one of the two files, and without kim's.
        desk.commit("Take it", {"src/more.py": "x\n"})
        session.decide([oid(desk, "kim")], Decision.REVERT)
        state = session.rebase("main")
        found = read_change_diff(reader, state.reviewed, oid(desk, "lee"))
        assert (found.differs, [file.path for file in found.applied]) == (True, ["src/b.py"])


def test_consequences_are_told_before_and_change_nothing(desk: Repository) -> None:
    desk.git("checkout", "-q", "bob")
    later = desk.commit("[FIX_IMPL] Mend b further", {"src/b.py": "2\n3\n"}, "bob")
    desk.git("checkout", "-q", "main")
    with opened(desk) as session:
        before = session.state
        held = held_one(desk, before)
        rival = next(one for one in (oid(desk, "ada"), oid(desk, "eve")) if one != held)
        assert [one.oid for one in session.consequences([rival], Decision.REVERT).lets_in] == [held]
        broken = session.consequences([oid(desk, "bob~1")], Decision.REVERT)
        assert [one.oid for one in broken.breaks] == [later]
        assert session.consequences([oid(desk, "bob~1"), later], Decision.REVERT).breaks == ()
        assert session.state is before
        with pytest.raises(UsageError, match="not in this review"):
            session.consequences(["f" * 40], Decision.KEEP)


def test_picking_one_of_several_is_one_act(desk: Repository) -> None:
    with opened(desk) as session:
        before = looks(session.state)
        state = session.decide_each({oid(desk, "ada"): Decision.KEEP, oid(desk, "eve"): Decision.REVERT})
        assert (status(state, oid(desk, "ada")), status(state, oid(desk, "eve"))) == (Status.LAID, Status.DROPPED)
        assert looks(session.undo()) == before


def test_a_file_of_decisions_is_taken_in_once_and_can_be_undone(desk: Repository, tmp_path: Path) -> None:
    path = tmp_path / "decisions.json"
    path.write_text(json.dumps({"default": "keep", "items": {oid(desk, "bob"): "revert"}}))
    request = Request(ALL.targets, base="main", decisions=path)
    with opened(desk, request) as session:
        assert (session.state.decided, status(session.state, oid(desk, "bob"))) == (6, Status.DROPPED)
        session.decide([oid(desk, "bob")], Decision.KEEP)
    with opened(desk, request) as session:
        assert status(session.state, oid(desk, "bob")) is Status.LAID
        session.undo()
        assert session.undo().decided == 0
    path.write_text(json.dumps({"items": {"f" * 40: "revert"}}))
    with pytest.raises(UsageError, match="f is not in the plan"):
        opened(desk, request)


def test_an_act_that_fails_leaves_everything_as_it_was(desk: Repository) -> None:
    with opened(desk) as session:
        before = session.decide([oid(desk, "bob")], Decision.KEEP)
        # What is decided cannot be written beside the log.
        file = before.home / "decisions.json"
        file.unlink()
        (file / "in the way").mkdir(parents=True)
        acts: list[Callable[[], ReviewState]] = [
            lambda: session.decide([oid(desk, "ada")], Decision.REVERT),
            session.undo,
            lambda: session.note(oid(desk, "ada"), "why"),
        ]
        for act in acts:
            with pytest.raises(JournalWriteError, match="decisions"):
                act()
            assert session.state is before
        (file / "in the way").rmdir()
        file.rmdir()
        assert looks(session.refresh()) == looks(before)
    with opened(desk) as session:
        assert looks(session.state) == looks(before)
        assert session.undo().undo_text == ""


WORK = """
import os, sys
from pathlib import Path
from selftest_core.review.changes.inputs import Request
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.session import ReviewSession
folder, *oids = sys.argv[1:]
request = Request(("ada", "bob", "eve"), base="main")
session = ReviewSession.open(request, Path(folder), dict(os.environ), lambda text: None)
number = 0
while True:
    number += 1
    session.note(oids[number % len(oids)], f"note {number}")
    print(number, flush=True)
"""


def test_nothing_that_was_acknowledged_is_lost_by_kill_9(desk: Repository) -> None:
    oids = [oid(desk, name) for name in ("ada", "bob", "eve")]
    opened(desk).close()
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, str(desk.folder), *oids], env=environ(desk), cwd=ROOT, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(7)]
        process.send_signal(signal.SIGKILL)
        told += process.stdout.readlines()
    finally:
        process.kill()
        process.wait()
    last = int([line for line in told if line.endswith("\n")][-1])
    session = eventually(_unlocked(desk), "the log is free")
    assert session is not None
    with session:
        written = max(int(text.split()[1]) for text in session.state.notes.values())
        assert written in (last, last + 1)
        log = session.state.home / "review.jsonl"
        state = looks(session.state)
    # The line that a power cut tears.
    with log.open("ab") as stream:
        stream.write(b'0badc0de {"at": 1, "eve')
    with opened(desk) as session:
        assert looks(session.state) == state
        for _ in range(written):
            session.undo()
        assert (dict(session.state.notes), session.state.undo_text) == ({}, "")


def _unlocked(desk: Repository) -> Callable[[], ReviewSession | None]:
    def ask() -> ReviewSession | None:
        try:
            return opened(desk)
        except RefusedError:
            return None

    return ask
