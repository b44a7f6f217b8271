"""Blocks, tests and the last run as one view, its lines on the screen, and what a stale citation says otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.run.rehearsals import a_plan
from selftest_core.journal import Entry
from selftest_core.run.events import Event, Phase
from selftest_core.run.fold import fold
from selftest_core.run.outcome.ends import End
from selftest_core.run.plan.plan import PlannedTest
from selftest_core.tutorial.check import check
from selftest_core.tutorial.citation_differences import MOST_WORDS, differences
from selftest_tui.tutorial.view import (
    NOT_CITED,
    NOTES,
    STALE,
    BlockLine,
    Layout,
    NoteLine,
    Section,
    StaleLine,
    TestLine,
    TutorialView,
    identity,
    join,
    lay_out,
    title_of,
)
from tui.tutorial.tutorials import write_project

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from selftest_core.run.fold import Run
    from selftest_tui.tutorial.view import Line


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("a shop"))


def a_run(*results: tuple[str, End | None, str]) -> Run:
    """A run over these node ids; an end of None is an agent that still works."""
    tests = tuple(PlannedTest(node, f"a-{n}", f"agent-{n:032x}", ()) for n, (node, _, _) in enumerate(results))
    entries: list[Entry] = []

    def write(event: Event, **fields: object) -> None:
        entries.append(Entry(len(entries) + 1, 1.0, event, fields))

    for number, (_, end, text) in enumerate(results):
        about = {"agent": f"a-{number}", "attempt": 1}
        write(Event.LAUNCHING, **about)
        write(Event.LAUNCHED, **about, host_id="h", provider="local")
        if end is not None:
            write(Event.ENDED, **about, end=str(end), stage="work", text=text)
            write(Event.STOPPED, **about)
    return fold(replace(a_plan(), tests=tests), entries)


def view_of(project: Path, run: Run | None = None) -> TutorialView:
    return join(check(project, project / "tutorial.sh", project / "tests"), run)


def said(lines: Sequence[Line]) -> list[str]:
    """The lines in short."""
    words = []
    for line in lines:
        match line:
            case Section(title, count):
                words.append(f"= {title} {count}")
            case BlockLine(view):
                words.append(f"{view.block.line}")
            case TestLine(_, test):
                words.append(f"  {test.node_id.rpartition('::')[2]}")
            case StaleLine(_, stale):
                words.append(f"  ≠ {stale.citation.test.rpartition('::')[2]}")
            case NoteLine(_, note):
                words.append(f"  ! {note.line}")
    return words


def test_what_is_open_comes_first_and_each_once(project: Path) -> None:
    assert said(lay_out(view_of(project), Layout())) == [
        f"= {NOT_CITED} 3", "23", "  ≠ test_refund", "26", "35",
        f"= {STALE} 1", "15", "  ≠ test_loan", "  test_empty", "  test_empty_twice",
        f"= {NOTES} 1", "  ! 9",
        "= The cart 2", "9", "  test_list", "12", "  test_add",
        "= Paying 1", "21", "  test_card",
        "= Reports 1", "32", "  ! 32", "  test_report",
    ]  # fmt: skip


def test_in_the_order_of_the_file_a_stale_citation_stands_beside_its_block(project: Path) -> None:
    assert said(lay_out(view_of(project), Layout(open_first=False))) == [
        "= The cart 3", "9", "  test_list", "12", "  test_add", "15", "  ≠ test_loan", "  test_empty",
        "  test_empty_twice",
        "= Paying 3", "21", "  test_card", "23", "  ≠ test_refund", "26",
        "= Reports 2", "32", "  ! 32", "  test_report", "35",
        f"= {NOTES} 1", "  ! 9",
    ]  # fmt: skip


def test_only_what_is_open_and_only_what_matches(project: Path) -> None:
    view = view_of(project)
    only = said(lay_out(view, Layout(only_open=True)))
    assert [line for line in only if line.startswith("=")] == [f"= {NOT_CITED} 3", f"= {STALE} 1", f"= {NOTES} 2"]
    assert "9" not in only
    assert said(lay_out(view, Layout(query="CARD pay"))) == ["= Paying 1", "21", "  test_card"]
    assert said(lay_out(view, Layout(query="test_add"))) == ["= The cart 1", "12", "  test_add"]
    assert lay_out(view, Layout(query="no such word")) == ()


def test_a_folded_section_keeps_its_title(project: Path) -> None:
    lines = lay_out(view_of(project), Layout(folded=frozenset({"The cart", NOT_CITED})))
    assert said(lines)[:2] == [f"= {NOT_CITED} 3", f"= {STALE} 1"]
    assert [line.is_folded for line in lines if isinstance(line, Section)] == [True, False, False, True, False, False]


def test_tests_have_the_results_of_the_last_run(project: Path) -> None:
    run = a_run(
        ("tests/test_cart.py::test_add[1]", End.UNCHANGED, ""),
        ("tests/test_cart.py::test_add[a::b[3]]", End.RED, "2 apples of 3"),
        ("tests/test_cart.py::test_list", None, ""),
    )
    view = view_of(project, run)
    assert view.run == run.plan.run
    tests = {test.node_id: test for block in view.blocks for test in block.tests}
    add = tests["tests/test_cart.py::test_add"]
    assert [(result.how, result.says) for result in add.results] == [(End.UNCHANGED, ""), (End.RED, "2 apples of 3")]
    assert add.how is End.RED
    assert tests["tests/test_cart.py::test_list"].how is Phase.WORKING
    assert tests["tests/test_pay.py::test_card"].how is None
    assert list(view.results().items()) == [(End.RED, 1), (Phase.WORKING, 1)]
    assert (add.path, add.line) == ("tests/test_cart.py", 15)


def test_without_a_run_nothing_is_claimed(project: Path) -> None:
    view = view_of(project)
    assert (view.run, view.results()) == ("", {})
    assert (view.uncited, view.stale, view.warnings, view.tests) == (3, 2, 2, 9)


def test_a_heading_has_its_words_without_its_frame() -> None:
    view = look_at_text("#!/bin/sh\n\n####\n# Begin: #1 ##\n####\n\none\n\n# ---\n\ntwo\n\n# one\n\none\n")
    assert [(block.title, block.nth) for block in view.blocks] == [("Begin: #1", 0), ("# ---", 0), ("one", 1)]


def look_at_text(text: str) -> TutorialView:
    from selftest_core.tutorial.check import Check
    from selftest_core.tutorial.coverage import cover
    from selftest_core.tutorial.tutorial import parse_blocks

    tutorial = parse_blocks(text)
    for heading in tutorial.headings:
        assert title_of(heading)
    return join(Check(tutorial, cover(tutorial.blocks, ()), (), 1), None)


def test_a_block_is_the_same_wherever_it_stands(project: Path) -> None:
    before = lay_out(look_at_text("one\n\ntwo\n\none\n"), Layout())
    after = lay_out(look_at_text("zero\n\n\none\n\none\n\ntwo\n"), Layout())
    assert {identity(line) for line in before} < {identity(line) for line in after}
    assert len({identity(line) for line in before}) == len(before)


@given(st.lists(st.sampled_from(["# h", "", "one", "two x"]), max_size=12), st.booleans(), st.booleans())
def test_every_block_is_shown_once_in_any_order(pieces: list[str], open_first: bool, only_open: bool) -> None:
    view = look_at_text("\n\n".join(pieces))
    lines = lay_out(view, Layout(open_first=open_first, only_open=only_open))
    shown = [line.view for line in lines if isinstance(line, BlockLine)]
    assert sorted(shown, key=lambda one: one.block.line) == list(view.blocks), "all are open: no test cites any"


# Differing words


def marked(cited: str, block: str) -> list[str]:
    """`- a [b] c`: a line with its sign, differing words in brackets."""
    return [
        f"{line.sign} " + "".join(f"[{piece.text}]" if piece.is_marked else piece.text for piece in line.pieces)
        for line in differences(cited, block)
    ]


def test_differing_words_are_marked() -> None:
    cited = "  # Back.\n\n  shop refund --all --reason broken"
    assert marked(cited, "# Back.\nshop refund last --reason damaged") == [
        "  # Back.",
        "- shop refund [--all] --reason [broken]",
        "+ shop refund [last] --reason [damaged]",
    ]


def test_a_line_too_many_or_too_few_differs_as_a_whole() -> None:
    assert marked("one\ntwo", "one\ntwo\nthree") == ["  one", "  two", "+ [three]"]
    assert marked("one\ntwo", "two") == ["- [one]", "  two"]


@given(st.text("ab \n-", max_size=40), st.text("ab \n-", max_size=40))
def test_a_difference_holds_both_sides_whole(cited: str, block: str) -> None:
    lines = differences(cited, block)
    old = [line.strip() for line in cited.splitlines() if line.strip()]
    new = [line.strip() for line in block.splitlines() if line.strip()]
    assert [line.text for line in lines if line.sign != "+"] == old
    assert [line.text for line in lines if line.sign != "-"] == new


def test_what_is_too_long_to_compare_differs_as_a_whole() -> None:
    long = " ".join(["word"] * MOST_WORDS)
    assert [line.sign for line in differences(long, f"{long} x")] == ["-", "+"]
    assert all(piece.is_marked for line in differences(long, f"{long} x") for piece in line.pieces)
