"""Grouping, sorting and filtering, as pure functions over the scenes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scenes
from selftest_core.fleet.view import Category, FleetView, Row
from selftest_tui.fleet.arrangement import (
    FILTER,
    Arranged,
    Arrangement,
    Group,
    GroupBy,
    LineKey,
    SortBy,
    arrange,
    changed_places,
    facts_of,
    first_line,
    items_of,
    key_of,
    labels_of,
    place_of_cursor,
)
from selftest_tui.shared.filter import Finder

if TYPE_CHECKING:
    from selftest_core.fleet.observations import TmuxSession

FEW = scenes.few().view
HUNDRED = scenes.hundred().view


def rows_of(arranged: Arranged) -> list[Row]:
    return [line for line in arranged.lines if isinstance(line, Row)]


def titles_of(arranged: Arranged) -> list[str]:
    return [line.title for line in arranged.lines if isinstance(line, Group)]


def names_for(view: FleetView, query: str) -> set[str]:
    finder: Finder[LineKey, Row | TmuxSession] = Finder(facts_of, FILTER)
    found = finder.find(items_of(view), query)
    return {row.agent.name for row in view.rows if found is None or row.key in found}


def test_what_needs_a_person_comes_first_and_the_longest_waiting_of_it() -> None:
    arranged = arrange(HUNDRED, Arrangement())
    assert titles_of(arranged)[:2] == ["needs you", "failed"]
    needing = [row for row in rows_of(arranged) if row.category is Category.NEEDS_YOU]
    since = [row.idle_since for row in needing if row.idle_since is not None]
    assert since == sorted(since)


@pytest.mark.parametrize("group", list(GroupBy))
@pytest.mark.parametrize("sort", list(SortBy))
def test_every_layout_has_every_agent_once(group: GroupBy, sort: SortBy) -> None:
    arranged = arrange(HUNDRED, Arrangement(group=group, label="selftest_run", sort=sort))
    assert sorted(row.key for row in rows_of(arranged)) == sorted(row.key for row in HUNDRED.rows)
    assert {arranged.places[key_of(line)] for line in arranged.lines} == set(range(len(arranged.lines)))
    assert all(line.count > 0 for line in arranged.lines if isinstance(line, Group))


def test_a_folded_group_hides_its_lines_and_counts_them() -> None:
    opened = arrange(FEW, Arrangement())
    first = opened.lines[0]
    assert isinstance(first, Group)
    folded = arrange(FEW, Arrangement().fold(first.key, True))
    assert len(folded.lines) == len(opened.lines) - first.count
    assert folded.lines[0] == Group(first.key, first.title, first.count, True, first.category)
    assert folded.needing == opened.needing, "what needs a person is known in folded groups too"


def test_a_filter_shows_hits_in_folded_groups() -> None:
    how = Arrangement(query="cart-tax")
    group = arrange(FEW, how).group_of[next(row.key for row in FEW.rows if row.agent.name == "st-7f-cart-tax")]
    finder: Finder[LineKey, Row | TmuxSession] = Finder(facts_of, FILTER)
    found = finder.find(items_of(FEW), how.query)
    arranged = arrange(FEW, how.fold(group, True), found)
    assert [row.agent.name for row in rows_of(arranged)] == ["st-7f-cart-tax"]


def test_only_what_needs_me() -> None:
    arranged = arrange(FEW, Arrangement(only_me=True))
    assert rows_of(arranged)
    assert all(row.attention for row in rows_of(arranged))
    assert titles_of(arranged) == ["needs you", "failed"]


def test_all_words_must_be_found_anywhere() -> None:
    assert names_for(FEW, "cart tax") == {"st-7f-cart-tax"}
    assert names_for(FEW, "TAX cart") == {"st-7f-cart-tax"}
    assert names_for(FEW, "test_tax") == {"st-7f-cart-tax"}, "in the test"
    assert names_for(FEW, "modal") == {row.agent.name for row in FEW.rows if row.agent.host.provider == "modal"}
    assert names_for(FEW, "") == {row.agent.name for row in FEW.rows}
    assert names_for(FEW, "[") == set()


def test_states_labels_fields_and_the_inverse() -> None:
    needing = {row.agent.name for row in FEW.rows if row.category is Category.NEEDS_YOU}
    names = {row.agent.name for row in FEW.rows}
    assert needing
    assert names_for(FEW, "is:needs-you") == needing
    assert names_for(FEW, "!is:needs-you") == names - needing
    assert names_for(FEW, "provider:modal") == {
        row.agent.name for row in FEW.rows if row.agent.host.provider == "modal"
    }
    assert names_for(FEW, "label:selftest_run") == {row.agent.name for row in FEW.rows if row.agent.run}
    assert names_for(FEW, "!cart /^st-7f/") == {
        name for name in names if name.startswith("st-7f") and "cart" not in name
    }


def test_slips_of_the_fingers_find_what_exact_words_do_not() -> None:
    assert "st-7f-login-redirect" in names_for(FEW, "logn redirct")
    assert names_for(FEW, "coupno") == {"st-7f-cart-coupon"}
    assert names_for(FEW, "zzzzqq") == set()


def test_labels_of_ours_are_no_choice_to_group_by() -> None:
    assert not any(name.startswith("selftest_") or name == "project" for name in labels_of(FEW))


@given(st.sets(st.sampled_from(range(len(HUNDRED.rows)))), st.integers(0, 130), st.integers(1, 50))
def test_wherever_lines_go_cursor_and_scroll_stay_in_bounds(gone: set[int], cursor: int, page: int) -> None:
    before = arrange(HUNDRED, Arrangement())
    rows = tuple(row for number, row in enumerate(HUNDRED.rows) if number not in gone)
    after = arrange(FleetView(at=HUNDRED.at, rows=rows), Arrangement())
    cursor = min(cursor, len(before.lines) - 1)
    place = place_of_cursor(before, after, cursor)
    assert 0 <= place <= max(0, len(after.lines) - 1)
    line = before.lines[cursor]
    if key_of(line) in after.places:
        assert place == after.places[key_of(line)]
    top = max(0, min(cursor, len(before.lines) - page))
    first = first_line(before, after, cursor, place, top, page)
    assert 0 <= first <= max(0, len(after.lines) - page)
    if after.lines:
        assert first <= place < first + page, "a cursor that was in sight stays in sight"
    same = set(range(max(len(before.lines), len(after.lines)))) - set(changed_places(before, after))
    assert all(key_of(before.lines[number]) == key_of(after.lines[number]) for number in same)
