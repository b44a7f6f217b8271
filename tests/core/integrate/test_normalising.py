"""One change instead of many that say the same: it joins their row, credits all, and a person chooses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from core.integrate.counters import CONFIG, Integrating, environ_of, opened
from core.integrate.fixtures import CONFTEST, ONE, REQUEST, make_fixtures
from selftest_core.errors import RefusedError
from selftest_core.integrate.applying import AnswerTaker
from selftest_core.integrate.gate import IntegratorGate
from selftest_core.integrate.integration import brief_of, files_of, find_alternatives
from selftest_core.review.batch import review
from selftest_core.review.candidate_branch import Decision
from selftest_core.run.outcome.outcome_file import parse_outcome

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository
    from selftest_core.review.changes.rows import Row
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState

pytestmark = pytest.mark.real

RUN = "20261121-0931-7f3a"


@pytest.fixture
def desk(tmp_path: Path) -> Repository:
    return make_fixtures(tmp_path / "desk")


def row_of(state: ReviewState) -> Row:
    """The row of the fixture."""
    (row,) = {row.id: row for row in state.reviewed.row_of.values() if len(row.members) > 1}.values()
    return row


def begin(session: ReviewSession, desk: Repository) -> Integrating:
    """A run of one integrator for the row, noted in the review."""
    return Integrating.begin(session, desk, RUN, find_alternatives(session, row_of(session.state).chosen))


def judged(desk: Repository, run: Integrating, place: Path) -> str:
    async def judge() -> str:
        gate = IntegratorGate(run.story.plan, CONFIG, environ_of(desk))
        try:
            outcome = parse_outcome((place / "outcome.json").read_bytes())
            return await gate.judge(run.planned, place, outcome, "")
        finally:
            await gate.close()

    return asyncio.run(judge())


def test_one_text_joins_the_row_of_the_others_and_a_person_chooses_it(desk: Repository) -> None:
    with opened(desk, REQUEST) as session:
        before = row_of(session.state)
        assert len(before.members) == 3
        run = begin(session, desk)
        (task,) = run.conflicts.tasks
        assert set(files_of(task)) == {"task.json", "text-1.patch", "text-2.patch", "text-3.patch"}
        assert "3 agents made the same change in 3 texts" in brief_of(task)
        assert run.conflicts.base == desk.git("rev-parse", "main")
        place = run.answer({CONFTEST: ONE})
        assert judged(desk, run, place) == ""
        run.ended()
        tree, said = session.state.reviewed.line.tree, session.state.undo_text
        state = AnswerTaker().take(session)
        row = row_of(state)
        (tip,) = set(row.members) - set(before.members)
        # It is there, and nothing has changed by that.
        assert (row.id, row.chosen) == (before.id, before.chosen)
        assert (state.reviewed.line.tree, state.undo_text, state.total) == (tree, said, 4)
        message = desk.git("log", "-1", "--format=%B", tip)
        assert message.startswith("[FIX_TEST] Give tests a home\n\nOne text instead of 3 that say the same")
        assert message.count("Co-authored-by: ") == 3
        # One key picks it, and another one takes that back.
        state = session.choose(tip)
        assert row_of(state).chosen == tip
        assert desk.git("show", f"{session.store_candidate()}:{CONFTEST}") + "\n" == ONE
        assert row_of(session.undo()).chosen == before.chosen
        session.redo()
        session.decide_each({change.oid: Decision.KEEP for change in session.state.reviewed.chosen})
        kept = session.state.kept_line.tree
    # After a restart, and without the screen.
    with opened(desk, REQUEST) as session:
        assert row_of(session.refresh()).chosen == tip
    assert review(REQUEST, desk.folder, environ_of(desk)).reviewed.line.tree == kept
    assert desk.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({CONFTEST: ONE.replace("return tmp_path", "return None")}, "tests/test_"),
        ({CONFTEST: ONE.replace("def home", "def house")}, "tests/test_"),
        ({CONFTEST: ONE.replace("):", ")")}, "conftest.py does not parse"),
        ({CONFTEST: f"<<<<<<< ours\n{ONE}"}, "conftest.py still has a conflict marker"),
        ({}, "it answers no file"),
        ({CONFTEST: ONE, "shop.py": "x = 1\n"}, "it answers shop.py, which is not in conflict"),
    ],
)
def test_what_does_not_do_for_all_is_refused(files: dict[str, str], reason: str, desk: Repository) -> None:
    with opened(desk, REQUEST) as session:
        run = begin(session, desk)
        place = run.answer(files)
        assert judged(desk, run, place).startswith(reason)


def test_a_row_that_a_person_split_meanwhile_is_not_put_together_again(desk: Repository) -> None:
    with opened(desk, REQUEST) as session:
        run = begin(session, desk)
        first, *others = row_of(session.state).members
        for oid in others:
            mine = session.set_apart(oid)
        run.answer({CONFTEST: ONE})
        run.ended()
        state = AnswerTaker().take(session)
        assert {oid: state.reviewed.row_of[oid].id for oid in (first, *others)} == {
            oid: mine.reviewed.row_of[oid].id for oid in (first, *others)
        }
        assert [state.reviewed.decided[oid] for oid in others] == [mine.reviewed.decided[oid] for oid in others]


def test_a_change_without_alternatives_is_no_group(desk: Repository) -> None:
    with opened(desk, REQUEST) as session:
        alone = next(oid for oid, row in session.state.reviewed.row_of.items() if len(row.members) == 1)
        with pytest.raises(RefusedError, match="cannot be asked for") as caught:
            find_alternatives(session, alone)
        assert caught.value.detail == "It is the only text of its row."
