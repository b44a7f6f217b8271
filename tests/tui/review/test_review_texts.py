"""Changes that say the same are one row: its texts side by side, one chosen, another one picked, one set apart."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selftest_core.review.batch import review
from selftest_core.review.candidate_branch import Decision, Status
from tui.driving import compare
from tui.review.review_driving import ALL, environ_of, reviewing
from tui.review.review_scenes import CART, EMPTY, shop, shop_once

if TYPE_CHECKING:
    from core.review.repositories import Repository
    from selftest_tui.review.lines import ReviewRow
    from tui.review.review_driving import Reviewing

__all__ = ["shop", "shop_once"]

pytestmark = pytest.mark.slow  # whole screens over a real repository

DOCS = Path(__file__).parents[3] / "docs/reviews.md"
_GUARD = "        if not self.lines:\n            return 0\n"
_TEXTS = {
    "zoe": EMPTY.replace(_GUARD, f"        # an empty cart has no mean\n{_GUARD}"),
    "tom": EMPTY.replace(_GUARD, "        if not self.lines:  # nothing\n            return 0\n"),
    "uma": EMPTY.replace(_GUARD, _GUARD.replace("return 0", "return 0  # nothing bought")),
}
MORE = replace(ALL, targets=(*ALL.targets, *_TEXTS))


@pytest.fixture
def texts(shop: Repository) -> Repository:
    """The shop, where three more agents guard the empty cart in words of their own."""
    for agent, text in _TEXTS.items():
        assert text not in (CART, EMPTY)
        shop.git("checkout", "-q", "-b", agent, "release")
        shop.commit(f"[FIX_IMPL] Guard it as {agent} \x1b[31m[bold]", {"src/cart.py": text}, agent.title())
    shop.git("checkout", "-q", "main")
    return shop


def guard(one: Reviewing) -> ReviewRow:
    """The row of those who guard the empty cart."""
    return next(row for row in one.screen.rows if any(path.path == "src/cart.py" for path in row.change.paths))


@pytest.mark.parametrize("size", [(80, 24), (120, 34), (200, 50)])
async def test_a_row_says_how_many_texts_and_shows_them_beside_each_other(
    texts: Repository, size: tuple[int, int]
) -> None:
    async with reviewing(texts, MORE, size=size) as one:
        row = guard(one)
        assert (row.texts, len(row.agents)) == (4, 6)
        await one.go_to(row.change.subject)
        words = "4 texts of 6 agents" if size != (120, 34) else "4 of 6"
        assert any(words in line for line in one.lines), one.lines
        if size != (80, 24):
            assert "4 texts of 6 agents say the same" in one.pane.text_of("headline")
        await one.press("5")
        shown = one.pane.text_of("alternatives")
        assert shown.count("◇") == 3
        assert shown.count("▸") == 1
        assert "\x1b" not in shown
        compared = one.pane.alternatives.diff
        assert compared.layout_of_rows.hunks
        assert compared.is_split is (size == (200, 50))
        compare(f"review-texts-{size[0]}", await one.picture())


async def test_another_text_is_chosen_and_the_cursor_stays_on_its_row(texts: Repository) -> None:
    async with reviewing(texts, MORE, size=(160, 40)) as one:
        total, first = one.state.total, guard(one)
        await one.go_to(first.change.subject)
        await one.press("b")
        assert "5 shows them" in one.toasts
        await one.press("5", "n", "n")
        marked = one.pane.alternatives.marked
        assert marked not in (first.oid, one.pane.alternatives._texts[1].change.oid)
        await one.press("b")
        now = one.table.row
        assert now is not None
        assert (now.key, now.oid, now.texts, now.status) == (first.key, marked, 4, Status.LAID)
        assert one.state.total == total
        assert not any(row.oid == first.oid for row in one.screen.rows)
        # What is decided about the row is decided about the text that is chosen in it.
        await one.press("y")
        await one.until(lambda: one.state.reviewed.decided[marked] is Decision.KEEP, "kept")
        decided = one.state.reviewed.decided
        assert [oid for oid, decision in decided.items() if decision is Decision.KEEP] == [marked]
        await one.press("z", "z")
        row = guard(one)
        assert (row.oid, row.decision) == (first.oid, Decision.UNDECIDED)


async def test_a_text_is_set_apart_and_put_back(texts: Repository) -> None:
    async with reviewing(texts, MORE, size=(160, 40)) as one:
        total, row = one.state.total, guard(one)
        await one.go_to(row.change.subject)
        await one.press("5", "n")
        marked = one.pane.alternatives.marked
        assert marked != row.oid
        await one.press("N", "n", "dollar_sign")
        assert one.state.total == total + 1
        now = one.table.row
        assert now is not None
        assert now.texts == 3
        assert now.oid == row.oid
        apart = next(row for row in one.screen.rows if row.oid == marked)
        assert apart.is_apart
        await one.press("slash", *"is:apart", "enter")
        assert [row.oid for row in one.table.shown.rows] == [marked]
        await one.press("escape")
        await one.go_to(apart.change.subject)
        await one.press("dollar_sign")
        assert one.state.total == total
        assert "Put back" in one.toasts
        await one.press("z")
        assert one.state.total == total + 1
        await one.press("z")
        assert one.state.total == total


async def test_texts_are_marked_and_chosen_with_the_mouse(texts: Repository) -> None:
    async with reviewing(texts, MORE, size=(160, 40)) as one:
        row = guard(one)
        await one.go_to(row.change.subject)
        await one.press("5")
        view = one.pane.alternatives
        await one.fleet.pilot.click("TextList", offset=(5, 3))
        await one.settled()
        third = view.marked
        assert third == view._texts[3].change.oid
        await one.fleet.pilot.click("TextList", offset=(5, 3))
        await one.until(lambda: one.screen.is_settled and any(row.oid == third for row in one.screen.rows), "chosen")


async def test_who_searches_for_an_agent_finds_the_row_of_its_text(texts: Repository) -> None:
    async with reviewing(texts, MORE, size=(160, 40)) as one:
        row = guard(one)
        for words in ("agent:tom", f"commit:{row.others[-1].oid[:12]}"):
            await one.press("slash", *words, "enter")
            assert [found.key for found in one.table.shown.rows] == [row.key], words
            await one.press("escape")
        await one.press("slash", *"is:alternatives", "enter")
        assert row.key in [found.key for found in one.table.shown.rows]
        assert all(found.others for found in one.table.shown.rows)


def test_the_example_of_the_manual_chooses_one_and_sets_one_apart(texts: Repository) -> None:
    (example,) = re.findall(r"```json\n([^`]*alternatives[^`]*)```", DOCS.read_text(encoding="utf-8"))
    oids = {agent: texts.git("rev-parse", agent) for agent in _TEXTS}
    for name, agent in (("<one", "uma"), ("<another", "tom"), ("<a third", "zoe")):
        example = example.replace(f"{name} full id>", oids[agent])
    path = texts.folder.parent / "decisions.json"
    path.write_text(example)
    found = review(replace(MORE, decisions=path), texts.folder, environ_of(texts)).reviewed
    assert found.is_chosen(oids["tom"])
    assert not found.is_chosen(oids["uma"])
    assert found.row_of[oids["zoe"]].members == (oids["zoe"],)


async def test_publishing_and_the_pull_request_name_the_texts(texts: Repository) -> None:
    async with reviewing(texts, MORE, size=(160, 40)) as one:
        row = guard(one)
        await one.go_to(row.change.subject)
        await one.press("y", "P", "enter")
        await one.until(lambda: one.top is not one.screen, "the question")
        shown = "\n".join(str(static.render()) for static in one.fleet.app.screen.query("Static"))
        assert f"4 texts of 6 agents; that of {row.change.agents[0]}" in shown
        await one.press("escape")
        request = await one.screen.ask(lambda session: session.pull_request(None), "")
        assert "chosen of 4 texts" in request.body
        assert "6 agents" in request.title
        assert "Reverted" not in request.body
