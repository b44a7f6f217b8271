"""The review screen verifies in the background: real git, real pytest, and what a person sees of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from core.verify.desks import PYTEST, SANDBOX, make_shop
from selftest_core.review.candidate_branch import Decision
from selftest_core.review.changes.inputs import Request
from selftest_core.verify.background.background_verifier import Phase
from selftest_tui.review.lines import ReviewGroup
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.shared.dialogs.options import Options
from tui.driving import compare
from tui.review.keys_of_review import asked
from tui.review.review_driving import environ_of, reviewing

if TYPE_CHECKING:
    from pathlib import Path

    from core.review.repositories import Repository
    from tui.review.review_driving import Reviewing

# Not part of `make quick`: it starts many processes of pytest.
pytestmark = pytest.mark.real

AGENTS = ("ada", "bob", "eve")
REQUEST = Request(targets=AGENTS, base="main")
VICTIM = "tests/test_common.py::test_rate"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return make_shop(tmp_path_factory.mktemp("screen") / "shop")


def environ(shop: Repository) -> dict[str, str]:
    return environ_of(shop, SELFTEST_TUI_PYTEST_COMMAND=" ".join(PYTEST))


async def done(one: Reviewing) -> None:
    """Wait until all is verified, and shown."""
    state = one.screen.feed.verifier

    def is_done() -> bool:
        return state.state.phase in (Phase.DONE, Phase.FAILED) and state.state.is_settled

    await one.until(is_done, f"verified: {state.state.error}")
    await one.until(lambda: all(row.is_settled for row in one.screen.rows), "shown")
    await one.settled()


def cell(one: Reviewing, words: str) -> str:
    """The marks of claim and verdict in the table's line with these words."""
    column = next(placed for placed in one.table.columns.place(one.table.size.width) if placed.column.name == "tests")
    line = next(line for line in one.lines if words in line)
    return line[column.x : column.x + column.width].strip()


async def test_verdicts_appear_beside_claims_and_nothing_is_published_red_unasked(shop: Repository) -> None:
    async with reviewing(shop, REQUEST, environ=environ(shop), size=(80, 24)) as one:
        assert "not verified: P publishes" in one.head or "cannot publish" in one.head
        assert cell(one, "Mend ada") == "· ?"
        await one.press("v")
        question = await asked(one, Question)
        assert ("sandbox" if SANDBOX.is_isolated else "NOT isolated") in str(
            question.query_one("#lines Static").render()
        )
        await one.press("y")
        await one.press("y")  # decisions never wait
        assert Decision.KEEP in {row.decision for row in one.screen.rows}
        await one.press("z")
        await done(one)
        assert (cell(one, "Mend ada"), cell(one, "Mend eve")) == ("· ✓", "· ✗")
        assert "✓ 2 ✗ 1 ? 0" in one.head
        first = one.table.shown.lines[0]
        assert isinstance(first, ReviewGroup)
        assert [row.change.subject for row in first.members] == ["[FIX_IMPL] Mend eve"], "culprits come first"
        for name, count in (("is:culprit", 1), ("is:liar", 0), ("is:unverified", 0), ("is:passed", 2)):
            one.screen.filter_by(name)
            assert len(one.table.shown.rows) == count, name
        one.screen.filter_by("")
        await one.go_to("Mend eve")
        compare("review-verified-small", await one.picture())
        await one.press("6")
        text = one.pane.text_of("tests")
        assert f"breaks {VICTIM}" in text
        assert "before green" in text
        assert "assert 2 == 1" in text
        await one.press("6", "escape")

        await one.go_to("Mend eve")
        await one.press("y")
        await one.press("P", "enter")
        options = await asked(one, Options)
        assert any("were not run" in line for line in options.listed)
        await one.press("v")
        await one.until(lambda: one.top is one.screen, "verified first")
        await done(one)
        assert "✗ verified: failed: P publishes" in one.head
        await one.press("P", "enter")
        options = await asked(one, Options)
        assert any("✗ Mend eve: culprit" in line for line in options.listed)
        await one.press("escape")
        await one.until(lambda: one.top is one.screen, "not published")
        await one.press("x")
        await one.go_to("Mend ada")
        await one.press("y")
        await done(one)
        await one.until(lambda: "✓ safe to publish (P)" in one.head, "green")
        await one.press("P", "enter")
        await asked(one, Question)
        await one.press("y")
        await one.until(lambda: "✓ published as reviewed" in one.head, "published")


async def test_coming_back_goes_on_and_shows_all_at_once(shop: Repository, tmp_path: Path) -> None:
    async with reviewing(shop, REQUEST, environ=environ(shop), size=(140, 40)) as one:
        await done(one)
        verified = one.screen.feed.verifier.state.candidate
        assert verified is not None
        assert verified.executions == 0, "all of it was kept"
        one.screen.filter_by("")
        await one.go_to("Mend ada")
        await one.press("6")
        assert "fixed" in one.pane.text_of("tests")
        await one.press("v")
        await asked(one, Options)
        await one.press("c")
        await one.until(lambda: one.screen.feed.verifier.state.phase is Phase.OFF, "cancelled")
        assert cell(one, "Mend ada").endswith("✓")
