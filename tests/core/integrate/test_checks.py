"""A resolved file is checked without running anything: markers, syntax, and whether a side was simply deleted."""

from __future__ import annotations

import pytest

from core.integrate.counters import BOTH, FEE, FLOOR, START
from selftest_core.git.merges import Conflict, Side
from selftest_core.integrate.checks import refusal_reason
from selftest_core.review.conflict_files import ConflictFile


def file(path: str, base: str | None, ours: str | None, theirs: str | None) -> ConflictFile:
    sides = [
        None if text is None else Side("100644", f"{number:040x}") for number, text in enumerate((base, ours, theirs))
    ]
    texts = [None if text is None else text.encode() for text in (base, ours, theirs)]
    conflict = Conflict(path, sides[0], sides[1], sides[2], ("CONFLICT (content): …",))
    return ConflictFile(conflict, texts[0], texts[1], texts[2], None)


PRICE = file("shop/price.py", START, FEE, FLOOR)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (BOTH, ""),
        (FEE, "shop/price.py has nothing of what the change adds"),
        (FLOOR, "shop/price.py has nothing of what the branch adds"),
        (START, "shop/price.py has nothing of what the branch adds"),
        (f"<<<<<<< ours\n{FEE}=======\n{FLOOR}>>>>>>> theirs\n", "still has a conflict marker: <<<<<<<"),
        (f"{BOTH}=======\n", "still has a conflict marker: ======="),
        (BOTH.replace("):", ")"), "does not parse: line 1: expected ':'"),
        (BOTH.replace("return", "return\n  x ="), "does not parse: line 3"),
        ("x = " + "(" * 5000 + ")" * 5000, "does not parse"),
        (None, "shop/price.py is deleted, which neither side does"),
    ],
)  # fmt: skip
def test_what_is_no_resolution_is_refused_with_its_reason(content: str | None, reason: str) -> None:
    said = refusal_reason(PRICE, None if content is None else content.encode(), is_one_side_meant=False)
    assert said.startswith(reason) if not reason or reason.startswith("shop") else reason in said


def test_a_side_may_be_dropped_on_purpose_but_not_the_syntax() -> None:
    assert refusal_reason(PRICE, FEE.encode(), is_one_side_meant=True) == ""
    assert "does not parse" in refusal_reason(PRICE, b"def f(:\n", is_one_side_meant=True)
    gone = file("a.py", "x = 1\n", None, "x = 2\n")
    assert refusal_reason(gone, b"x = 2\n", is_one_side_meant=False) == (
        "a.py keeps one side where the other deletes the file"
    )
    assert refusal_reason(gone, None, is_one_side_meant=True) == ""


@pytest.mark.parametrize(
    ("path", "ours", "theirs", "content", "reason"),
    [
        ("a.json", '{"a": 1}', '{"b": 1}', '{"a": 1, "b": 1}', ""),
        ("a.json", '{"a": 1}', '{"b": 1}', '{"a": 1 "b": 1}', "a.json does not parse: line 1: Expecting ',' delimiter"),
        ("a.toml", "a = 1\n", "b = 1\n", "a = 1\nb = 1\na = 2\n", "a.toml does not parse"),
        ("a.yaml", "a: 1\n", "b: 1\n", "a: 1\nb: [1\n", "a.yaml does not parse"),
        ("a.yaml", "a: !x 1\n", "b: 1\n", "a: !x 1\nb: 1\n", ""),
        # What neither side is cannot be demanded of the result.
        ("a.py", "print 'a'\n", "print 'b'\n", "print 'a', 'b'\n", ""),
        ("a.json", "// a\n{}", "// b\n{}", "// a b\n{}", ""),
        # A line of a heading is no marker where a side has it.
        ("a.md", "A\n=======\none\n", "A\n=======\ntwo\n", "A\n=======\none two\n", ""),
        ("a.md", "one\n", "two\n", "one two\n||||||| base\n", "a.md still has a conflict marker: ||||||| base"),
    ],
)  # fmt: skip
def test_files_of_other_kinds(path: str, ours: str, theirs: str, content: str, reason: str) -> None:
    said = refusal_reason(file(path, "", ours, theirs), content.encode(), is_one_side_meant=False)
    assert said.startswith(reason) if reason else said == ""


def test_a_side_that_only_removes_is_lost_where_all_is_there_again() -> None:
    removes = file("a.txt", "one two\nthree\n", "one\nthree\n", "one two\nthree four\n")
    assert refusal_reason(removes, b"one\nthree four\n", is_one_side_meant=False) == ""
    assert refusal_reason(removes, b"one two\nthree four\n", is_one_side_meant=False) == (
        "a.txt has all again that the branch removes"
    )
    # An operator is all that one side changes.
    signs = file("a.py", "f(x) > 5\n", "f(x) >= 5\n", "g() > 5\n")
    assert refusal_reason(signs, b"g() >= 5\n", is_one_side_meant=False) == ""
    assert refusal_reason(signs, b"g() > 5\n", is_one_side_meant=False) == "a.py has nothing of what the branch adds"
    # Both did the same, and one more: nothing is lost with that one.
    same = file("a.txt", "one\n", "one two\n", "one two three\n")
    assert refusal_reason(same, b"one two three\n", is_one_side_meant=False) == ""
