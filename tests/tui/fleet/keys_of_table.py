"""What the keys that move, find, arrange and mark must do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import OptionList, Static

import scenes
from selftest_tui.fleet.arrangement import Group, GroupBy, SortBy
from selftest_tui.fleet.columns import COLUMNS
from selftest_tui.shared.dialogs.choose import Choose
from selftest_tui.shared.preferences import PreferenceStore
from selftest_tui.shared.widgets.columns import Sort
from tui.key_checks import KeyChecks

if TYPE_CHECKING:
    from tui.driving import Driven

does: KeyChecks[Driven] = KeyChecks()

# moving


@does("down")
async def _(one: Driven, key: str) -> None:
    before = one.table.cursor
    await one.press(key)
    assert one.table.cursor == before + 1


@does("up")
async def _(one: Driven, key: str) -> None:
    await one.press("down", "down")
    before = one.table.cursor
    await one.press(key)
    assert one.table.cursor == before - 1


@does("page_down")
async def _(one: Driven, key: str) -> None:
    await one.show(scenes.hundred().view)
    await one.press("home", key)
    assert one.table.cursor == one.table.page - 1


@does("page_up")
async def _(one: Driven, key: str) -> None:
    await one.show(scenes.hundred().view)
    await one.press("end")
    before = one.table.cursor
    await one.press(key)
    assert one.table.cursor == before - (one.table.page - 1)


@does("first")
async def _(one: Driven, key: str) -> None:
    await one.press("down", key)
    assert one.table.cursor == 0


@does("last")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.table.cursor == len(one.table.arranged.lines) - 1


@does("close_group")
async def _(one: Driven, key: str) -> None:
    name = one.name
    await one.press(key)
    line = one.table.line
    assert isinstance(line, Group)
    assert line.is_folded
    assert not any(name[:12] in text for text in one.lines)


@does("open_group")
async def _(one: Driven, key: str) -> None:
    name = one.name
    await one.press("left", key)
    assert isinstance(one.table.line, Group)
    assert not one.table.line.is_folded
    assert any(name[:12] in text for text in one.lines)


@does("next_needing")
async def _(one: Driven, key: str) -> None:
    seen = [one.name]
    for _ in range(len(one.table.arranged.needing)):
        await one.press(key)
        assert one.table.row is not None
        assert one.table.row.attention
        seen.append(one.name)
    assert len(set(seen)) == len(one.table.arranged.needing)
    assert seen[0] == seen[-1], "it goes round"


@does("previous_needing")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert one.table.row is not None
    assert one.table.row.key == one.table.arranged.needing[-1]


# finding and arranging


def _asks(one: Driven) -> bool:
    return one.screen.prompt.is_open


@does("filter")
async def _(one: Driven, key: str) -> None:
    await one.press(key, *"cart")
    assert one.table.arranged.shown == 3
    assert _asks(one)
    hint = one.screen.prompt.query_one("#hint", Static)
    await one.press("space", *"re:(")
    assert "no regular expression" in str(hint.visual)
    assert one.table.arranged.shown == 3, "what cannot be understood has no effect"
    await one.press(*["backspace"] * 5)
    assert "⏎ keep" in str(hint.visual)
    await one.press("enter")
    assert not _asks(one)
    assert one.table.has_focus
    assert {row.agent.name for row in one.table.shown_rows()} == {
        "st-7f-cart-empty", "st-7f-cart-tax", "st-7f-cart-coupon",
    }  # fmt: skip


@does("search_text")
async def _(one: Driven, key: str) -> None:
    await one.press(key, *"redirect")
    assert one.screen.prompt.purpose == "search_text"
    assert one.table.arranged.shown == one.table.arranged.agents, "it does not filter"
    await one.press("enter")
    await one.until(lambda: "could not be searched" in one.toasts, "the search's answer, of panes that are not there")


@does("only_needing")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert all(row.attention for row in one.table.shown_rows())
    assert one.table.arranged.shown == 4
    await one.press(key)
    assert one.table.arranged.shown == 12


@does("group")
async def _(one: Driven, key: str) -> None:
    await one.press(key)
    assert isinstance(one.app.screen, Choose)
    assert one.app.screen.query_one(OptionList).highlighted == 0
    await one.press(key, key, "enter")
    assert one.table.arrangement.group is GroupBy.HOST
    assert any(line.startswith(" ▾ local") for line in one.lines)


@does("sort")
async def _(one: Driven, key: str) -> None:
    await one.press(key, key, "enter")
    assert one.table.arrangement.sort is SortBy.NAME
    by_host = ["j"] * (len(SortBy) - 1 + [column.name for column in COLUMNS.columns].index("host"))
    await one.press(key, *by_host, "enter")
    assert one.table.arrangement.by_column == Sort("host")
    assert "host▲" in one.lines[0]
    await one.press(key, "enter")
    assert one.table.arrangement.by_column == Sort("host", is_reversed=True)
    assert "host▼" in one.lines[0]
    assert "sort: column host, reversed" in one.table.arrangement.words
    await one.press(key, *["k"] * len(by_host), "enter")
    assert one.table.arrangement.by_column is None


# marking


@does("mark")
async def _(one: Driven, key: str) -> None:
    row, before = one.table.row, one.table.cursor
    assert row is not None
    await one.press(key)
    assert one.table.marks == {row.key}
    assert one.table.cursor == before + 1
    await one.press("up", key)
    assert not one.table.marks


@does("mark_range")
async def _(one: Driven, key: str) -> None:
    await one.press(key, "down", "down")
    assert len(one.table.marks) == 3
    assert "RANGE" in one.key_line
    await one.press("up")
    assert len(one.table.marks) == 2
    await one.press(key, "down", "down")
    assert len(one.table.marks) == 2, "the second V ends it"


@does("mark_all")
async def _(one: Driven, key: str) -> None:
    await one.press("slash", *"cart", "enter", key)
    assert len(one.table.marks) == 3


@does("back")
async def _(one: Driven, key: str) -> None:
    await one.press("space", "slash", *"cart", "enter", "V")
    layers = []
    for _ in range(3):
        layers.append((one.table.in_range, one.table.arrangement.query, len(one.table.marks)))
        await one.press(key)
    assert layers == [(True, "cart", 2), (False, "cart", 2), (False, "", 2)]
    assert not one.table.marks
    await one.press(key)
    assert "Nothing to clear" in one.toasts


@does("hide_old")
async def _(one: Driven, key: str) -> None:
    hides = []
    for _ in range(2):
        hides.append(one.table.arrangement.hides_old)
        await one.press(key)
        assert PreferenceStore(one.screen.environ).now.hides_old_agents is not hides[-1]
    assert hides == [True, False]
