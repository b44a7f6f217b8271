"""Expectations: each holds where it should, and says in its failure what was there instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from selftest_recorder.e2e.expect import eventually, expect
from selftest_recorder.e2e.results import Result, shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from selftest_recorder.e2e.results import Piece

GOOD = Result("shop list --json", 0, (("stdout", b'{"carts": [{"id": 1, "sum": 2.5}]}\n'),), 0.1)
BAD = Result("shop pay", 2, (("stdout", b"paying\n"), ("stderr", b"no card\n")), 0.1)


def test_what_holds() -> None:
    expect(GOOD).to_succeed().to_have_exit_code(0).to_have_json({"carts": [{"id": 1}]}).stderr.to_be_empty()
    expect(BAD).to_fail().to_have_exit_code(2).stderr.to_contain("no", "card").not_to_contain("paying")
    expect(BAD.stdout).to_match("^pay.*g$").not_to_match("^ing").to_equal("paying\n")
    expect(" \n").to_be_empty()
    expect(GOOD.json()["carts"]).to_equal([{"id": 1, "sum": 2.5}]).to_contain({"id": 1, "sum": 2.5})
    expect([]).to_be_empty()
    assert Result("x", 0, (("stdout", b'{"a": 1}\n\n{"a": 2}\n'),), 0).json_lines() == [{"a": 1}, {"a": 2}]


FAILURES: list[tuple[Callable[[], Any], str]] = [
    (lambda: expect(BAD).to_succeed(), "exit status 2, expected 0\n$ shop pay\n  paying\n! no card\n? 2"),
    (lambda: expect(GOOD).to_fail(), "it was expected to fail, and succeeded\n$ shop list --json\n"),
    (lambda: expect(BAD.stderr).to_contain("cash"), "stderr does not contain 'cash'\n$ shop pay\n"),
    (lambda: expect(BAD.stdout).not_to_contain("pay"), "stdout contains 'pay'\n$ shop pay\n"),
    (lambda: expect(BAD.stdout).to_match("^x"), "stdout does not match '^x'\n$ shop pay\n"),
    (lambda: expect(BAD.stdout).not_to_match("p.y"), "stdout matches 'p.y' at 'pay'\n"),
    (
        lambda: expect(BAD.stdout).to_equal("payed\n"),
        "stdout differs:\n  --- expected\n  +++ found\n  @@ -1 +1 @@\n  -payed\n  +paying\n$ shop pay\n",
    ),
    (lambda: expect(BAD.stdout).to_equal("paying"), "stdout differs: 'paying' was expected, 'paying\\n' found\n"),
    (lambda: expect("a\nb").to_be_empty(), "the text is not empty; it is:\n  a\n  b"),
    (lambda: expect("").to_contain("a"), "the text does not contain 'a'; it is:\n  (nothing)"),
    (
        lambda: expect(BAD).to_have_json({}),
        "stdout is no JSON (Expecting value: line 1 column 1 (char 0))\n$ shop pay\n",
    ),
    (
        lambda: expect(GOOD).to_have_json({"carts": [{"id": 2}]}),
        "its JSON differs at carts[0].id: expected 2, found 1\n",
    ),
    (lambda: expect(GOOD).to_have_json({"cart": []}), "its JSON differs at the top: no key 'cart' among ['carts']\n"),
    (lambda: expect(GOOD).to_have_json({"carts": []}), "its JSON differs at carts: expected 0 values, found 1: "),
    (lambda: expect({"ok": 1}).to_have_json({"ok": True}), "it differs at ok: expected True, found 1"),
    (lambda: expect([1]).to_equal([2]), "expected [2], found [1]"),
    (lambda: expect([1]).to_contain(2), "2 is not in [1]"),
    (lambda: expect([1]).to_be_empty(), "not empty: [1]"),
]


@pytest.mark.parametrize(("fails", "says"), FAILURES, ids=[says.split("\n")[0] for _, says in FAILURES])
def test_what_fails(fails: Callable[[], Any], says: str) -> None:
    with pytest.raises(AssertionError) as failure:
        fails()
    assert str(failure.value).startswith(says)


def test_paths(tmp_path: Path) -> None:
    file, missing = tmp_path / "a.json", tmp_path / "b"
    file.write_text('{"a": [1]}')
    expect(file).to_exist().to_have_text('{"a": [1]}').to_contain("a", "1").to_have_json({"a": [1]})
    expect(tmp_path).to_be_a_folder()
    expect(missing).to_be_missing()
    failures: list[tuple[Callable[[], object], str]] = [
        (lambda: expect(missing).to_exist(), f"{missing} does not exist; in {tmp_path} there is: a.json"),
        (lambda: expect(missing / "c").to_exist(), f"{missing}/c does not exist; {missing} does not exist either"),
        (lambda: expect(file).to_be_missing(), f"{file} exists; in "),
        (lambda: expect(file).to_be_a_folder(), f"{file} is no folder; in "),
        (lambda: expect(missing).to_contain("x"), f"{missing} cannot be read (No such file or directory); in "),
        (lambda: expect(file).to_have_json({"a": [2]}), "the text as JSON differs at a[0]: expected 2, found 1"),
    ]
    for fails, says in failures:
        with pytest.raises(AssertionError) as failure:
            fails()
        assert str(failure.value).startswith(says)


def test_a_long_output_is_shown_by_head_and_tail_of_each_stream() -> None:
    pieces: list[Piece] = [("stdout", f"line {number}\n".encode()) for number in range(500)]
    pieces.insert(250, ("stderr", f"the reason{'!' * 1000}\n".encode()))
    told = shown(Result("long", 1, tuple(pieces), 0)).splitlines()
    assert len(told) < 70
    assert told[:2] == ["$ long", "  line 0"]
    assert told[-2:] == ["  line 499", "? 1"]
    (reason,) = [number for number, line in enumerate(told) if line.startswith("! the reason")]
    assert told[reason].endswith("!… (1,010 characters)")
    assert (told[reason - 1], told[reason + 1]) == ("# … 235 lines …", "# … 205 lines …")


def test_eventually_asks_until_it_holds() -> None:
    answers = iter([0, 0, 7])
    assert eventually(lambda: next(answers)) == 7
    lengths = iter([[1], [1], []])
    eventually(lambda: expect(next(lengths)).to_be_empty())
    with pytest.raises(AssertionError, match=r"^the end did not come within 0 s; the last answer: 0$"):
        eventually(lambda: 0, "the end", timeout=0)
    with pytest.raises(AssertionError, match=r"^it did not come within 0 s; exit status 2, expected 0\n\$ shop pay"):
        eventually(lambda: expect(BAD).to_succeed(), timeout=0)
