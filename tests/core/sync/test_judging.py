"""Gaps of a tutorial, and what writers make of them, judged without running anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from selftest_core.errors import UsageError
from selftest_core.sync.gaps import find_gaps, select_gaps, task_of
from selftest_core.sync.judging import judge
from selftest_core.sync.snapshot import Paths, Snapshot
from selftest_core.tutorial.check import compare
from selftest_core.tutorial.citations import read_tests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selftest_core.sync.judging import Judgement

PATHS = Paths()
TUTORIAL = """\
#!/bin/sh
set -eu

# The cart.

# Add tea.
./acme add tea

# Count what is there.
./acme count

# The till.

./acme open --times 2
"""
CITES = 'def test_{name}():\n    """\n    Tutorial block:\n{block}\n    """\n    assert {says}\n\n\n'
ADD, COUNT = "# Add tea.\n./acme add tea", "# Count what is there.\n./acme count"
OLD, NEW = "./acme open --times 1", "./acme open --times 2"


def cites(name: str, block: str, says: str = "run() == 1") -> str:
    return CITES.format(name=name, block="\n".join(f"        {line}" for line in block.splitlines()), says=says)


CART = cites("add", ADD, "run() == 'tea'") + "def test_plain():\n    assert run()\n\n\n"
GONE = cites("old", "./gone with the wind")
BEFORE = {"tests/test_cart.py": CART, "tests/test_till.py": cites("till", OLD, "run() == 'open'") + GONE}
HAPPY, UNHAPPY = cites("count", COUNT, "run() == '1'"), cites("count_nothing", COUNT, "run().returncode == 2")
BOTH = {"tests/test_count.py": HAPPY + UNHAPPY}


def snapshot(tests: Mapping[str, str], tutorial: str = TUTORIAL) -> Snapshot:
    check = compare(tutorial, [read_tests(source, path) for path, source in sorted(tests.items())])
    files = {path: source.encode() for path, source in tests.items()}
    return Snapshot("0" * 40, tutorial.encode(), files, check)


def judged(number: int, tests: Mapping[str, str], tutorial: str = TUTORIAL, **files: str) -> Judgement:
    """Judge a change of the tests, and of other files, for one of the gaps."""
    before, after = snapshot(BEFORE), snapshot({**BEFORE, **tests}, tutorial)
    gap = find_gaps(before.check, PATHS)[number]
    changed = {path: (before.tests.get(path), content) for path, content in after.tests.items()}
    changed = {path: sides for path, sides in changed.items() if sides[0] != sides[1]}
    changed |= {name.replace("_", "."): (None, text.encode()) for name, text in files.items()}
    return judge(gap, before, after, changed, PATHS)


def test_an_edited_block_and_its_stale_test_are_one_gap() -> None:
    found = find_gaps(snapshot(BEFORE).check, PATHS)
    assert [(gap.id, gap.stale_tests) for gap in found] == [
        ("tutorial.sh:9 ./acme count", ()),
        ("tutorial.sh:14 ./acme open --times 2", ("tests/test_till.py::test_till",)),
        ("tests/test_till.py::test_old", ("tests/test_till.py::test_old",)),
    ]


def test_equal_blocks_are_one_gap() -> None:
    check = snapshot({}, f"{COUNT}\n\n./acme other\n\n{COUNT}\n").check
    gaps = find_gaps(check, PATHS)
    assert [gap.block.line for gap in gaps if gap.block is not None] == [1, 4]
    with pytest.raises(UsageError) as caught:
        select_gaps(gaps, ["6"], check, PATHS)
    assert caught.value.detail == "The block at line 6 stands further up, too: name that one."


def test_a_task_says_where_the_block_stands_and_what_is_near() -> None:
    check = snapshot(BEFORE).check
    count, till, old = (task_of(gap, check, PATHS) for gap in find_gaps(check, PATHS))
    assert "under the heading 'The cart.'" in count.brief
    assert f"```sh\n{COUNT}\n```" in count.brief
    assert "- `tests/test_cart.py::test_add` (the block at line 6)" in count.brief
    assert "- ./acme open --times 1\n+ ./acme open --times 2" in till.brief
    assert "No block is much like it" in old.brief
    assert count.blocks == (COUNT,)
    document = json.loads(till.files[0].text)
    assert (document["line"], document["stale"][0]["test"]) == (14, "tests/test_till.py::test_till")


@pytest.mark.parametrize(
    ("words", "lines"), [(("9",), [9]), (("tutorial.sh:10", "14"), [9, 14]), (("tests/test_till.py::test_till",), [14])]
)
def test_gaps_are_chosen_by_a_line_of_the_block_or_a_test(words: tuple[str, ...], lines: list[int]) -> None:
    check = snapshot(BEFORE).check
    found = select_gaps(find_gaps(check, PATHS), words, check, PATHS)
    assert [gap.block.line for gap in found if gap.block is not None] == lines


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("7", "The block at line 6 is cited by tests/test_cart.py::test_add."),
        ("4", "Line 4 is part of a heading"),
        ("8", "Line 8 is in no block"),
        ("x", "neither a line of the tutorial nor"),
    ],
)
def test_what_is_no_gap_is_refused_with_the_reason(word: str, why: str) -> None:
    check = snapshot(BEFORE).check
    with pytest.raises(UsageError) as caught:
        select_gaps(find_gaps(check, PATHS), [word], check, PATHS)
    assert why in caught.value.detail


def test_a_happy_and_an_unhappy_test_close_a_gap() -> None:
    found = judged(0, BOTH)
    assert found.reasons == ()
    assert found.new == ("tests/test_count.py::test_count", "tests/test_count.py::test_count_nothing")
    assert found.unhappy == {"tests/test_count.py::test_count_nothing"}


def with_cart(text: str) -> dict[str, str]:
    return {**BOTH, "tests/test_cart.py": text}


@pytest.mark.parametrize(
    ("tests", "reason"),
    [
        ({}, "no test cites the block at line 9"),
        ({"tests/test_count.py": HAPPY}, "only tests/test_count.py::test_count cites the block"),
        ({"tests/test_count.py": HAPPY + cites("again", COUNT)}, "none of the 2 tests is of an unhappy path"),
        (
            {"tests/test_count.py": HAPPY + cites("c", COUNT.replace("\n", "\nsleep 1\n"), "run().status == 1")},
            "test_c does not cite the block word for word",
        ),
        ({"tests/test_count.py": HAPPY + UNHAPPY + "def broken(:\n"}, "tests/test_count.py does not parse: line"),
        ({"tests/test_count.py": HAPPY + UNHAPPY + cites("x", "./acme none")}, "test_x cites a text that is no block"),
        (with_cart(cites("add", ADD, "run() == 'tea'")), "test_plain is deleted"),
        (with_cart(CART.replace("assert run()\n", "pass\n")), "test_plain: an assertion is removed"),
        (with_cart(CART.replace("def test_plain", "@pytest.mark.skip\ndef test_plain")), "test_plain is skipped"),
        (with_cart(CART.replace("Tutorial block:", "Scope:")), "the block at line 6 is cited no longer"),
    ],
)
def test_what_is_refused_says_why(tests: dict[str, str], reason: str) -> None:
    assert reason in "\n".join(judged(0, tests).reasons)


def test_marks_are_the_authors_word_and_need_a_happy_test_beside_them() -> None:
    marked = HAPPY.replace("def test_count", "@pytest.mark.unhappy\ndef test_count")
    assert judged(0, {"tests/test_count.py": marked + cites("again", COUNT)}).reasons == ()
    (reason,) = judged(0, {"tests/test_count.py": marked + cites("unhappy_again", COUNT)}).reasons
    assert "none is of the happy path" in reason


def test_a_changed_tutorial_is_refused_whatever_else_is_right() -> None:
    found = judged(0, BOTH, TUTORIAL.replace("count", "number"))
    assert found.reasons == ("it changes tutorial.sh, which is the person's",)


def test_broken_files_beside_the_tests_are_refused() -> None:
    found = judged(0, BOTH, pyproject_toml="[a]\nx = 1\nx = 2\n")
    assert found.reasons[0].startswith("pyproject.toml does not parse")


def test_a_stale_test_may_expect_something_else_but_not_less() -> None:
    new = cites("till", NEW, "run() == 'open open'")
    more = cites("till_fails", NEW, "run().status == 1")
    mended = judged(1, {"tests/test_till.py": new + GONE + more})
    assert mended.reasons == ()
    assert mended.mended == ("tests/test_till.py::test_till",)
    weaker = judged(1, {"tests/test_till.py": new.replace("assert", "run()  #") + GONE + more})
    assert any("an assertion is removed" in reason for reason in weaker.reasons)


def test_a_citation_that_is_a_constant_is_mended_and_no_other_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        'OF_TILL = """\\\n{block}\n"""\nLIMIT = 3\n\n\n'
        "def test_till(e2e):\n    assert e2e.write_tutorial_block(OF_TILL) < LIMIT\n"
    )
    monkeypatch.setitem(BEFORE, "tests/test_till.py", text.format(block=OLD))
    new = text.format(block=NEW) + cites("till_fails", NEW, "run().status == 1")
    assert judged(1, {"tests/test_till.py": new}).reasons == ()
    (reason,) = judged(1, {"tests/test_till.py": new.replace("= 3", "= 9")}).reasons
    assert "LIMIT is changed" in reason


def test_a_citation_of_what_is_gone_is_removed_and_its_test_stays() -> None:
    till = cites("till", OLD, "run() == 'open'")
    assert judged(2, {"tests/test_till.py": till + "def test_old():\n    assert run() == 1\n"}).reasons == ()
    assert judged(2, {"tests/test_till.py": till}).reasons == ("tests/test_till.py:9 before: test_old is deleted",)
    assert judged(2, {}).reasons == ("tests/test_till.py::test_old still cites a text that is no block",)
