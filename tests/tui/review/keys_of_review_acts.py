"""What the keys of a review's screen that decide, change the line, publish, or steer the program must do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.command import CommandPalette
from textual.widgets import TextArea

from selftest_core.review.candidate_branch import Decision
from selftest_tui.review.pull_request import PullRequestPage
from selftest_tui.shared.dialogs.choose import Choose
from selftest_tui.shared.dialogs.composer import Composer
from selftest_tui.shared.dialogs.dialogs import Question
from selftest_tui.shared.dialogs.help import Page
from selftest_tui.shared.dialogs.options import Options
from tui.review.keys_of_review import asked, does, subject

if TYPE_CHECKING:
    from tui.review.review_driving import Reviewing


@does("keep")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.row("Guard").decision is Decision.KEEP
    assert one.table.row is not None
    assert one.table.row.number == 2, "the next open one"
    await one.press("up", key)
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
    await one.press("y", "up", key)
    assert one.row("Guard").decision is Decision.UNDECIDED


@does("undo")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "nothing to undo" in one.toasts
    await one.press("y", "up", "x", key)
    assert one.row("Guard").decision is Decision.KEEP
    await one.press(key)
    assert one.row("Guard").decision is Decision.UNDECIDED


@does("redo")
async def _(one: Reviewing, key: str) -> None:
    await one.press("y", "z", key)
    assert one.row("Guard").decision is Decision.KEEP


@does("keep_many", "revert_many", "undecide_many")
async def _(one: Reviewing, key: str) -> None:
    wanted = {"Y": Decision.KEEP, "X": Decision.REVERT, "U": Decision.UNDECIDED}[key]
    if wanted is Decision.UNDECIDED:
        await one.press("home", "y")
        await one.go_to("Guard the empty cart")
        await one.press("y", "up")
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
    assert "says the same" in one.toasts


@does("apart")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "says the same" in one.toasts


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


@does("edit")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Round taxes up")
    await one.press(key)
    await one.until(lambda: one.toasts, "no terminal can be handed over here")
    assert "terminal" in one.toasts


@does("rebase")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "has not moved" in one.toasts or "Rebased" in one.toasts


@does("copy")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.fleet.app.clipboard == one.row("Guard").oid


@does("publish")
async def _(one: Reviewing, key: str) -> None:
    await one.press("y", key)
    assert one.screen.prompt.is_open
    await one.press("enter")
    question = await asked(one, Options)
    assert "not verified" in question.listed[0] or "were not run" in question.listed[0]
    await one.press("y")
    await one.until(lambda: "refs/heads/reviewed" in one.toasts, "published")
    tip = one.repository.git("rev-parse", "reviewed")
    assert one.repository.git("show", f"{tip}:src/cart.py").count("return 0") == 1
    await one.until(lambda: "published as reviewed" in one.head, "told at the top")


@does("verify")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    question = await asked(one, Question)
    assert question is not None
    await one.press("n")
    await one.until(lambda: one.top is one.screen, "nothing was begun")
    assert one.screen.feed.verifier.started is None


@does("pause", "culprit")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert ("Nothing is being verified" if key == "H" else "No test of this change is red") in one.toasts


@does("integrate")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Round taxes up")
    await one.press(key)
    options = await asked(one, Options)
    labels = [way.label for way in options.ways]
    assert labels[:2] == ["The conflict of “Round taxes up”", "All 2 conflicts"]
    await one.press("escape")


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
