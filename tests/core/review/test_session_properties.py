"""A person's way through a random review, left and taken up again after crashes too, ends where cherry-pick does."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from core.review.random_histories import CherryPicks, RandomHistory, make_history
from selftest_core.errors import RefusedError
from selftest_core.git.diffs import compare_trees
from selftest_core.review.candidate_branch import Decision, Line, Status
from selftest_core.review.changes.inputs import Request
from selftest_core.review.changes.parts import PartSpec, UnfitSplitError
from selftest_core.review.conflict_files import choose
from selftest_core.review.resolutions import answers_of
from selftest_core.review.session import ReviewSession

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

STEPS = 40


def opened(history: RandomHistory, folder: Path) -> ReviewSession:
    environ = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
    request = Request(targets=tuple(history.branches), base="main")
    return ReviewSession.open(request, history.repository.folder, environ, lambda words: None)


def act(session: ReviewSession, dice: random.Random) -> None:
    """One thing that a person does."""
    order = [change.oid for change in session.state.reviewed.order]
    match dice.randrange(16):
        case 0 | 1 | 2:
            session.decide([dice.choice(order)], dice.choice(list(Decision)))
        case 3:
            session.decide(dice.sample(order, dice.randint(1, len(order))), dice.choice(list(Decision)))
        case 4:
            session.move([dice.choice(order)], dice.choice([*order, None]))
        case 5:
            session.note(dice.choice(order), f"note {dice.randrange(9)}")
        case 6:
            for _ in range(dice.randint(1, 4)):
                session.undo()
        case 7:
            split_any(session, dice)
        case 8:
            parts = [change.part.of for change in session.state.reviewed.order if change.part is not None]
            if parts:
                session.split(dice.choice(parts), None)
        case 9:
            session.squash(dice.sample(order, dice.randint(1, min(3, len(order)))))
        case 10:
            session.reword(dice.choice(order), dice.choice(["", "fix: again", "Key: value\n\nKey: value"]))
        case 11 | 12:
            choose_any(session, dice)
        case 13 | 14:
            resolve_any(session, dice)
        case _:
            session.redo()


def choose_any(session: ReviewSession, dice: random.Random) -> None:
    """Choose a change instead of others, in its row or not, set one apart, or put it back."""
    order = [change.oid for change in session.state.reviewed.order]
    before, oid = session.state, dice.choice(order)
    try:
        match dice.randrange(4):
            case 0:
                session.choose(oid)
            case 1:
                session.choose(oid, instead_of=dice.sample(order, min(len(order), 2)))
            case 2:
                session.set_apart(oid)
            case _:
                session.rejoin(oid)
    except RefusedError:
        assert session.state is before


def resolve_any(session: ReviewSession, dice: random.Random) -> None:
    """Resolve a conflict with one side, or take a resolution back."""
    decisions, placed = session.state.decisions, session.state.reviewed.line.items
    if decisions.resolutions and dice.random() < 0.3:
        session.resolve(dice.choice(list(decisions.resolutions)), None)
        return
    held = [one.item.oid for one in placed if one.status is Status.HELD]
    if held:
        oid = dice.choice(held)
        try:
            files = session.conflict_files(oid)
        except RefusedError:  # the paths themselves are in conflict
            return
        session.resolve(oid, choose(files, "theirs" if dice.random() < 0.5 else "ours"))


def split_any(session: ReviewSession, dice: random.Random) -> None:
    """Split a change by some of its hunks and files; all of them, or none, is refused and changes nothing."""
    change = dice.choice(session.state.reviewed.order)
    with session.open_reader() as engine:
        files = compare_trees(engine.store, change.item.base_tree, change.item.tree, is_plain=True)
    whole = tuple(file.name for file in files if dice.random() < 0.3)
    hunks = {
        file.name: tuple(hunk.id for hunk in file.hunks if dice.random() < 0.5)
        for file in files
        if file.has_parts and file.name not in whole
    }
    part = PartSpec(whole, tuple((path, ids) for path, ids in hunks.items() if ids))
    before = session.state
    try:
        session.split(change.oid, (part,), keep=dice.choice([(), (1,), (2,)]))
    except UnfitSplitError:
        assert session.state is before


def outer_refs(history: RandomHistory) -> tuple[object, ...]:
    """The fingerprint without what is ours."""
    marks = history.fingerprint()
    refs = [ref for ref in str(marks.pop("refs")).splitlines() if "\trefs/selftest/" not in ref]
    return (refs, sorted(marks.items()))


def held_against_git(session: ReviewSession, picks: CherryPicks) -> Line:
    reviewed = session.state.reviewed
    decided = reviewed.decided
    picks.answers = answers_of(reviewed.decisions.resolutions.values())
    chosen = [row.chosen for row in set(reviewed.row_of.values())]
    assert sorted(chosen) == sorted(change.oid for change in reviewed.chosen), "one of each row"
    assert all(reviewed.is_chosen(oid) for oid, decision in decided.items() if decision is not Decision.REVERT)
    wanted = [change.oid for change in reviewed.order if decided[change.oid] is not Decision.REVERT]
    became, tree = picks.lay(wanted)
    told = {one.item.oid: one.status.value for one in reviewed.line.items if one.status is not Status.DROPPED}
    assert (told, reviewed.line.tree) == (became, tree)
    kept = [oid for oid in wanted if decided[oid] is Decision.KEEP]
    assert session.state.kept_line.tree == picks.lay(kept)[1]
    assert session.state.missing == ()
    return reviewed.line


@pytest.mark.parametrize("seed", range(3))
def test_a_review_left_in_the_middle_of_anything_goes_on_as_git_would(tmp_path: Path, seed: int) -> None:
    dice = random.Random(500 + seed)
    history = make_history(tmp_path / "r", dice, agents=2, steps=2)
    before = outer_refs(history)
    picks = CherryPicks(history, tmp_path / "picked")
    session = opened(history, tmp_path)
    # git picks the parts of split changes as it picks the commits of agents.
    with (tmp_path / "picked/.git/objects/info/alternates").open("a") as alternates:
        alternates.write(f"{session.state.home / 'engine.git/objects'}\n")
    try:
        for _ in range(STEPS):
            act(session, dice)
            line = held_against_git(session, picks)
            if dice.random() < 0.1:
                home, told = session.state.home, (session.state.undo_text, session.state.redo_text)
                session.close()
                with (home / "review.jsonl").open("ab") as log:
                    log.write(b'{"event": "deci')  # what a crash leaves: nobody was told that it is there
                session = opened(history, tmp_path)
                assert held_against_git(session, picks) == line
                assert (session.state.undo_text, session.state.redo_text) == told
    finally:
        session.close()
    assert outer_refs(history) == before
