"""What the keys of a review's screen that split, squash and reword must do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from selftest_tui.review import words
from tui.review.keys_of_review import does

if TYPE_CHECKING:
    from tui.review.review_driving import Reviewing


@does("mark")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Guard")
    await one.press(key)
    assert one.table.marked == {one.row("Guard").oid}
    assert any(line.startswith(words.MARKED) and "Guard" in line for line in one.lines)
    await one.go_to("Guard")
    await one.press(key)
    assert not one.table.marked


@does("squash")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Guard")
    await one.press(key)
    assert "mark the changes" in one.toasts, "nothing is above the first one"
    await one.press("space", key)
    assert "One change is marked" in one.toasts
    await one.go_to("Keep the query")
    await one.press("space", key)
    await one.settled()
    guard, query = one.row("Guard"), one.row("Keep the query")
    assert guard.commit_mates == {query.oid}
    assert query.number == guard.number + 1
    assert not one.table.marked
    assert one.state.reviewed.line.items[[change.oid for change in one.state.reviewed.order].index(guard.oid)].commit
    commits = {placed.item.oid: placed.commit for placed in one.state.reviewed.line.items}
    assert commits[guard.oid] == commits[query.oid]
    await one.press("z")
    assert not one.row("Guard").commit_mates


@does("unsquash")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Keep the query")
    await one.press(key)
    assert "not squashed" in one.toasts
    await one.press("(")
    await one.settled()
    assert one.row("Keep the query").commit_mates
    await one.go_to("Keep the query")
    await one.press(key)
    await one.settled()
    assert not one.row("Keep the query").commit_mates
    assert one.state.decisions.squash == ()


@does("select_hunk")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Keep the query")
    await one.press(key)
    assert one.diff.selected == {(0, 0)}
    assert any(f"{words.MARKED} @@" in line for line in one.diff_lines)
    await one.press("home")
    assert not one.diff.selected, "another diff, another selection"


@does("split")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Keep the query")
    await one.press(key)
    assert "cannot be split" in one.toasts, "it is one hunk"


@does("reword")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    await one.until(lambda: one.toasts, "no terminal can be handed over here")
    assert "terminal" in one.toasts
