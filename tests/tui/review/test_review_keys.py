"""Every key of a review's screen is pressed, over a real repository, and what it did is asserted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import scenes
import tui.review.keys_of_review_acts
import tui.review.keys_of_review_shaping
from selftest_tui.review.keys import REVIEW
from selftest_tui.shared.keys import Where
from tui.quiet import quiet
from tui.review.keys_of_review import does, subject
from tui.review.review_driving import environ_of, reviewing
from tui.review.review_scenes import shop, shop_once

__all__ = ["shop", "shop_once"]

if TYPE_CHECKING:
    from core.review.repositories import Repository
    from selftest_core.fleet.view import FleetView
    from tui.review.review_driving import Reviewing

assert tui.review.keys_of_review_acts, "its checks register themselves"
assert tui.review.keys_of_review_shaping, "its checks register themselves"


TOGETHER: dict[str, tuple[str, ...]] = {
    "moving": (
        "down", "up", "page_down", "page_up", "first", "last", "close_group", "open_group", "next_needing",
        "previous_needing", "sort", "filter", "filter_by", "only_needing",
        "prompt_up", "prompt_down", "prompt_cancel", "back",
    ),
    "the diff": (
        "next_hunk", "previous_hunk", "next_file", "previous_file", "fold_hunk", "fold_file", "sides", "pan_right",
        "search_text", "next_hit", "previous_hit", "copy_diff",
        "original", "pan_left", "zoom", "scroll_down", "scroll_up", "open", "show_diff", "show_members",
        "show_evidence", "show_needs", "show_alternatives", "show_tests", "next_tab", "previous_tab", "replay",
        "conflicts",
    ),
    "deciding": (
        "keep", "revert", "undecide", "undo", "redo", "keep_many", "revert_many", "undecide_many", "pick", "apart",
        "note",
    ),
    "the line": (
        "move_down", "move_up", "edit", "integrate", "rebase", "copy", "publish", "pull_request", "refresh", "message",
    ),
    "shaping": ("mark", "squash", "unsquash", "select_hunk", "split", "reword"),
    "verifying": ("verify", "pause", "culprit"),
    "the table": ("table_wider", "table_narrower", "choose_columns", "command"),
    "pages": ("search_all", "problems", "theme", "help", "palette", "no_quit", "report"),
    "to the fleet": ("fleet",),
    "leaving": ("leave",),
    "leaving by ctrl+c": ("interrupt",),
}  # fmt: skip
"""Keys that are pressed one after the other in one app, since each app takes a second."""
NARROW = (80, 17)
"""Where the right pane is away, which each press would draw anew."""
SIZES = {"shaping": (130, 30), "moving": NARROW, "the diff": (110, 14), "deciding": NARROW, "pages": NARROW}


def authors() -> FleetView:
    """The fleet of a dozen, two of which made changes here."""
    view = scenes.few().view
    names = ("ada", "bob")
    rows = [replace(row, agent=replace(row.agent, name=name)) for row, name in zip(view.rows, names, strict=False)]
    return replace(view, rows=(*rows, *view.rows[len(names) :]))


@pytest.mark.slow
@pytest.mark.parametrize("together", TOGETHER)
async def test_every_key_does_what_the_table_says(shop: Repository, together: str) -> None:
    size = SIZES.get(together, (100, 17))
    async with reviewing(shop, size=size, view=authors(), environ=environ_of(shop, EDITOR="true")) as one:
        await does.press_all(one, REVIEW, TOGETHER[together], as_it_was)


async def as_it_was(one: Reviewing) -> None:
    """The screen as it is at first, with nothing decided."""
    while one.top is not one.screen:
        one.fleet.app.pop_screen()
        await quiet(one.fleet.app)
    while one.state.undo_text:
        await one.screen.act(lambda session: session.undo())
    one.screen.folded = frozenset()
    one.screen.query_text = ""
    one.screen.only_open = False
    one.screen.said.clear()
    if one.screen.is_zoomed:
        one.screen.zoom(False)
    if one.pane.tab != "diff":
        one.pane.show_tab("diff")
    one.screen.rearrange()
    if subject(one) != "[FIX_IMPL] Guard the empty cart":
        await one.go_to("Guard the empty cart")


def test_no_key_is_left_out() -> None:
    assert (
        set(does.of) == {key.action for key in REVIEW.rows} == {name for names in TOGETHER.values() for name in names}
    )
    assert all(key.where in (Where.TABLE, Where.SCREEN, Where.APP, Where.PROMPT) for key in REVIEW.rows)
