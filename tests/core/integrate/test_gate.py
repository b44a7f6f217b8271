"""The gate runs the tests of both sides on the tree with the resolution, beside a person who has the review open."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from core.integrate.counters import (
    BOTH,
    CONFIG,
    FEE,
    RESOLVED,
    Integrating,
    environ_of,
    held,
    make_counter,
    opened,
)
from selftest_core.integrate.gate import IntegratorGate
from selftest_core.review.candidate_branch import Decision
from selftest_core.run.outcome.outcome_file import parse_outcome

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository

pytestmark = pytest.mark.real
PRICE = "shop/price.py"


def judged(repository: Repository, run: Integrating, place: Path) -> str:
    """What the gate says of an answer; nothing is left over."""
    environ = environ_of(repository)

    async def judge() -> str:
        gate = IntegratorGate(run.story.plan, CONFIG, environ)
        try:
            outcome = parse_outcome((place / "outcome.json").read_bytes())
            return await gate.judge(run.planned, place, outcome, "")
        finally:
            await gate.close()

    said = asyncio.run(judge())
    assert not list(repository.folder.parent.rglob("*-integrate"))
    return said


def one_side(why: str) -> dict[str, Any]:
    return {**RESOLVED, "one_side": {PRICE: why}}


def test_tests_of_both_sides_decide_while_the_review_is_open(tmp_path: Path) -> None:
    counter = make_counter(tmp_path / "a counter")
    before = {path: path.read_bytes() for path in counter.folder.rglob("*") if path.is_file()}
    with opened(counter) as session:
        (oid,) = held(session.state)
        run = Integrating.begin(session, counter)
        place = run.answer({PRICE: BOTH})
        tree = session.state.reviewed.line.tree
        assert judged(counter, run, place) == ""

        # It has both, and breaks what one of them wanted.
        (place / "resolved" / PRICE).write_text(BOTH.replace("+ fee", "- fee"))
        said = judged(counter, run, place)
        assert said.startswith("tests/test_fee.py::test_fee is red with it")
        assert "assert 1 == 7" in said

        # One side, without a word and with one: the tests of the other say that this is wrong.
        (place / "resolved" / PRICE).write_text(FEE)
        assert "has nothing of what" in judged(counter, run, place)
        (place / "outcome.json").write_text(json.dumps(one_side("the other is void")))
        assert "tests/test_floor.py::test_floor is red with it" in judged(counter, run, place)

        # What the person did meanwhile is what it is judged by.
        assert session.state.reviewed.line.tree == tree
        session.decide([oid], Decision.REVERT)
        assert judged(counter, run, place) == "it was reverted meanwhile, so the answer is not used"
    now = {path: path.read_bytes() for path in before}
    changed = [path.name for path, content in before.items() if now[path] != content]
    assert changed == []


def test_one_side_on_purpose_needs_a_test_that_shows_it(tmp_path: Path) -> None:
    counter = make_counter(tmp_path / "a counter")
    with opened(counter) as session:
        run = Integrating.begin(session, counter)
        for name in ("fee", "floor"):
            session.decide([counter.git("rev-parse", f"{'ada' if name == 'fee' else 'eve'}~1")], Decision.REVERT)
        place = run.answer({PRICE: FEE}, one_side("the other is void"))
        assert judged(counter, run, place) == "it drops one side, and no test of either side shows that this is right"
        (place / "outcome.json").write_text(json.dumps(RESOLVED))
        (place / "resolved" / PRICE).write_text(BOTH)
        # Without a test there is nothing that both sides could break.
        assert judged(counter, run, place) == ""


def test_a_test_that_was_red_without_the_resolution_says_nothing_about_it(tmp_path: Path) -> None:
    counter = make_counter(tmp_path / "a counter")
    counter.git("checkout", "-q", "ada")
    counter.commit(
        "[FIX_TEST] Expect more",
        {"tests/test_fee.py": "from shop.price import price\n\n\ndef test_fee():\n    assert price(2, fee=3) == 8\n"},
        "ada",
    )
    counter.git("checkout", "-q", "main")
    with opened(counter) as session:
        run = Integrating.begin(session, counter)
        place = run.answer({PRICE: BOTH})
        assert judged(counter, run, place) == ""
