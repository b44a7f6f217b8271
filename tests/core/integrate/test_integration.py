"""Conflicts become tasks; what passed the gate becomes a resolution like a person's, and nothing of theirs is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.integrate.counters import (
    BOTH,
    FEE,
    FLOOR,
    REQUEST,
    Integrating,
    environ_of,
    held,
    make_counter,
    opened,
    text_of,
)
from core.review.desks import status
from selftest_core.errors import RefusedError
from selftest_core.integrate.applying import AnswerTaker
from selftest_core.integrate.integration import brief_of, files_of, find_conflicts, oids_of
from selftest_core.integrate.task import read_task
from selftest_core.review.batch import review
from selftest_core.review.candidate_branch import Decision, Status
from selftest_core.review.changes.inputs import Request
from selftest_core.review.conflict_files import choose
from selftest_core.run.outcome.ends import End

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository
    from selftest_core.review.session import ReviewSession
    from selftest_core.review.state import ReviewState

PRICE = "shop/price.py"


@pytest.fixture
def counter(tmp_path: Path) -> Repository:
    return make_counter(tmp_path / "a counter")


def take(session: ReviewSession) -> ReviewState:
    return AnswerTaker().take(session)


def test_an_agent_gets_only_the_conflict_both_intents_and_the_files(counter: Repository) -> None:
    with opened(counter) as session:
        (oid,) = held(session.state)
        session.note(oid, "keep the `fee`\x1b[31m")
        found = find_conflicts(session)
        assert found.base == session.state.reviewed.line.tip
        assert counter.git("rev-parse", f"refs/selftest/{session.state.name}/candidate") == found.base
    (task,) = found.tasks
    texts = files_of(task)
    assert set(texts) == {"task.json", "1-1.base", "1-1.ours", "1-1.theirs", "1-1.merged"}
    assert {texts["1-1.ours"], texts["1-1.theirs"]} == {FEE, FLOOR}
    assert "<<<<<<< the branch so far" in texts["1-1.merged"]
    assert "||||||| base" in texts["1-1.merged"]
    stored = read_task(texts["task.json"])
    assert [(change.oid, change.folder, [file.path for file in change.files]) for change in stored.changes] == [
        (oid, "", [PRICE])
    ]
    assert len(stored.rivals) == 1
    assert {oid, *stored.rivals} == {counter.git("rev-parse", name) for name in ("ada", "eve")}
    said = brief_of(task)
    assert "`$SELFTEST_OUT/resolved/shop/price.py`" in said
    assert said.count("Guests asked for it.") == 2
    assert "keep the `fee`␛[31m" in said
    assert "\x1b" not in said


def test_what_passed_the_gate_resolves_and_is_remembered_undone_and_credited(counter: Repository) -> None:
    with opened(counter) as session:
        (oid,) = held(session.state)
        run = Integrating.begin(session, counter)
        agent = run.planned.agent_name
        working = session.state.integrations.working_on(oid)
        assert working is not None
        assert working.agent == agent
        assert take(session).held == 1
        run.answer({PRICE: BOTH})
        run.ended()
        state = take(session)
        assert (state.held, status(state, oid)) == (0, Status.LAID)
        subject = counter.git("log", "-1", "--format=%s", oid)
        assert state.undo_text == f"resolve “{subject}” by {agent}"
        assert state.integrations.working_on(oid) is None
        # Undone, it stays undone: an answer is taken once.
        assert session.undo().held == 1
        assert take(session).held == 1
        assert session.redo().held == 0
        session.decide_each({change.oid: Decision.KEEP for change in state.reviewed.order})
        published = session.publish("good", has_trailers=True)
        assert session.state.integrations.by_change[oid].reason == ""
    assert text_of(counter, "good") == BOTH
    trailers = counter.git("log", "-1", "--format=%(trailers:key=Selftest-Integrator,valueonly)", published.tip)
    assert trailers == agent
    # A later review has it by itself, with its author.
    with opened(counter, Request(("eve", "ada"), base="main~0")) as other:
        assert other.state.held == 0
        assert {one.by for one in other.state.decisions.resolutions[oid].answers} == {agent}
    # Without the screen too, and elsewhere by the decisions file.
    again = review(REQUEST, counter.folder, environ_of(counter))
    assert again.reviewed.line.tree == counter.git("rev-parse", "good^{tree}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (FEE, "shop/price.py has nothing of what"),
        (f"<<<<<<< a\n{FEE}=======\n{FLOOR}>>>>>>> b\n", "shop/price.py still has a conflict marker"),
    ],
)
def test_a_gate_that_was_wrong_is_no_reason_to_lose_a_side(text: str, reason: str, counter: Repository) -> None:
    """What is applied is checked again: the branch may be another one than the gate saw."""
    with opened(counter) as session:
        (oid,) = held(session.state)
        files = {file.path: file for file in session.conflict_files(oid)}
        run = Integrating.begin(session, counter)
        run.answer({PRICE: files[PRICE].ours.decode() if text == FEE else text})  # type: ignore[union-attr]
        run.ended()
        state = take(session)
        assert state.held == 1
        assert state.integrations.by_change[oid].reason.startswith(reason)


def test_what_a_gate_refused_is_held_again_with_the_reason(counter: Repository) -> None:
    with opened(counter) as session:
        (oid,) = held(session.state)
        run = Integrating.begin(session, counter)
        with pytest.raises(RefusedError, match="No conflict is for an agent") as caught:
            find_conflicts(session)
        assert f"{run.planned.agent_name} of run" in caught.value.detail
        run.answer({PRICE: BOTH})
        run.ended("tests/test_fee.py::test_fee is red with it\nE  assert 4 == 7")
        assert take(session).held == 1
    with opened(counter) as session:
        found = session.state.integrations.by_change[oid]
        assert (found.is_ended, found.reason) == (True, "tests/test_fee.py::test_fee is red with it")
        # Asked again, another agent gets it.
        assert len(find_conflicts(session).tasks) == 1


def test_an_answer_that_no_gate_has_checked_is_not_used(counter: Repository) -> None:
    with opened(counter) as session:
        (oid,) = held(session.state)
        run = Integrating.begin(session, counter)
        run.answer({PRICE: BOTH})
        run.ended(is_checked=False)
        state = take(session)
        assert (state.held, state.integrations.by_change[oid].reason) == (1, "its answer was not checked")


def test_an_agent_that_fails_gives_its_reason(counter: Repository) -> None:
    with opened(counter) as session:
        (oid,) = held(session.state)
        run = Integrating.begin(session, counter)
        run.story.launch(0, 1.0)
        run.ended("it needs a token", end=End.BLOCKED)
        assert take(session).integrations.by_change[oid].reason == "it needs a token"


@pytest.mark.parametrize("act", ["resolve", "revert", "keep", "revert the rival"])
def test_an_answer_that_comes_late_overwrites_nothing(act: str, counter: Repository) -> None:
    with opened(counter) as session:
        (oid,) = held(session.state)
        run = Integrating.begin(session, counter)
        (rival,) = read_task(files_of(run.conflicts.tasks[0])["task.json"]).rivals
        match act:
            case "resolve":
                mine = session.resolve(oid, choose(session.conflict_files(oid), "theirs"))
            case "revert":
                mine = session.decide([oid], Decision.REVERT)
            case "revert the rival":
                mine = session.decide([rival], Decision.REVERT)
            case _:
                mine = session.decide([oid], Decision.KEEP)
        run.answer({PRICE: BOTH})
        run.ended()
        state = take(session)
        reason = state.integrations.by_change[oid].reason
        if act == "keep":
            # A decision about a change is none about its conflict.
            assert (reason, status(state, oid), state.reviewed.decided[oid]) == ("", Status.LAID, Decision.KEEP)
            return
        assert "the answer is not used" in reason
        assert (state.reviewed.line.tree, state.undo_text) == (mine.reviewed.line.tree, mine.undo_text)
        assert state.decisions == mine.decisions


def test_of_two_answers_to_one_conflict_the_first_counts(counter: Repository) -> None:
    with opened(counter) as session:
        (oid,) = held(session.state)
        first = Integrating.begin(session, counter)
        # The review was asked again where its log did not know of the first: another machine's copy.
        session.end_integration(first.story.plan.run, first.planned.agent_name, 0, "given up")
        second = Integrating.begin(session, counter, "20261121-0932-9c11")
        second.answer({PRICE: BOTH})
        second.ended()
        tree = take(session).reviewed.line.tree
        first.answer({PRICE: BOTH.replace("fee, floor", "fee, floor + 0")})
        first.ended()
        state = take(session)
        assert state.reviewed.line.tree == tree
        assert {one.by for one in state.decisions.resolutions[oid].answers} == {second.planned.agent_name}
        # The later one is still the one that the change shows.
        assert state.integrations.by_change[oid].reason == ""


def test_after_a_retry_only_the_last_attempt_counts(counter: Repository) -> None:
    with opened(counter) as session:
        (oid,) = held(session.state)
        run = Integrating.begin(session, counter)
        run.answer({PRICE: "nonsense"})
        run.ended("shop/price.py does not parse")
        assert take(session).held == 1
        run.story.retry(0, 70.0, "asked", "once more")
        run.story.write()
        assert take(session).held == 1
        run.answer({PRICE: BOTH})
        run.ended()
        state = take(session)
        assert (state.held, state.integrations.by_change[oid].reason) == (0, "")


def test_killed_between_the_resolution_and_its_note_nothing_is_lost_or_doubled(counter: Repository) -> None:
    with opened(counter) as session:
        (oid,) = held(session.state)
        run = Integrating.begin(session, counter)
        run.answer({PRICE: BOTH})
        run.ended()
        home = session.state.home
        take(session)
    log = home / "review.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    assert b'"integrated"' in lines[-1]
    log.write_bytes(b"".join(lines[:-1]))
    with opened(counter) as session:
        state = take(session)
        assert (state.held, state.integrations.by_change[oid].reason) == (0, "")
        assert log.read_text().count('"event":"resolved"') == 1


def test_changes_that_share_files_are_one_task_and_each_is_resolved(counter: Repository) -> None:
    counter.git("checkout", "-q", "-b", "kim", "main")
    cap = "def price(amount, cap=99):\n    return min(amount * 2, cap)\n"
    counter.commit("[FIX_IMPL] Add a cap", {PRICE: cap, "README.md": "A cap.\n"}, "kim")
    counter.git("checkout", "-q", "main")
    all_three = Request(("ada", "eve", "kim"), base="main")
    with opened(counter, all_three) as session:
        oids = held(session.state)
        assert len(oids) == 2
        run = Integrating.begin(session, counter)
        (task,) = run.conflicts.tasks
        assert list(oids_of(task)) == oids
        texts = files_of(task)
        assert {"1-1.ours", "2-1.ours"} <= set(texts)
        assert "`$SELFTEST_OUT/resolved/2/shop/price.py`" in brief_of(task)
        words = {"fee": "fee=0", "floor": "floor=0", "cap": "cap=99"}
        in_ours = next(word for word in words if word in texts["1-1.ours"])
        first = next(word for word in words if word in texts["1-1.theirs"])
        last = next(word for word in words if word in texts["2-1.theirs"])

        def merged(*names: str) -> str:
            parameters = ", ".join(words[one] for one in names)
            return f"def price(amount, {parameters}):\n    return ({', '.join(names)}, max, min, amount * 2 + 0)\n"

        run.answer({f"1/{PRICE}": merged(in_ours, first), f"2/{PRICE}": merged(in_ours, first, last)})
        run.ended()
        state = take(session)
        assert state.integrations.by_change[oids[0]].reason == ""
        assert state.held == 0
        assert text_of(counter, session.store_candidate()) == merged(in_ours, first, last)
        # Each is undone by itself.
        assert held(session.undo()) == oids[1:]


def test_what_is_not_for_an_agent_is_named(counter: Repository) -> None:
    for name, text in (("ann", b"\0one"), ("ben", b"\0two")):
        counter.git("checkout", "-q", "-b", name, "main")
        counter.commit(f"[FIX_IMPL] Paint {name}", {"logo.png": text}, name)
    counter.git("checkout", "-q", "main")
    with opened(counter, Request(("ann", "ben"), base="main")) as session:
        with pytest.raises(RefusedError, match="No conflict is for an agent") as caught:
            find_conflicts(session)
        assert "logo.png is not UTF-8 text: choose a side (C)" in caught.value.detail
