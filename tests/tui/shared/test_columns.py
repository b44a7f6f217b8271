"""The shared layout of columns: names first, no overlap, the person's choices, and nothing that jumps."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scenes
from selftest_core.usage.tokens import Usage
from selftest_tui.fleet import columns as fleet_columns
from selftest_tui.fleet.arrangement import Arrangement, GroupBy, arrange, key_of
from selftest_tui.review import columns as review_columns
from selftest_tui.run import columns as run_columns
from selftest_tui.shared.widgets.columns import Choice, Column, Columns, Layout, Needs, Sort, clicked_again, place
from selftest_tui.tutorial import lines as tutorial_columns

ALL = [one.COLUMNS for one in (fleet_columns, run_columns, review_columns, tutorial_columns)]


def widths(layout: Layout[str], width: int) -> dict[str, int]:
    return {one.column.name: one.width for one in layout.place(width)}


def words(*least: str) -> Layout[str]:
    """A table of words: a name, a number, an optional column, and a status that takes what is left."""
    columns: Columns[str] = Columns(
        "words", 2,
        (
            Column("name", "name", 4, lambda line, now: line, good=30),
            Column("number", "n", 3, lambda line, now: str(len(line)), is_number=True, drops=1),
            Column("status", "status", 6, lambda line, now: "fine", good=10, fills=True),
            Column("more", "more", 4, lambda line, now: line[:3], joins=1),
        ),
    )  # fmt: skip
    layout = Layout(columns)
    layout.measure(((number, line) for number, line in enumerate(least)), 0.0)
    return layout


NAMED = ["b", "a10", "", "A9", "a10"]
MEASURED: Columns[str] = Columns(
    "measured", 0,
    (
        Column("name", "name", 4, lambda line, now: line),
        Column("size", "size", 4, lambda line, now: "", is_number=True, amount=lambda line, now: len(line) or None),
    ),
)  # fmt: skip


def test_lines_are_sorted_as_people_sort_and_those_without_a_text_stay_last() -> None:
    def sorted_by(sort: Sort) -> list[tuple[int, str]]:
        return MEASURED.in_order(enumerate(NAMED), sort, 0.0)

    assert sorted_by(Sort("name")) == [(3, "A9"), (1, "a10"), (4, "a10"), (0, "b"), (2, "")]
    assert sorted_by(Sort("name", is_reversed=True)) == [(0, "b"), (1, "a10"), (4, "a10"), (3, "A9"), (2, "")]
    assert sorted_by(Sort("size")) == [(1, "a10"), (4, "a10"), (3, "A9"), (0, "b"), (2, "")]
    assert sorted_by(Sort("size", is_reversed=True)) == [(0, "b"), (3, "A9"), (1, "a10"), (4, "a10"), (2, "")]
    assert sorted_by(Sort("gone")) == list(enumerate(NAMED))


def test_clicks_on_a_title_sort_then_reverse_then_end_it() -> None:
    first = clicked_again(None, "name")
    second = clicked_again(first, "name")
    assert (first, second, clicked_again(second, "name")) == (Sort("name"), Sort("name", is_reversed=True), None)
    assert clicked_again(second, "size") == Sort("size")
    assert MEASURED.columns[0].heading(6, first) == "name▲ "
    assert MEASURED.columns[1].heading(6, Sort("size")) == " size▼"
    assert MEASURED.columns[0].heading(3, second) == "n…▼", "the sign stays where it is narrow"


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("name", [one.name for one in fleet_columns.COLUMNS.columns])
def test_every_column_of_the_fleet_sorts_every_line_once(name: str, is_reversed: bool) -> None:
    view = scenes.hundred().view
    found = arrange(view, Arrangement(group=GroupBy.NOTHING, by_column=Sort(name, is_reversed)))
    assert {key_of(line) for line in found.lines} >= {row.key for row in view.rows}
    assert len(found.lines) == len(view.rows) + len(view.sessions) + bool(view.sessions)


@pytest.mark.parametrize("columns", ALL, ids=lambda one: one.table)
@given(width=st.integers(1, 400), cells=st.lists(st.integers(0, 90), min_size=14, max_size=14))
def test_columns_do_not_overlap_and_stay_inside(columns: Columns[object], width: int, cells: list[int]) -> None:
    names = [column.name for column in columns.columns]
    for needs in (Needs(), Needs(tuple(zip(names, cells, strict=False)))):
        placed = place(columns, width, needs)
        assert placed[0].column is columns.columns[0]
        for one, following in itertools.pairwise(placed):
            assert one.x + one.width + one.gap == following.x
        if width >= 60:
            assert placed[-1].x + placed[-1].width <= width


@pytest.mark.parametrize("columns", ALL, ids=lambda one: one.table)
@given(width=st.integers(1, 300), data=st.data())
def test_every_choice_fits_too(columns: Columns[object], width: int, data: st.DataObject) -> None:
    names = st.sampled_from([column.name for column in columns.optional()])
    choices = data.draw(st.dictionaries(names, st.sampled_from(Choice)))
    placed = place(columns, width, Needs(None, tuple(choices.items())))
    shown = {one.column.name for one in placed}
    assert not shown & {name for name, choice in choices.items() if choice is Choice.NEVER}
    if width >= 60:
        assert placed[-1].x + placed[-1].width <= width
    if width >= 280:
        assert shown >= {name for name, choice in choices.items() if choice is Choice.ALWAYS}


def test_names_have_the_room_they_need_before_anything_else() -> None:
    layout = words("a" * 24, "b")
    assert widths(layout, 60)["name"] == 24
    assert widths(layout, 40) == {"name": 24, "number": 3, "status": 8}
    assert widths(layout, 36) == {"name": 24, "status": 8}, "a column is dropped before a name is cut"
    assert widths(words("ab"), 40)["name"] == 4, "short names leave their room to others"


def test_optional_columns_join_where_nothing_is_cut_for_them() -> None:
    assert "more" in widths(words("a" * 24), 60)
    assert "more" not in widths(words("a" * 24), 46)


def test_widths_only_grow() -> None:
    layout = words("a" * 20)
    before = widths(layout, 60)["name"]
    assert not layout.measure([(0, "short")], 0.0)
    assert widths(layout, 60)["name"] == before
    assert layout.measure([(1, "a" * 25)], 0.0)
    assert widths(layout, 60)["name"] == 26


def test_a_column_that_takes_what_is_left_has_no_room_until_a_line_has_a_text_for_it() -> None:
    name: Column[str] = Column("name", "name", 4, lambda line, now: line)
    reason: Column[str] = Column("reason", "reason", 6, lambda line, now: line[4:], good=10, drops=1, fills=True)
    layout = Layout(Columns("reasons", 2, (name, reason)))
    layout.measure([(1, "good")], 0.0)
    assert widths(layout, 40) == {"name": 4}
    layout.measure([(2, "bad because")], 0.0)
    assert list(widths(layout, 40)) == ["name", "reason"]


def test_a_person_chooses_columns() -> None:
    layout = words("a" * 24)
    layout.choose({"more": Choice.ALWAYS, "number": Choice.NEVER})
    assert list(widths(layout, 46)) == ["name", "status", "more"]
    layout.choose({})
    assert list(widths(layout, 46)) == ["name", "number", "status"]


def test_columns_of_the_meter_join_once_an_agent_is_metered_and_leave_names_alone() -> None:
    rows = scenes.hundred().view.rows
    layout: Layout[fleet_columns.Line] = Layout(fleet_columns.COLUMNS)
    layout.measure(((row.key, row) for row in rows), scenes.NOW)
    before = {one.column.name: one.width for one in layout.place(200)}
    assert {"cost", "tokens"}.isdisjoint(before)
    metered = [replace(row, usage=Usage(output=5)) for row in rows]
    layout.measure(((row.key, row) for row in metered), scenes.NOW)
    assert layout.let_join("cost", "tokens")
    after = {one.column.name: one.width for one in layout.place(200)}
    assert {"cost", "tokens"} <= after.keys()
    assert (after["name"], after["doing"]) == (before["name"], before["doing"])
    assert not layout.let_join("cost", "tokens")


def test_agents_of_two_runs_are_told_apart_by_a_column() -> None:
    layout: Layout[fleet_columns.Line] = Layout(fleet_columns.COLUMNS)
    layout.measure(((row.key, row) for row in scenes.hundred().view.rows), scenes.NOW)
    assert "run" not in {one.column.name for one in layout.place(100)}
    assert layout.prefer("run")
    assert "run" in {one.column.name for one in layout.place(100)}
    layout.choose({"run": Choice.NEVER})
    assert "run" not in {one.column.name for one in layout.place(100)}


@pytest.mark.parametrize("width", range(30, 251))
def test_claim_and_verdict_of_a_review_are_never_cut(width: int) -> None:
    cells = {one.column.name: one.width for one in Layout(review_columns.COLUMNS).place(width)}
    assert cells["tests"] >= 5, "two marks with a blank between, and one for what is not final"
