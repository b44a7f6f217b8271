"""Every key of a review's screen is pressed, over a real repository, and what it did is asserted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from textual.command import CommandPalette
from textual.widgets import TextArea

import scenes
from selftest_core.integration.line import Decision
from selftest_tui.keys import Where
from selftest_tui.keys_review import REVIEW
from selftest_tui.review_lines import ReviewGroup
from selftest_tui.screens.choose import Choose
from selftest_tui.screens.composer import Composer
from selftest_tui.screens.dialogs import Question
from selftest_tui.screens.help import Page
from selftest_tui.screens.options import Options
from selftest_tui.screens.pull_request import PullRequestPage
from tui.review_driving import environ_of, reviewing
from tui.review_scenes import shop, shop_once

__all__ = ["shop", "shop_once"]

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from integration.repositories import Repository
    from selftest_core.view import FleetView
    from tui.review_driving import Reviewing

type Check = Callable[[Reviewing, str], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def does(*actions: str) -> Callable[[Check], Check]:
    """Register what pressing the keys of these actions must do. It gets a fresh review, and the key."""

    def keep(check: Check) -> Check:
        CHECKS.update(dict.fromkeys(actions, check))
        return check

    return keep


TOGETHER: dict[str, tuple[str, ...]] = {
    "moving": (
        "down", "up", "page_down", "page_up", "first", "last", "close_group", "open_group", "next_open",
        "previous_open", "filter", "filter_by", "only_open", "prompt_up", "prompt_down", "prompt_cancel", "back",
    ),
    "the diff": (
        "next_hunk", "previous_hunk", "next_file", "previous_file", "fold_hunk", "fold_file", "sides", "pan_right",
        "pan_left", "scroll_down", "scroll_up", "open", "show_diff", "show_members", "show_evidence", "show_needs",
        "show_alternatives", "next_tab", "previous_tab", "replay", "conflicts",
    ),
    "deciding": (
        "keep", "revert", "undecide", "undo", "redo", "keep_many", "revert_many", "undecide_many", "pick", "note",
    ),
    "the line": ("move_down", "move_up", "resolve", "relay", "publish", "pull_request", "refresh", "message"),
    "pages": ("problems", "theme", "help", "palette", "no_quit"),
    "to the fleet": ("fleet",),
    "leaving": ("leave",),
    "leaving by ctrl+c": ("interrupt",),
}  # fmt: skip
"""Keys that are pressed one after the other in one app, since each app takes a second."""


def authors() -> FleetView:
    """The fleet of a dozen, two of which made changes here."""
    view = scenes.few().view
    names = ("ada", "bob")
    rows = [replace(row, agent=replace(row.agent, name=name)) for row, name in zip(view.rows, names, strict=False)]
    return replace(view, rows=(*rows, *view.rows[len(names) :]))


@pytest.mark.parametrize("together", TOGETHER)
async def test_every_key_does_what_the_table_says(shop: Repository, together: str) -> None:
    size = (110, 14) if together == "the diff" else (100, 17)
    async with reviewing(shop, size=size, view=authors(), environ=environ_of(shop, EDITOR="true")) as one:
        for action in TOGETHER[together]:
            for name in REVIEW.row(action).keys:
                await as_it_was(one)
                try:
                    await CHECKS[action](one, name)
                except AssertionError as error:
                    error.add_note(f"{action}: {name}")
                    raise


async def as_it_was(one: Reviewing) -> None:
    """The screen as it is at first, with nothing decided."""
    while one.top is not one.screen:
        one.fleet.app.pop_screen()
        await one.fleet.pilot.pause()
    while one.state.undo_says:
        await one.screen.act(lambda session: session.undo())
    one.screen.folded = frozenset()
    one.screen.query_text = ""
    one.screen.only_open = False
    one.screen.zoom(False)
    one.screen.said.clear()
    one.screen.pane.show_tab("diff")
    one.screen.rearrange()
    await one.go_to("Guard the empty cart")


def test_no_key_is_left_out() -> None:
    assert set(CHECKS) == {key.action for key in REVIEW.rows} == {name for names in TOGETHER.values() for name in names}
    assert all(key.where in (Where.TABLE, Where.SCREEN, Where.APP, Where.PROMPT) for key in REVIEW.rows)


def subject(one: Reviewing) -> str:
    """The subject under the cursor."""
    return one.table.row.change.subject if one.table.row is not None else ""


async def asked[T](one: Reviewing, kind: type[T]) -> T:
    """The dialog that is on top."""
    await one.until(lambda: isinstance(one.top, kind), kind.__name__)
    assert isinstance(one.top, kind)
    return one.top


@does("down", "up")
async def _(one: Reviewing, key: str) -> None:
    place = one.table.cursor
    await one.press(key)
    assert one.table.cursor == place + (1 if key in ("down", "j") else -1)


@does("page_down", "last")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.table.cursor == len(one.table.shown.lines) - 1


@does("page_up", "first")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.table.cursor == 0


@does("close_group")
async def _(one: Reviewing, key: str) -> None:
    await one.press("home", "down", key)
    assert isinstance(one.table.line, ReviewGroup)
    assert one.table.line.is_folded


@does("open_group")
async def _(one: Reviewing, key: str) -> None:
    lines = len(one.table.shown.lines)
    await one.press("home", "left")
    assert len(one.table.shown.lines) == lines - 4
    await one.press(key)
    assert len(one.table.shown.lines) == lines


@does("next_open", "previous_open")
async def _(one: Reviewing, key: str) -> None:
    await one.press("end", "home", key)
    assert one.table.row is not None
    assert one.table.row.is_open
    assert one.table.row.number == (1 if key == "tab" else 8), "round the end"


@does("filter")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key, *"taxes agent:bob", "enter")
    assert [row.change.subject for row in one.table.shown.rows] == [
        "[FIX_TUTORIAL] Tell of taxes", "[FIX_IMPL] Round taxes to cents",
    ]  # fmt: skip
    await one.press(key, *([*["backspace"] * 15, *"is:held"]), "enter")
    assert len(one.table.shown.rows) == 2


@does("filter_by")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    await asked(one, Choose)
    await one.press("down", "down", "enter")
    assert one.screen.query_text == "is:held"


@does("only_open")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert len(one.table.shown.rows) == 8
    await one.press(key)
    assert len(one.table.shown.rows) == 12


@does("prompt_up", "prompt_down")
async def _(one: Reviewing, key: str) -> None:
    place = one.table.cursor
    await one.press("slash", key)
    assert one.screen.prompt.is_open
    assert one.table.cursor == place + (1 if key == "down" else -1)
    await one.press("escape")


@does("prompt_cancel")
async def _(one: Reviewing, key: str) -> None:
    await one.press("slash", *"tax", key)
    assert not one.screen.prompt.is_open
    assert one.screen.query_text == ""
    assert one.screen.focused is one.table


@does("back")
async def _(one: Reviewing, key: str) -> None:
    await one.press("enter", "slash", *"taxes", "enter", key)
    assert not one.screen.is_zoomed
    await one.press(key)
    assert one.screen.query_text == ""
    await one.press(key)
    assert one.top is one.fleet.screen
    one.fleet.app.open_review(one.screen.request)
    await one.until(lambda: one.top is one.screen, "back again, as it was")


@does("scroll_down", "scroll_up")
async def _(one: Reviewing, key: str) -> None:
    await one.press("2", "J", "J")
    scroll = one.pane.query_one("#members")
    await one.until(lambda: scroll.scroll_offset.y > 0, "scrolled")
    before = scroll.scroll_offset.y
    if key in ("K", "shift+up"):
        await one.press(key)
        await one.until(lambda: scroll.scroll_offset.y < before, "scrolled up")
    await one.press("1", key)
    assert one.pane.tab == "diff"


@does("next_hunk", "previous_hunk")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Log the second attempt")
    await one.press(key)
    assert "hunk" in one.toasts, "there is one hunk only"


@does("next_file", "previous_file")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "file" in one.toasts, "there is one file only"


@does("fold_hunk")
async def _(one: Reviewing, key: str) -> None:
    before = one.diff.layout_of_rows.height
    await one.press(key)
    assert one.diff.layout_of_rows.height == 2 < before
    await one.press(key)
    assert one.diff.layout_of_rows.height == before


@does("fold_file")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.diff.layout_of_rows.height == 1
    await one.press(key)
    assert one.diff.layout_of_rows.height > 1


@does("sides")
async def _(one: Reviewing, key: str) -> None:
    assert not one.diff.is_split
    await one.press(key)
    assert one.diff.layout_of_rows.is_split
    assert any("│" in line for line in one.diff_lines)
    await one.press(key)
    assert not any("│" in line for line in one.diff_lines)


@does("pan_right", "pan_left")
async def _(one: Reviewing, key: str) -> None:
    await one.press("shift+right")
    assert one.diff.pan > 0
    assert not any("def mean" in line for line in one.diff_lines)
    if key == "shift+left":
        await one.press(key)
        assert one.diff.pan == 0
    else:
        await one.press("shift+left")


@does("open")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.screen.has_class("-zoomed")
    await one.press(key)
    assert not one.screen.has_class("-zoomed")
    await one.press("home", key)
    assert isinstance(one.table.line, ReviewGroup)
    assert one.table.line.is_folded


@does("show_diff", "show_members", "show_evidence", "show_needs", "show_alternatives")
async def _(one: Reviewing, key: str) -> None:
    words = {"2": "3 commits of 3 agents", "3": "Nothing came back", "4": "It needs no other", "5": "nearly the same"}
    await one.press("3", key)
    tab = ("diff", "members", "evidence", "needs", "alternatives")[int(key) - 1]
    assert one.pane.tab == tab
    assert words.get(key, "") in one.pane.text_of(tab)


@does("next_tab", "previous_tab")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.pane.tab == ("members" if key == "right_square_bracket" else "alternatives")


@does("replay")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "No agent that made it was recorded" in one.toasts


@does("conflicts")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "not in conflict" in one.toasts
    await one.go_to("Round taxes up")
    await one.press(key)
    assert one.pane.tab == "needs"
    await one.until(lambda: "theirs" in one.pane.text_of("needs"), "both sides")
    assert "ceil(amount" in one.pane.text_of("needs")
    assert "laid before it in the same files (1)" in one.pane.text_of("needs")


@does("keep")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.row("Guard").decision is Decision.KEEP
    await one.press(key)
    assert "kept already" in one.toasts


@does("revert")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.row("Guard").decision is Decision.REVERT, "nothing needs it, so nothing is asked"
    await one.go_to("Retry a payment")
    await one.press(key)
    options = await asked(one, Options)
    assert any("Log the second attempt" in line for line in options.listed)
    await one.press("escape")
    assert one.row("Retry").decision is Decision.UNDECIDED
    await one.press(key)
    await asked(one, Options)
    await one.press("a")
    await one.settled()
    assert one.row("Retry").decision is one.row("Log the").decision is Decision.REVERT
    await one.press("z")
    assert one.row("Retry").decision is one.row("Log the").decision is Decision.UNDECIDED, "one act, one undo"


@does("undecide")
async def _(one: Reviewing, key: str) -> None:
    await one.press("y", key)
    assert one.row("Guard").decision is Decision.UNDECIDED


@does("undo")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "nothing to take back" in one.toasts
    await one.press("y", "d", key)
    assert one.row("Guard").decision is Decision.KEEP
    await one.press(key)
    assert one.row("Guard").decision is Decision.UNDECIDED


@does("redo")
async def _(one: Reviewing, key: str) -> None:
    await one.press("y", "z", key)
    assert one.row("Guard").decision is Decision.KEEP


@does("keep_many", "revert_many", "undecide_many")
async def _(one: Reviewing, key: str) -> None:
    wanted = {"Y": Decision.KEEP, "D": Decision.REVERT, "U": Decision.UNDECIDED}[key]
    if wanted is Decision.UNDECIDED:
        await one.press("y")
    await one.press(key)
    await asked(one, Choose)
    await one.press("enter")
    question = await asked(one, Question)
    assert question is not None
    await one.press("y")
    await one.settled()
    decided = [row for row in one.screen.rows if row.decision is wanted and "ada" in row.change.agents]
    assert len(decided) == 4, "all of ada"
    await one.press("z")
    assert one.row("Log the").decision is Decision.UNDECIDED


@does("pick")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "nearly the same" in one.toasts
    similar = [row for row in one.screen.rows if row.alternatives]
    if not similar:
        return
    await one.go_to(similar[0].change.subject)
    await one.press(key)
    assert one.row(similar[0].change.subject).decision is Decision.KEEP
    others = one.state.alternatives[similar[0].oid]
    assert {row.decision for row in one.screen.rows if row.oid in others} == {Decision.REVERT}


@does("note")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    await asked(one, Composer)
    await one.press(*"why not", "enter")
    await one.until(lambda: one.top is one.screen, "kept")
    await one.settled()
    assert one.state.notes == {one.row("Guard").oid: "why not"}
    assert one.row("Guard").has_note


@does("move_down", "move_up")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Round taxes to cents")
    before = one.row("Round taxes to cents").number
    await one.press(key)
    assert one.row("Round taxes to cents").number == before + (1 if key == "ctrl+j" else -1)
    assert subject(one) == "[FIX_IMPL] Round taxes to cents", "the cursor goes with it"


@does("resolve")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Round taxes up")
    await one.press(key)
    await one.until(lambda: one.toasts, "no terminal can be handed over here")
    assert "terminal" in one.toasts


@does("relay")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "has not moved" in one.toasts or "Re-laid" in one.toasts


@does("publish")
async def _(one: Reviewing, key: str) -> None:
    await one.press("y", key)
    assert one.screen.prompt.is_open
    await one.press("enter")
    question = await asked(one, Question)
    assert question is not None
    await one.press("y")
    await one.until(lambda: "refs/heads/reviewed" in one.toasts, "published")
    tip = one.repository.git("rev-parse", "reviewed")
    assert one.repository.git("show", f"{tip}:src/cart.py").count("return 0") == 1
    assert "published as reviewed" in one.head


@does("pull_request")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    page = await asked(one, PullRequestPage)
    assert page is not None
    await one.press("escape")


@does("refresh")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    await one.until(lambda: "Refresh" in one.toasts, "looked")


@does("message")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Log the second attempt")
    await one.press(key)
    composer = await asked(one, Composer)
    assert "+        log.warning('once more')" in composer.query_one(TextArea).text, "the hunk is in it"
    await one.press("escape")


@does("problems")
async def _(one: Reviewing, key: str) -> None:
    await one.press("R")
    await one.until(lambda: one.toasts, "something was said")
    await one.press(key)
    await asked(one, Page)


@does("theme", "palette")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    await asked(one, CommandPalette)


@does("help")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    page = await asked(one, Page)
    assert any(section.heading == "Symbols" for section in page.sections)


@does("no_quit")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "does nothing here" in one.toasts


@does("fleet")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.top is one.fleet.screen


@does("leave", "interrupt")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    await one.until(lambda: not one.fleet.app.is_running, "the end")
