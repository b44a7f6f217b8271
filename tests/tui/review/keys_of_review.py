"""What the keys of a review's screen that decide nothing must do: moving, finding, the diff, the right pane.

`does` is the registry that `test_review_keys` presses from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from selftest_core.verify.verification import ItemVerdict, Mark, Verified
from selftest_tui.review.columns import COLUMNS
from selftest_tui.review.lines import ReviewGroup, subject_of
from selftest_tui.search.screen import SearchScreen
from selftest_tui.shared.dialogs.choose import Choose
from selftest_tui.shared.widgets.columns import Sort
from tui.key_checks import KeyChecks

if TYPE_CHECKING:
    from tui.review.review_driving import Reviewing

does: KeyChecks[Reviewing] = KeyChecks()


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


@does("next_needing", "previous_needing")
async def _(one: Reviewing, key: str) -> None:
    await one.press("end", "home", key)
    assert one.table.row is not None
    assert one.table.row.is_open
    assert one.table.row.number == (0 if key == "tab" else 8), "round the end"


@does("filter")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key, *"taxes agent:bob", "enter")
    assert [row.change.subject for row in one.table.shown.rows] == [
        "[FIX_TUTORIAL] Tell of taxes", "[FIX_IMPL] Round taxes to cents",
    ]  # fmt: skip
    await one.press(key, "ctrl+u", *"is:held", "enter")
    assert len(one.table.shown.rows) == 2


@does("filter_by")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    await asked(one, Choose)
    await one.press("down", "down", "enter")
    assert one.screen.query_text == "is:conflict"


@does("search_all")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    await one.until(lambda: isinstance(one.top, SearchScreen), "the search")


@does("sort")
async def _(one: Reviewing, key: str) -> None:
    def subjects() -> list[list[str]]:
        """The subjects of each group, and of the changes with commits of their own."""
        found: dict[str, list[str]] = {}
        for line in one.table.shown.lines:
            if not isinstance(line, ReviewGroup):
                found.setdefault(one.table.shown.group_of.get(line.key, ""), []).append(subject_of(line.change))
        return list(found.values())

    before = subjects()
    await one.press(key, "j", "enter")
    assert subjects() == [sorted(group, key=str.casefold) for group in before] != before
    assert "change▲" in one.lines[0]
    assert "sort: change" in str(one.screen.query_one("#line").border_title)
    await one.press("end", "ctrl+k", "left_parenthesis")
    assert one.toasts.count("o brings the order of the branch back") == 2
    await one.press(key, "enter")
    assert subjects() == [sorted(group, key=str.casefold, reverse=True) for group in before]
    await one.press(key, "k", "enter")
    assert subjects() == before

    for column in COLUMNS.columns:
        one.screen.sort_by(Sort(column.name))
        assert list(map(sorted, subjects())) == list(map(sorted, before)), "each change stays in its group"
    await one.fleet.pilot.click("LineTable", offset=(one.lines[0].index("agents"), 0))
    await one.until(lambda: one.table.columns.sort == Sort("agents"), "a click on the title sorts")
    alone = [row for row in one.table.shown.lines if not isinstance(row, ReviewGroup) and row.number]
    agents = [len(row.agents) for row in alone]
    assert agents == sorted(agents, reverse=True), "the most first"
    assert agents[0] > agents[-1]
    one.screen.sort_by(None)
    assert subjects() == before

    row = replace(alone[-1], tests=0, passing=0)
    culprit = ItemVerdict(row.oid, Verified.FAILED, claimed=True, marks=(Mark.CULPRIT,))
    passed = ItemVerdict(row.oid, Verified.PASSED, claimed=True)
    rows = {
        "passed": replace(row, verdict=passed, is_settled=True), "silent": row,
        "claims red": replace(row, tests=2, passing=1), "culprit": replace(row, verdict=culprit, is_settled=True),
    }  # fmt: skip
    by_tests = [name for name, _ in COLUMNS.in_order(rows.items(), Sort("tests"), 0.0)]
    assert by_tests == ["culprit", "claims red", "silent", "passed"]
    assert COLUMNS.in_order(rows.items(), Sort("marks"), 0.0)[0][0] == "culprit"


@does("only_needing")
async def _(one: Reviewing, key: str) -> None:
    if not one.screen.only_open:
        await one.press("y", key)
    assert len(one.table.shown.rows) == 11
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


@does("table_wider", "table_narrower")
async def _(one: Reviewing, key: str) -> None:
    before = one.table.size.width
    await one.press(key)
    moved = one.table.size.width - before
    assert moved > 0 if key == "right_curly_bracket" else moved < 0


@does("command")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key, *"show_needs", "enter")
    await one.until(lambda: one.pane.tab == "needs", "the action has run")
    await one.press("1")


@does("choose_columns")
async def _(one: Reviewing, key: str) -> None:
    assert "agents" not in one.lines[0].split()
    await one.press(key, "space", "enter")
    assert "agents" in one.lines[0].split()
    await one.press(key, "0", "enter")
    assert "agents" not in one.lines[0].split()


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


@does("search_text", "next_hit", "previous_hit")
async def _(one: Reviewing, key: str) -> None:
    await one.go_to("Log the second attempt")
    await one.press("tilde", "ctrl+u", *"ANSWER", "enter")
    assert "“ANSWER”: 1 of" in one.toasts
    one.screen.said.clear()
    if key != "tilde":
        await one.press(key)
        count = len(one.diff.find("answer"))
        assert f"“ANSWER”: {2 if key == 'n' else count} of {count}" in one.toasts
    one.screen.said.clear()
    await one.press("tilde", "ctrl+u", *"nowhere", "enter")
    assert "is not in this diff" in one.toasts


@does("copy_diff")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.fleet.app.clipboard.startswith("--- src/cart.py\n+++ src/cart.py\n@@ ")
    assert "+        if not self.lines:" in one.fleet.app.clipboard


@does("original")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "What is applied is what its agent committed" in one.toasts


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


@does("zoom")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.screen.is_zoomed
    await one.press(key)
    assert not one.screen.is_zoomed


@does("open")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.screen.has_class("-zoomed")
    await one.press(key)
    assert not one.screen.has_class("-zoomed")
    await one.press("home", key)
    assert isinstance(one.table.line, ReviewGroup)
    assert one.table.line.is_folded


@does("show_diff", "show_members", "show_evidence", "show_needs", "show_alternatives", "show_tests")
async def _(one: Reviewing, key: str) -> None:
    words = {"2": "3 commits of 3 agents", "3": "Nothing but the commits", "4": "It needs no other"}
    words |= {"5": "says the same", "6": "v runs its tests"}
    await one.press("3", key)
    tab = ("diff", "members", "evidence", "needs", "alternatives", "tests")[int(key) - 1]
    assert one.pane.tab == tab
    assert words.get(key, "") in one.pane.text_of(tab)


@does("next_tab", "previous_tab")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert one.pane.tab == ("members" if key == "right_square_bracket" else "tests")


@does("replay")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "No agent that made it was recorded" in one.toasts


@does("report")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    page = one.state.home / "report" / "index.html"
    await one.until(lambda: str(page) in one.toasts, "where the report is")
    assert "Guard the empty cart" in page.read_text(encoding="utf-8")


@does("conflicts")
async def _(one: Reviewing, key: str) -> None:
    await one.press(key)
    assert "not in conflict" in one.toasts
    await one.go_to("Round taxes up")
    await one.press(key)
    assert one.pane.tab == "needs"
    await one.until(lambda: "theirs" in one.pane.text_of("needs"), "both sides")
    assert "ceil(amount" in one.pane.text_of("needs")
    assert "applied before it in the same files (3)" in one.pane.text_of("needs")
