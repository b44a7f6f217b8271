"""The table over fleets that change: cursor, marks and place on the screen stay with their agents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.style import Style
from textual.geometry import Size

import scenes
from selftest_core.agents import State
from selftest_core.fleet.view import Category, FleetView, Row
from selftest_core.usage.tokens import Label, Usage
from selftest_tui.fleet.arrangement import Group, changed_places
from selftest_tui.fleet.columns import COLUMNS
from selftest_tui.fleet.line_painter import MOST_STRIPS, PARTS, LinePainter, Look
from selftest_tui.fleet.status_bar import used_by_all
from selftest_tui.shared.widgets.columns import Sort, place
from tui.driving import ENVIRONMENT, Driven, driven
from tui.quiet import quiet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from selftest_core.fleet.observations import TmuxSession


def without(view: FleetView, names: Iterable[str]) -> FleetView:
    gone = set(names)
    return replace(view, rows=tuple(row for row in view.rows if row.agent.name not in gone))


def test_the_name_of_a_category_is_the_title_of_its_group() -> None:
    assert all(category.value for category in Category)


async def test_cursor_and_marks_survive_a_refresh_that_moves_their_lines() -> None:
    before = scenes.few()
    async with driven(before.view) as one:
        await one.press("slash", *"cart-tax", "enter", "space", "escape")
        await one.press("slash", *"cart-empty", "enter", "escape")
        assert one.name == "st-7f-cart-empty"
        marked = one.table.marks
        place = one.table.cursor
        ended = scenes.changed(before, "st-7f-cart-empty", state=State.DONE, exit_status=0)
        await one.show(ended.view)
        assert one.name == "st-7f-cart-empty"
        assert one.table.cursor != place, "its line has moved to another group"
        assert one.table.marks == marked


async def test_a_click_on_a_title_sorts_and_the_cursor_stays_on_its_agent() -> None:
    async with driven(scenes.few().view, size=(160, 40)) as one:
        await one.press("down", "down")
        name = one.name
        x = one.table.columns.column_at(one.lines[0].index("idle"), one.table.size.width)
        assert x is not None
        for sign, by_column in (("▼", Sort("idle")), ("▲", Sort("idle", is_reversed=True)), (" ", None)):
            await one.pilot.click("AgentTable", offset=(one.lines[0].index("idle"), 0))
            await one.until(lambda wanted=by_column: one.table.arrangement.by_column == wanted, "sorted by the title")  # type: ignore[misc]
            assert f"idle{sign}" in one.lines[0]
            assert one.name == name
            groups: dict[str, list[float]] = {}
            for row in (line for line in one.table.lines if isinstance(line, Row)):
                if row.idle_since is not None and row.category is not Category.WORKING:
                    groups.setdefault(row.category, []).append(row.idle_since)
            if by_column is not None:
                for idle in groups.values():
                    assert idle == sorted(idle, reverse=by_column.is_reversed)


async def test_a_destroyed_agent_under_the_cursor_is_said_and_the_neighbour_is_next() -> None:
    before = scenes.few()
    async with driven(before.view) as one:
        await one.press("slash", *"cart-empty", "enter", "escape", "space", "up")
        below = one.table.arranged.lines[one.table.cursor + 1]
        assert isinstance(below, Row)
        await one.show(scenes.gone(before, "st-7f-cart-empty").view)
        await one.until(lambda: "st-7f-cart-empty is gone" in one.toasts, "what became of it")
        assert one.table.row is not None
        assert one.table.row.key == below.key
        assert not one.table.marks, "what is gone is marked no longer"


async def test_a_renamed_agent_stays_under_the_cursor_and_is_said() -> None:
    before = scenes.few()
    async with driven(before.view) as one:
        await one.press("slash", *"cart-empty", "enter", "escape")
        await one.show(scenes.changed(before, "st-7f-cart-empty", name="st-7f-basket").view)
        await one.until(lambda: "st-7f-cart-empty is now called st-7f-basket" in one.toasts, "the new name")
        assert one.name == "st-7f-basket"


async def test_two_agents_of_one_name_are_told_apart_by_their_hosts() -> None:
    async with driven(scenes.two_of_one_name().view) as one:
        twins = [line for line in one.lines if "twin" in line]
        assert len(twins) == 2
        assert any("local" in line for line in twins)
        assert any("build-1" in line for line in twins)


async def test_the_line_under_the_cursor_keeps_its_place_on_the_screen() -> None:
    view = scenes.thousand().view
    async with driven(view) as one:
        await one.press("end", "pageup", "pageup")
        row = one.table.row
        assert row is not None
        seen_at = one.table.cursor - one.table.scroll_offset.y
        above = [line for line in one.table.arranged.lines[: one.table.cursor - 60] if isinstance(line, Row)][:40]
        await one.show(without(view, [line.agent.name for line in above]))
        assert one.table.row is not None
        assert one.table.row.key == row.key
        assert one.table.cursor - one.table.scroll_offset.y == seen_at


async def test_only_changed_lines_on_the_screen_are_painted_again() -> None:
    before = scenes.few()
    async with driven(before.view) as one:
        laid_out = one.table.arranged
        await one.show(scenes.changed(before, "st-7f-cart-empty", title="another").view)
        changed = list(changed_places(laid_out, one.table.arranged))
        assert [one.table.arranged.lines[place] for place in changed] == [
            row for row in one.screen.view.rows if row.agent.name == "st-7f-cart-empty"
        ]


async def test_the_clock_paints_again_only_what_it_changes() -> None:
    async with driven(scenes.few().view) as one:
        painter = one.table.painter
        look = Look()
        first = [painter.line(line, look, scenes.NOW) for line in one.table.arranged.lines]
        later = [painter.line(line, look, scenes.NOW + 1) for line in one.table.arranged.lines]
        same = [line for line, was, is_now in zip(one.table.arranged.lines, first, later, strict=True) if was is is_now]
        assert any(isinstance(line, Row) and line.category is Category.STOPPED for line in same)
        ticking = [line for line in one.table.arranged.lines if line not in same]
        assert ticking
        assert all(
            painter.timed_cells(line, scenes.NOW) != painter.timed_cells(line, scenes.NOW + 1) for line in ticking
        )
        assert "12:04" in "".join(one.lines)
        one.seconds += 1
        await one.until(lambda: "12:05" in "".join(one.lines), "the next second")


@pytest.mark.parametrize("width", [12, 40, 100, 220])
def test_a_line_with_another_time_is_the_line_painted_anew(width: int) -> None:
    styles = {part: Style(color=f"color({number})") for number, part in enumerate(PARTS)}
    view = scenes.many(60).view
    lines: tuple[Row | TmuxSession, ...] = (*view.rows, *view.sessions)
    placed = place(COLUMNS, width)
    painter = LinePainter(styles, width, placed)
    for look in (Look(), Look(is_cursor=True), Look(is_marked=True)):
        for seconds in (0.0, 1.0, 50.0, 4_000.0):
            anew = LinePainter(styles, width, placed)
            for line in lines:
                assert painter.line(line, look, scenes.NOW + seconds) == anew.line(line, look, scenes.NOW + seconds)


async def test_lines_that_were_left_are_not_kept_painted() -> None:
    async with driven(scenes.few().view) as one:
        painter, look = one.table.painter, Look()
        rows = [row for row in scenes.many(400).view.rows if isinstance(row, Row)]
        first = painter.line(rows[0], look, scenes.NOW)
        for number, row in enumerate(rows[1:], 1):
            painted = painter.line(row, look, scenes.NOW)
            assert painter.line(row, look, scenes.NOW) is painted
            assert (not painter.changed_by_time(rows[0], scenes.NOW)) == (number < MOST_STRIPS)
        assert painter.line(rows[0], look, scenes.NOW) is not first


async def test_the_first_cursor_is_on_an_agent_also_when_sessions_came_first() -> None:
    few = scenes.few().view
    async with driven(replace(few, rows=())) as one:
        assert one.table.session is not None
        await one.show(few)
        await one.until(lambda: one.table.row is not None, "an agent under the cursor")


async def test_folded_groups_stay_folded_and_tab_opens_them() -> None:
    async with driven(scenes.few().view) as one:
        await one.press("left")
        await one.show(scenes.few().view)
        assert isinstance(one.table.line, Group)
        assert one.table.line.is_folded
        await one.press("tab")
        assert one.table.row is not None
        assert one.table.row.attention


async def test_the_mouse_moves_marks_folds_and_scrolls() -> None:
    async with driven(scenes.thousand().view) as one:
        await one.pilot.click("AgentTable", offset=(10, 3))
        await quiet(one.app)
        assert one.table.cursor == 2
        await one.pilot.click("AgentTable", offset=(10, 5), shift=True)
        await quiet(one.app)
        assert len(one.table.marks) == 3
        await one.pilot.click("AgentTable", offset=(10, 3), control=True)
        await quiet(one.app)
        assert len(one.table.marks) == 2
        shown = len(one.table.arranged.lines)
        await one.pilot.click("AgentTable", offset=(10, 1))
        await quiet(one.app)
        assert len(one.table.arranged.lines) < shown, "a click on a group's title folds it"


async def test_other_sessions_are_there_and_our_own_is_not() -> None:
    view = scenes.few().view
    own = view.sessions[0]
    environ = {**ENVIRONMENT, "TMUX": f"/nonexistent/tmux/{own.ref.socket.rpartition('/')[2]},1,7"}
    mine = replace(own, session_id="$7")
    async with driven(replace(view, sessions=(mine, *view.sessions[1:])), environ=environ) as one:
        names = {line.ref.name for line in one.screen.view.sessions}
        assert names == {session.ref.name for session in view.sessions[1:]}


async def test_a_terminal_of_any_size_shows_something() -> None:
    async with driven(scenes.few().view) as one:
        for size in (Size(20, 6), Size(60, 10), Size(99, 24), Size(100, 24), Size(300, 90)):
            await one.pilot.resize_terminal(*size)
            await quiet(one.app)
            assert one.lines
            assert len(one.lines[0]) <= size.width


async def _lines_after(one: Driven, *keys: str) -> list[str]:
    await one.press(*keys)
    return one.lines


async def test_a_filter_without_a_hit_says_so_and_escape_brings_all_back() -> None:
    async with driven(scenes.few().view) as one:
        lines = await _lines_after(one, "slash", *"zzzzqq")
        assert any("Nothing matches" in line for line in lines)
        lines = await _lines_after(one, "escape")
        assert any("st-7f-cart-tax" in line for line in lines)


async def test_tokens_and_cost_have_columns_once_an_agent_is_metered() -> None:
    before = scenes.few()
    async with driven(before.view, size=(240, 40)) as one:
        assert not any("tokens" in line for line in one.lines)
        first, *others = before.view.rows
        usage = Usage(120, 72_000, 3_000, 112, 0.03212, Label.METERED, "m")
        metered = replace(before.view, rows=(replace(first, usage=usage), *others))
        await one.show(metered)
        assert any("tokens" in line and "cost" in line for line in one.lines)
        assert sum("75.2k" in line and "$0.03" in line for line in one.lines) == 1
        assert used_by_all(metered) == "$0.03"
        await one.show(before.view)
        assert any("tokens" in line for line in one.lines), "columns do not come and go"
