"""The table for people: pure, on every scene and at every width."""

from __future__ import annotations

import unicodedata

import pytest
from rich.cells import cell_len

import scenes
from selftest_core.fleet.view import Problem
from selftest_tui.cli.list import LEAST_WIDTH, fleet_lines, problem_lines

SCENES = (
    scenes.few, scenes.hundred, scenes.empty, scenes.provider_down, scenes.no_mngr, scenes.on_their_way,
    scenes.hostile, scenes.two_of_one_name,
)  # fmt: skip


@pytest.mark.parametrize("make", SCENES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("width", [1, 40, 80, 250])
def test_no_line_is_too_wide_and_none_can_be_obeyed(make: object, width: int) -> None:
    assert callable(make)
    view = make().view
    lines = fleet_lines(view, scenes.NOW, width, colour=False)

    assert lines
    assert max(map(cell_len, lines)) <= max(width, LEAST_WIDTH)
    for line in lines + problem_lines(view.problems):
        assert not [letter for letter in line if unicodedata.category(letter) in ("Cc", "Cf", "Cs")]


def test_what_needs_a_person_comes_first() -> None:
    view = scenes.few().view
    lines = fleet_lines(view, scenes.NOW, 120, colour=False)

    first = lines[lines.index("") + 2]
    needing = {row.agent.name: row.attention for row in view.rows if row.attention}
    assert any(name in first for name in needing)
    assert f"{len(view.rows)} agents" in lines[0]


def test_colour_repeats_what_is_there_without_it() -> None:
    import re

    view = scenes.hundred().view
    plain = fleet_lines(view, scenes.NOW, 100, colour=False)
    coloured = fleet_lines(view, scenes.NOW, 100, colour=True)

    assert coloured != plain
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in coloured] == plain


def test_a_problem_is_shown_with_its_hint() -> None:
    lines = problem_lines([Problem("mngr", "mngr is \x1b[31mmissing", "it\nis\nnot\nthere", "Install it.")])

    assert lines == ["! mngr is missing", "  it", "  is", "  not", "  → Install it."]
